//! What an agent's lines mean, as they come.

use pod_core::{EventFacts, Timestamp, Usage};

/// One line of stdout, without its newline.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The line; where it was pruned the same JSON with long strings cut and surplus array items dropped.
    pub bytes: &'a [u8],
    /// How many bytes the whole line has.
    pub size: u64,
    /// Whether `bytes` is less than the whole line.
    pub pruned: bool,
    /// When it was read.
    pub read_at: Timestamp,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A record of the CLI.
    Record,
    /// JSON, but no record of this CLI.
    Json,
    /// No JSON.
    NotJson,
}

/// Reads the lines of one wake-up, one after the other.
///
/// It keeps what the verdict needs and no more: its memory does not grow with the stream.
pub trait EventReader {
    /// Takes the next line; text for the human log goes to `text`.
    fn line(&mut self, line: &Line<'_>, text: &mut dyn TextSink) -> LineKind;

    /// What was seen so far.
    fn facts(&self) -> EventFacts;

    /// Whether the terminal event was seen and nothing follows by itself.
    fn settled(&self) -> bool;

    /// Whether it tries again and again what cannot succeed, and is better ended: what it said then is its last
    /// word.
    fn hopeless(&self) -> bool {
        false
    }

    /// What was used so far.
    fn usage(&self) -> Usage;

    /// Whether a tool of the agent is at work.
    fn tool_running(&self) -> bool;
}

/// Where text for the human log goes.
pub trait TextSink {
    /// Takes a whole text block of a finished assistant message; for a pruned one, a line that names its
    /// size.
    ///
    /// Each block comes once, in order, one call a block. Pieces of the same message are obsolete now.
    fn finished(&mut self, text: &str);

    /// Takes a piece of a message that is not finished.
    fn delta(&mut self, text: &str);

    /// Says that the message whose pieces came is finished and left no text.
    fn discarded(&mut self);
}

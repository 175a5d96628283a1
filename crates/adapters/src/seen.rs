//! What every reader keeps of a stream, and what is made of it.

use pod_core::{EventFacts, FinalError, Stop, Terminal, Usage};

use crate::json::Tally;
use crate::{EventReader, Line, LineKind, TextSink};

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    tally: Tally,
    /// Whether the terminal event was seen and nothing follows by itself.
    pub(crate) settled: bool,
    pub(crate) aborted: Option<bool>,
    pub(crate) stop: Option<Stop>,
    /// The error that is the last word so far.
    pub(crate) error: Option<FinalError>,
    /// Whether the last tool was the handoff.
    pub(crate) handed_off: bool,
    /// What this wake-up used.
    pub(crate) usage: Usage,
    pub(crate) session_id: Option<String>,
    /// How many tools are at work.
    pub(crate) tools: u32,
    /// Whether it tries again and again what cannot succeed.
    pub(crate) hopeless: bool,
}

/// What the records of one CLI mean.
pub(crate) trait Records {
    /// Whether an error with nothing behind it ends a run, for a CLI that has no terminal event.
    const ERROR_ENDS: bool = false;

    /// Takes a line. Returns whether it is a record of the CLI.
    fn take(&mut self, line: &Line<'_>, seen: &mut Seen, text: &mut dyn TextSink) -> bool;
}

/// Reads the stream of one CLI.
pub(crate) struct Reader<R> {
    records: R,
    seen: Seen,
}

impl<R: Records> Reader<R> {
    /// A reader that has seen nothing yet.
    pub(crate) fn new(records: R) -> Self {
        Self {
            records,
            seen: Seen::default(),
        }
    }
}

impl<R: Records> EventReader for Reader<R> {
    fn line(&mut self, line: &Line<'_>, text: &mut dyn TextSink) -> LineKind {
        let record = self.records.take(line, &mut self.seen, text);
        self.seen.tally.count(line, record)
    }

    fn facts(&self) -> EventFacts {
        let seen = &self.seen;
        let ended = seen.settled || (R::ERROR_ENDS && seen.error.is_some());
        EventFacts {
            lines: seen.tally.lines,
            records: seen.tally.records,
            noise: seen.tally.lines - seen.tally.records,
            plain_text: false,
            terminal: if ended {
                Terminal::Settled
            } else {
                Terminal::Missing
            },
            aborted: seen.aborted,
            stop: seen.stop,
            handed_off_by_tool: seen.handed_off,
            error: seen.error.clone(),
            question: None,
            usage: (seen.usage != Usage::default()).then_some(seen.usage),
            session_id: seen.session_id.clone(),
        }
    }

    fn settled(&self) -> bool {
        self.seen.settled
    }

    fn hopeless(&self) -> bool {
        self.seen.hopeless
    }

    fn usage(&self) -> Usage {
        self.seen.usage
    }

    fn tool_running(&self) -> bool {
        self.seen.tools > 0
    }
}

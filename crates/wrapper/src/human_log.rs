//! output.log: what a person reads, harmless in every terminal.

use std::fs::File;

use pod_adapters::TextSink;
use pod_core::{MissingBytes, escape_into, escaped};

use crate::log_file::LogFile;

/// So much of a message that is not finished is kept for the case that it never is.
const UNFINISHED: usize = 512 * 1024;

/// So much of the agent's last message is kept for its checkpoint.
const LAST_WORDS: usize = 4_000;

/// Text goes to the disk in pieces of this size, so that escaping needs no second copy of a long message.
const PIECE: usize = 64 * 1024;

/// A log for people: control characters are shown and do not act.
#[derive(Debug)]
pub(crate) struct HumanLog {
    log: LogFile,
    /// What was said since the last flush: many short lines are one write.
    pending: Vec<u8>,
    /// Whether the last byte written is a newline.
    at_line_start: bool,
    /// A character of stderr whose last bytes are still to come.
    stderr_partial: Vec<u8>,
    unfinished: String,
    unfinished_dropped: u64,
    /// The end of what the agent said last.
    last_words: String,
    /// Whether these are plain lines.
    plain: bool,
}

impl HumanLog {
    pub(crate) fn new(file: Result<File, String>) -> Self {
        Self {
            log: LogFile::new(file),
            pending: Vec::new(),
            at_line_start: true,
            stderr_partial: Vec::new(),
            unfinished: String::new(),
            unfinished_dropped: 0,
            last_words: String::new(),
            plain: false,
        }
    }

    /// The end of the last message of the agent, finished or not.
    pub(crate) fn last_words(&self) -> &str {
        &self.last_words
    }

    /// Of a program that speaks in plain lines the last of them are its last words.
    fn remember_line(&mut self, line: &str) {
        let mut text = if self.plain {
            std::mem::take(&mut self.last_words) + "\n"
        } else {
            String::new()
        };
        text.push_str(&line[line.ceil_char_boundary(line.len().saturating_sub(LAST_WORDS))..]);
        self.remember(&text);
        self.plain = true;
    }

    fn remember(&mut self, text: &str) {
        self.plain = false;
        if !text.trim().is_empty() {
            let from = text.ceil_char_boundary(text.len().saturating_sub(LAST_WORDS));
            text[from..].clone_into(&mut self.last_words);
        }
    }

    /// Writes a line of our own.
    pub(crate) fn note(&mut self, line: &str) {
        self.start_line();
        self.write(escaped(line.trim_end_matches('\n')).as_bytes());
        self.start_line();
        self.flush();
    }

    /// Writes whole lines of text.
    pub(crate) fn text(&mut self, text: &str) {
        self.start_line();
        self.escaped_pieces(text);
        self.start_line();
    }

    /// Writes a line of stdout that is no JSON.
    pub(crate) fn foreign_line(&mut self, line: &[u8]) {
        self.remember_line(&String::from_utf8_lossy(line));
        self.start_line();
        for chunk in line.utf8_chunks() {
            self.escaped_pieces(chunk.valid());
            self.bad_bytes(chunk.invalid());
        }
        self.start_line();
    }

    /// Writes stderr as it comes.
    pub(crate) fn stderr(&mut self, piece: &[u8]) {
        let mut bytes = std::mem::take(&mut self.stderr_partial);
        bytes.extend_from_slice(piece);
        let whole = bytes.len() - incomplete_tail(&bytes);
        for chunk in bytes[..whole].utf8_chunks() {
            self.escaped_pieces(chunk.valid());
            self.bad_bytes(chunk.invalid());
        }
        self.stderr_partial = bytes[whole..].to_vec();
    }

    /// Writes what a cut stream left: the text of a message that was never finished, half a character.
    pub(crate) fn end(&mut self) {
        let partial = std::mem::take(&mut self.stderr_partial);
        self.bad_bytes(&partial);
        let unfinished = std::mem::take(&mut self.unfinished);
        if self.unfinished_dropped > 0 {
            let dropped = self.unfinished_dropped;
            self.note(&format!(
                "[{dropped} bytes of an unfinished message before this stand in events.jsonl alone]"
            ));
        }
        if !unfinished.is_empty() {
            self.remember(&unfinished);
            self.text(&unfinished);
        }
        self.start_line();
        self.flush();
    }

    /// What it lacks.
    pub(crate) fn missing(&self) -> Option<MissingBytes> {
        self.log.missing("output.log")
    }

    fn start_line(&mut self) {
        if !self.at_line_start {
            self.write(b"\n");
        }
    }

    fn escaped_pieces(&mut self, mut text: &str) {
        let mut out = String::new();
        while !text.is_empty() {
            let mut cut = text.len().min(PIECE);
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            out.clear();
            escape_into(&text[..cut], &mut out);
            self.write(out.as_bytes());
            text = &text[cut..];
        }
    }

    fn bad_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write(format!("\\x{byte:02x}").as_bytes());
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.at_line_start = *last == b'\n';
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PIECE {
            self.flush();
        }
    }

    /// Hands on what was said. Whoever reads along sees it only then.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        if let Err(taken) = self.log.write(&self.pending) {
            self.log.lose(self.pending.len() - taken);
        }
        self.pending.clear();
    }
}

impl TextSink for HumanLog {
    fn finished(&mut self, text: &str) {
        self.discarded();
        if !text.is_empty() {
            self.remember(text);
            self.text(text);
        }
    }

    fn delta(&mut self, text: &str) {
        if self.unfinished.len() + text.len() > UNFINISHED {
            // The end of a cut message tells more than its beginning.
            self.unfinished_dropped += self.unfinished.len() as u64;
            self.unfinished.clear();
        }
        if text.len() > UNFINISHED {
            self.unfinished_dropped += text.len() as u64;
        } else {
            self.unfinished.push_str(text);
        }
    }

    fn discarded(&mut self) {
        self.unfinished.clear();
        self.unfinished_dropped = 0;
        if self.unfinished.capacity() > PIECE {
            self.unfinished = String::new();
        }
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    match std::str::from_utf8(&bytes[from..]) {
        Err(error) if error.error_len().is_none() => bytes.len() - from - error.valid_up_to(),
        Err(_) => {
            // A stray byte in front of it hides a beginning: look at each shorter end.
            (1..bytes.len() - from)
                .rev()
                .find(|len| {
                    let tail = std::str::from_utf8(&bytes[bytes.len() - len..]);
                    tail.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
                })
                .unwrap_or(0)
        }
        Ok(_) => 0,
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct TailBuffer {
    bytes: Vec<u8>,
}

impl TailBuffer {
    const KEPT: usize = 8 * 1024;

    pub(crate) fn push(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(Self::KEPT)..];
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() > 4 * Self::KEPT {
            self.bytes.drain(..self.bytes.len() - Self::KEPT);
        }
    }

    pub(crate) fn text(&self) -> String {
        let from = self.bytes.len().saturating_sub(Self::KEPT);
        String::from_utf8_lossy(&self.bytes[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn logged(act: impl FnOnce(&mut HumanLog)) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let mut log = HumanLog::new(Ok(file.try_clone().unwrap()));
        act(&mut log);
        log.end();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn everything_stands_on_lines_of_its_own_and_acts_on_nothing() {
        let text = logged(|log| {
            log.stderr(b"warning");
            log.finished("Hello\x1b[2J");
            log.foreign_line(b"plain \xff");
            log.stderr(b"a\n");
            log.note("--- end ---\n");
        });
        assert_eq!(text, "warning\nHello\\x1b[2J\nplain \\xff\na\n--- end ---\n");
    }

    #[test]
    fn a_character_in_two_pieces_is_one_character() {
        let bytes = "aé😀b".as_bytes();
        for cut in 0..bytes.len() {
            let text = logged(|log| {
                log.stderr(&bytes[..cut]);
                log.stderr(&bytes[cut..]);
            });
            assert_eq!(text, "aé😀b\n", "cut at {cut}");
        }
        assert_eq!(logged(|log| log.stderr(b"\xff\xc3")), "\\xff\\xc3\n");
    }

    #[test]
    fn unfinished_text_comes_once_and_only_if_it_was_never_finished() {
        assert_eq!(logged(|log| log.delta("cut ")), "cut \n");
        let finished = logged(|log| {
            log.delta("Hel");
            log.delta("lo");
            log.finished("Hello");
        });
        assert_eq!(finished, "Hello\n");
        let long = logged(|log| (0..9).for_each(|_| log.delta(&"x".repeat(100_000))));
        assert!(long.starts_with("[500000 bytes"), "{}", &long[..80]);
    }

    #[test]
    fn a_tail_is_the_last_of_it() {
        let mut tail = TailBuffer::default();
        for n in 0..5000 {
            tail.push(format!("{n:05}\n").as_bytes());
        }
        assert!(tail.text().ends_with("04999\n"));
        assert_eq!(tail.text().len(), 8192);
    }
}

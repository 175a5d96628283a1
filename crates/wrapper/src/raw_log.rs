//! events.jsonl: what the agent wrote, byte for byte, line for line.

use std::fs::File;

use pod_core::MissingBytes;

use crate::log_file::LogFile;

/// A log that lines are added to, on a disk that may be full.
///
/// It never holds up the agent: what cannot be written is counted. Where space returns, it goes on at the
/// beginning of a line.
#[derive(Debug)]
pub(crate) struct RawLog {
    log: LogFile,
    /// White space that a line began with; it is written if the line turns out not to be blank.
    held: Vec<u8>,
    in_line: bool,
    torn: bool,
    skipping: bool,
    /// Whether the agent writes it itself, so that its bytes are there when they are seen.
    left: bool,
}

/// More white space than that is taken for a line.
const HELD: usize = 64 * 1024;

impl RawLog {
    /// A log in `file`; one that could not be opened has all its bytes missing.
    pub(crate) fn new(file: Result<File, String>) -> Self {
        Self {
            log: LogFile::new(file),
            held: Vec::new(),
            in_line: false,
            torn: false,
            skipping: false,
            left: false,
        }
    }

    /// Leaves the writing to the agent, but for the end of a last line.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Adds a piece of the stream. Lines of white space alone are left out.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        if self.left {
            self.in_line = piece.last().map_or(self.in_line, |last| *last != b'\n');
            return;
        }
        let (mut from, mut at) = (0, 0);
        while at < piece.len() {
            let end = memchr::memchr(b'\n', &piece[at..]).map_or(piece.len(), |found| at + found + 1);
            let segment = &piece[at..end];
            let complete = segment.ends_with(b"\n");
            let blank =
                !self.in_line && segment.iter().all(u8::is_ascii_whitespace) && self.held.len() < HELD;
            if blank {
                self.write(&piece[from..at]);
                from = end;
                if complete {
                    self.held.clear();
                } else {
                    self.held.extend_from_slice(segment);
                }
            } else {
                if !self.held.is_empty() {
                    self.write(&piece[from..at]);
                    from = at;
                    let held = std::mem::take(&mut self.held);
                    self.write(&held);
                }
                self.in_line = !complete;
            }
            at = end;
        }
        self.write(&piece[from..]);
    }

    /// Ends a last line that has no newline.
    pub(crate) fn end(&mut self) {
        self.held.clear();
        if std::mem::take(&mut self.in_line) && !self.skipping {
            self.write(b"\n");
        }
        if self.torn {
            self.torn = self.log.write(b"\n").is_err();
        }
    }

    /// What it lacks.
    pub(crate) fn missing(&self, log: &str) -> Option<MissingBytes> {
        self.log.missing(log)
    }

    fn write(&mut self, mut bytes: &[u8]) {
        if self.skipping {
            // The rest of a line whose beginning is missing.
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            self.log.lose(end);
            self.skipping = !bytes[..end].ends_with(b"\n");
            bytes = &bytes[end..];
        }
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.torn) && self.log.write(b"\n").is_err() {
            self.torn = true;
            self.lose(bytes);
        } else if let Err(taken) = self.log.write(bytes) {
            self.torn = taken > 0 && bytes[taken - 1] != b'\n';
            self.lose(&bytes[taken..]);
        }
    }

    fn lose(&mut self, bytes: &[u8]) {
        self.log.lose(bytes.len());
        self.skipping = !bytes.ends_with(b"\n");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn logged(pieces: &[&[u8]]) -> Vec<u8> {
        let named = tempfile::NamedTempFile::new().unwrap();
        let mut file = named.reopen().unwrap();
        let mut log = RawLog::new(Ok(file.try_clone().unwrap()));
        for piece in pieces {
            log.add(piece);
        }
        log.end();
        assert_eq!(log.missing("events.jsonl"), None);
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_stay_as_they_are_and_blank_lines_are_left_out() {
        let text = b"a\xff\xfe\xc3(\n\n \t\n  b \r\n\0c\r\n \n\x0bd\n \t ";
        let want = b"a\xff\xfe\xc3(\n  b \r\n\0c\r\n\x0bd\n";
        for cut in 0..text.len() {
            for second in cut..text.len() {
                let got = logged(&[&text[..cut], &text[cut..second], &text[second..]]);
                assert_eq!(got, want, "cut at {cut} and {second}");
            }
        }
    }

    #[test]
    fn a_last_line_is_ended() {
        assert_eq!(logged(&[b"a\nb"]), b"a\nb\n");
        assert_eq!(logged(&[b"a\n", b"b", b"c"]), b"a\nbc\n");
        assert_eq!(logged(&[]), b"");
    }

    #[test]
    fn what_goes_with_a_removed_file_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = RawLog::new(Ok(File::create(&path).unwrap()));
        log.add(b"12345\n");
        assert_eq!(log.missing("x"), None);
        std::fs::remove_file(path).unwrap();
        log.add(b"678\n");
        assert_eq!(log.missing("x").unwrap().bytes, Some(10));
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_counted() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut log = RawLog::new(Ok(full));
        log.add(b"12345\n12");
        log.add(b"34\n1234\n12");
        log.end();
        let missing = log.missing("events.jsonl").unwrap();
        assert_eq!(missing.bytes, Some(6 + 5 + 5 + 2));
        assert!(missing.cause.contains("No space"), "{}", missing.cause);
        let mut log = RawLog::new(Err("why".into()));
        log.add(b"1\n");
        assert_eq!(log.missing("x").unwrap().cause, "why");
    }
}

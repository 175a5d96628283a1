//! events.jsonl: what the agent wrote, byte for byte, line for line.

use std::fs::File;
use std::io::{self, Write as _};

use pod_core::MissingBytes;

/// A log that lines are added to, on a disk that may be full.
///
/// It never holds up the agent: what cannot be written is counted. Where space returns, it goes on at the
/// beginning of a line.
#[derive(Debug)]
pub(crate) struct RawLog {
    file: Option<File>,
    /// White space that a line began with; it is written if the line turns out not to be blank.
    held: Vec<u8>,
    in_line: bool,
    torn: bool,
    skipping: bool,
    missing: u64,
    cause: Option<String>,
}

/// More white space than that is taken for a line.
const HELD: usize = 64 * 1024;

impl RawLog {
    /// A log in `file`; one that could not be opened has all its bytes missing.
    pub(crate) fn new(file: Result<File, String>) -> Self {
        let (file, cause) = match file {
            Ok(file) => (Some(file), None),
            Err(cause) => (None, Some(cause)),
        };
        Self {
            file,
            held: Vec::new(),
            in_line: false,
            torn: false,
            skipping: false,
            missing: 0,
            cause,
        }
    }

    /// Adds a piece of the stream. Lines of white space alone are left out.
    pub(crate) fn add(&mut self, piece: &[u8]) {
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
            self.torn = self
                .file
                .as_mut()
                .is_none_or(|file| file.write_all(b"\n").is_err());
        }
    }

    /// What it lacks.
    pub(crate) fn missing(&self, log: &str) -> Option<MissingBytes> {
        (self.missing > 0).then(|| MissingBytes {
            log: log.to_owned(),
            bytes: Some(self.missing),
            cause: self.cause.clone().unwrap_or_default(),
        })
    }

    fn write(&mut self, mut bytes: &[u8]) {
        if self.skipping {
            // The rest of a line whose beginning is missing.
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            self.missing += end as u64;
            self.skipping = !bytes[..end].ends_with(b"\n");
            bytes = &bytes[end..];
        }
        if bytes.is_empty() {
            return;
        }
        let torn = std::mem::take(&mut self.torn);
        let Some(file) = &mut self.file else {
            self.lose(bytes);
            return;
        };
        if torn && file.write_all(b"\n").is_err() {
            self.torn = true;
            self.lose(bytes);
            return;
        }
        let (written, result) = write_counted(file, bytes);
        if let Err(error) = result {
            self.cause.get_or_insert_with(|| error.to_string());
            self.torn = written > 0 && bytes[written - 1] != b'\n';
            self.lose(&bytes[written..]);
        }
    }

    fn lose(&mut self, bytes: &[u8]) {
        self.missing += bytes.len() as u64;
        self.skipping = !bytes.ends_with(b"\n");
    }
}

fn write_counted(file: &mut File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn logged(pieces: &[&[u8]]) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
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

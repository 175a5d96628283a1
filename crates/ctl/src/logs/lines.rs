//! Lines out of pieces, and the lines that a wake-up begins with.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// A line is held up to here; the rest of a longer one is counted.
const LONGEST: usize = 8 << 20;

/// The beginning of a line that tells whether a wake-up begins with it.
const HEAD: usize = 200;

/// Collects lines.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    line: Vec<u8>,
    dropped: u64,
}

/// One line, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collected<'a> {
    /// Its bytes, as far as they are held.
    pub(crate) bytes: &'a [u8],
    /// How many more it has.
    pub(crate) dropped: u64,
}

impl Collector {
    /// Takes bytes and hands out every line that they end.
    pub(crate) fn take<E>(
        &mut self,
        mut bytes: &[u8],
        mut line: impl FnMut(Collected<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.hold(&bytes[..at]);
            bytes = &bytes[at + 1..];
            let (whole, dropped) = (std::mem::take(&mut self.line), std::mem::take(&mut self.dropped));
            line(Collected {
                bytes: &whole,
                dropped,
            })?;
        }
        self.hold(bytes);
        Ok(())
    }

    /// The last line, if it has no newline.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        self.dropped = 0;
        Some(std::mem::take(&mut self.line)).filter(|line| !line.is_empty())
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = LONGEST.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..room]);
        self.dropped += (bytes.len() - room) as u64;
    }
}

/// The wake-up that begins with this line: `--- wake-up 3 2026-11-30T20:02:00Z claude ---`.
pub(crate) fn begins(line: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(line.get(..line.len().min(HEAD))?).ok()?;
    let words: Vec<&str> = text
        .strip_prefix("--- wake-up ")?
        .strip_suffix(" ---")?
        .split(' ')
        .collect();
    let [n, time, _agent] = words.as_slice() else {
        return None;
    };
    time.parse::<pod_core::Timestamp>().ok()?;
    n.parse().ok()
}

/// Goes through the lines between two places and reports the beginning of each wake-up with its place.
///
/// An agent can write a line that looks so. It is taken for one only if its number is higher than every one
/// before it, since numbers rise.
pub(crate) fn beginnings(
    file: &mut File,
    to: Option<u64>,
    mut found: impl FnMut(u32, u64) -> bool,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut piece = vec![0; 64 * 1024];
    let (mut head, mut head_at, mut at, mut highest) = (Vec::new(), 0_u64, 0_u64, 0);
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        let mut rest = &piece[..read];
        while !rest.is_empty() {
            if to.is_some_and(|to| head_at >= to) {
                return Ok(());
            }
            let end = rest.iter().position(|byte| *byte == b'\n');
            let text = &rest[..end.unwrap_or(rest.len())];
            let room = HEAD.saturating_sub(head.len()).min(text.len());
            head.extend_from_slice(&text[..room]);
            let used = end.map_or(rest.len(), |end| end + 1);
            at += used as u64;
            rest = &rest[used..];
            if end.is_some() {
                if let Some(n) = begins(&head).filter(|n| *n > highest) {
                    highest = n;
                    if !found(n, head_at) {
                        return Ok(());
                    }
                }
                head.clear();
                head_at = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_come_out_whole_whatever_the_pieces() {
        let text = b"one\n\nthree";
        for cut in 0..text.len() {
            let mut collector = Collector::default();
            let mut lines = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                let taken = collector.take(piece, |line| {
                    lines.push(line.bytes.to_vec());
                    Ok::<(), ()>(())
                });
                taken.unwrap();
            }
            lines.extend(collector.rest());
            assert_eq!(lines, [&b"one"[..], b"", b"three"]);
        }
    }

    #[test]
    fn a_wake_up_begins_with_its_own_line_and_no_other() {
        assert_eq!(begins(b"--- wake-up 3 2026-11-30T20:02:00Z claude ---"), Some(3));
        for not in [
            "--- wake-up 3 ended: done ---",
            "--- wake-up 3 yesterday claude ---",
            " --- wake-up 3 2026-11-30T20:02:00Z claude ---",
            "--- wake-up x 2026-11-30T20:02:00Z claude ---",
        ] {
            assert_eq!(begins(not.as_bytes()), None, "{not}");
        }
    }

    #[test]
    fn beginnings_are_found_with_their_places_and_a_quoted_one_is_none() {
        let mut file = tempfile::tempfile().unwrap();
        let header = |n: u32| format!("--- wake-up {n} 2026-11-30T20:02:00Z a ---\n");
        let text = [
            header(1),
            "x\n".repeat(50_000),
            header(2),
            header(1),
            "y\n".into(),
            header(3),
        ]
        .concat();
        file.write_all(text.as_bytes()).unwrap();
        let mut found = Vec::new();
        beginnings(&mut file, None, |n, at| {
            found.push((n, at));
            true
        })
        .unwrap();
        let length = header(1).len() as u64;
        assert_eq!(found, [(1, 0), (2, length + 100_000), (3, 3 * length + 100_002)]);
    }
}

//! Splits a stream of bytes into lines, in bounded memory.

use crate::prune::Pruner;

/// A line up to this size is given whole.
pub(crate) const WHOLE_LINE: usize = 4 << 20;

/// One line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Framed<'a> {
    /// Its bytes; of a longer line the same JSON with its strings cut.
    pub(crate) bytes: &'a [u8],
    /// The size of the line as it was written.
    pub(crate) size: u64,
    /// Whether `bytes` is less than the line.
    pub(crate) pruned: bool,
}

/// Splits at newline bytes and nothing else: U+2028, CR and NUL are ordinary.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    partial: Vec<u8>,
    pruner: Option<Pruner>,
    size: u64,
}

impl Framer {
    /// Takes a piece of the stream and hands on every line that it completes.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut line: impl FnMut(Framed<'_>)) {
        while let Some(at) = memchr::memchr(b'\n', piece) {
            let (head, tail) = (&piece[..at], &piece[at + 1..]);
            if self.size == 0 {
                line(Framed {
                    bytes: head,
                    size: head.len() as u64,
                    pruned: false,
                });
            } else {
                self.hold(head);
                self.release(&mut line);
            }
            piece = tail;
        }
        self.hold(piece);
    }

    /// Hands on a last line that has no newline.
    pub(crate) fn end(&mut self, mut line: impl FnMut(Framed<'_>)) {
        if self.size > 0 {
            self.release(&mut line);
        }
    }

    fn hold(&mut self, piece: &[u8]) {
        self.size += piece.len() as u64;
        if let Some(pruner) = &mut self.pruner {
            pruner.feed(piece);
        } else if self.partial.len() + piece.len() <= WHOLE_LINE {
            self.reserve(piece.len());
            self.partial.extend_from_slice(piece);
        } else {
            let mut pruner = Pruner::default();
            pruner.feed(&std::mem::take(&mut self.partial));
            pruner.feed(piece);
            self.pruner = Some(pruner);
        }
    }

    /// Grows by doubling, but never beyond a whole line.
    fn reserve(&mut self, more: usize) {
        let need = self.partial.len() + more;
        if need > self.partial.capacity() {
            let target = need.next_power_of_two().min(WHOLE_LINE);
            self.partial.reserve_exact(target - self.partial.len());
        }
    }

    fn release(&mut self, line: &mut impl FnMut(Framed<'_>)) {
        let size = std::mem::take(&mut self.size);
        if let Some(pruner) = self.pruner.take() {
            line(Framed {
                bytes: &pruner.finish(),
                size,
                pruned: true,
            });
            return;
        }
        line(Framed {
            bytes: &self.partial,
            size,
            pruned: false,
        });
        self.partial.clear();
        if self.partial.capacity() > 256 * 1024 {
            self.partial = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<(Vec<u8>, u64, bool)> {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for piece in pieces {
            framer.feed(piece, |line| {
                found.push((line.bytes.to_vec(), line.size, line.pruned))
            });
        }
        framer.end(|line| found.push((line.bytes.to_vec(), line.size, line.pruned)));
        found
    }

    #[test]
    fn lines_end_at_newlines_and_nowhere_else() {
        let text = "a\r\n\u{2028}b\0c\n\nlast".as_bytes();
        let want: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        for cut in 0..text.len() {
            let got: Vec<Vec<u8>> = lines(&[&text[..cut], &text[cut..]])
                .into_iter()
                .map(|line| line.0)
                .collect();
            assert_eq!(got, want, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_is_whole_up_to_its_limit_and_pruned_beyond() {
        let whole = vec![b'x'; WHOLE_LINE];
        assert_eq!(
            lines(&[&whole, b"\n"]),
            [(whole.clone(), WHOLE_LINE as u64, false)]
        );
        let mut long = br#"{"text":""#.to_vec();
        long.resize(WHOLE_LINE + 50, b'x');
        long.extend_from_slice(br#"","type":"t"}"#);
        let found = lines(&[&long, b"\nnext\n"]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].1, found[0].2), (long.len() as u64, true));
        let value: serde_json::Value = serde_json::from_slice(&found[0].0).unwrap();
        assert_eq!(value["type"], "t");
        assert_eq!(found[1].0, b"next");
    }
}

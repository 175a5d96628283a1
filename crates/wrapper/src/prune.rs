//! Reads JSON of any size as it streams by and keeps its small parts.
//!
//! Long strings are cut, surplus items and members are dropped, and what is left is JSON of the same
//! shape. So the type, the stop reason, the error and the usage of a line of 300 MB can be read by the same
//! code as those of any other, in memory that does not grow with it.

/// How much of a string is kept.
const STRING: usize = 1024;
/// How many items or members of one container are kept.
const ITEMS: u32 = 64;
/// How deep containers may lie in one another.
const DEPTH: usize = 32;
/// When so much is kept, containers further on are left out, and strings are cut shorter.
const KEPT: usize = 256 * 1024;
/// How much of a string is kept then.
const LATE_STRING: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    container: Container,
    kept: u32,
    expects_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Text {
    /// Not within a string.
    #[default]
    No,
    /// Within one that is kept; so many bytes of it so far.
    Kept(usize),
    /// Within the rest of one that is long, or within one that is dropped.
    Dropped,
}

/// Keeps the small parts of one JSON value that is fed to it piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Pruner {
    out: Vec<u8>,
    levels: Vec<Level>,
    text: Text,
    /// Bytes of an escape that are still to come.
    escape: usize,
    /// Whether the last kept escape is the first half of a surrogate pair, which must not stand alone.
    half_pair: bool,
    escape_digits: Vec<u8>,
    /// Depth of the dropped value that we are in; strings within it are dropped as well.
    dropping: usize,
    in_scalar: bool,
    drop_scalar: bool,
}

impl Pruner {
    pub(crate) fn feed(&mut self, mut piece: &[u8]) {
        while let Some(&byte) = piece.first() {
            // The long run of a dropped string is passed over without looking at each byte.
            if self.text == Text::Dropped && self.escape == 0 {
                match memchr::memchr2(b'"', b'\\', piece) {
                    Some(at) => piece = &piece[at..],
                    None => return,
                }
                self.in_text(piece[0]);
            } else if self.text == Text::No {
                self.outside(byte);
            } else {
                self.in_text(byte);
            }
            piece = &piece[1..];
        }
    }

    /// What was kept. Of a line that is no JSON it is no JSON either.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn in_text(&mut self, byte: u8) {
        if self.escape > 0 {
            self.in_escape(byte);
            return;
        }
        match byte {
            b'"' => {
                if let Text::Kept(_) = self.text {
                    self.out.push(b'"');
                } else if self.dropping == 0 && !self.drop_scalar {
                    // Its beginning was kept, so it has to be closed.
                    self.out.push(b'"');
                }
                self.text = Text::No;
                self.half_pair = false;
            }
            b'\\' => {
                self.escape = 1;
                self.escape_digits.clear();
                if let Text::Kept(count) = self.text {
                    if count >= STRING && !self.half_pair {
                        self.text = Text::Dropped;
                    } else {
                        self.out.push(byte);
                    }
                }
            }
            _ => {
                self.half_pair = false;
                if let Text::Kept(count) = self.text {
                    // A character is not cut in its middle.
                    if count >= STRING && byte & 0xc0 != 0x80 {
                        self.text = Text::Dropped;
                    } else {
                        self.out.push(byte);
                        self.text = Text::Kept(count + 1);
                    }
                }
            }
        }
    }

    fn in_escape(&mut self, byte: u8) {
        self.escape -= 1;
        if self.escape == 0 && byte == b'u' && self.escape_digits.is_empty() {
            self.escape = 4;
            self.escape_digits.push(byte);
        } else if !self.escape_digits.is_empty() {
            self.escape_digits.push(byte);
        }
        if let Text::Kept(count) = self.text {
            self.out.push(byte);
            self.text = Text::Kept(count + 1);
        }
        if self.escape == 0 {
            let digits = &self.escape_digits;
            self.half_pair = digits.len() == 5
                && matches!(digits[1], b'd' | b'D')
                && matches!(digits[2], b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => self.in_scalar = false,
            b',' | b':' => {
                self.in_scalar = false;
                if self.dropping == 0 {
                    if let Some(level) = self.levels.last_mut() {
                        level.expects_key = byte == b',' && level.container == Container::Object;
                    }
                    // A colon stands behind a key that was kept.
                    if byte == b':' && !self.member_dropped() {
                        self.out.push(b':');
                    }
                }
            }
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(byte),
            b'"' => {
                self.in_scalar = false;
                let kept = self.dropping == 0 && self.begin(false);
                self.drop_scalar = !kept;
                self.text = if kept { Text::Kept(0) } else { Text::Dropped };
                if kept {
                    if self.out.len() > KEPT {
                        self.text = Text::Kept(STRING - LATE_STRING);
                    }
                    self.out.push(b'"');
                }
            }
            _ => {
                if !self.in_scalar {
                    self.in_scalar = true;
                    self.drop_scalar = self.dropping > 0 || !self.begin(false);
                }
                // A number of a million digits is no number.
                if !self.drop_scalar && self.out.len() < 2 * KEPT {
                    self.out.push(byte);
                }
            }
        }
    }

    fn member_dropped(&self) -> bool {
        self.levels.last().is_some_and(|level| level.kept > ITEMS)
    }

    /// Begins a key, a value or an item: sets the comma before it. Returns whether it is kept.
    fn begin(&mut self, container: bool) -> bool {
        let full = container && self.out.len() > KEPT;
        let Some(level) = self.levels.last_mut() else {
            return true;
        };
        let starts_member = level.container == Container::Array || level.expects_key;
        if starts_member {
            if full && level.container == Container::Array {
                level.kept = ITEMS;
            }
            level.kept = level.kept.saturating_add(1).min(ITEMS + 1);
            if level.kept > ITEMS {
                return false;
            }
            if level.kept > 1 {
                self.out.push(b',');
            }
            return true;
        }
        level.kept <= ITEMS
    }

    fn open(&mut self, byte: u8) {
        self.in_scalar = false;
        if self.dropping > 0 {
            self.dropping += 1;
            return;
        }
        if !self.begin(true) {
            self.dropping = 1;
            return;
        }
        if self.levels.len() >= DEPTH || (self.out.len() > KEPT && !self.levels.is_empty()) {
            self.out.extend_from_slice(b"null");
            self.dropping = 1;
            return;
        }
        self.out.push(byte);
        let container = if byte == b'{' {
            Container::Object
        } else {
            Container::Array
        };
        self.levels.push(Level {
            container,
            kept: 0,
            expects_key: container == Container::Object,
        });
    }

    fn close(&mut self, byte: u8) {
        self.in_scalar = false;
        if self.dropping > 0 {
            self.dropping -= 1;
            return;
        }
        if self.levels.pop().is_some() || self.out.len() < KEPT {
            self.out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pruned(text: &str, step: usize) -> Vec<u8> {
        let mut pruner = Pruner::default();
        for piece in text.as_bytes().chunks(step) {
            pruner.feed(piece);
        }
        pruner.finish()
    }

    fn read(text: &str) -> Value {
        let whole = pruned(text, usize::MAX);
        for step in [1, 2, 3, 7] {
            assert_eq!(pruned(text, step), whole, "the pieces do not matter");
        }
        serde_json::from_slice(&whole).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&whole)))
    }

    #[test]
    fn small_json_stays_as_it_is() {
        let value = json!({
            "type": "message_end", "a": [1, 2.5e3, true, null, [], {}, [[{"x": "y"}]]],
            "b": {"c": "q\"\\\n\u{e9}\u{1f600}", "": -1}, "d": "",
        });
        assert_eq!(read(&value.to_string()), value);
        assert_eq!(
            read(" { \"a\" : [ 1 , 2 ] , \"b\" : { } } "),
            json!({"a": [1, 2], "b": {}})
        );
    }

    #[test]
    fn long_strings_are_cut_at_a_character_and_what_follows_is_kept() {
        let text = json!({"t": "é".repeat(5000), "u": "😀".repeat(5000), "stop": "end"}).to_string();
        let value = read(&text);
        assert_eq!(value["stop"], "end");
        assert!(value["t"].as_str().unwrap().chars().all(|c| c == 'é'));
        assert!((1000..1100).contains(&value["t"].as_str().unwrap().len()));
        let escaped = format!("{{\"t\":\"{}\",\"stop\":\"end\"}}", "\\ud83d\\ude00".repeat(3000));
        assert_eq!(read(&escaped)["stop"], "end");
        let quoted = format!("{{\"t\":\"{}\",\"stop\":\"end\"}}", "\\\"\\\\".repeat(3000));
        assert_eq!(read(&quoted)["stop"], "end");
    }

    #[test]
    fn surplus_items_and_members_are_dropped() {
        let items: Vec<Value> = (0..500).map(|n| json!({"n": n, "deep": [n]})).collect();
        let value = read(&json!({"items": items, "stop": "end"}).to_string());
        assert_eq!(value["items"].as_array().unwrap().len(), 64);
        assert_eq!(value["stop"], "end");
        let members: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("k{n}"), json!([n]))).collect();
        let value = read(&json!({"m": members, "stop": "end"}).to_string());
        assert_eq!(value["m"].as_object().unwrap().len(), 64);
        assert_eq!(value["stop"], "end");
    }

    #[test]
    fn it_is_bounded_whatever_comes() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(pruned(&deep, 4096).len() < 1000);
        let inner = format!("[{}]", vec![format!("\"{}\"", "x".repeat(1000)); 60].join(","));
        let wide = format!("{{\"a\":[{}],\"stop\":\"end\"}}", vec![inner; 60].join(","));
        let value = read(&wide);
        assert_eq!(value["stop"], "end");
        assert!(pruned(&wide, 4096).len() < 2 * KEPT);
        assert!(pruned(&"9".repeat(5_000_000), 4096).len() <= 2 * KEPT);
        assert!(pruned(&"}]\"\\".repeat(1_000_000), 4096).len() < 5_000_000);
    }
}

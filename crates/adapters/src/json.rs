//! One line of JSON, taken apart no further than is needed.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, Visitor};
use serde_json::value::RawValue;

use crate::{Line, LineKind};

/// Reads a line that is an object of this shape.
pub(crate) fn object<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    // Serde would take an array for the fields in their order.
    line.trim_ascii_start()
        .first()
        .filter(|first| **first == b'{')
        .and_then(|_| serde_json::from_slice(line).ok())
}

/// Whether a line is a JSON object or array. A bare number or word is text that happens to be JSON.
fn is_json(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
        && std::str::from_utf8(line).is_ok()
        && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// A part that has another shape than expected is as good as absent: the record is one all the same.
pub(crate) fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(part?.get()).ok()
}

/// Gives a string to `take`; a part that is no string is absent.
///
/// Serde's buffer for escapes is the only copy that is made: a string may have megabytes. Half a surrogate
/// pair, which JavaScript leaves where it cuts a text, is shown as U+FFFDs.
pub(crate) fn with_string<T>(part: Option<&RawValue>, take: impl FnOnce(&str) -> T) -> Option<T> {
    let mut json = serde_json::Deserializer::from_str(part.filter(|raw| raw.get().starts_with('"'))?.get());
    json.deserialize_bytes(WithString(take)).ok()
}

struct WithString<F>(F);

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for WithString<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<T, E> {
        Ok((self.0)(&String::from_utf8_lossy(text)))
    }
}

/// A string as one of its own, cut at `limit` bytes.
pub(crate) fn string(part: Option<&RawValue>, limit: usize) -> Option<String> {
    with_string(part, |text| text[..text.floor_char_boundary(limit)].to_owned())
}

/// How many lines came, and how many of them were records.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) lines: u64,
    pub(crate) records: u64,
}

impl Tally {
    /// Counts a line and says what it is.
    pub(crate) fn count(&mut self, line: &Line<'_>, record: bool) -> LineKind {
        if line.bytes.trim_ascii().is_empty() {
            return LineKind::NotJson;
        }
        self.lines += 1;
        if record {
            self.records += 1;
            LineKind::Record
        } else if is_json(line.bytes) {
            LineKind::Json
        } else {
            LineKind::NotJson
        }
    }
}

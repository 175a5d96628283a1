//! Reads the head of HANDOFF.md.

use serde::{Deserialize, Serialize};

/// How many bytes of HANDOFF.md are read for its head. A head that is longer declares nothing.
pub const HEAD_LIMIT: usize = 64 * 1024;

/// Layer 1: what HANDOFF.md declares, compared with the baseline of this wake-up and never with a clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "line")]
pub enum Declaration {
    /// It was not written during this wake-up.
    NotWritten,
    /// `status: rotating`.
    More,
    /// `status: done`.
    Done,
    /// It was written, and its head says nothing that we know: the line, or what stands in its place.
    Malformed(String),
}

/// What a head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffHead {
    /// `status: rotating`.
    Rotating,
    /// `status: done`.
    Done,
    /// Anything else, quoted.
    Malformed(String),
}

impl From<HandoffHead> for Declaration {
    fn from(head: HandoffHead) -> Self {
        match head {
            HandoffHead::Rotating => Self::More,
            HandoffHead::Done => Self::Done,
            HandoffHead::Malformed(line) => Self::Malformed(line),
        }
    }
}

/// Reads the first bytes of a handoff: its first line that is not blank, or the keys between a leading
/// `---` and its end.
///
/// A BOM, CRLF, letter case, blanks, other keys and bad UTF-8 further down are forgiven. Nothing else is:
/// what a person meant is not guessed, since `done` ends a pod for ever.
pub fn parse_handoff(bytes: &[u8]) -> HandoffHead {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_LIMIT)]);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        return HandoffHead::Malformed("the file is empty".to_owned());
    };
    if first != "---" {
        return status_of(first).unwrap_or_else(|| malformed(first));
    }
    let mut status = None;
    for line in lines {
        if line == "---" || line == "..." {
            return status.unwrap_or_else(|| {
                HandoffHead::Malformed("no `status:` between `---` and its end".to_owned())
            });
        }
        let Some((key, _)) = line.split_once(':') else {
            continue;
        };
        if key.trim().eq_ignore_ascii_case("status") {
            let read = status_of(line).unwrap_or_else(|| malformed(line));
            if status.as_ref().is_some_and(|earlier| *earlier != read) {
                return HandoffHead::Malformed(format!(
                    "two different `status:` keys, the second: {}",
                    crate::quoted(line, 200)
                ));
            }
            status = Some(read);
        }
    }
    HandoffHead::Malformed("the leading `---` has no end".to_owned())
}

/// Whether the head of a handoff asks for another plan: `plan: update_required` beside its status.
pub fn asks_for_another_plan(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_LIMIT)]);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty())
        .peekable();
    let block = lines.next_if_eq(&"---").is_some();
    let ends = |line: &&str| {
        if block {
            !matches!(*line, "---" | "...")
        } else {
            !line.is_empty()
        }
    };
    lines.take_while(ends).any(|line| {
        line.split_once(':').is_some_and(|(key, value)| {
            let value = value.trim().trim_matches(['"', '\'']);
            key.trim().eq_ignore_ascii_case("plan") && value.eq_ignore_ascii_case("update_required")
        })
    })
}

fn malformed(line: &str) -> HandoffHead {
    HandoffHead::Malformed(crate::quoted(line, 200))
}

fn status_of(line: &str) -> Option<HandoffHead> {
    let (key, value) = line.split_once(':')?;
    if !key.trim().eq_ignore_ascii_case("status") {
        return None;
    }
    let value = value.trim();
    let bare = ['"', '\'']
        .iter()
        .find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q))
        .unwrap_or(value);
    if bare.eq_ignore_ascii_case("rotating") {
        Some(HandoffHead::Rotating)
    } else if bare.eq_ignore_ascii_case("done") {
        Some(HandoffHead::Done)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgiven() {
        use HandoffHead::{Done, Rotating};
        for (text, want) in [
            (&b"status: rotating\n"[..], Rotating),
            (b"status: done", Done),
            (b"\xef\xbb\xbfStatus: DONE  \r\nmore", Done),
            (b"\n\n  status:rotating\n", Rotating),
            (b"---\ntitle: a: b: c\nstatus: done\n---\nbody", Done),
            (b"---\r\nSTATUS: Rotating \r\nx\r\n---\r\n", Rotating),
            (b"status: done\n\xff\xfe bad", Done),
            (b"---\nstatus: \"done\"\n---", Done),
        ] {
            assert_eq!(parse_handoff(text), want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_not() {
        for text in [
            &b""[..],
            b"\n \n",
            b"# status: done",
            b"done",
            b"status: finished",
            b"status: done (almost)",
            b"I say\nstatus: done",
            b"---\nstatus: done\n",
            b"---\ntitle: x\n---\nstatus: done",
            b"---\nstatus: done\nstatus: rotating\n---",
            b"\xff\xfes\0t\0a\0t\0u\0s\0",
        ] {
            assert!(
                matches!(parse_handoff(text), HandoffHead::Malformed(_)),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
        let mut late = b"---\n".to_vec();
        late.resize(HEAD_LIMIT + 5, b'\n');
        late.extend_from_slice(b"status: done\n---\n");
        assert!(matches!(parse_handoff(&late), HandoffHead::Malformed(_)));
    }

    #[test]
    fn another_plan_is_asked_for_in_the_head_alone() {
        for asks in [
            &b"status: rotating\nplan: update_required\n\nx"[..],
            b"---\nstatus: done\nPlan: \"update_required\"\n---\n",
            b"\n plan: update_required",
        ] {
            assert!(asks_for_another_plan(asks), "{}", String::from_utf8_lossy(asks));
        }
        for not in [
            &b""[..],
            b"status: rotating\n\nplan: update_required",
            b"---\nstatus: done\n---\nplan: update_required",
            b"status: rotating\nplan: unchanged",
        ] {
            assert!(!asks_for_another_plan(not), "{}", String::from_utf8_lossy(not));
        }
    }

    #[test]
    fn the_line_is_quoted_and_harmless() {
        let HandoffHead::Malformed(line) = parse_handoff(b"\x1b[2Jboo") else {
            panic!("it declares nothing")
        };
        assert_eq!(line, "\\x1b[2Jboo");
    }
}

//! Showing text that somebody else wrote without letting it act on a terminal.

use std::fmt::Write as _;

/// Whether a terminal or a reader could be misled by this character.
///
/// C0 but for newline and tab, DEL, C1, the bidirectional overrides and isolates, and the two Unicode line
/// separators, which some programs take for a newline.
fn is_unsafe(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{2028}' | '\u{2029}')
}

fn push_escaped(c: char, out: &mut String) {
    let code = u32::from(c);
    let written = if code < 0x100 {
        write!(out, "\\x{code:02x}")
    } else {
        write!(out, "\\u{{{code:x}}}")
    };
    written.expect("a String takes every write");
}

/// Appends `text` to `out` with control characters shown as `\x1b` and the like.
pub fn escape_into(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let c = rest[at..].chars().next().expect("found above");
        out.push_str(&rest[..at]);
        push_escaped(c, out);
        rest = &rest[at + c.len_utf8()..];
    }
    out.push_str(rest);
}

/// The text with control characters escaped.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

/// The text on one line, escaped, and cut after `limit` characters.
pub fn quoted(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            out.push('…');
            break;
        }
        if is_unsafe(c) || c == '\n' || c == '\t' {
            push_escaped(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// An error and its causes on one line, each said once.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        // A transparent error says what its source says.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_letters_kept() {
        assert_eq!(escaped("a\x1b[2Jb\tc\n"), "a\\x1b[2Jb\tc\n");
        assert_eq!(
            escaped("é\u{9b}31m\u{202e}x\u{2028}"),
            "é\\x9b31m\\u{202e}x\\u{2028}"
        );
        assert_eq!(escaped("\r\u{7f}"), "\\x0d\\x7f");
        // U+00DB is a letter whose second UTF-8 byte is 0x9b.
        assert_eq!(escaped("Û"), "Û");
    }

    #[test]
    fn a_quotation_is_one_short_line() {
        assert_eq!(quoted("a\nb", 80), "a\\x0ab");
        assert_eq!(quoted(&"x".repeat(300), 200).chars().count(), 201);
    }
}

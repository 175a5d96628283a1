//! Finds the question of a program that waits for a person.

/// How much of a line's end is looked at and kept.
pub(crate) const LOOKED_AT: usize = 400;

/// How a prompt for approval or input ends, in small letters and without the blanks, colons and the like
/// behind it.
const ENDINGS: &[&str] = &[
    "[y/n]",
    "(y/n)",
    "[n/y]",
    "[yes/no]",
    "(yes/no)",
    "(yes/no/[fingerprint])",
    "[y/n/a]",
    "[y/n/q]",
    " y/n",
    "continue?",
    "proceed?",
    "are you sure?",
    "approve?",
    "allow?",
    "overwrite?",
    "password",
    "passphrase",
    "press enter",
    "press return",
    "press any key",
    "[enter]",
    "to continue",
];

/// What stands anywhere in a prompt that ends with a colon.
const BEFORE_A_COLON: &[&str] = &[
    "password for ",
    "'s password",
    "passphrase for ",
    "username for ",
    "enter your ",
    "enter the ",
    "verification code",
];

/// Returns the question that a program's output ends with, if its last line asks for approval or input.
pub fn question_in(tail: &str) -> Option<String> {
    let last = tail.lines().rev().find(|line| !line.trim().is_empty())?;
    question_of(last)
}

/// The question that one line is.
pub(crate) fn question_of(line: &str) -> Option<String> {
    let plain = without_colours(line);
    // What stands before a carriage return was overwritten on the screen.
    let shown = plain.rsplit('\r').map(str::trim).find(|part| !part.is_empty())?;
    let shown = &shown[shown.ceil_char_boundary(shown.len().saturating_sub(LOOKED_AT))..];
    let lower = shown.to_lowercase();
    let asks = |text: &str| ENDINGS.iter().any(|ending| text.ends_with(ending));
    let bare = lower.trim_end_matches([' ', ':', '>', '.', '…']);
    let colon = lower.ends_with(':') && BEFORE_A_COLON.iter().any(|words| lower.contains(words));
    (asks(bare) || asks(bare.trim_end_matches('?').trim_end()) || colon).then(|| shown.to_owned())
}

/// The line without the sequences that colour it or move the cursor.
fn without_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(4 * LOOKED_AT));
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks() {
        for tail in [
            "approve? [y/N]",
            "working\nApply this patch? [Y/n] \n\n",
            "Continue? (y/n):",
            "rm: remove regular file 'x' (yes/no)? ",
            "\u{1b}[1mProceed? [y/N]\u{1b}[0m ",
            "50%\r100%\rAre you sure?",
            "Password: ",
            "[sudo] password for ada: ",
            "ada@host's password: ",
            "Enter passphrase for key '/home/ada/.ssh/id':",
            "Username for 'https://example.org': ",
            "Press ENTER to continue...",
            "press any key",
        ] {
            assert!(question_in(tail).is_some(), "{tail:?}");
        }
        assert_eq!(
            question_in("a\n approve? [y/N] \n").as_deref(),
            Some("approve? [y/N]")
        );
    }

    #[test]
    fn what_does_not() {
        for tail in [
            "",
            "\n \n",
            "approve? [y/N]\nyes\ndone",
            "What does this function do?",
            "Fixed the password form",
            "Summary:",
            "I ran it with [y/N] answered by yes",
        ] {
            assert_eq!(question_in(tail), None, "{tail:?}");
        }
    }

    #[test]
    fn a_long_line_is_looked_at_from_its_end() {
        let line = format!("{}é approve? [y/N]", "é".repeat(100_000));
        let question = question_in(&line).unwrap();
        assert!(question.len() <= LOOKED_AT && question.ends_with("[y/N]"));
    }
}

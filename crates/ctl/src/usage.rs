//! What the parser of the command line says, in the form that every error has.

use std::error::Error as _;
use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Cli;
use crate::fault::Fault;

/// What a command line that names no work to do comes to.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Help or version: the answer.
    Answer(String),
    /// Wrong usage.
    Wrong(Fault),
}

/// Takes the parser's error apart.
pub(crate) fn parsed(error: &clap::Error, args: &[OsString]) -> Parsed {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let styled = error.render();
            let text = if crate::ui::is_terminal() {
                styled.ansi().to_string()
            } else {
                styled.to_string()
            };
            Parsed::Answer(text)
        }
        kind => Parsed::Wrong(Fault::usage(message(error, kind), hint(error, args))),
    }
    .with_cause(error)
}

impl Parsed {
    fn with_cause(self, error: &clap::Error) -> Self {
        match (self, error.source()) {
            (Self::Wrong(fault), Some(cause)) => Self::Wrong(fault.because(cause)),
            (parsed, _) => parsed,
        }
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join("` or `")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => Some(
            texts
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("` or `"),
        ),
        ContextValue::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn message(error: &clap::Error, kind: ErrorKind) -> String {
    let get = |kind| context(error, kind).unwrap_or_default();
    let argument = get(ContextKind::InvalidArg);
    match kind {
        ErrorKind::UnknownArgument => format!("there is no option or argument `{argument}` here"),
        ErrorKind::InvalidSubcommand => {
            format!("there is no command `{}`", get(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "no command is given".to_owned()
        }
        ErrorKind::MissingRequiredArgument => format!("`{argument}` is missing"),
        ErrorKind::ArgumentConflict => {
            format!(
                "`{argument}` cannot stand beside `{}`",
                get(ContextKind::PriorArg)
            )
        }
        // The value is left out: what it was may be a secret, and the cause quotes it where it may.
        ErrorKind::ValueValidation => format!("the value of `{argument}` is not accepted"),
        ErrorKind::InvalidValue => match get(ContextKind::InvalidValue).as_str() {
            "" => format!("`{argument}` needs a value"),
            value => format!("`{argument}` cannot be `{value}`"),
        },
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    }
}

fn hint(error: &clap::Error, args: &[OsString]) -> String {
    let nearest = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ]
    .into_iter()
    .find_map(|kind| context(error, kind));
    if let Some(nearest) = nearest {
        return format!("did you mean `{nearest}`?");
    }
    if let Some(valid) = context(error, ContextKind::ValidValue).filter(|valid| !valid.is_empty()) {
        return format!("write `{valid}`");
    }
    match command(args).as_slice() {
        [] => "`podctl --help` shows every command".to_owned(),
        words => format!("`podctl {} --help` says how it is used", words.join(" ")),
    }
}

/// The command that a command line means, as far as it means one.
fn command(args: &[OsString]) -> Vec<String> {
    let mut at = Cli::command();
    let mut words = Vec::new();
    let mut args = args.iter().filter_map(|arg| arg.to_str());
    while let Some(arg) = args.next() {
        if arg == "--home" {
            args.next();
        } else if let Some(found) = at.find_subcommand(arg).cloned() {
            words.push(arg.to_owned());
            at = found;
        } else if !arg.starts_with('-') {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn wrong(args: &[&str]) -> String {
        let error = Cli::try_parse_from(std::iter::once("podctl").chain(args.iter().copied())).unwrap_err();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        match parsed(&error, &args) {
            Parsed::Wrong(fault) => {
                assert_eq!(fault.exit().code(), 2);
                fault.text()
            }
            Parsed::Answer(text) => panic!("{text}"),
        }
    }

    #[test]
    fn wrong_usage_is_named_and_has_a_way_out() {
        for (args, want) in [
            (
                &[][..],
                "error: no command is given\nhint: `podctl --help` shows every command\n",
            ),
            (
                &["lss"],
                "error: there is no command `lss`\nhint: did you mean `logs` or `ls`?\n",
            ),
            (
                &["ls", "--jsn"],
                "error: there is no option or argument `--jsn` here\nhint: did you mean `--json`?\n",
            ),
            (
                &["show"],
                "error: `<ID>` is missing\nhint: `podctl show --help` says how it is used\n",
            ),
            (
                &["show", "A\x1b[2J\n\nx"],
                "error: the value of `<ID>` is not accepted\n  \
                 caused by: `A\\x1b[2J\\x0a\\x0ax` is not an id: ids match [a-z0-9][a-z0-9-]{0,62}\n\
                 hint: `podctl show --help` says how it is used\n",
            ),
            (
                &["handoff", "--status", "finished"],
                "error: `--status <STATUS>` cannot be `finished`\nhint: write `rotating` or `done`\n",
            ),
            (
                &["spawn", "--goal-file", "f", "g"],
                "error: `--goal-file <FILE>` cannot stand beside `[GOAL]`\n\
                 hint: `podctl spawn --help` says how it is used\n",
            ),
            (
                &["agent", "add", "x", "--type", "pi", "--env", "sk-secret"],
                "error: the value of `--env <KEY=VALUE>` is not accepted\n  caused by: write it as KEY=VALUE\n\
                 hint: `podctl agent add --help` says how it is used\n",
            ),
        ] {
            assert_eq!(wrong(args), want, "{args:?}");
        }
    }

    #[test]
    fn help_and_version_are_answers() {
        for args in [["podctl", "--help"], ["podctl", "--version"], ["podctl", "-h"]] {
            let error = Cli::try_parse_from(args).unwrap_err();
            assert!(matches!(parsed(&error, &[]), Parsed::Answer(_)), "{args:?}");
        }
    }

    #[test]
    fn every_first_line_of_help_is_short_and_has_no_full_stop() {
        fn check(command: &clap::Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let named = command.get_name();
            assert!(
                !about.is_empty() && about.len() < 70 && !about.ends_with('.'),
                "{named}: {about}"
            );
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{named}: {argument}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}

//! podctl: its commands, and everything that it shows.
//!
//! A command reads and changes the world through the crates below, and comes to an exit code or
//! to a fault that names the thing, its causes and the way out. Printing is in `ui` alone.

#![forbid(unsafe_code)]

mod agent;
mod args;
mod cancel;
mod change;
mod checkpoint;
mod config;
mod context;
mod decisions;
mod demo;
mod doctor;
mod fault;
mod gate;
mod handoff;
mod logs;
mod ls;
mod mcp;
mod papers;
mod plan;
mod podd_note;
mod retry;
mod rm;
mod send;
mod show;
mod spawn;
mod table;
mod ui;
mod usage;
mod wait;
mod wake;
mod watch;
mod wave;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::fault::{Ended, Exit, Stop};
use crate::usage::Parsed;

/// Runs podctl with `args`, its own name not among them.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = bullets_as_text(args.into_iter().collect());
    let line = std::iter::once(OsString::from("podctl")).chain(args.iter().cloned());
    let ended = match Cli::try_parse_from(line) {
        Ok(cli) => run(cli),
        Err(error) => match usage::parsed(&error, &args) {
            Parsed::Answer(text) => ui::answer(&text).map(|()| Exit::Done),
            Parsed::Wrong(fault) => Err(fault.into()),
        },
    };
    ExitCode::from(told(ended).code())
}

/// Marks a last argument that begins with a Markdown bullet as text: `send p "- do x"` means no option `- `.
fn bullets_as_text(mut args: Vec<OsString>) -> Vec<OsString> {
    let starts =
        |arg: Option<&OsString>, with: &str| arg.is_some_and(|arg| arg.to_string_lossy().starts_with(with));
    let value_of_option = args.len() >= 2 && starts(args.get(args.len() - 2), "-");
    if starts(args.last(), "- ") && !value_of_option {
        args.insert(args.len() - 1, "--".into());
    }
    args
}

/// Reports what a command ended with.
fn told(ended: Ended) -> Exit {
    match ended {
        Ok(exit) => exit,
        // Whoever read the answer has read enough of it.
        Err(Stop::PipeClosed) => Exit::Done,
        Err(Stop::Fault(fault)) => {
            ui::fault(&fault);
            fault.exit()
        }
    }
}

fn run(cli: Cli) -> Ended {
    let context = Context::find(cli.home.as_deref())?;
    match cli.command {
        Command::Spawn(args) => spawn::run(&context, &args),
        Command::Ls(args) => ls::run(&context, &args),
        Command::Show(args) => show::run(&context, &args),
        Command::Cancel(args) => cancel::run(&context, &args),
        Command::Logs(args) => logs::run(&context, &args),
        Command::Wait(args) => wait::run(&context, &args),
        Command::Wake(args) => wake::run(&context, &args),
        Command::Park(args) => change::park(&context, &args),
        Command::Resume(args) => change::resume(&context, &args),
        Command::Edit(args) => change::edit(&context, &args),
        Command::Send(args) => send::run(&context, &args),
        Command::Rm(args) => rm::run(&context, &args),
        Command::Plan(format) => plan::run(&context, format),
        Command::Agent { command } => agent::run(&context, &command),
        Command::Config { command } => config::run(&context, &command),
        Command::Handoff(args) => handoff::run(&context, &args),
        Command::Checkpoint(args) => checkpoint::run(&context, &args),
        Command::Wave { command } => wave::run(&command),
        Command::Gate { command } => gate::run(&context, &command),
        Command::Retry(args) => retry::run(&context, &args),
        Command::Decisions(args) => decisions::run(&context, &args),
        Command::Mcp => mcp::run(&context),
        Command::Completions { shell } => papers::completions(shell),
        Command::Man { dir } => papers::man(&dir),
        Command::Doctor(format) => doctor::run(&context, format),
        Command::Demo(args) => demo::run(&args),
        Command::DemoAgent { pace } => demo::agent::run(pace.map(|pace| pace.0)),
    }
}

/// Does the same to several pods: all are tried, and the worst ending counts.
fn each<T>(things: &[T], mut act: impl FnMut(&T) -> Ended) -> Ended {
    let mut worst = Exit::Done;
    for thing in things {
        worst = match act(thing) {
            Err(Stop::PipeClosed) => return Err(Stop::PipeClosed),
            ended => worst.max(told(ended)),
        };
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bullet_is_text_and_an_options_value_stays_one() {
        let marked = |args: &[&str]| -> Vec<String> {
            let args = bullets_as_text(args.iter().map(OsString::from).collect());
            args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
        };
        assert_eq!(marked(&["send", "p", "- do x"]), ["send", "p", "--", "- do x"]);
        assert_eq!(marked(&["spawn", "- x"]), ["spawn", "--", "- x"]);
        assert_eq!(marked(&["spawn", "-x"]), ["spawn", "-x"]);
        let handoff = [
            "podctl",
            "handoff",
            "--status",
            "done",
            "--summary",
            "- fixed the parser",
        ];
        assert_eq!(marked(&handoff[1..]), &handoff[1..]);
        assert!(Cli::try_parse_from(handoff).is_ok());
        assert!(Cli::try_parse_from(["podctl", "send", "p", "--", "- do x"]).is_ok());
    }
}

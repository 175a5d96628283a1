//! A scripted agent: it does what a file says, the same each time.
//!
//! `$FAKE_AGENT_SCRIPT` names the file. Where `<file>.<id>` exists for the pod's id, or `<file>.<n>` for the
//! wake-up's number, that one is taken, the pod's first. A script is one command a line; blank lines and lines that begin with `#` mean nothing, and a
//! line `[name]` begins a section that `spawn` runs in a process of its own. Behind its last command the
//! program exits with 0. Relative paths are taken from the directory of the script. The command line is
//! ignored (so it can stand in for any agent), but for `--version`.
//!
//! Output:
//!
//! - `line TEXT`, `torn TEXT` (without a newline), `stderr TEXT`
//! - `lines COUNT TEXT`, `every MS COUNT TEXT`: `{i}` in the text becomes a number that counts from 1
//! - `hex BYTES` (as in `hex fffec328 0a`), `fill SIZE` (letters, no newline)
//! - `pi header`, `pi text TEXT`, `pi stop REASON TEXT`, `pi error TEXT`, `pi delta TEXT`, `pi tool NAME`,
//!   `pi result TEXT`, `pi usage INPUT OUTPUT`, `pi big SIZE`, `pi end`, `pi settled`, `pi aborted`: records as
//!   the pi coding agent prints them; `pi run TEXT` is a whole run that ends well
//! - `flood SIZE`: small records of pi, numbered, until so many bytes are written
//! - `close-stdout`
//!
//! Files:
//!
//! - `handoff rotating|done|malformed|empty|fifo|symlink|directory|chmod`, `handoff future STATUS` (its mtime
//!   lies in the future), `handoff kept STATUS` (its mtime is the old one), `handoff replaced STATUS` (by a
//!   new file), `handoff text TEXT`: HANDOFF.md in `$AGENTS_POD_DOCS_DIR`
//! - `write PATH TEXT`, `append PATH TEXT`, `touch PATH`, `fill-disk PATH` (until no byte fits)
//! - `pid PATH`: pid and start ticks; `stdin PATH`: what stdin holds until it ends
//! - `dump argv|env|fds|ids|cwd PATH`: NUL-separated; ids are pid, parent, group and session
//!
//! Processes:
//!
//! - `spawn group|setsid|double SECTION [quiet] [bare]`: runs a section as a child in this group, in a session
//!   of its own, or as an orphan in a session of its own; `quiet` gives it no stdout and stderr of ours, `bare`
//!   no environment
//! - `sh COMMAND`: runs a shell and waits for it
//! - `ignore SIGNAL...`, `on SIGNAL CODE` (exits with that code), `die SIGNAL`, `stop` (by SIGSTOP)
//! - `await PATH` (until the file is there), `sleep MS`, `sleep forever`, `exit CODE`
//!
//! A mistake in a script ends it with 97, a write that fails with 98.

mod children;
mod files;
mod output;
mod script;

use std::io::{self, Write as _};
use std::process::ExitCode;

use script::{Failure, Flow, Script};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    if args == ["--version"] {
        let said = io::stdout().write_all(b"9.9.9\n");
        return if said.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match run(&args) {
        Ok(Flow::Exit(code)) => ExitCode::from(code),
        Ok(Flow::On) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to be told where this fails, too.
            writeln!(io::stderr(), "fake-agent: {failure}").ok();
            ExitCode::from(failure.code())
        }
    }
}

fn run(args: &[String]) -> Result<Flow, Failure> {
    let section = match children::role(args)? {
        children::Role::Agent => String::new(),
        children::Role::Section(name) => name,
        children::Role::Parted => return Ok(Flow::On),
    };
    Script::load()?.run(&section)
}

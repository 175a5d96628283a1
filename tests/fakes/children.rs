//! Processes that the fake agent starts.
//!
//! A child is this program again: forking without executing would need unsafe code. What marks it is its
//! command line, `--section NAME`, with `--setsid` where it begins a session, or `--part` where it starts
//! the child proper and ends, which makes that an orphan.

use std::env;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use nix::unistd::setsid;

use crate::script::{Failure, Script, bad};

/// What this process is.
pub(crate) enum Role {
    /// The agent itself.
    Agent,
    /// A child that runs a section.
    Section(String),
    /// A child that has started another one and ends.
    Parted,
}

/// Finds out what this process is, and does what comes before its script.
pub(crate) fn role(args: &[String]) -> Result<Role, Failure> {
    let [first, section, kind] = args else {
        return Ok(Role::Agent);
    };
    if first != "--section" {
        return Ok(Role::Agent);
    }
    // The mask of the parent is inherited.
    SigSet::empty().thread_set_mask()?;
    match kind.as_str() {
        "--part" => {
            child(section, "--setsid")?.spawn()?;
            return Ok(Role::Parted);
        }
        "--setsid" => {
            setsid()?;
        }
        _ => {}
    }
    Ok(Role::Section(section.clone()))
}

fn child(section: &str, kind: &str) -> Result<Command, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--section", section, kind]);
    Ok(command)
}

/// Starts a section in a process of its own, which nobody waits for.
pub(crate) fn spawn(script: &Script, rest: &str) -> Result<(), Failure> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [mode, section, options @ ..] = words.as_slice() else {
        return Err(bad("`spawn` takes a mode and a section"));
    };
    let kind = match *mode {
        "group" => "--group",
        "setsid" => "--setsid",
        "double" => "--part",
        _ => return Err(bad(format!("nothing is spawned as `{mode}`"))),
    };
    let mut command = child(section, kind)?;
    for option in options {
        match *option {
            "quiet" => command.stdout(Stdio::null()).stderr(Stdio::null()),
            "bare" => command.env_clear(),
            _ => return Err(bad(format!("`spawn` knows no `{option}`"))),
        };
    }
    let mut started = command.env("FAKE_AGENT_SCRIPT", &script.file).spawn()?;
    if kind == "--part" {
        started.wait()?;
    }
    Ok(())
}

/// Runs a shell and waits for it.
pub(crate) fn shell(text: &str) -> Result<(), Failure> {
    Command::new("/bin/sh").args(["-c", text]).status()?;
    Ok(())
}

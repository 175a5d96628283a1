//! Waits for children without giving their numbers away too early.

use std::io;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use pod_core::ExitStatus;

use crate::proc_fs::stat;
use crate::tree::descendants;

/// Makes this process adopt every orphan below it: prctl(2), PR_SET_CHILD_SUBREAPER.
pub fn become_subreaper() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true).map_err(io::Error::from)
}

fn status_of(status: WaitStatus) -> Option<ExitStatus> {
    match status {
        WaitStatus::Exited(_, code) => Some(ExitStatus::Code(code)),
        WaitStatus::Signaled(_, signal, _) => Some(ExitStatus::Signal(signal.as_str().to_owned())),
        WaitStatus::Stopped(..)
        | WaitStatus::PtraceEvent(..)
        | WaitStatus::PtraceSyscall(_)
        | WaitStatus::Continued(_)
        | WaitStatus::StillAlive => None,
    }
}

/// How a child of ours ended; `None` while it lives. It stays a zombie, and its pid and group its own.
pub fn exit_status(child: i32) -> io::Result<Option<ExitStatus>> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(Pid::from_raw(child)), flags) {
        Ok(status) => Ok(status_of(status)),
        // A real-time signal has no name in nix.
        Err(nix::errno::Errno::EINVAL) => Ok(Some(ExitStatus::Signal("real-time signal".to_owned()))),
        Err(error) => Err(error.into()),
    }
}

/// What reaping met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaped {
    /// It ended so.
    Ended(ExitStatus),
    /// It lives.
    Lives,
    /// It is no child of ours, or was reaped before.
    NotOurs,
}

/// Reaps a child of ours if it has ended.
pub fn reap(child: i32) -> Reaped {
    match waitpid(Pid::from_raw(child), Some(WaitPidFlag::WNOHANG)) {
        Ok(status) => status_of(status).map_or(Reaped::Lives, Reaped::Ended),
        Err(_) => Reaped::NotOurs,
    }
}

/// Reaps every ended child but `leader`. Returns how many.
pub fn reap_adopted(leader: Option<i32>) -> usize {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let Ok(below) = descendants(me) else { return 0 };
    let ended = below
        .iter()
        .filter(|child| child.ppid == me && !child.is_live() && Some(child.pid) != leader);
    ended
        .filter(|child| matches!(reap(child.pid), Reaped::Ended(_)) && stat(child.pid).is_ok())
        .count()
}

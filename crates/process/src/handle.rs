//! A process that is held by a pidfd: a signal meets it or nobody.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub use rustix::process::Signal as Sig;

use crate::proc_fs::{ProcStat, stat};

/// A process, held so that its pid cannot come to mean another one.
#[derive(Debug)]
pub struct Handle {
    pid: i32,
    start_ticks: u64,
    fd: OwnedFd,
}

impl Handle {
    /// Takes hold of a process if its stat, read behind the opening, is accepted; `None` if there is none or
    /// it is not accepted.
    pub fn open(pid: i32, accept: impl FnOnce(&ProcStat) -> bool) -> io::Result<Option<Self>> {
        let Some(raw) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Ok(None);
        };
        let fd = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => fd,
            // EINVAL: a thread, which is no process of its own.
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = stat(pid)?.filter(|found| accept(found));
        Ok(found.map(|found| Self {
            pid,
            start_ticks: found.start_ticks,
            fd,
        }))
    }

    /// Takes hold of the process that started at `start_ticks`, and of no other with its pid.
    pub fn of(pid: i32, start_ticks: u64) -> io::Result<Option<Self>> {
        Self::open(pid, |found| found.start_ticks == start_ticks && found.is_live())
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When it started, in clock ticks since boot.
    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Sends a signal. Returns whether there was still somebody to take it.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks it to end: SIGTERM, and SIGCONT behind it, without which a stopped process does not hear. Returns
    /// whether there was still somebody to ask.
    pub fn ask_to_end(&self) -> io::Result<bool> {
        Ok(self.signal(Signal::TERM)? && self.signal(Signal::CONT)?)
    }

    /// Sends a signal to the process group that it leads, also where the leader is a zombie.
    pub fn signal_group(&self, signal: Signal) -> io::Result<bool> {
        // The leader is not reaped while we hold the wake-up, so the group's number is still its own.
        let Some(raw) = Pid::from_raw(self.pid) else {
            return Ok(false);
        };
        match rustix::process::kill_process_group(raw, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it can still do anything. An error of /proc counts as alive.
    pub fn is_live(&self) -> bool {
        match stat(self.pid) {
            Ok(Some(found)) => found.start_ticks == self.start_ticks && found.is_live(),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}

impl AsFd for Handle {
    /// Readable once the process has ended: pidfd_open(2).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

//! Looking at processes of the machine through /proc.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its pid.
    pub pid: i32,
    /// When it started, in ticks since boot: with the pid it names one process and no other.
    pub start_ticks: u64,
    /// Its state's letter.
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// Its command line, for messages.
    pub command: String,
}

/// Looks at a process. `None` where there is none or nothing but a zombie.
pub fn look(pid: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and parentheses.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let state = fields.first()?.chars().next()?;
    if matches!(state, 'Z' | 'X') {
        return None;
    }
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(Seen {
        pid,
        start_ticks: fields.get(19)?.parse().ok()?,
        state,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        command: String::from_utf8_lossy(&command)
            .replace('\0', " ")
            .trim()
            .to_owned(),
    })
}

/// Whether the process that started at `start_ticks` with this pid lives.
pub fn lives(pid: i32, start_ticks: u64) -> bool {
    look(pid).is_some_and(|seen| seen.start_ticks == start_ticks)
}

/// Every process with `variable=value` in the environment that it was started with.
pub fn with_variable(variable: &str, value: &str) -> Vec<Seen> {
    let wanted = format!("{variable}={value}");
    let entries = fs::read_dir("/proc").expect("/proc can be listed");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|one| one == wanted.as_bytes())
    })
    .filter_map(look)
    .collect()
}

/// The largest amount of memory that was ever resident, in KiB; `None` where the process is gone.
pub fn high_water_kib(pid: i32) -> Option<u64> {
    status_number(pid, "VmHWM:")
}

/// How many threads a process has; `None` where it is gone.
pub fn threads(pid: i32) -> Option<u64> {
    status_number(pid, "Threads:")
}

fn status_number(pid: i32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Sends a signal, which finds nobody where the process has gone already.
pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).ok();
}

/// Reads what the fake agent's `pid` command wrote: pid and start ticks.
pub fn read_identity(file: &Path) -> Option<(i32, u64)> {
    let text = fs::read_to_string(file).ok()?;
    let (pid, ticks) = text.trim().split_once(' ')?;
    Some((pid.parse().ok()?, ticks.parse().ok()?))
}

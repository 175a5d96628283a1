//! Reads proc(5).

use std::fs;
use std::io;
use std::time::Duration;

/// What /proc/PID/stat says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcStat {
    /// The pid.
    pub pid: i32,
    /// One letter; `Z` and `X` are dead.
    pub state: char,
    /// The parent.
    pub ppid: i32,
    /// The process group.
    pub pgid: i32,
    /// The session.
    pub sid: i32,
    /// CPU time of the process and of the children that it reaped.
    pub cpu: Duration,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl ProcStat {
    /// Whether it can still do anything. A zombie cannot.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads a process's stat; `None` if there is no such process.
///
/// Any other failure is an error: it does not mean that the process is gone.
pub fn stat(pid: i32) -> io::Result<Option<ProcStat>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(bytes) => parse(&bytes)
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is odd"))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error of /proc says that the process is gone. A read can meet ESRCH behind a successful open.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn parse(bytes: &[u8]) -> Option<ProcStat> {
    // The name may hold blanks and parentheses: it ends at the last one.
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(bytes.get(..bytes.iter().position(|byte| *byte == b' ')?)?)
        .ok()?
        .parse()
        .ok()?;
    let rest = std::str::from_utf8(bytes.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    let ticks: i64 = (11..=14).map(number).sum::<Option<i64>>()?;
    Some(ProcStat {
        pid,
        state: fields.first()?.chars().next()?,
        ppid: i32::try_from(number(1)?).ok()?,
        pgid: i32::try_from(number(2)?).ok()?,
        sid: i32::try_from(number(3)?).ok()?,
        // The tick is 10 ms on every Linux that Rust runs on (USER_HZ).
        cpu: Duration::from_millis(u64::try_from(ticks).ok()? * 10),
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// All pids that there are at this moment.
pub(crate) fn pids() -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.push(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_is_passed_over() {
        let line = b"4242 (a) b () S 1 4242 4241 0 -1 4194560 1 2 3 4 10 20 3 4 20 0 1 0 987654 9 9";
        let stat = parse(line).unwrap();
        assert_eq!(
            (stat.pid, stat.state, stat.ppid, stat.pgid, stat.sid),
            (4242, 'S', 1, 4242, 4241)
        );
        assert_eq!(stat.start_ticks, 987_654);
        assert_eq!(stat.cpu, Duration::from_millis(370));
    }

    #[test]
    fn we_live_and_nobody_has_the_largest_pid() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(stat(me).unwrap().unwrap().is_live());
        assert_eq!(stat(i32::MAX).unwrap(), None);
    }
}

//! Who a process is: boot id, pid namespace, pid and start ticks together.

use std::fs;
use std::io;
use std::time::Duration;

use pod_core::Liveness;

use crate::proc_fs::stat;

/// The boot that this machine is in, by /proc/sys/kernel/random/boot_id.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// The inode of our pid namespace: pid_namespaces(7).
pub fn pid_namespace() -> io::Result<u64> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    let text = link.to_string_lossy();
    let inode = text.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'));
    inode
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self/ns/pid is odd"))
}

/// Time since boot that no clock step moves, suspend not included: CLOCK_MONOTONIC.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// The clock that the kernel stamps files with, in nanoseconds since 1970: it moves a tick at a time, every 1
/// to 10 ms (CLOCK_REALTIME_COARSE).
pub fn file_clock_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// How often the kernel has killed for memory since boot, by /proc/vmstat.
pub fn oom_kills_on_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Enough to prove that a pid is still the same process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot during which that holds.
    pub boot_id: String,
    /// The pid namespace in which the pid has its meaning.
    pub pid_ns: u64,
}

impl Identity {
    /// Our own.
    pub fn of_self() -> io::Result<Self> {
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let me = stat(pid)?.ok_or_else(|| io::Error::other("/proc does not show us to ourselves"))?;
        Ok(Self {
            pid,
            start_ticks: me.start_ticks,
            boot_id: boot_id()?,
            pid_ns: pid_namespace()?,
        })
    }

    /// Whether that process lives.
    ///
    /// A zombie is dead. Another boot id means dead and rebooted; another pid namespace of the same boot,
    /// or a /proc that does not answer, means unknown.
    pub fn liveness(&self) -> Liveness {
        let here = boot_id().and_then(|boot| Ok((boot, pid_namespace()?)));
        let (boot, namespace) = match here {
            Ok(here) => here,
            Err(error) => return Liveness::Unknown(format!("/proc does not answer: {error}")),
        };
        if boot != self.boot_id {
            return Liveness::Dead { rebooted: true };
        }
        if namespace != self.pid_ns {
            return Liveness::Unknown(format!("pid {} is of another pid namespace", self.pid));
        }
        match stat(self.pid) {
            Ok(Some(found)) if found.start_ticks == self.start_ticks && found.is_live() => Liveness::Alive,
            Ok(_) => Liveness::Dead { rebooted: false },
            Err(error) => Liveness::Unknown(format!("/proc/{} does not answer: {error}", self.pid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_identity_counts() {
        let me = Identity::of_self().unwrap();
        assert_eq!(me.liveness(), Liveness::Alive);
        let reused = Identity {
            start_ticks: me.start_ticks + 1,
            ..me.clone()
        };
        assert_eq!(reused.liveness(), Liveness::Dead { rebooted: false });
        let rebooted = Identity {
            boot_id: "another".into(),
            pid_ns: 1,
            ..me.clone()
        };
        assert_eq!(rebooted.liveness(), Liveness::Dead { rebooted: true });
        let elsewhere = Identity {
            pid_ns: me.pid_ns + 1,
            ..me
        };
        assert!(matches!(elsewhere.liveness(), Liveness::Unknown(_)));
    }
}

//! Ends what an agent left behind.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use pod_core::Survivor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::handle::{Handle, Sig};
use crate::identity::{boot_id, monotonic};

/// What resists SIGKILL for so long is left to the caller's record.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// The longest time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What a sweep did.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// How many processes it met and ended.
    pub ended: u32,
    /// What still lives.
    pub survivors: Vec<Survivor>,
}

/// Ends everything that `find` finds: SIGTERM, `grace` later SIGKILL, and again until nothing is found.
///
/// `find` is asked again at every look, so a process that was forked meanwhile is met too. `beat` is called
/// between looks: a wrapper has to prove that it lives here as well.
pub fn sweep(
    mut find: impl FnMut() -> io::Result<Vec<Handle>>,
    grace: Duration,
    mut beat: impl FnMut(),
) -> io::Result<SweepReport> {
    let start = monotonic();
    let mut met: BTreeMap<(i32, u64), bool> = BTreeMap::new();
    let mut failure = None;
    loop {
        let found = match find() {
            Ok(found) => found,
            Err(error) if monotonic() - start > grace + KILL_LIMIT => return Err(error),
            Err(error) => {
                failure = Some(error);
                Vec::new()
            }
        };
        let elapsed = monotonic() - start;
        if found.is_empty() && failure.is_none() {
            return Ok(report(&met, &[]));
        }
        if elapsed >= grace + KILL_LIMIT {
            return Ok(report(&met, &found));
        }
        for process in &found {
            let killed = met
                .entry((process.pid(), process.start_ticks()))
                .or_insert_with(|| {
                    let _asked = process.ask_to_end();
                    false
                });
            if elapsed >= grace && !*killed {
                // One that may not be signalled stays in the next look, and in the end among the survivors.
                let _delivered = process.signal(Sig::KILL);
                *killed = true;
            }
        }
        failure = None;
        beat();
        rest(
            &found,
            if elapsed < grace {
                (grace - elapsed).min(LOOK)
            } else {
                LOOK
            },
        );
    }
}

/// Waits until one of them ends, but not longer than `limit`.
fn rest(found: &[Handle], limit: Duration) {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(limit.subsec_nanos().max(1_000_000)),
    };
    let mut fds: Vec<PollFd<'_>> = found.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
    // An interrupted wait is a short one.
    let _ready = poll(&mut fds, Some(&limit));
}

fn report(met: &BTreeMap<(i32, u64), bool>, left: &[Handle]) -> SweepReport {
    let boot = boot_id().unwrap_or_default();
    let survivors: Vec<Survivor> = left
        .iter()
        .map(|one| Survivor {
            pid: one.pid(),
            start_ticks: one.start_ticks(),
            boot_id: boot.clone(),
        })
        .collect();
    let ended = met.len().saturating_sub(survivors.len());
    SweepReport {
        ended: u32::try_from(ended).unwrap_or(u32::MAX),
        survivors,
    }
}

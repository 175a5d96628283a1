//! The wrappers that this podd has started.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use pod_core::{ExitStatus, PodId};
use pod_process::{Launched, Output, Reaped};
use tracing::{error, info, warn};

/// After a refusal a pod is left alone for so long, and twice as long each further time.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Started {
    pod: PodId,
    launched: Launched,
    output: Output,
    claimed: bool,
}

#[derive(Debug, Default)]
struct Rest {
    refusals: u32,
    until: Duration,
}

/// Wrappers between start and reaping, and pods whose wrapper refused.
#[derive(Debug, Default)]
pub(crate) struct Children {
    started: Vec<Started>,
    resting: HashMap<PodId, Rest>,
}

impl Children {
    pub(crate) fn add(&mut self, pod: PodId, launched: Launched, output: Output) {
        self.started.push(Started {
            pod,
            launched,
            output,
            claimed: false,
        });
    }

    /// Pods whose wrapper has not claimed yet.
    pub(crate) fn starting(&self) -> BTreeSet<PodId> {
        self.started
            .iter()
            .filter(|one| !one.claimed)
            .map(|one| one.pod.clone())
            .collect()
    }

    /// Whether a pod is left alone because its wrapper refused; until when.
    pub(crate) fn rests(&self, pod: &PodId, monotonic: Duration) -> Option<Duration> {
        self.resting
            .get(pod)
            .map(|rest| rest.until)
            .filter(|until| *until > monotonic)
    }

    /// Takes note of a record that shows what `pid` has claimed.
    pub(crate) fn claimed(&mut self, pid: i32) {
        if let Some(one) = self
            .started
            .iter_mut()
            .find(|one| one.launched.handle.pid() == pid)
        {
            one.claimed = true;
            self.resting.remove(&one.pod);
        }
    }

    /// Whether a pid is one of ours.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.started.iter().any(|one| one.launched.handle.pid() == pid)
    }

    /// Reaps those that have ended and says what they could not do.
    pub(crate) fn reap(&mut self, monotonic: Duration) {
        let resting = &mut self.resting;
        self.started.retain(|one| {
            let pid = one.launched.handle.pid();
            match pod_process::reap(pid) {
                Reaped::Lives => return true,
                Reaped::NotOurs => return one.launched.handle.is_live(),
                Reaped::Ended(ExitStatus::Code(0)) => {
                    resting.remove(&one.pod);
                }
                Reaped::Ended(ExitStatus::Code(2)) => {
                    let rest = resting.entry(one.pod.clone()).or_default();
                    rest.refusals += 1;
                    let wait = FIRST_REST.saturating_mul(1 << rest.refusals.min(8).saturating_sub(1)).min(LONGEST_REST);
                    rest.until = monotonic + wait;
                    let said = one.output.text();
                    // A claim that somebody else was faster with is no trouble.
                    if rest.refusals > 1 || !said.contains("still running") {
                        warn!(pod = %one.pod, pid, error = %said, retry_in_s = wait.as_secs(), "wrapper claimed nothing");
                    }
                }
                Reaped::Ended(ExitStatus::Code(1)) => {
                    error!(pod = %one.pod, pid, error = %one.output.text(), "wrapper could not record its outcome");
                }
                Reaped::Ended(status) => {
                    info!(pod = %one.pod, pid, ?status, "wrapper ended without a word; its wake-up will be settled");
                }
            }
            false
        });
    }
}

//! The wrappers that this podd has started.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use pod_core::{ExitStatus, PodId, PodRecord};
use pod_process::{Launched, Output, Reaped};
use tracing::{error, info, warn};

/// After a refusal a pod is left alone for so long, and twice as long each further time.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Started {
    pod: PodId,
    /// How many wake-ups the pod had had when it was started.
    count: u32,
    launched: Launched,
    output: Output,
    claimed: bool,
}

#[derive(Debug, Default)]
struct Rest {
    refusals: u32,
    until: Duration,
}

impl Rest {
    fn after_refusal(&mut self, monotonic: Duration) -> Duration {
        self.refusals += 1;
        let doublings = self.refusals.min(8).saturating_sub(1);
        let wait = FIRST_REST.saturating_mul(1 << doublings).min(LONGEST_REST);
        self.until = monotonic + wait;
        wait
    }
}

/// Wrappers between start and reaping, and pods whose wrapper refused.
#[derive(Debug, Default)]
pub(crate) struct Children {
    started: Vec<Started>,
    resting: HashMap<PodId, Rest>,
}

impl Children {
    pub(crate) fn add(&mut self, record: &PodRecord, launched: Launched, output: Output) {
        self.started.push(Started {
            pod: record.id.clone(),
            count: record.wake_up_count,
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
    ///
    /// `count` reads how many wake-ups a pod has had: a short one may have been claimed and recorded between two
    /// looks. A wrapper that ends without a claim, however it ends, is not started again at once.
    pub(crate) fn reap(&mut self, monotonic: Duration, count: impl Fn(&PodId) -> Option<u32>) {
        let resting = &mut self.resting;
        self.started.retain(|one| {
            let (pod, pid) = (&one.pod, one.launched.handle.pid());
            let status = match pod_process::reap(pid) {
                Reaped::Lives => return true,
                Reaped::NotOurs => return one.launched.handle.is_live(),
                Reaped::Ended(status) => status,
            };
            let said = one.output.text();
            // A gate counts nothing: what it says by its end is believed.
            let said_so = matches!(status, ExitStatus::Code(0 | 1));
            let claimed = one.claimed || said_so || count(pod).is_none_or(|now| now > one.count);
            if !claimed {
                let wait = resting.entry(pod.clone()).or_default().after_refusal(monotonic);
                // A claim that somebody else was faster with is no trouble.
                if !said.contains("still running") {
                    warn!(%pod, pid, ?status, error = %said, retry_in_s = wait.as_secs(), "wrapper claimed nothing");
                }
                return false;
            }
            resting.remove(pod);
            match status {
                ExitStatus::Code(0) => {}
                ExitStatus::Code(1) => error!(%pod, pid, error = %said, "wrapper could not record its outcome"),
                ExitStatus::Code(_) | ExitStatus::Signal(_) => {
                    info!(%pod, pid, ?status, "wrapper ended without a word; its wake-up will be settled");
                }
            }
            false
        });
    }
}

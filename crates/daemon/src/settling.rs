//! Dead wake-ups that are being settled, and gated pods that are being reconciled, beside the loop: a sweep, and a
//! look at a worktree, take as long as they may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pod_core::{PodId, PodView};
use pod_process::monotonic;
use pod_registry::Registry;
use tokio::sync::mpsc;

use crate::act::{Attempt, reconcile, settle};

/// An attempt that did not end in the record is not made again at once.
const AGAIN: Duration = Duration::from_secs(1);

/// What takes longer than a pass may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Settle a dead wake-up or gate.
    Settle,
    /// The same, killing a wrapper first that does not answer.
    KillWedged,
    /// Reconcile a gated pod.
    Reconcile,
}

/// Which pods are being settled, and which wait for the next attempt.
#[derive(Debug)]
pub(crate) struct Settling {
    running: BTreeSet<PodId>,
    resting: BTreeMap<PodId, Duration>,
    done: mpsc::UnboundedSender<(PodId, Attempt)>,
    ended: mpsc::UnboundedReceiver<(PodId, Attempt)>,
}

impl Settling {
    pub(crate) fn new() -> Self {
        let (done, ended) = mpsc::unbounded_channel();
        Self {
            running: BTreeSet::new(),
            resting: BTreeMap::new(),
            done,
            ended,
        }
    }

    /// Whether nothing else may be done to a pod now.
    pub(crate) fn has(&self, pod: &PodId) -> bool {
        self.running.contains(pod)
    }

    /// Whether no attempt runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether a further attempt is waited for.
    pub(crate) fn rests(&self) -> bool {
        self.resting.values().any(|until| monotonic() < *until)
    }

    /// Begins a job, unless one of the same pod has just been tried in vain.
    pub(crate) fn begin(&mut self, registry: &Registry, view: &PodView, job: Job) {
        let id = view.record.id.clone();
        if self.resting.get(&id).is_some_and(|until| monotonic() < *until) {
            return;
        }
        self.resting.remove(&id);
        self.running.insert(id.clone());
        let (registry, record, policy) = (registry.clone(), view.record.clone(), view.policy.clone());
        let done = self.done.clone();
        tokio::task::spawn_blocking(move || {
            let attempt = match job {
                Job::Settle => settle(&registry, &record, &policy, false),
                Job::KillWedged => settle(&registry, &record, &policy, true),
                Job::Reconcile => reconcile(&registry, &record, &policy),
            };
            // Nobody waits any more only if podd stops.
            let _told = done.send((id, attempt));
        });
    }

    /// Waits until an attempt has ended.
    pub(crate) async fn ended(&mut self) {
        // We hold a sender ourselves, so the channel is never closed.
        let Some((pod, attempt)) = self.ended.recv().await else {
            return;
        };
        self.running.remove(&pod);
        if attempt == Attempt::Unfinished {
            self.resting.insert(pod, monotonic() + AGAIN);
        }
    }
}

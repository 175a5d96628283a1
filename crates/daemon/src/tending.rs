//! What is done for pods that sleep, beside the loop: a checkpoint that is missing is written, and what is too old
//! is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pod_config::Config;
use pod_core::{LOOK_AGAIN, PodId, PodRecord, error_chain};
use pod_process::monotonic;
use pod_reconcile::{PodFiles, ensure_checkpoint, forget_old, now, take_wake_lock};
use pod_registry::Registry;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

/// Pods that are looked at in one go.
const AT_ONCE: usize = 200;

/// Which pods have to be looked at.
#[derive(Debug)]
pub(crate) struct Tending {
    /// The last wake-up of each pod that was seen to have an outcome.
    seen: BTreeMap<PodId, u32>,
    pending: BTreeSet<PodId>,
    running: bool,
    everything_at: Duration,
    done: mpsc::UnboundedSender<Vec<PodId>>,
    ended: mpsc::UnboundedReceiver<Vec<PodId>>,
}

impl Tending {
    pub(crate) fn new() -> Self {
        let (done, ended) = mpsc::unbounded_channel();
        Self {
            seen: BTreeMap::new(),
            pending: BTreeSet::new(),
            running: false,
            everything_at: monotonic() + LOOK_AGAIN,
            done,
            ended,
        }
    }

    /// Takes note of all records: those with a new outcome have to be looked at, and from time to time all.
    pub(crate) fn note(&mut self, records: &[Arc<PodRecord>]) {
        let all = monotonic() >= self.everything_at;
        if all {
            self.everything_at = monotonic() + LOOK_AGAIN;
        }
        let mut seen = BTreeMap::new();
        for record in records {
            let Some(last) = record.last() else { continue };
            if all || self.seen.get(&record.id) != Some(&last.n) {
                self.pending.insert(record.id.clone());
            }
            seen.insert(record.id.clone(), last.n);
        }
        self.pending.retain(|pod| seen.contains_key(pod));
        self.seen = seen;
    }

    /// Whether anything is left to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && !self.running
    }

    /// How many looks it takes until every pod has had one.
    pub(crate) fn rounds(&self) -> usize {
        self.pending.len().div_ceil(AT_ONCE) + usize::from(self.running)
    }

    /// Begins to look at pods, unless that goes on already.
    pub(crate) fn begin(&mut self, registry: &Registry, config: &Config) {
        if self.running || self.pending.is_empty() {
            return;
        }
        let batch: Vec<PodId> = self.pending.iter().take(AT_ONCE).cloned().collect();
        for pod in &batch {
            self.pending.remove(pod);
        }
        self.running = true;
        let (registry, config, done) = (registry.clone(), config.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let again = batch
                .into_iter()
                .filter(|pod| !tend(&registry, &config, pod))
                .collect();
            // Nobody waits any more only if podd stops.
            let _told = done.send(again);
        });
    }

    /// Waits until a look has ended.
    pub(crate) async fn ended(&mut self) {
        // We hold a sender ourselves, so the channel is never closed.
        let Some(again) = self.ended.recv().await else {
            return;
        };
        self.running = false;
        self.pending.extend(again);
    }
}

/// Looks at one pod. Returns whether nothing is left to do.
fn tend(registry: &Registry, config: &Config, pod: &PodId) -> bool {
    // One that is gone, or cannot be read, is somebody else's to mend.
    let Ok(record) = registry.read(pod) else {
        return true;
    };
    // One that is awake is seen again at its end.
    if record.current.is_some() {
        return true;
    }
    let files = PodFiles::new(&record.project, pod);
    // Looking must not make what a person has removed.
    if !matches!(files.stat(files.layout().root()), Ok(Some(_))) {
        return true;
    }
    let _held = match take_wake_lock(&files) {
        Ok(Some(held)) => held,
        // Its wrapper winds down.
        Ok(None) => return false,
        Err(error) => {
            debug!(%pod, error = %error_chain(&error), "pod could not be looked after");
            return true;
        }
    };
    let Ok(record) = registry.read(pod) else {
        return true;
    };
    match ensure_checkpoint(&files, &record) {
        Ok(true) => info!(%pod, "missing checkpoint written"),
        Ok(false) => {}
        Err(error) => warn!(%pod, error = %error_chain(&error), "checkpoint could not be written"),
    }
    match forget_old(&files, &record, &config.policy_for(&record.policy), now()) {
        Ok(forgotten) if forgotten.is_empty() => {}
        Ok(forgotten) => info!(%pod, wakeups = ?forgotten, "old wake-ups forgotten"),
        Err(error) => warn!(%pod, error = %error_chain(&error), "old wake-ups could not be forgotten"),
    }
    true
}

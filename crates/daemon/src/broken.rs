//! Records that cannot be read: set aside once nothing of their pod runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pod_core::{PodId, PodState, error_chain};
use pod_process::monotonic;
use pod_reconcile::{Observation, PodFiles, take_wake_lock};
use pod_registry::{Fault, Registry, Unreadable};
use tracing::{debug, error, warn};

/// A broken record is set aside if it is still broken after so long.
pub(crate) const BROKEN_FOR: Duration = Duration::from_secs(2);

/// What is known of pods whose record broke.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// Since when a record is broken.
    since: BTreeMap<String, Duration>,
    /// Where the running pods lay when their records could be read.
    projects: HashMap<PodId, String>,
    /// Records of a newer version, of which it was said that they are left alone.
    newer: BTreeSet<String>,
}

impl Broken {
    /// Keeps in mind where running pods lie: a record that breaks meanwhile does not say it any more.
    pub(crate) fn remember(&mut self, observation: &Observation) {
        let mut at_rest = BTreeSet::new();
        for record in &observation.records {
            if record.state != PodState::Active {
                at_rest.insert(&record.id);
            } else if !self.projects.contains_key(&record.id) {
                self.projects.insert(record.id.clone(), record.project.clone());
            }
        }
        self.projects.retain(|id, _| !at_rest.contains(id));
    }

    /// Moves aside what stays broken while nothing of its pod runs.
    pub(crate) fn set_aside(&mut self, registry: &Registry, unreadable: &[Unreadable]) {
        let broken = || unreadable.iter().filter(|one| one.fault == Fault::Broken);
        self.since.retain(|id, _| broken().any(|one| one.id == *id));
        for one in broken() {
            self.set_one_aside(registry, one);
        }
        self.newer.retain(|id| unreadable.iter().any(|one| one.id == *id));
        for one in unreadable.iter().filter(|one| one.fault == Fault::Newer) {
            if self.newer.insert(one.id.clone()) {
                warn!(pod = %one.id, error = %one.error, "record is of a newer version and is left alone");
            }
        }
    }

    /// Whether a record is broken and not set aside yet.
    pub(crate) fn any(&self) -> bool {
        !self.since.is_empty()
    }

    fn set_one_aside(&mut self, registry: &Registry, unreadable: &Unreadable) {
        let since = *self.since.entry(unreadable.id.clone()).or_insert_with(|| {
            error!(pod = %unreadable.id, error = %unreadable.error, "record cannot be read");
            monotonic()
        });
        let Ok(id) = unreadable.id.parse::<PodId>() else {
            return;
        };
        if monotonic() < since + BROKEN_FOR || something_runs(&id, self.projects.get(&id)) {
            return;
        }
        let moved = registry
            .lock(&id, Duration::from_secs(1))
            .and_then(|locked| locked.quarantine());
        match moved {
            Ok(file) => {
                error!(pod = %id, file = %file.display(), "broken record set aside: `podctl doctor` says what to do");
            }
            Err(error) => debug!(pod = %id, error = %error_chain(&error), "broken record not set aside"),
        }
    }
}

/// Whether anything of a pod runs, by its wake-up's lock and by what processes' environments and arguments say.
fn something_runs(pod: &PodId, project: Option<&String>) -> bool {
    let lock = project.map(|project| take_wake_lock(&PodFiles::new(project, pod)));
    if matches!(lock, Some(Ok(None))) || pod_process::runs_with_argument("pod-wrapper", pod.as_str()) {
        return true;
    }
    let mark = pod_process::Mark {
        variable: format!("AGENTS_POD_POD_ID={pod}"),
        session: None,
    };
    // What cannot be looked for may be there.
    pod_process::marked(&mark).map_or(true, |found| !found.is_empty())
}

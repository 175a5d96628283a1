//! Forgets what is too old or too much of a pod: directories, checkpoints and refs of wake-ups.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pod_checkpoints::{GitError, Repository};
use pod_core::{Kept, PodId, PodRecord, Policy, Timestamp, forgettable, in_use, saved_refs};
use pod_disk::DiskError;

use crate::aftermath::look;
use crate::files::PodFiles;

/// How long git may take to forget refs.
const GIT_LIMIT: Duration = Duration::from_secs(20);

/// Why something was not forgotten. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// The files could not be removed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The refs could not be removed.
    #[error("refs of old wake-ups could not be removed")]
    Git(#[from] GitError),
}

/// Forgets the wake-ups that a pod's policy does not keep, and returns their numbers. The pod's wake-up lock has to
/// be in the caller's hands.
pub fn forget_old(
    files: &PodFiles,
    record: &PodRecord,
    policy: &Policy,
    now: Timestamp,
) -> Result<Vec<u32>, ForgetError> {
    let layout = files.layout();
    let mut known: BTreeMap<u32, Option<Timestamp>> = BTreeMap::new();
    for n in files.wakeup_numbers()? {
        known.insert(n, None);
    }
    for name in pod_disk::list_below(layout.project(), &layout.below(&layout.checkpoint_runs()))? {
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".md")?.parse().ok());
        if let Some(n) = number {
            known.entry(n).or_insert(None);
        }
    }
    let kept = known.into_keys().map(|n| Kept {
        n,
        at: record
            .entry(n)
            .and_then(|entry| entry.ended_at)
            .or_else(|| changed_at(files, n)),
    });
    let messages = |n| {
        files
            .stat(&layout.wakeup(n).join("inbox"))
            .is_ok_and(|found| found.is_some())
    };
    let forgotten = forgettable(kept.collect(), policy, &in_use(record, messages), now);
    if forgotten.is_empty() {
        return Ok(forgotten);
    }
    // The refs first: a directory that still stands is looked at again.
    forget_saved_work(layout.project(), &record.id, |n| forgotten.contains(&n))?;
    // One that resists does not keep the others.
    let mut failed = None;
    for n in &forgotten {
        let removed = files
            .remove(&layout.checkpoint(*n))
            .and_then(|()| pod_disk::remove_tree_below(layout.project(), &layout.below(&layout.wakeup(*n))));
        failed = failed.or(removed.err());
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(forgotten),
    }
}

/// Removes the refs that keep the uncommitted work of these wake-ups of a pod.
pub fn forget_saved_work(project: &Path, pod: &PodId, of: impl Fn(u32) -> bool) -> Result<(), GitError> {
    let Some(repository) = Repository::find(project, &look(GIT_LIMIT, None))? else {
        return Ok(());
    };
    let prefix = saved_refs(pod);
    let mut names = repository.refs(&prefix)?;
    names.retain(|name| {
        let number = name.strip_prefix(&prefix).and_then(|number| number.parse().ok());
        number.is_some_and(&of)
    });
    if names.is_empty() {
        return Ok(());
    }
    repository.remove_refs(&names)
}

/// When anything of a wake-up that the record has forgotten was last changed.
fn changed_at(files: &PodFiles, n: u32) -> Option<Timestamp> {
    let layout = files.layout();
    let places = [layout.wakeup(n), layout.checkpoint(n)];
    let changed = places.iter().filter_map(|place| files.stat(place).ok().flatten());
    let newest = changed.map(|found| found.mtime_ns / 1_000_000).max()?;
    i64::try_from(newest).ok().map(Timestamp::from_millis)
}

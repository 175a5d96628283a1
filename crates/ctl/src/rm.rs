//! `podctl rm`: forgets pods that are over.

use std::path::Path;
use std::time::{Duration, Instant};

use pod_core::{PodId, PodLayout, PodRecord, WAVES, saved_refs};
use pod_disk::{DiskError, FileKind};
use pod_reconcile::{PodFiles, forget_saved_work, take_wake_lock};

use crate::args::Rm;
use crate::context::{Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault};
use crate::{each, ui};

/// How long what still works on a pod may take to come to its end.
const WINDS_DOWN: Duration = Duration::from_secs(5);

/// Removes pods.
pub(crate) fn run(context: &Context, args: &Rm) -> Ended {
    each(&args.pods.ids, |id| {
        let_it_end(context, id)?;
        if args.purge {
            // First, so that it can be tried again where git is in trouble.
            forget_refs(context, id)?;
        }
        let record = forget(context, id)?;
        if args.purge {
            purge(&record)?;
        } else if PodLayout::new(&record.project, id).root().exists() {
            let root = PodLayout::new(&record.project, id).root().to_owned();
            ui::note(&format!(
                "its files stay, and its id stays taken: `{}`",
                pod_disk::shown(&root)
            ));
        }
        Ok(Exit::Done)
    })
}

fn forget(context: &Context, id: &PodId) -> Result<PodRecord, Fault> {
    let cannot = format!("cannot remove pod `{id}`");
    let registry = context.registry()?;
    let locked = registry
        .lock(id, LOCK_WAIT)
        .map_err(|error| Fault::of(&cannot, &error))?;
    let record = locked.read().map_err(|error| Fault::of(&cannot, &error))?;
    if !record.state.is_terminal() {
        let hint = format!("cancel it first: `podctl cancel --wait {id}`");
        return Err(Fault::new(cannot, hint).caused_by(format!("pod `{id}` is {}", record.state)));
    }
    if record.current.is_some() || winds_down(&record) {
        let hint = format!("wait for it: `podctl cancel --wait {id}`");
        return Err(Fault::new(cannot, hint).caused_by("something of it is still running"));
    }
    locked.remove().map_err(|error| Fault::of(&cannot, &error))?;
    Ok(record)
}

/// Whether the wrapper of its last wake-up has not gone yet, or a podd looks after it.
fn winds_down(record: &PodRecord) -> bool {
    let files = PodFiles::new(&record.project, &record.id);
    // Asking makes the pod's directory, so one that is gone is not asked for.
    files.layout().wake_lock().exists() && matches!(take_wake_lock(&files), Ok(None))
}

/// Gives what still works on a pod that is over a moment to come to its end, before anything is locked.
fn let_it_end(context: &Context, id: &PodId) -> Result<(), Fault> {
    let record = context.read(id)?;
    let deadline = Instant::now() + WINDS_DOWN;
    while record.state.is_terminal() && winds_down(&record) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Removes the refs that keep the pod's uncommitted work.
fn forget_refs(context: &Context, id: &PodId) -> Result<(), Fault> {
    let record = context.read(id)?;
    let project = Path::new(&record.project);
    if !project.is_dir() || !record.state.is_terminal() {
        return Ok(());
    }
    forget_saved_work(project, &record.id, |_| true).map_err(|error| {
        let refs = saved_refs(&record.id);
        let message = format!("cannot remove pod `{id}`: the refs of its uncommitted work cannot be removed");
        let hint = format!("`git for-each-ref {refs}` lists them, `git update-ref -d REF` removes one");
        Fault::new(message, hint).because(&error)
    })
}

/// Removes a pod's directory with all that is in it, and follows no symlink.
fn purge(record: &PodRecord) -> Result<(), Fault> {
    let layout = PodLayout::new(&record.project, &record.id);
    let root = layout.root();
    let failed = |error: DiskError| {
        let shown = pod_disk::shown(root);
        let message = format!("pod `{}` is removed, but not its directory", record.id);
        Fault::new(message, format!("remove `{shown}` by hand")).because(&error)
    };
    debug_assert_ne!(record.id.as_str(), WAVES, "an id is checked when it is read");
    let found = pod_disk::stat_below(Path::new(&record.project), &layout.below(root));
    match found {
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(None) => Ok(()),
        Ok(Some(stamp)) if stamp.kind == FileKind::Dir => {
            std::fs::remove_dir_all(root).map_err(|error| failed(DiskError::new("remove", root, error)))
        }
        Ok(Some(_)) => Err(failed(DiskError::new(
            "remove",
            root,
            std::io::ErrorKind::NotADirectory,
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::words::tests::record;

    use super::*;

    #[test]
    fn a_purge_removes_one_directory_and_follows_no_symlink() {
        let directory = tempfile::tempdir().unwrap();
        let (project, elsewhere) = (directory.path().join("p"), directory.path().join("e"));
        let mut pod = record();
        pod.project = project.to_str().unwrap().to_owned();
        let layout = PodLayout::new(&pod.project, &pod.id);
        std::fs::create_dir_all(layout.docs()).unwrap();
        std::fs::create_dir_all(elsewhere.join("kept")).unwrap();
        symlink(&elsewhere, layout.docs().join("link")).unwrap();
        purge(&pod).unwrap();
        assert!(!layout.root().exists() && layout.base().exists());
        purge(&pod).unwrap();

        std::fs::remove_dir(layout.base()).unwrap();
        std::fs::create_dir(elsewhere.join(pod.id.as_str())).unwrap();
        symlink(&elsewhere, layout.base()).unwrap();
        assert!(purge(&pod).unwrap_err().text().contains("by hand"));
        symlink(&elsewhere, project.join("x")).unwrap();
        assert!(elsewhere.join("kept").exists() && elsewhere.join(pod.id.as_str()).exists());
    }
}

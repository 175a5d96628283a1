//! Directories below a directory that others may write: listed, locked in and removed, following no symlink.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guarded::parent_of;
use crate::{DiskError, FileLock, LockError, LockMode};

/// The names in a directory below `base`, in order; none if it is not there.
///
/// A symlink to a directory is an error. What the names stand for is not looked at.
pub fn list_below(base: &Path, rel: &Path) -> Result<Vec<OsString>, DiskError> {
    let list = || -> io::Result<Vec<OsString>> {
        // The last component is opened as those before it are: by going one further.
        let (directory, _) = parent_of(base, &rel.join("x"))?;
        let entries = fs::read_dir(held(&directory, None))?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| DiskError::new("list", base.join(rel), source)),
    }
}

/// Removes a directory below `base` with all that is in it, if it is there. A symlink in it is removed and not
/// followed; one on the way to it, or in its own place, is an error.
pub fn remove_tree_below(base: &Path, rel: &Path) -> Result<(), DiskError> {
    let remove = || -> io::Result<()> {
        let (directory, last) = parent_of(base, rel)?;
        let name = last.ok_or(io::ErrorKind::InvalidInput)?;
        let place = held(&directory, Some(&name));
        if !fs::symlink_metadata(&place)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        fs::remove_dir_all(place)
    };
    match remove() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| DiskError::new("remove", base.join(rel), source)),
    }
}

/// Takes a lock whose file lies below `base`, waiting for up to `wait`.
pub fn lock_below(base: &Path, rel: &Path, mode: LockMode, wait: Duration) -> Result<FileLock, LockError> {
    let failed = |source| DiskError::new("open the lock", base.join(rel), source);
    let (directory, last) = parent_of(base, rel).map_err(failed)?;
    let name = last.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
    FileLock::take(&held(&directory, Some(&name)), mode, wait).map_err(|error| match error {
        LockError::Busy { waited, holders, .. } => LockError::Busy {
            path: base.join(rel),
            waited,
            holders,
        },
        LockError::Disk(error) => failed(error.source).into(),
    })
}

/// A path to what a held directory contains, wherever its own path may lead by now: proc(5), fd.
fn held(directory: &OwnedFd, name: Option<&OsString>) -> PathBuf {
    let place = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    match name {
        Some(name) => place.join(name),
        // A slash at the end: the link itself is no directory.
        None => place.join("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_goes_and_nothing_that_it_points_to() {
        let (base, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("kept"), "x").unwrap();
        fs::create_dir_all(base.path().join("a/b/c")).unwrap();
        symlink(outside.path(), base.path().join("a/b/link")).unwrap();
        symlink(outside.path(), base.path().join("out")).unwrap();
        assert_eq!(list_below(base.path(), Path::new("a/b")).unwrap(), ["c", "link"]);
        assert!(list_below(base.path(), Path::new("none")).unwrap().is_empty());
        for led_astray in ["out", "out/x", "a/b/link", "../x"] {
            assert!(
                list_below(base.path(), Path::new(led_astray)).is_err(),
                "{led_astray}"
            );
            assert!(
                remove_tree_below(base.path(), Path::new(led_astray)).is_err(),
                "{led_astray}"
            );
        }
        remove_tree_below(base.path(), Path::new("a/b")).unwrap();
        remove_tree_below(base.path(), Path::new("a/b")).unwrap();
        assert!(base.path().join("a").exists() && !base.path().join("a/b").exists());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn a_lock_below_excludes_and_names_its_own_path() {
        let base = tempfile::tempdir().unwrap();
        let rel = Path::new("lock");
        let take = |wait| lock_below(base.path(), rel, LockMode::Exclusive, wait);
        let held = take(Duration::ZERO).unwrap();
        let refused = take(Duration::ZERO).unwrap_err().to_string();
        assert!(
            refused.contains(base.path().join("lock").to_str().unwrap()),
            "{refused}"
        );
        held.unlock();
        take(Duration::ZERO).unwrap().unlock();
        symlink("/tmp", base.path().join("dir")).unwrap();
        assert!(
            lock_below(
                base.path(),
                Path::new("dir/lock"),
                LockMode::Exclusive,
                Duration::ZERO
            )
            .is_err()
        );
    }
}

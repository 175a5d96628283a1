//! Replacing and removing files so that after a crash there is the old version or the new one.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::DiskError;

/// Replaces a file, mode 0600, by one that holds `bytes`.
///
/// Once it returns, the new version survives a power loss. At every instant before, under any kill, the old
/// version stands whole or the new one does. A process that is killed on the way leaves a file beside it
/// whose name begins with a dot and the name of this one.
pub fn replace_durably(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let failed = |source| DiskError::new("replace", path, source);
    let temporary = write_beside(path, bytes).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    sync_directory(directory_of(path)).map_err(failed)
}

/// Replaces a file as [`replace_durably`] does, but for the power loss: then it may be empty or old.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let failed = |source| DiskError::new("replace", path, source);
    let temporary = write_beside(path, bytes).map_err(failed)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Removes a file so that it stays removed. One that is not there is no error.
pub fn remove_durably(path: &Path) -> Result<(), DiskError> {
    let failed = |source| DiskError::new("remove", path, source);
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(()) => sync_directory(directory_of(path)).map_err(failed),
    }
}

/// Moves a file within one file system so that it stays moved.
pub fn move_durably(from: &Path, to: &Path) -> Result<(), DiskError> {
    let failed = |source| DiskError::new("move", from, source);
    fs::rename(from, to).map_err(failed)?;
    sync_directory(directory_of(to)).map_err(failed)?;
    sync_directory(directory_of(from)).map_err(failed)
}

/// Creates a directory and what is missing above it, each with mode 0700.
///
/// It syncs nothing: a file that is written durably below takes the names of the directories above it to
/// the disk, since journals keep their order.
pub fn create_dirs(path: &Path) -> Result<(), DiskError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|source| DiskError::new("create the directory", path, source))
}

/// Writes a file beside `path`, in the same directory since a rename works within one file system only.
/// Dropping it removes it.
fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    prefix.push(".");
    let mut temporary = tempfile::Builder::new()
        .prefix(&prefix)
        .tempfile_in(directory_of(path))?;
    // To the file itself: the wrapper around it would hide the system's own error code.
    temporary.as_file_mut().write_all(bytes)?;
    Ok(temporary)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    }

    #[test]
    fn a_replaced_file_is_private_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        replace_durably(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["record.json"]);
    }

    #[test]
    fn a_failed_replace_keeps_the_old_version_and_removes_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        fs::create_dir(&path).unwrap();
        let error = replace_durably(&path, b"x").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot replace `{}`", path.display()));
        assert!(!error.is_full());
        assert_eq!(names(directory.path()), ["target"]);
        let missing = replace_durably(&directory.path().join("no/such"), b"x").unwrap_err();
        assert!(missing.is_missing());
    }

    #[test]
    fn a_symlink_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        replace_durably(&link, b"ours").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn removing_and_moving_are_final_and_removing_twice_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        replace(&one, b"x").unwrap();
        move_durably(&one, &two).unwrap();
        assert_eq!(names(directory.path()), ["two"]);
        remove_durably(&two).unwrap();
        remove_durably(&two).unwrap();
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn new_directories_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("a/b");
        create_dirs(&deep).unwrap();
        create_dirs(&deep).unwrap();
        for path in [directory.path().join("a"), deep] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_full_disk_is_known_as_such() {
        let full = DiskError::new("write", "/dev/full", rustix::io::Errno::NOSPC);
        let quota = DiskError::new("write", "/x", rustix::io::Errno::DQUOT);
        assert!(full.is_full() && quota.is_full());
        let error = File::create("/dev/full").unwrap().write_all(b"x").unwrap_err();
        assert!(DiskError::new("write", "/dev/full", error).is_full());
    }
}

//! Opens below a directory that others may write, following no symlink and hanging at no FIFO.
//!
//! The way down is taken one component at a time, each opened relative to the one above it, so that nobody
//! can exchange a directory for a symlink between a check and its use. The base itself is trusted.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::DiskError;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symlink, which was not followed.
    Symlink,
    /// A FIFO, a socket or a device.
    Other,
}

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// What it is.
    pub kind: FileKind,
    /// Its inode, which changes when the file is replaced.
    pub inode: u64,
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970, by the clock of the file system.
    pub mtime_ns: i128,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenKind {
    /// To read what is there.
    Read,
    /// To add at its end; created with mode 0600 if missing.
    Append,
    /// To write it anew; created with mode 0600 if missing.
    Write,
    /// To write over what is there, which stays until then; created with mode 0600 if missing.
    Overwrite,
}

impl OpenKind {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Append => OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
            // Truncated once it is known to be a regular file.
            Self::Write | Self::Overwrite => OFlags::WRONLY | OFlags::CREATE,
        }
    }
}

/// Creates a directory below `base` and what is missing on the way, each with mode 0700.
///
/// Whatever stands in the way and is no directory, a symlink to one included, is an error.
pub fn create_dirs_below(base: &Path, rel: &Path) -> Result<(), DiskError> {
    let create = || -> io::Result<()> {
        let mut at = open_base(base)?;
        for name in components(rel)? {
            match rustix::fs::mkdirat(&at, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => at = step_into(&at, name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    };
    create().map_err(|source| DiskError::new("create the directory", base.join(rel), source))
}

/// Opens a regular file below `base`.
///
/// Its descriptor is closed on exec. An error of kind `NotFound` says that there is none.
pub fn open_below(base: &Path, rel: &Path, kind: OpenKind) -> Result<File, DiskError> {
    open(base, rel, kind).map_err(|source| DiskError::new("open", base.join(rel), source))
}

/// Reads a regular file below `base`; `None` if there is none.
///
/// A file longer than `limit` bytes is an error of kind `FileTooLarge`, a directory one of kind
/// `IsADirectory`, a symlink, a FIFO and the like one of kind `InvalidInput`.
pub fn read_below(base: &Path, rel: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let failed = |source| DiskError::new("read", base.join(rel), source);
    let file = match open(base, rel, OpenKind::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file at the limit from one beyond it, also while it grows.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        let why = format!("it is longer than {limit} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, why)));
    }
    Ok(Some(bytes))
}

/// Whether a write has to survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It has: the file and its directory are synced.
    Durable,
    /// It has not: it is whole or not there, and no more.
    Atomic,
}

/// Replaces a file below `base`, or makes it, with mode 0600. A reader sees the old file or the new one.
pub fn replace_below(base: &Path, rel: &Path, bytes: &[u8], durability: Durability) -> Result<(), DiskError> {
    let failed = |source| DiskError::new("write", base.join(rel), source);
    let (directory, last) = parent_of(base, rel).map_err(failed)?;
    let name = last.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
    // The directory is held, whatever its path may lead to by now.
    let path = Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name);
    let replaced = match durability {
        Durability::Durable => crate::replace_durably(&path, bytes),
        Durability::Atomic => crate::replace(&path, bytes),
    };
    replaced.map_err(|error| failed(error.source))
}

/// Removes a file below `base`, if it is there. A directory is an error.
pub fn remove_below(base: &Path, rel: &Path) -> Result<(), DiskError> {
    let remove = || -> io::Result<()> {
        let (directory, last) = parent_of(base, rel)?;
        let name = last.ok_or(io::ErrorKind::IsADirectory)?;
        Ok(rustix::fs::unlinkat(&directory, name, AtFlags::empty())?)
    };
    match remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::new("remove", base.join(rel), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Looks at a name below `base` without following it; `None` if there is nothing.
pub fn stat_below(base: &Path, rel: &Path) -> Result<Option<FileStamp>, DiskError> {
    let stat = || -> io::Result<Stat> {
        let (directory, last) = parent_of(base, rel)?;
        Ok(match last {
            Some(name) => rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?,
            None => rustix::fs::fstat(&directory)?,
        })
    };
    match stat() {
        Ok(stat) => Ok(Some(stamp(&stat))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::new("look at", base.join(rel), error)),
    }
}

fn open(base: &Path, rel: &Path, kind: OpenKind) -> io::Result<File> {
    let (directory, last) = parent_of(base, rel)?;
    let name = last.ok_or(io::ErrorKind::IsADirectory)?;
    // NONBLOCK: the open of a FIFO would wait for its other end.
    let flags = kind.flags() | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR);
    let fd = opened.map_err(|errno| explained(&directory, &name, errno))?;
    match stamp(&rustix::fs::fstat(&fd)?).kind {
        FileKind::File => {}
        other => return Err(refusal(&name, other)),
    }
    if kind == OpenKind::Write {
        rustix::fs::ftruncate(&fd, 0)?;
    }
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
    Ok(File::from(fd))
}

/// Opens the directory that holds the last component, and returns that component.
pub(crate) fn parent_of(base: &Path, rel: &Path) -> io::Result<(OwnedFd, Option<OsString>)> {
    let mut names = components(rel)?;
    let last = names.pop().map(OsStr::to_owned);
    let mut at = open_base(base)?;
    for name in names {
        at = step_into(&at, name)?;
    }
    Ok((at, last))
}

fn components(rel: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in rel.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path leaves its root",
                ));
            }
        }
    }
    Ok(names)
}

fn open_base(base: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(base, flags, Mode::empty())?)
}

fn step_into(directory: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
    opened.map_err(|errno| explained(directory, name, errno))
}

/// Turns the system's word for an obstacle into one that says what stands there.
fn explained(directory: &OwnedFd, name: &OsStr, errno: Errno) -> io::Error {
    if !matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::ISDIR) {
        return errno.into();
    }
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => refusal(name, stamp(&stat).kind),
        Err(_) => errno.into(),
    }
}

fn refusal(name: &OsStr, kind: FileKind) -> io::Error {
    let (error, what) = match kind {
        FileKind::File => (io::ErrorKind::NotADirectory, "no directory"),
        FileKind::Dir => (io::ErrorKind::IsADirectory, "a directory"),
        FileKind::Symlink => (io::ErrorKind::InvalidInput, "a symlink"),
        FileKind::Other => (io::ErrorKind::InvalidInput, "a FIFO, a socket or a device"),
    };
    let name = pod_core::quoted(&name.to_string_lossy(), 255);
    io::Error::new(error, format!("`{name}` is {what}"))
}

#[expect(
    clippy::unnecessary_cast,
    reason = "the fields' types differ between architectures"
)]
fn stamp(stat: &Stat) -> FileStamp {
    use rustix::fs::FileType;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    FileStamp {
        kind,
        inode: stat.st_ino as u64,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    fn kind_of<T: std::fmt::Debug>(result: Result<T, DiskError>) -> io::ErrorKind {
        result.unwrap_err().source.kind()
    }

    #[test]
    fn a_regular_file_is_written_appended_and_read() {
        let base = tempfile::tempdir().unwrap();
        create_dirs_below(base.path(), Path::new("a/./b")).unwrap();
        create_dirs_below(base.path(), Path::new("a/b")).unwrap();
        let rel = Path::new("a/b/log");
        assert_eq!(read_below(base.path(), rel, 10).unwrap(), None);
        open_below(base.path(), rel, OpenKind::Append)
            .unwrap()
            .write_all(b"one")
            .unwrap();
        open_below(base.path(), rel, OpenKind::Append)
            .unwrap()
            .write_all(b"two")
            .unwrap();
        assert_eq!(
            read_below(base.path(), rel, 6).unwrap().as_deref(),
            Some(&b"onetwo"[..])
        );
        open_below(base.path(), rel, OpenKind::Write)
            .unwrap()
            .write_all(b"x")
            .unwrap();
        assert_eq!(
            read_below(base.path(), rel, 6).unwrap().as_deref(),
            Some(&b"x"[..])
        );
        let mode = fs::metadata(base.path().join(rel)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mode = fs::metadata(base.path().join("a/b"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn no_symlink_is_followed_anywhere_below_the_base() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "theirs").unwrap();
        symlink(outside.path(), base.path().join("dir")).unwrap();
        symlink(outside.path().join("secret"), base.path().join("file")).unwrap();
        symlink(outside.path().join("new"), base.path().join("dangling")).unwrap();
        for rel in ["dir/secret", "file"] {
            let error = read_below(base.path(), Path::new(rel), 100).unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput, "{rel}");
            assert!(
                error.source.to_string().ends_with("is a symlink"),
                "{rel}: {}",
                error.source
            );
        }
        for rel in ["dir/secret", "dir/new", "file", "dangling"] {
            for kind in [OpenKind::Append, OpenKind::Write] {
                assert!(open_below(base.path(), Path::new(rel), kind).is_err(), "{rel}");
            }
        }
        assert!(create_dirs_below(base.path(), Path::new("dir/sub")).is_err());
        assert!(create_dirs_below(base.path(), Path::new("dir")).is_err());
        assert!(stat_below(base.path(), Path::new("dir/secret")).is_err());
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        // The base itself may be reached through one.
        assert!(
            read_below(&base.path().join("dir"), Path::new("secret"), 100)
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_path_that_leaves_its_root_is_refused() {
        let base = tempfile::tempdir().unwrap();
        for rel in ["../x", "a/../../x", "/etc/passwd"] {
            let rel = Path::new(rel);
            assert_eq!(
                kind_of(read_below(base.path(), rel, 100)),
                io::ErrorKind::InvalidInput
            );
            assert_eq!(kind_of(stat_below(base.path(), rel)), io::ErrorKind::InvalidInput);
            assert_eq!(
                kind_of(create_dirs_below(base.path(), rel)),
                io::ErrorKind::InvalidInput
            );
        }
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_never_waited_for() {
        let base = tempfile::tempdir().unwrap();
        fifo(&base.path().join("fifo"));
        fs::create_dir(base.path().join("dir")).unwrap();
        let rel = Path::new("fifo");
        assert_eq!(
            kind_of(read_below(base.path(), rel, 100)),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            kind_of(open_below(base.path(), rel, OpenKind::Append)),
            io::ErrorKind::InvalidInput
        );
        let rel = Path::new("dir");
        assert_eq!(
            kind_of(read_below(base.path(), rel, 100)),
            io::ErrorKind::IsADirectory
        );
        assert_eq!(
            kind_of(open_below(base.path(), rel, OpenKind::Write)),
            io::ErrorKind::IsADirectory
        );
        let rel = Path::new("fifo/sub");
        assert!(create_dirs_below(base.path(), rel).is_err());
    }

    #[test]
    fn a_limit_admits_a_file_of_its_own_length_and_no_longer_one() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("f"), "12345").unwrap();
        assert!(read_below(base.path(), Path::new("f"), 5).unwrap().is_some());
        assert_eq!(
            kind_of(read_below(base.path(), Path::new("f"), 4)),
            io::ErrorKind::FileTooLarge
        );
    }

    #[test]
    fn a_stamp_tells_versions_apart_and_sees_the_link_itself() {
        let base = tempfile::tempdir().unwrap();
        let (path, rel) = (base.path().join("f"), Path::new("f"));
        assert_eq!(stat_below(base.path(), rel).unwrap(), None);
        crate::replace(&path, b"one").unwrap();
        let old = stat_below(base.path(), rel).unwrap().unwrap();
        assert_eq!((old.kind, old.size), (FileKind::File, 3));
        assert!(old.mtime_ns > 1_000_000_000_000_000_000);
        let kept = File::open(&path).unwrap();
        crate::replace(&path, b"two").unwrap();
        assert_ne!(stat_below(base.path(), rel).unwrap().unwrap().inode, old.inode);
        drop(kept);
        symlink(&path, base.path().join("link")).unwrap();
        let link = stat_below(base.path(), Path::new("link")).unwrap().unwrap();
        assert_eq!(link.kind, FileKind::Symlink);
        assert_eq!(
            stat_below(base.path(), Path::new("")).unwrap().unwrap().kind,
            FileKind::Dir
        );
    }
}

//! Locks between processes, waited for with a bound that ends by naming who holds them.
//!
//! They are flocks: the kernel drops one when its holder dies, however it dies. The lock file is never
//! unlinked, since then two processes could hold locks on two files of one name.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::DiskError;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// Who may hold a lock beside us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Others who take it shared.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its pid in our pid namespace; 0 where it lives in another one.
    pub pid: i32,
    /// The name of its program; `unknown` where it has ended and left the lock to a child.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file could not be opened or locked at all.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody held it for as long as we waited.
    #[error("`{}` is locked, {}, after a wait of {}", crate::shown(path), said(holders), seconds(*waited))]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
        /// Who held it when we gave up, as far as the kernel tells.
        holders: Vec<Holder>,
    },
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock if it is free now; `None` if it is not. A missing lock file is created, mode 0600.
    pub fn try_take(path: &Path, mode: LockMode) -> Result<Option<Self>, DiskError> {
        let file = open(path).map_err(|source| DiskError::new("open the lock", path, source))?;
        Ok(try_lock(&file, path, mode)?.then_some(Self { file }))
    }

    /// Takes the lock, waiting for up to `wait`. It blocks its thread.
    pub fn take(path: &Path, mode: LockMode, wait: Duration) -> Result<Self, LockError> {
        let file = open(path).map_err(|source| DiskError::new("open the lock", path, source))?;
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        while !try_lock(&file, path, mode)? {
            let waited = began.elapsed();
            let Some(left) = wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let holders = holders(&file, path);
                return Err(LockError::Busy {
                    path: path.to_owned(),
                    waited,
                    holders,
                });
            };
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(Self { file })
    }

    /// Releases the lock, as dropping it does.
    pub fn unlock(self) {
        drop(self);
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked a moment ago may still have the descriptor.
        self.file.unlock().ok();
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits());
    let flags = flags.map_err(|_| io::ErrorKind::InvalidInput)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

fn try_lock(file: &File, path: &Path, mode: LockMode) -> Result<bool, DiskError> {
    let tried = match mode {
        LockMode::Shared => file.try_lock_shared(),
        LockMode::Exclusive => file.try_lock(),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(TryLockError::Error(source)) => Err(DiskError::new("lock", path, source)),
    }
}

fn said(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "held by a process that the kernel does not name".to_owned();
    }
    let named: Vec<String> = holders.iter().take(3).map(Holder::to_string).collect();
    let more = holders.len().saturating_sub(named.len());
    match more {
        0 => format!("held by {}", named.join(" and ")),
        _ => format!("held by {} and {more} more", named.join(", ")),
    }
}

fn seconds(waited: Duration) -> String {
    format!("{:.1} s", waited.as_secs_f64())
}

/// Finds who holds a lock on `file`: a best effort, for a message.
fn holders(file: &File, path: &Path) -> Vec<Holder> {
    let (Ok(metadata), Ok(table)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    let mut found: Vec<Holder> = table
        .lines()
        .filter_map(flock_line)
        .filter(|line| line.inode == metadata.ino())
        // Some file systems show another device in /proc/locks than stat does.
        .filter(|line| line.device == device_text(metadata.dev()) || has_open(line.pid, path))
        .map(|line| Holder {
            pid: line.pid,
            name: name_of(line.pid),
        })
        .collect();
    found.sort_by_key(|holder| holder.pid);
    found.dedup();
    found
}

struct FlockLine<'a> {
    pid: i32,
    device: &'a str,
    inode: u64,
}

/// Reads a line such as `1: FLOCK  ADVISORY  WRITE 4121 fe:00:131090 0 EOF`. One with `->` only waits.
fn flock_line(line: &str) -> Option<FlockLine<'_>> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    fields.next().filter(|kind| *kind == "FLOCK")?;
    let pid = fields.nth(2)?.parse().ok()?;
    let (device, inode) = fields.next()?.rsplit_once(':')?;
    Some(FlockLine {
        pid,
        device,
        inode: inode.parse().ok()?,
    })
}

fn device_text(device: u64) -> String {
    format!(
        "{:02x}:{:02x}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

fn has_open(pid: i32, path: &Path) -> bool {
    let (Ok(path), Ok(open)) = (path.canonicalize(), fs::read_dir(format!("/proc/{pid}/fd"))) else {
        return false;
    };
    open.flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

fn name_of(pid: i32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => pod_core::quoted(String::from_utf8_lossy(&name).trim_end(), 40),
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn shared_locks_go_together_and_an_exclusive_one_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let one = FileLock::try_take(&path, LockMode::Shared).unwrap().unwrap();
        let two = FileLock::try_take(&path, LockMode::Shared).unwrap().unwrap();
        assert!(FileLock::try_take(&path, LockMode::Exclusive).unwrap().is_none());
        one.unlock();
        drop(two);
        let alone = FileLock::try_take(&path, LockMode::Exclusive).unwrap().unwrap();
        assert!(FileLock::try_take(&path, LockMode::Shared).unwrap().is_none());
        drop(alone);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_wait_ends_by_naming_the_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let _held = FileLock::try_take(&path, LockMode::Exclusive).unwrap().unwrap();
        let error = FileLock::take(&path, LockMode::Exclusive, Duration::from_millis(20)).unwrap_err();
        let own = i32::try_from(std::process::id()).unwrap();
        let expected = format!("held by {} (pid {own})", name_of(own));
        assert!(error.to_string().contains(&expected), "{error}");
        let LockError::Busy { waited, holders, .. } = error else {
            panic!("{error}")
        };
        assert!(waited >= Duration::from_millis(20));
        assert_eq!(holders.len(), 1);
    }

    #[test]
    fn a_wait_ends_when_the_lock_is_released() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = FileLock::try_take(&path, LockMode::Exclusive).unwrap().unwrap();
        let (send, receive) = mpsc::channel();
        let waiting = {
            let path = path.clone();
            thread::spawn(move || {
                send.send(()).unwrap();
                FileLock::take(&path, LockMode::Exclusive, Duration::from_secs(60)).map(drop)
            })
        };
        receive.recv().unwrap();
        held.unlock();
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_dropped_lock_is_free_although_a_child_has_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = FileLock::try_take(&path, LockMode::Exclusive).unwrap().unwrap();
        // A forked child has the same open file, as this clone does.
        let _inherited = held.file.try_clone().unwrap();
        drop(held);
        assert!(FileLock::try_take(&path, LockMode::Exclusive).unwrap().is_some());
    }

    #[test]
    fn a_symlink_is_no_lock_and_a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink(directory.path().join("elsewhere"), &link).unwrap();
        assert!(FileLock::try_take(&link, LockMode::Shared).is_err());
        assert!(!directory.path().join("elsewhere").exists());
        let missing = FileLock::try_take(&directory.path().join("no/lock"), LockMode::Shared);
        assert!(missing.unwrap_err().is_missing());
    }

    #[test]
    fn the_table_of_locks_is_read_line_by_line() {
        let line = flock_line("1: FLOCK  ADVISORY  WRITE 4121 fe:00:131090 0 EOF").unwrap();
        assert_eq!((line.pid, line.device, line.inode), (4121, "fe:00", 131_090));
        assert!(flock_line("1: -> FLOCK  ADVISORY  WRITE 4122 fe:00:131090 0 EOF").is_none());
        assert!(flock_line("2: POSIX  ADVISORY  WRITE 77 fe:00:5 0 EOF").is_none());
        assert!(flock_line("").is_none());
        let holder = |pid| Holder {
            pid,
            name: "podctl".into(),
        };
        let many: Vec<Holder> = (1..=5).map(holder).collect();
        assert_eq!(said(&many[..2]), "held by podctl (pid 1) and podctl (pid 2)");
        assert!(said(&many).ends_with("and 2 more"));
    }
}

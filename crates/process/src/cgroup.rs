//! A control group of its own for a wake-up, where one can be had.
//!
//! It is a net below the others: nothing that leaves its session or clears its environment leaves its
//! group. Where the kernel or our rights do not offer one, the wake-up runs without.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A version 2 control group that we made.
#[derive(Debug)]
pub struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a group below the one that we are in; `None` where that is not possible.
    pub fn create(name: &str) -> Option<Self> {
        Self::create_at(Self::place(name)?)
    }

    /// Where a group of this name would be made, for whoever writes that down first: a group that nobody knows
    /// of stays for ever when its maker is killed.
    pub fn place(name: &str) -> Option<PathBuf> {
        Some(own_directory()?.join(name))
    }

    /// Makes a group at such a place; `None` where that is not possible.
    pub fn create_at(dir: PathBuf) -> Option<Self> {
        fs::create_dir(&dir).ok()?;
        let group = Self { dir };
        // Without this file (before Linux 5.14) the group could be filled and not emptied.
        if group.dir.join("cgroup.kill").exists() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// Finds a group that an earlier process made.
    pub fn at(dir: &Path) -> Option<Self> {
        let whole = dir.is_absolute() && dir.file_name()?.to_str()?.starts_with("agents-pod-");
        (whole && dir.join("cgroup.kill").exists()).then(|| Self { dir: dir.to_owned() })
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file through which a process joins.
    pub(crate) fn entrance(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.dir.join("cgroup.procs"))
    }

    /// Kills every member, frozen and stopped ones included: cgroups(7), cgroup.kill.
    pub fn kill(&self) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .open(self.dir.join("cgroup.kill"))?
            .write_all(b"1")
    }

    /// The members' pids.
    pub fn members(&self) -> io::Result<Vec<i32>> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// How often the kernel killed in it for memory; `None` where the controller is not there.
    pub fn oom_kills(&self) -> Option<u64> {
        let text = fs::read_to_string(self.dir.join("memory.events")).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// Removes the group. One that has members stays.
    pub fn remove(&self) {
        let _removed = fs::remove_dir(&self.dir);
    }
}

fn own_directory() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let point = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| point.to_owned())
    })?;
    // A wrapper may be started from within a wake-up's group; a group of groups would be one tree.
    let mut dir = Path::new(&point).join(own);
    while dir
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("agents-pod-"))
    {
        dir.pop();
    }
    Some(dir)
}

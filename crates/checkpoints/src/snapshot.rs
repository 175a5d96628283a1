//! A worktree as a git tree, made with an index of our own.
//!
//! The user's index is not even copied: its skip-worktree and assume-unchanged bits hide edits. Ours is kept between
//! snapshots, so that an unchanged file is not read again.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pod_core::ByteSize;
use rustix::fs::{Access, AtFlags};

use crate::git::{Git, GitError};
use crate::repository::Repository;

/// The content of a project's tracked and untracked files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The tree. Outside the project it is that of HEAD.
    pub tree: String,
    /// Paths that differ from HEAD and are not in it as they are.
    pub left_out: Vec<Vec<u8>>,
}

/// What becomes of large files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Large {
    /// Those above it are left out.
    LeaveOut(ByteSize),
    /// Those above so many bytes are in the tree by their hash alone: their content is not stored.
    Hash(u64),
}

/// One entry of git's status.
enum Changed<'a> {
    /// A path whose content is not what our index has.
    Path(&'a [u8]),
    /// A repository within the repository, whose own edits git does not keep.
    Nested(&'a [u8]),
}

/// How a path gets into the index.
enum Entry {
    /// As git does it.
    Ordinary,
    /// By its hash, with this mode.
    Hashed(&'static str),
    /// Not at all.
    LeftOut,
}

impl Repository {
    /// Takes a snapshot with the index at `index`, which is made if it is missing and nobody else may use meanwhile.
    ///
    /// What cannot be read is left out.
    pub fn snapshot(&self, index: &Path, large: Large) -> Result<Snapshot, GitError> {
        // A git of somebody who was killed may still be writing to an index that he had: each use has its own name,
        // and what is kept between two uses has another.
        remove_leftovers(index);
        let own = beside(
            index,
            &format!(".{}.{}", std::process::id(), USES.fetch_add(1, Ordering::Relaxed)),
        );
        move_index(index, &own);
        let taken = match self.try_snapshot(&own, large) {
            Err(GitError::Failed { .. }) if own.exists() => {
                // Perhaps our index is torn. It is nothing but a memory.
                forget(&own);
                self.try_snapshot(&own, large)
            }
            taken => taken,
        };
        if taken.is_ok() {
            move_index(&own, index);
        } else {
            forget(&own);
        }
        taken
    }

    fn try_snapshot(&self, index: &Path, large: Large) -> Result<Snapshot, GitError> {
        let git = self.git.with_index(index);
        self.follow_head(&git, index)?;
        let args = [
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--no-renames",
        ];
        let more = ["--ignore-submodules=none", "--"];
        let args = args.iter().chain(&more).map(OsString::from);
        let status = git.run(args.chain([self.pathspec()]))?;
        let mut left_out = BTreeSet::new();
        let (mut paths, mut hashed) = (Vec::new(), Vec::new());
        let added = self.added_by_user()?;
        let changed = status.split(|byte| *byte == 0).filter_map(changed);
        let added_paths = added.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        for one in changed.chain(added_paths.map(Changed::Path)) {
            let (Changed::Path(path) | Changed::Nested(path)) = one;
            let entry = match one {
                Changed::Path(_) => self.entry(path, large),
                Changed::Nested(_) => Entry::LeftOut,
            };
            match entry {
                Entry::Ordinary => {
                    paths.extend_from_slice(path);
                    paths.push(0);
                }
                Entry::Hashed(mode) => {
                    let id = git.line([
                        OsStr::new("hash-object"),
                        OsStr::new("--"),
                        OsStr::from_bytes(path),
                    ])?;
                    hashed.extend_from_slice(format!("{mode} {id}\t").as_bytes());
                    hashed.extend_from_slice(path);
                    hashed.push(0);
                }
                Entry::LeftOut => {
                    left_out.insert(path.to_vec());
                }
            }
        }
        if !paths.is_empty() {
            git.feed(
                ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"],
                paths,
            )?;
        }
        if !hashed.is_empty() {
            git.feed(
                ["update-index", "--add", "--replace", "-z", "--index-info"],
                hashed,
            )?;
        }
        self.drop_ignored(&git, &added)?;
        Ok(Snapshot {
            // Objects that a partial clone has not fetched are nobody's edits.
            tree: git.line(["write-tree", "--missing-ok"])?,
            left_out: left_out.into_iter().collect(),
        })
    }

    /// Drops what an earlier snapshot took in and git ignores by now, unless it is tracked all the same.
    fn drop_ignored(&self, git: &Git, added: &[u8]) -> Result<(), GitError> {
        let args = [
            "ls-files",
            "--cached",
            "--ignored",
            "--exclude-standard",
            "-z",
            "--",
        ];
        let ignored = git.run(args.map(OsString::from).into_iter().chain([self.pathspec()]))?;
        let paths = |list: &'_ [u8]| -> BTreeSet<Vec<u8>> {
            let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            paths.map(<[u8]>::to_vec).collect()
        };
        let mut ignored = paths(&ignored);
        if ignored.is_empty() {
            return Ok(());
        }
        if let Some(head) = &self.head {
            let args = ["ls-tree", "-r", "--name-only", "-z", "--full-tree"].map(OsString::from);
            let tracked = git.run(args.into_iter().chain([OsString::from(&head.tree)]))?;
            let tracked = paths(&tracked);
            ignored.retain(|path| !tracked.contains(path));
        }
        let added = paths(added);
        let dropped: Vec<u8> = ignored
            .into_iter()
            .filter(|path| !added.contains(path))
            .flat_map(|path| path.into_iter().chain([0]))
            .collect();
        if dropped.is_empty() {
            return Ok(());
        }
        git.feed(["update-index", "--force-remove", "-z", "--stdin"], dropped)
            .map(drop)
    }

    /// Lets our index start from HEAD, unless it did so the last time. Files that are as they were keep what is
    /// known of them: git-read-tree(1), single tree merge.
    fn follow_head(&self, git: &Git, index: &Path) -> Result<(), GitError> {
        let base = base_of(index);
        let Some(head) = &self.head else {
            return Ok(());
        };
        let known = fs::read_to_string(&base).is_ok_and(|known| known == head.tree);
        if index.exists() && known {
            return Ok(());
        }
        if index.exists() {
            git.run(["read-tree", "-m", &head.tree])?;
        } else {
            git.run(["read-tree", &head.tree])?;
        }
        // Not knowing costs a read-tree.
        let _written = fs::write(&base, &head.tree);
        Ok(())
    }

    /// What the user has added and not committed: an ignored file among it is tracked all the same.
    fn added_by_user(&self) -> Result<Vec<u8>, GitError> {
        let args: &[&str] = match &self.head {
            Some(_) => &[
                "diff-index",
                "--cached",
                "--diff-filter=A",
                "--name-only",
                "--no-renames",
                "-z",
                "HEAD",
                "--",
            ],
            None => &["ls-files", "-z", "--"],
        };
        self.git
            .run(args.iter().map(OsString::from).chain([self.pathspec()]))
    }

    /// How a path can be kept: files, symlinks and submodules can, and so can it that one is gone.
    fn entry(&self, path: &[u8], large: Large) -> Entry {
        let place = self.top.join(OsStr::from_bytes(path));
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_file() && !readable(&place) => Entry::LeftOut,
            Ok(found) if found.is_file() => match large {
                Large::LeaveOut(limit) if found.len() > limit.0 => Entry::LeftOut,
                Large::Hash(limit) if found.len() > limit => {
                    let executable = found.permissions().mode() & 0o100 != 0;
                    Entry::Hashed(if executable { "100755" } else { "100644" })
                }
                Large::LeaveOut(_) | Large::Hash(_) => Entry::Ordinary,
            },
            Ok(found) if found.is_symlink() || (found.is_dir() && place.join(".git").exists()) => {
                Entry::Ordinary
            }
            Ok(_) => Entry::LeftOut,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Entry::Ordinary,
                _ => Entry::LeftOut,
            },
        }
    }
}

fn readable(place: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, place, Access::READ_OK, AtFlags::empty()).is_ok()
}

/// How often this process has used an index.
static USES: AtomicU32 = AtomicU32::new(0);

/// The tree that an index started from stands beside it.
fn base_of(index: &Path) -> PathBuf {
    beside(index, ".base")
}

fn beside(index: &Path, suffix: &str) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Gives an index another name. Where that fails it is made anew.
fn move_index(from: &Path, to: &Path) {
    let moved = fs::rename(from, to).and_then(|()| fs::rename(base_of(from), base_of(to)));
    if moved.is_err() {
        forget(from);
        forget(to);
    }
}

fn forget(index: &Path) {
    remove(index);
    remove(&base_of(index));
    remove(&beside(index, ".lock"));
}

/// Removes what users that have died left beside an index.
fn remove_leftovers(index: &Path) {
    let (Some(dir), Some(name)) = (index.parent(), index.file_name()) else {
        return;
    };
    let mut prefix = name.as_bytes().to_vec();
    prefix.push(b'.');
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let Some(rest) = file.as_bytes().strip_prefix(prefix.as_slice()) else {
            continue;
        };
        let pid = rest.split(|byte| *byte == b'.').next().unwrap_or_default();
        let pid = std::str::from_utf8(pid)
            .ok()
            .and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

fn remove(file: &Path) {
    // One that stays shows at the next step.
    let _removed = fs::remove_file(file);
}

/// Reads a line of `git status --porcelain=v2`: git-status(1). The second letter of `XY` compares the worktree with
/// the index.
fn changed(entry: &[u8]) -> Option<Changed<'_>> {
    let path = |fields: usize| entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1);
    match entry.first()? {
        b'1' => {
            let path = path(9)?;
            let submodule = entry.get(5..9)?;
            // `S<c><m><u>`: a submodule whose own files differ.
            if submodule[0] == b'S' && (submodule[2] == b'M' || submodule[3] == b'U') {
                return Some(Changed::Nested(path));
            }
            (entry.get(3)? != &b'.').then_some(Changed::Path(path))
        }
        b'?' => match path(2)? {
            nested if nested.ends_with(b"/") => Some(Changed::Nested(nested)),
            path => Some(Changed::Path(path)),
        },
        _ => None,
    }
}

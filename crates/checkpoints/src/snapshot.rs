//! A worktree as a git tree, made with an index of our own.
//!
//! The user's index is not even copied: its skip-worktree and assume-unchanged bits hide edits. Ours is kept between
//! snapshots, so that an unchanged file is not read again.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pod_core::{ByteSize, PodLayout};
use rustix::fs::{Access, AtFlags};

use crate::git::{Git, GitError};
use crate::index::OwnIndex;
use crate::repository::Repository;

/// The content of a project's tracked and untracked files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The tree. Outside the project it is that of HEAD.
    pub tree: String,
    /// Paths that differ from HEAD and are not in it as they are.
    pub left_out: Vec<Vec<u8>>,
    /// Whether it was taken without a memory of earlier ones.
    fresh: bool,
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
    /// By its hash alone.
    Hashed,
    /// It is not there any more.
    Gone,
    /// It is as HEAD has it, for all that we are concerned with.
    Untouched,
    /// Not at all.
    LeftOut,
}

/// What a look at the worktree comes to, before it is in the index.
#[derive(Debug, Default)]
struct Edits {
    ordinary: Vec<u8>,
    gone: Vec<u8>,
    hashed: Vec<u8>,
    left_out: BTreeSet<Vec<u8>>,
}

impl Repository {
    /// Takes a snapshot with an index that is kept at `kept` and that nobody else uses meanwhile.
    ///
    /// What cannot be read is left out. Where a filter of the repository fails or never ends, files are taken as
    /// they are.
    pub fn snapshot(&self, kept: &Path, large: Large) -> Result<Snapshot, GitError> {
        let mut index = OwnIndex::take(kept).map_err(GitError::Index)?;
        let mut taken = self.try_snapshot(&mut index, large);
        // Perhaps it is torn: it is nothing but a memory. And what is left out has to be as HEAD has it, and not as
        // an earlier snapshot took it in.
        let again = match &taken {
            Ok(snapshot) => !snapshot.left_out.is_empty() && !snapshot.fresh,
            Err(GitError::Failed { .. }) => true,
            Err(_) => false,
        };
        if again {
            index.start_over();
            taken = self.try_snapshot(&mut index, large);
        }
        if let Err(GitError::Failed { .. } | GitError::TooSlow { .. }) = taken {
            index.start_over();
            taken = self.unfiltered()?.try_snapshot(&mut index, large);
            if taken.is_ok() {
                index.start_over();
            }
        }
        index.keep();
        taken
    }

    fn try_snapshot(&self, index: &mut OwnIndex, large: Large) -> Result<Snapshot, GitError> {
        let git = self.git.with_index(&index.path());
        let fresh = index.is_fresh();
        self.follow_head(&git, index)?;
        let submodules = if self.unfiltered { "all" } else { "none" };
        let submodules = format!("--ignore-submodules={submodules}");
        let args = [
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            &submodules,
            "--",
        ];
        let status = git.run(args.map(OsString::from).into_iter().chain([self.pathspec()]))?;
        let added = self.added_by_user()?;
        let edits = self.edits(&status, &added, large)?;
        let feed = |args: &[&str], paths: Vec<u8>| match paths.as_slice() {
            [] => Ok(Vec::new()),
            _ => git.feed(["update-index"].iter().chain(args), paths),
        };
        feed(&["--force-remove", "-z", "--stdin"], edits.gone)?;
        feed(
            &["--add", "--remove", "--replace", "-z", "--stdin"],
            edits.ordinary,
        )?;
        feed(
            &["--add", "--replace", "--info-only", "-z", "--stdin"],
            edits.hashed,
        )?;
        self.drop_ignored(&git, &added)?;
        Ok(Snapshot {
            // Objects that a partial clone has not fetched are nobody's edits.
            tree: git.line(["write-tree", "--missing-ok"])?,
            left_out: edits.left_out.into_iter().collect(),
            fresh,
        })
    }

    fn edits(&self, status: &[u8], added: &[u8], large: Large) -> Result<Edits, GitError> {
        let mut edits = Edits::default();
        let sparse = self.left_out_by_sparseness()?;
        let ours = self.below.join(PodLayout::BASE);
        let changed = status.split(|byte| *byte == 0).filter_map(changed);
        let added = added.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        for one in changed.chain(added.map(Changed::Path)) {
            let (Changed::Path(path) | Changed::Nested(path)) = one;
            let entry = match one {
                // What is ours is nobody's work, whether git ignores it or not.
                _ if Path::new(OsStr::from_bytes(path)).starts_with(&ours) => Entry::Untouched,
                Changed::Path(_) => self.entry(path, large, &sparse),
                Changed::Nested(_) => Entry::LeftOut,
            };
            let list = match entry {
                Entry::Ordinary => &mut edits.ordinary,
                Entry::Gone => &mut edits.gone,
                Entry::Hashed => &mut edits.hashed,
                Entry::Untouched => continue,
                Entry::LeftOut => {
                    edits.left_out.insert(path.to_vec());
                    continue;
                }
            };
            list.extend_from_slice(path);
            list.push(0);
        }
        Ok(edits)
    }

    /// The paths that a sparse checkout keeps out of the worktree: that they are not there is no edit.
    fn left_out_by_sparseness(&self) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let sparse = self
            .git
            .line(["config", "--type=bool", "--get", "core.sparseCheckout"]);
        match sparse {
            Ok(said) if said == "true" => {}
            Ok(_) => return Ok(BTreeSet::new()),
            Err(error) if error.code() == Some(1) => return Ok(BTreeSet::new()),
            Err(error) => return Err(error),
        }
        let listed = self.git.run(["ls-files", "-t", "-z"])?;
        let entries = listed.split(|byte| *byte == 0);
        Ok(entries
            .filter_map(|entry| entry.strip_prefix(b"S "))
            .map(<[u8]>::to_vec)
            .collect())
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
    fn follow_head(&self, git: &Git, index: &mut OwnIndex) -> Result<(), GitError> {
        let tree = self.head.as_ref().map(|head| head.tree.as_str());
        if index.started_from(tree) {
            return Ok(());
        }
        if let Some(tree) = tree {
            let merge: &[&str] = if index.is_fresh() { &[] } else { &["-m"] };
            git.run(["read-tree"].iter().chain(merge).chain(&[tree]))?;
        }
        index.start_from(tree);
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
    fn entry(&self, path: &[u8], large: Large, sparse: &BTreeSet<Vec<u8>>) -> Entry {
        let path = Path::new(OsStr::from_bytes(path));
        let missing = || {
            if sparse.contains(path.as_os_str().as_bytes()) {
                Entry::Untouched
            } else {
                Entry::Gone
            }
        };
        // Git does not look behind a symlink, and what stands there is not the path.
        let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        let mut above = above.map(|dir| fs::symlink_metadata(self.top.join(dir)));
        if above.any(|found| found.is_ok_and(|found| !found.is_dir())) {
            return missing();
        }
        let place = self.top.join(path);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_file() && !readable(&place) => Entry::LeftOut,
            Ok(found) if found.is_file() => match large {
                Large::LeaveOut(limit) if found.len() > limit.0 => Entry::LeftOut,
                Large::Hash(limit) if found.len() > limit => Entry::Hashed,
                Large::LeaveOut(_) | Large::Hash(_) => Entry::Ordinary,
            },
            Ok(found) if found.is_symlink() => Entry::Ordinary,
            Ok(found) if found.is_dir() && place.join(".git").exists() => Entry::Ordinary,
            // A file that has become a directory, whose files are listed by themselves.
            Ok(found) if found.is_dir() => Entry::Gone,
            Ok(_) => Entry::LeftOut,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => missing(),
                _ => Entry::LeftOut,
            },
        }
    }
}

fn readable(place: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, place, Access::READ_OK, AtFlags::empty()).is_ok()
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

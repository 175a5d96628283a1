//! The fingerprint of a worktree.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pod_core::PodLayout;
use sha2::{Digest as _, Sha256};

use crate::Fingerprint;

/// A tree with more entries than that is not walked to its end, and so tells nothing.
const WALK_LIMIT: usize = 200_000;

/// The fingerprint of a project: by git where it is a repository, else by names, sizes and times.
///
/// `None` if it could not be taken. Git is asked without optional locks, so the user's index stays as it is,
/// and without the repository's file-system monitor, so nothing of the project is run.
pub fn worktree_fingerprint(project: &Path) -> Option<Fingerprint> {
    by_git(project).unwrap_or_else(|| by_walk(project))
}

/// `None` if git is not there or the project is no repository; `Some(None)` if git failed otherwise.
fn by_git(project: &Path) -> Option<Option<Fingerprint>> {
    // Starting git only to hear that there is no repository costs more than the walk.
    let top = top_of(project)?;
    let output = Command::new("git")
        .args([
            "-c",
            "core.fsmonitor=false",
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
        ])
        .args([
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=none",
            "--",
            ".",
        ])
        .current_dir(project)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    match output.status.code() {
        Some(0) => {}
        Some(128) => return None,
        Some(_) | None => return Some(None),
    }
    let mut hasher = Sha256::new();
    for entry in output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
    {
        hasher.update(entry);
        hasher.update([0]);
        // The listing says that a path differs; what it is now is in its size and times.
        if let Some(stamp) = path_of(entry).and_then(|path| fs::symlink_metadata(top.join(path)).ok()) {
            update(&mut hasher, &stamp);
        }
    }
    Some(Some(Fingerprint::of(hasher)))
}

/// Paths of the listing are relative to the top of the worktree.
fn top_of(project: &Path) -> Option<&Path> {
    project.ancestors().find(|dir| dir.join(".git").exists())
}

fn path_of(entry: &[u8]) -> Option<&Path> {
    let fields = match entry.first()? {
        b'1' => 9,
        b'u' => 11,
        b'?' => 2,
        _ => return None,
    };
    entry
        .splitn(fields, |byte| *byte == b' ')
        .nth(fields - 1)
        .map(|path| Path::new(OsStr::from_bytes(path)))
}

fn update(hasher: &mut Sha256, stamp: &Metadata) {
    hasher.update(stamp.size().to_le_bytes());
    hasher.update(stamp.mtime().to_le_bytes());
    hasher.update(stamp.mtime_nsec().to_le_bytes());
    hasher.update(stamp.mode().to_le_bytes());
}

fn by_walk(project: &Path) -> Option<Fingerprint> {
    let mut hasher = Sha256::new();
    let mut open = vec![project.to_owned()];
    let mut count = 0;
    while let Some(dir) = open.pop() {
        let mut entries: Vec<_> = fs::read_dir(&dir).ok()?.collect::<Result<_, _>>().ok()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            count += 1;
            if count > WALK_LIMIT {
                return None;
            }
            if dir == project && entry.file_name() == PodLayout::BASE {
                continue;
            }
            let path = entry.path();
            let stamp = fs::symlink_metadata(&path).ok()?;
            hasher.update(path.as_os_str().as_bytes());
            hasher.update([0]);
            if stamp.is_dir() {
                open.push(path);
            } else {
                update(&mut hasher, &stamp);
            }
        }
    }
    Some(Fingerprint::of(hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let identity = [
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "init.defaultBranch=main",
        ];
        let done = Command::new("git")
            .args(identity)
            .args(args)
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn moves(dir: &Path) {
        let taken = || worktree_fingerprint(dir);
        let first = taken();
        assert!(first.is_some());
        assert_eq!(first, taken());
        fs::write(dir.join("new é\n"), "1").unwrap();
        let second = taken();
        assert_ne!(first, second);
        fs::write(dir.join("new é\n"), "22").unwrap();
        let third = taken();
        assert_ne!(second, third, "an untracked file that was written again");
        fs::create_dir_all(dir.join(PodLayout::BASE)).unwrap();
        fs::write(dir.join(PodLayout::BASE).join(".gitignore"), "*\n").unwrap();
        fs::write(dir.join(PodLayout::BASE).join("heartbeat"), "x").unwrap();
        assert_eq!(third, taken(), "what is ours does not count");
    }

    #[test]
    fn a_repository_moves_with_its_files_and_commits_and_its_index_stays() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        fs::write(dir.path().join("tracked"), "a").unwrap();
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "one"]);
        let index = fs::read(dir.path().join(".git/index")).unwrap();
        moves(dir.path());
        let before = worktree_fingerprint(dir.path());
        fs::write(dir.path().join("tracked"), "b").unwrap();
        assert_ne!(before, worktree_fingerprint(dir.path()));
        assert_eq!(index, fs::read(dir.path().join(".git/index")).unwrap());
        assert!(!dir.path().join(".git/index.lock").exists());
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "two"]);
        let committed = worktree_fingerprint(dir.path());
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "three"]);
        assert_ne!(
            committed,
            worktree_fingerprint(dir.path()),
            "a commit of nothing is a move"
        );
    }

    #[test]
    fn a_plain_directory_moves_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        moves(dir.path());
    }
}

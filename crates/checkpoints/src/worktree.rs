//! The fingerprint of a worktree.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use pod_core::{PodLayout, StartHead};
use sha2::{Digest as _, Sha256};

use crate::Fingerprint;
use crate::git::{Git, GitError, Look};

/// A tree with more entries than that is not walked to its end, and so tells nothing.
const WALK_LIMIT: usize = 200_000;

/// Git keeps the limit itself; what hangs beyond it is a dead mount.
const BEYOND_GIT: Duration = Duration::from_millis(500);

/// One moment of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// What it is compared by.
    pub fingerprint: Fingerprint,
    /// HEAD, where it is a repository.
    pub head: Option<StartHead>,
}

/// The moment of a project: by git where it is a repository, else by names, sizes and times.
///
/// `None` if it could not be taken within the limit. Git is asked without optional locks, so the user's index
/// stays as it is. It may run filters that the repository configures; they are ended with it.
pub fn worktree(project: &Path, look: &Look) -> Option<Worktree> {
    let (done, wait) = mpsc::channel();
    let limit = look.limit + BEYOND_GIT;
    let (project, look) = (project.to_owned(), look.clone());
    std::thread::spawn(move || {
        let found = by_git(&project, &look).unwrap_or_else(|| by_walk(&project));
        // Nobody waits any more once the limit is over.
        let _sent = done.send(found);
    });
    wait.recv_timeout(limit).ok().flatten()
}

/// `None` if git is not there or the project is no repository; `Some(None)` if git failed otherwise.
fn by_git(project: &Path, look: &Look) -> Option<Option<Worktree>> {
    // Starting git only to hear that there is no repository costs more than the walk.
    let top = top_of(project)?;
    let args = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--no-renames",
    ];
    let more = ["--ignore-submodules=none", "--", "."];
    let output = match Git::new(project, look).run(args.iter().chain(&more)) {
        Ok(output) => output,
        Err(GitError::Start(_)) => return None,
        Err(error) if error.code() == Some(128) => return None,
        Err(_) => return Some(None),
    };
    let mut hasher = Sha256::new();
    let mut head = None;
    for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        hasher.update(entry);
        hasher.update([0]);
        if let Some(oid) = entry.strip_prefix(b"# branch.oid ") {
            head = Some(match oid {
                b"(initial)" => StartHead::Unborn,
                oid => StartHead::Commit(String::from_utf8_lossy(oid).into_owned()),
            });
        }
        // The listing says that a path differs; what it is now is in its size and times.
        if let Some(stamp) = path_of(entry).and_then(|path| fs::symlink_metadata(top.join(path)).ok()) {
            update(&mut hasher, &stamp);
        }
    }
    Some(Some(Worktree {
        fingerprint: Fingerprint::of(hasher),
        head,
    }))
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

fn by_walk(project: &Path) -> Option<Worktree> {
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
    Some(Worktree {
        fingerprint: Fingerprint::of(hasher),
        head: None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    fn look() -> Look {
        Look {
            limit: Duration::from_secs(30),
            mark: None,
        }
    }

    #[test]
    fn a_filter_that_never_ends_is_ended_and_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        fs::write(dir.path().join("file"), "a").unwrap();
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "one"]);
        fs::write(dir.path().join(".git/info/attributes"), "* filter=x\n").unwrap();
        let pid_file = dir.path().join(".git/pid");
        let filter = format!("echo $$ >'{}'; exec sleep 600", pid_file.display());
        git(dir.path(), &["config", "filter.x.clean", &filter]);
        fs::write(dir.path().join("file"), "b").unwrap();
        let short = Look {
            limit: Duration::from_secs(2),
            mark: None,
        };
        assert_eq!(worktree(dir.path(), &short), None);
        let pid = fs::read_to_string(&pid_file).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let lives = || fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
        while lives() {
            assert!(
                std::time::Instant::now() < deadline,
                "the filter outlived the look"
            );
            std::thread::yield_now();
        }
    }

    fn moves(dir: &Path) {
        let taken = || worktree(dir, &look());
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
        let before = worktree(dir.path(), &look());
        fs::write(dir.path().join("tracked"), "b").unwrap();
        assert_ne!(before, worktree(dir.path(), &look()));
        assert_eq!(index, fs::read(dir.path().join(".git/index")).unwrap());
        assert!(!dir.path().join(".git/index.lock").exists());
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "two"]);
        let committed = worktree(dir.path(), &look());
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "three"]);
        assert_ne!(
            committed,
            worktree(dir.path(), &look()),
            "a commit of nothing is a move"
        );
    }

    #[test]
    fn a_plain_directory_moves_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        moves(dir.path());
    }
}

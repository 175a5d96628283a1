//! The git repository that a project lies in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pod_core::{BranchCheck, ClaimedCommit, Commit, CommitFacts, StartHead, Timestamp};

use crate::git::{Git, GitError, Look};

/// How many commits are looked at.
const COMMITS: u32 = 200;

/// A repository, as it was when it was found.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Git at the top of the worktree.
    pub(crate) git: Git,
    pub(crate) top: PathBuf,
    /// The project below the top; empty where it is the top.
    pub(crate) below: PathBuf,
    pub(crate) head: Option<Head>,
    index_lock: PathBuf,
    /// Whether files are taken as they are, by no filter.
    pub(crate) unfiltered: bool,
}

/// The commit that is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) commit: String,
    pub(crate) tree: String,
}

impl Repository {
    /// Finds the repository of a project; `None` if it is in none, or git is not there and neither is one.
    pub fn find(project: &Path, look: &Look) -> Result<Option<Self>, GitError> {
        // Starting git only to hear that there is no repository costs more than the look.
        if !project
            .ancestors()
            .any(|dir| dir.join(".git").symlink_metadata().is_ok())
        {
            return Ok(None);
        }
        let git = Git::new(project, look);
        let asked = ["rev-parse", "--is-inside-work-tree", "--show-cdup"];
        let lock = ["--git-path", "index.lock"];
        let born = git.run(asked.iter().chain(&["HEAD", "HEAD^{tree}"]).chain(&lock));
        let (said, born) = match born {
            Ok(said) => (said, true),
            // Also where there is no commit yet.
            Err(error) if error.code() == Some(128) => match git.run(asked.iter().chain(&lock)) {
                Ok(said) => (said, false),
                Err(GitError::Failed { words, .. }) if words.contains("not a git repository") => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        let mut lines = said.splitn(if born { 5 } else { 3 }, |byte| *byte == b'\n');
        let mut next = || lines.next().unwrap_or_default();
        if next() != b"true" {
            return Ok(None);
        }
        let top = project.join(OsStr::from_bytes(next()));
        let head = born.then(|| Head {
            commit: String::from_utf8_lossy(next()).into_owned(),
            tree: String::from_utf8_lossy(next()).into_owned(),
        });
        let index_lock = next();
        let index_lock = project.join(OsStr::from_bytes(
            index_lock.strip_suffix(b"\n").unwrap_or(index_lock),
        ));
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (top, real_project) = (real(&top), real(project));
        let below = real_project
            .strip_prefix(&top)
            .unwrap_or(Path::new(""))
            .to_owned();
        Ok(Some(Self {
            git: git.within(&top),
            top,
            below,
            head,
            index_lock,
            unfiltered: false,
        }))
    }

    /// The commit that is checked out.
    pub fn head(&self) -> Option<&str> {
        self.head.as_ref().map(|head| head.commit.as_str())
    }

    /// A lock of the user's index that somebody left or holds: git refuses to change anything beside it.
    pub fn index_lock(&self) -> Option<&Path> {
        self.index_lock
            .symlink_metadata()
            .is_ok()
            .then_some(self.index_lock.as_path())
    }

    /// The project as a pathspec at the top.
    pub(crate) fn pathspec(&self) -> OsString {
        if self.below.as_os_str().is_empty() {
            ".".into()
        } else {
            self.below.clone().into_os_string()
        }
    }

    /// The same repository without its attributes: no filter runs.
    pub(crate) fn unfiltered(&self) -> Result<Self, GitError> {
        let git = self.git.with_attributes_of("");
        let empty = git.line(["hash-object", "-t", "tree", "/dev/null"])?;
        Ok(Self {
            git: git.with_attributes_of(&empty),
            unfiltered: true,
            ..self.clone()
        })
    }

    /// The tree of nothing, in this repository's hash.
    pub(crate) fn empty_tree(&self) -> Result<String, GitError> {
        self.git.line(["hash-object", "-t", "tree", "/dev/null"])
    }

    /// The commits since `start`, newest first.
    pub fn commits_since(&self, start: &StartHead) -> Result<Vec<Commit>, GitError> {
        let Some(head) = self.head() else {
            return Ok(Vec::new());
        };
        let range = match start {
            StartHead::Unborn => head.to_owned(),
            StartHead::Commit(start) => format!("{start}..{head}"),
        };
        let most = format!("--max-count={COMMITS}");
        let said = self.git.line(["log", &most, "--format=%h %s", &range, "--"])?;
        let commit = |line: &str| {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            Commit {
                id: id.to_owned(),
                subject: subject.to_owned(),
            }
        };
        Ok(said.lines().map(commit).collect())
    }

    /// What below the project differs from `start` now, with git's letter in front: committed, edited or new.
    pub fn changed_since(&self, start: &StartHead) -> Result<Vec<String>, GitError> {
        let start = match start {
            StartHead::Unborn => self.empty_tree()?,
            StartHead::Commit(start) => start.clone(),
        };
        let args = [
            "diff",
            "--name-status",
            "--no-renames",
            "--no-ext-diff",
            "-z",
            &start,
            "--",
        ];
        let tracked = self
            .git
            .run(args.map(OsString::from).into_iter().chain([self.pathspec()]))?;
        let args = ["ls-files", "--others", "--exclude-standard", "-z", "--"];
        let others = self
            .git
            .run(args.map(OsString::from).into_iter().chain([self.pathspec()]))?;
        let fields = |said: &[u8]| -> Vec<String> {
            let fields = said.split(|byte| *byte == 0).filter(|field| !field.is_empty());
            fields
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .collect()
        };
        let mut changed: Vec<String> = fields(&tracked).chunks(2).map(|pair| pair.join(" ")).collect();
        changed.extend(fields(&others).iter().map(|path| format!("? {path}")));
        Ok(changed)
    }

    /// The refs below a prefix.
    pub fn refs(&self, prefix: &str) -> Result<Vec<String>, GitError> {
        let said = self.git.line(["for-each-ref", "--format=%(refname)", prefix])?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// Removes refs. One that is not there is no error.
    pub fn remove_refs(&self, names: &[String]) -> Result<(), GitError> {
        let lines: String = names.iter().map(|name| format!("delete {name}\0\0")).collect();
        self.git
            .feed(["update-ref", "-z", "--stdin"], lines.into_bytes())
            .map(drop)
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> Option<String> {
        self.git.line(["symbolic-ref", "--quiet", "--short", "HEAD"]).ok()
    }

    /// The commit that a branch stands at: a local one, else a remote's. A tag, or any other expression, is none.
    fn tip(&self, branch: &str) -> Result<Option<String>, GitError> {
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        for place in ["refs/heads", "refs/remotes"] {
            let name = format!("{place}/{branch}");
            if self.git.run(["check-ref-format", &name]).is_err() {
                continue;
            }
            match self
                .git
                .line(["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
            {
                Ok(tip) => return Ok(Some(tip)),
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What git knows of a commit that a report claims, and whether it is on `branch`.
    pub fn claimed(&self, commit: &str, branch: Option<&str>) -> Result<ClaimedCommit, GitError> {
        let shown = pod_core::quoted(commit, 80);
        let hex = commit.len() >= 4 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex {
            return Ok(ClaimedCommit::NotFound(format!("`{shown}` is no commit id")));
        }
        let resolve = |name: String| {
            self.git
                .line(["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
        };
        let id = match resolve(format!("{commit}^{{commit}}")) {
            // A branch may be named like an id.
            Ok(id) if !id.starts_with(&commit.to_ascii_lowercase()) => {
                return Ok(ClaimedCommit::NotFound(format!("git has no commit `{shown}`")));
            }
            Ok(id) => id,
            Err(error) if error.code().is_some() => {
                return Ok(ClaimedCommit::NotFound(format!("git has no commit `{shown}`")));
            }
            Err(error) => return Err(error),
        };
        let said = self
            .git
            .line(["show", "--no-patch", "--format=%ct%n%B", &id, "--"])?;
        let (seconds, message) = said.split_once('\n').unwrap_or((&said, ""));
        let seconds: i64 = seconds.trim().parse().map_err(|_| GitError::Unclear {
            command: "show".to_owned(),
        })?;
        let args = [
            "diff-tree",
            "--root",
            "--no-commit-id",
            "--name-only",
            "-r",
            "-m",
            "--first-parent",
            "-z",
            &id,
        ];
        let files = self.git.run(args)?;
        let branch = match branch {
            None => BranchCheck::Unchecked,
            Some(branch) => match self.tip(branch)? {
                None => BranchCheck::NoSuchBranch,
                Some(tip) => match self.git.run(["merge-base", "--is-ancestor", &id, &tip]) {
                    Ok(_) => BranchCheck::On,
                    Err(error) if error.code() == Some(1) => BranchCheck::NotOn,
                    Err(error) => return Err(error),
                },
            },
        };
        Ok(ClaimedCommit::Found(CommitFacts {
            id,
            committed_at: Timestamp::from_millis(seconds.saturating_mul(1000)),
            message: message.to_owned(),
            files: files
                .split(|byte| *byte == 0)
                .filter(|path| !path.is_empty())
                .map(|path| OsString::from_vec(path.to_vec()).to_string_lossy().into_owned())
                .collect(),
            branch,
        }))
    }
}

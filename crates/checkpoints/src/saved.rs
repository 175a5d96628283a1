//! Keeps work that nobody committed.

use std::path::Path;

use pod_core::{ByteSize, PodId, SavedWork, saved_ref};

use crate::content::bytes_shown;
use crate::git::GitError;
use crate::repository::Repository;
use crate::snapshot::Large;

/// How many paths that were left out are named in a record.
const NAMED: usize = 100;

/// What became of the uncommitted work of a wake-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saving {
    /// There was none, but for these paths, which were left out.
    Nothing {
        /// Shown harmlessly.
        left_out: Vec<String>,
    },
    /// It is a commit.
    Saved(SavedWork),
}

/// The names of paths that were left out: so many, and how many more.
fn named(paths: &[Vec<u8>]) -> Vec<String> {
    let mut names: Vec<String> = paths.iter().take(NAMED).map(|path| bytes_shown(path)).collect();
    if paths.len() > NAMED {
        names.push(format!("… and {} more", paths.len() - NAMED));
    }
    names
}

impl Repository {
    /// Keeps what differs from HEAD in the project as a commit at `refs/agents-pod/<podId>/<n>`.
    ///
    /// Index, HEAD, stash and files of the user stay as they are, and no hook runs. Only the wake-up's own lock
    /// keeps two of these apart: `index` is used by one at a time.
    pub fn save_work(&self, pod: &PodId, n: u32, index: &Path, limit: ByteSize) -> Result<Saving, GitError> {
        let snapshot = self.snapshot(index, Large::LeaveOut(limit))?;
        let left_out = named(&snapshot.left_out);
        // A filter that hung has had its time.
        let git = self.git.anew();
        let unchanged = match &self.head {
            Some(head) => head.tree == snapshot.tree,
            None => git.line(["hash-object", "-t", "tree", "/dev/null"])? == snapshot.tree,
        };
        if unchanged {
            return Ok(Saving::Nothing { left_out });
        }
        let mut message = format!(
            "Unsaved work of wake-up {n} of pod {pod}\n\nKept by agents-pod when the wake-up was cut off.\n"
        );
        if !left_out.is_empty() {
            message.push_str(&format!("Left out:\n  {}\n", left_out.join("\n  ")));
        }
        let mut args = vec!["commit-tree", "--no-gpg-sign", &snapshot.tree];
        if let Some(head) = &self.head {
            args.extend(["-p", &head.commit]);
        }
        let commit = git.feed(args, message.into_bytes())?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        let name = saved_ref(pod, n);
        git.run(["update-ref", "--no-deref", &name, &commit])?;
        Ok(Saving::Saved(SavedWork::Kept {
            name,
            commit,
            left_out,
        }))
    }
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;

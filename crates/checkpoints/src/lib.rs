//! What a project holds and where its work stands: documents, worktree, repository, waves of subagents.
//!
//! A fingerprint tells whether documents or a worktree have moved. It is for comparing two moments of one place, and
//! for nothing else: it is no content hash, it proves nothing about another machine, and where it could not be taken
//! nobody may conclude that nothing changed. A snapshot is the content itself, as a git tree.

#![forbid(unsafe_code)]

mod content;
mod git;
mod index;
#[cfg(test)]
mod repo_tests;
mod repository;
mod saved;
mod snapshot;
mod tasks;
mod wave;
mod worktree;

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pod_core::PodLayout;
use pod_disk::{DiskError, Durability};
use sha2::{Digest as _, Sha256};

pub use content::Content;
pub use git::{GitError, Look};
pub use repository::Repository;
pub use saved::Saving;
pub use snapshot::{Large, Snapshot};
pub use tasks::{all_ticked, open_tasks};
pub use wave::{Dispatch, Drained, Found, Wave, WaveError, find_root};
pub use worktree::{Worktree, worktree};

/// Makes the directory of all that is ours in a project, which keeps itself out of git's sight, unless it stands.
pub fn ensure_base(project: &Path) -> Result<(), DiskError> {
    let base = Path::new(PodLayout::BASE);
    pod_disk::create_dirs_below(project, base)?;
    let ignore = base.join(".gitignore");
    match pod_disk::stat_below(project, &ignore)? {
        Some(_) => Ok(()),
        None => pod_disk::replace_below(project, &ignore, b"*\n", Durability::Atomic),
    }
}

/// How much of a document counts.
const DOCUMENT_LIMIT: u64 = 16 << 20;

const O_NOFOLLOW_NONBLOCK: i32 = 0o400_000 | 0o4_000;

/// One moment of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn bytes(self) -> [u8; 32] {
        self.0
    }

    fn of(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

/// The fingerprint of some documents, by content. A missing one is a moment too; one that cannot be read is
/// none.
pub fn documents_fingerprint<'a>(documents: impl IntoIterator<Item = &'a Path>) -> Option<Fingerprint> {
    let mut hasher = Sha256::new();
    for path in documents {
        match read_document(path) {
            Ok(bytes) => {
                hasher.update([1]);
                hasher.update(Sha256::digest(&bytes));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => hasher.update([0]),
            Err(_) => return None,
        }
    }
    Some(Fingerprint::of(hasher))
}

/// Reads a document without following a symlink and without waiting for a FIFO.
pub fn read_document(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NOFOLLOW_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(DOCUMENT_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_compared_by_content_and_a_link_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (tasks, link) = (dir.path().join("TASKS.md"), dir.path().join("link"));
        let taken = || documents_fingerprint([tasks.as_path()]);
        let missing = taken();
        std::fs::write(&tasks, "a").unwrap();
        let first = taken();
        assert!(missing.is_some() && missing != first);
        std::fs::write(&tasks, "b").unwrap();
        assert_ne!(first, taken());
        std::fs::write(&tasks, "a").unwrap();
        assert_eq!(first, taken());
        std::os::unix::fs::symlink(&tasks, &link).unwrap();
        assert_eq!(documents_fingerprint([link.as_path()]), None);
    }
}

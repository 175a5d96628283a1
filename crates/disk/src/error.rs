//! The one error of this crate: what was tried, on which file, and what the system said.

use std::io;
use std::path::{Path, PathBuf};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", shown(path))]
pub struct DiskError {
    /// What was tried, as a verb: `read`, `replace`, `lock`.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl DiskError {
    /// Names the file beside an error that does not.
    pub fn new(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self {
            action,
            path: path.into(),
            source: source.into(),
        }
    }

    /// Whether the disk, or the quota on it, is used up.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }

    /// Whether the file is not there.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// A path as it may stand in a message: on one line, control characters escaped.
pub fn shown(path: &Path) -> String {
    pod_core::quoted(&path.to_string_lossy(), 4096)
}

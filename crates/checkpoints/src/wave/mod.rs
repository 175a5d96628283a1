//! The files of a wave of subagents.

mod completions;
mod drain;
mod scan;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pod_core::{SubCheckpoint, SubCheckpointError, SubId, Timestamp, WaveId, WaveLayout};
use pod_disk::{DiskError, Durability, FileLock, LockError, LockMode};
use serde::{Deserialize, Serialize};

pub use drain::Drained;
pub use scan::Found;

/// How long a call waits for another of the same subagent.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// A checkpoint of another version may be longer than ours.
const ANY_VERSION: u64 = 1 << 20;

/// No STATE.md is longer.
const STATE_LIMIT: u64 = 16 << 20;

/// Why something could not be done with a wave.
#[derive(Debug, thiserror::Error)]
pub enum WaveError {
    /// The root that the environment names is none.
    #[error(
        "AGENTS_POD_PARENT_PROJECT_ROOT is `{}`, which is {why}",
        pod_disk::shown(root)
    )]
    Root {
        /// What it names.
        root: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A worktree cannot be drained into itself.
    #[error("`{}` is the root that it would be drained into", pod_disk::shown(root))]
    SameRoot {
        /// Both.
        root: PathBuf,
    },
    /// A file could not be reached.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody else works on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What was handed over, or stands there, is no checkpoint.
    #[error("`{}` is no checkpoint of ours", pod_disk::shown(file))]
    Checkpoint {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: SubCheckpointError,
    },
}

/// The root of the project whose waves a call is about: `parent` is what `AGENTS_POD_PARENT_PROJECT_ROOT` says, and
/// wins; else the nearest directory from `cwd` upwards that holds `.git` or `.agents-pod`; else `cwd`.
///
/// A subagent in a disposable worktree reaches its parent's files by the variable alone.
pub fn find_root(parent: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, WaveError> {
    if let Some(parent) = parent {
        let root = PathBuf::from(parent);
        let why = if !root.is_absolute() {
            "not absolute"
        } else if !root.is_dir() {
            "no directory"
        } else {
            return Ok(root);
        };
        return Err(WaveError::Root { root, why });
    }
    let marked = |dir: &&Path| {
        let holds = |name: &str| dir.join(name).symlink_metadata().is_ok();
        holds(".git") || holds(pod_core::PodLayout::BASE)
    };
    Ok(cwd.ancestors().find(marked).unwrap_or(cwd).to_owned())
}

/// When a subagent was sent to work, and where the repository stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The format's version.
    pub schema_version: u32,
    /// The wave.
    pub wave_id: WaveId,
    /// The subagent.
    pub sub_id: SubId,
    /// When.
    pub at: Timestamp,
    /// HEAD at that time.
    pub head: Option<String>,
    /// The branch that its commits have to be on, if it was said.
    pub branch: Option<String>,
}

/// One wave of one project.
#[derive(Debug, Clone)]
pub struct Wave {
    root: PathBuf,
    id: WaveId,
    layout: WaveLayout,
}

impl Wave {
    /// The wave `id` of the project at `root`. Nothing is made or looked at.
    pub fn at(root: impl Into<PathBuf>, id: WaveId) -> Self {
        Self {
            root: root.into(),
            layout: WaveLayout::new(&id),
            id,
        }
    }

    /// The project's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its name.
    pub fn id(&self) -> &WaveId {
        &self.id
    }

    /// A subagent's checkpoint file.
    pub fn file(&self, sub: &SubId) -> PathBuf {
        self.root.join(self.layout.checkpoint(sub))
    }

    /// Whether anything of it is there.
    pub fn exists(&self) -> Result<bool, WaveError> {
        match pod_disk::stat_below(&self.root, self.layout.dir()) {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a checkpoint. Calls of one subagent wait for each other; those of different ones do not.
    pub fn write(&self, checkpoint: &SubCheckpoint) -> Result<(), WaveError> {
        let file = self.layout.checkpoint(&checkpoint.sub);
        let refused = |source| WaveError::Checkpoint {
            file: self.root.join(&file),
            source,
        };
        let bytes = checkpoint.to_bytes().map_err(refused)?;
        let _held = self.lock(&checkpoint.sub)?;
        // What a newer version wrote is not for us to replace.
        if let Ok(Some(old)) = pod_disk::read_below(&self.root, &file, ANY_VERSION)
            && let Err(newer @ SubCheckpointError::Newer(_)) = SubCheckpoint::parse(&old)
        {
            return Err(refused(newer));
        }
        Ok(pod_disk::replace_below(
            &self.root,
            &file,
            &bytes,
            Durability::Durable,
        )?)
    }

    /// Notes that a subagent is sent to work.
    pub fn dispatch(&self, dispatch: &Dispatch) -> Result<(), WaveError> {
        let _held = self.lock(&dispatch.sub_id)?;
        let file = self.layout.dispatch(&dispatch.sub_id);
        let mut bytes = serde_json::to_vec(dispatch)
            .map_err(|error| DiskError::new("write", self.root.join(&file), std::io::Error::other(error)))?;
        bytes.push(b'\n');
        Ok(pod_disk::replace_below(
            &self.root,
            &file,
            &bytes,
            Durability::Durable,
        )?)
    }

    /// Notes that somebody took a subagent's work. Returns whether that is news.
    pub fn complete(&self, sub: &SubId) -> Result<bool, WaveError> {
        self.make()?;
        let _held = pod_disk::lock_below(
            &self.root,
            &self.layout.state_lock(),
            LockMode::Exclusive,
            LOCK_WAIT,
        )?;
        let state = self.state()?;
        let mut completed = completions::completed(&state);
        if !completed.insert(sub.clone()) {
            return Ok(false);
        }
        let text = completions::with_completed(&state, &self.id, &completed);
        pod_disk::replace_below(
            &self.root,
            &self.layout.state(),
            text.as_bytes(),
            Durability::Durable,
        )?;
        Ok(true)
    }

    fn state(&self) -> Result<String, WaveError> {
        let read = pod_disk::read_below(&self.root, &self.layout.state(), STATE_LIMIT);
        match read {
            // It is written back whole, so nothing of it may be guessed.
            Ok(bytes) => String::from_utf8(bytes.unwrap_or_default()).map_err(|error| {
                let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error());
                DiskError::new("read", self.root.join(self.layout.state()), error).into()
            }),
            Err(error) if error.is_missing() => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn lock(&self, sub: &SubId) -> Result<FileLock, WaveError> {
        self.make()?;
        let lock = self.layout.lock(sub);
        Ok(pod_disk::lock_below(
            &self.root,
            &lock,
            LockMode::Exclusive,
            LOCK_WAIT,
        )?)
    }

    fn make(&self) -> Result<(), WaveError> {
        crate::ensure_base(&self.root)?;
        Ok(pod_disk::create_dirs_below(&self.root, self.layout.dir())?)
    }
}

#[cfg(test)]
#[path = "wave_tests.rs"]
mod tests;

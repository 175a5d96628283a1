//! What can go wrong, and the way out of each.

use std::path::PathBuf;

use pod_core::PodId;
use pod_disk::{DiskError, LockError, shown};

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such pod.
    #[error("there is no pod `{id}`")]
    Missing {
        /// The pod.
        id: PodId,
    },
    /// The file is there and is no record: torn, empty, edited by a slip, or of another pod.
    #[error("`{}` is not a readable record: {why} at byte {byte}", shown(file))]
    Unreadable {
        /// The file, which stands in quarantine if it was set aside already.
        file: PathBuf,
        /// Where it stops making sense, counted from 0.
        byte: u64,
        /// What is wrong there.
        why: String,
    },
    /// A newer version of this program wrote it.
    #[error(
        "`{}` has schemaVersion {version}, which is newer than this program",
        shown(file)
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file could not be opened or read.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl ReadError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } => "`podctl ls` shows the pods that exist".to_owned(),
            Self::Unreadable { file, .. } => format!(
                "repair `{}` by hand and keep it in `registry/pods`, or delete it to free its id",
                shown(file)
            ),
            Self::Newer { .. } => {
                "run the newer version of agents-pod that wrote it; this one changes nothing there".to_owned()
            }
            Self::Disk(error) => disk_hint(error),
        }
    }
}

/// Why a change to the registry did not happen.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The lock was not had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The record that was to be changed could not be read, and is left as it is.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A pod of this name exists.
    #[error("pod `{id}` exists already")]
    Exists {
        /// The pod.
        id: PodId,
    },
    /// A record of this name was set aside, and its name stays taken.
    #[error("the id `{id}` belongs to a record that was set aside as `{}`", shown(file))]
    SetAside {
        /// The pod.
        id: PodId,
        /// The file in quarantine.
        file: PathBuf,
    },
    /// The record was to be set aside and can be read.
    #[error("the record of `{id}` can be read, so it is not set aside")]
    NotBroken {
        /// The pod.
        id: PodId,
    },
    /// A record was to be written under the lock of another pod, or in a version that is not ours.
    #[error("a record of `{found}` is not written where the lock is for `{locked}`")]
    Foreign {
        /// The pod whose lock is held.
        locked: PodId,
        /// The pod in the record.
        found: PodId,
    },
    /// The record could not be put into JSON.
    #[error("cannot put the record of `{id}` into JSON")]
    Encode {
        /// The pod.
        id: PodId,
        /// Why.
        source: serde_json::Error,
    },
}

impl RegistryError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(error) | Self::Lock(LockError::Disk(error)) => disk_hint(error),
            Self::Lock(LockError::Busy { .. }) => {
                "try again; if the holder hangs, find out why, or end it: the lock goes with it".to_owned()
            }
            Self::Read(error) => error.hint(),
            Self::Exists { id } => {
                format!("choose another id, or remove the old one with `podctl rm {id}` once it has ended")
            }
            Self::SetAside { file, .. } => {
                format!("choose another id, or repair or delete `{}`", shown(file))
            }
            Self::NotBroken { .. } => "nothing has to be done".to_owned(),
            Self::Foreign { .. } | Self::Encode { .. } => "please report this as a bug".to_owned(),
        }
    }

    /// Whether the disk, or the quota on it, is used up.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Disk(error) | Self::Lock(LockError::Disk(error)) | Self::Read(ReadError::Disk(error)) => {
                error.is_full()
            }
            Self::Lock(LockError::Busy { .. })
            | Self::Read(_)
            | Self::Exists { .. }
            | Self::SetAside { .. }
            | Self::NotBroken { .. }
            | Self::Foreign { .. }
            | Self::Encode { .. } => false,
        }
    }
}

/// Why a read-modify-write changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError<E> {
    /// Locking or writing failed.
    #[error(transparent)]
    Registry(RegistryError),
    /// The record could not be read.
    #[error(transparent)]
    Read(ReadError),
    /// The change itself was refused.
    #[error(transparent)]
    Refused(E),
}

impl<E> From<RegistryError> for UpdateError<E> {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Read(error) => Self::Read(error),
            other => Self::Registry(other),
        }
    }
}

fn disk_hint(error: &DiskError) -> String {
    if error.is_full() {
        "free some space on that file system and try again; nothing was changed".to_owned()
    } else {
        format!(
            "check `{}` and the permissions on the way to it",
            shown(&error.path)
        )
    }
}

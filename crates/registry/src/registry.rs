//! Opening the registry, reading one record, and taking the lock.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pod_core::{HomeLayout, PodId, PodRecord};
use pod_disk::{FileLock, LockMode};

use crate::encoding::decode;
use crate::listing::set_aside;
use crate::{LockedPod, LockedRegistry, ReadError, RegistryError, UpdateError};

/// No record comes near this; what does is not read into memory.
const LONGEST_RECORD: u64 = 64 << 20;

/// The records of one home.
#[derive(Debug, Clone)]
pub struct Registry {
    home: Arc<HomeLayout>,
}

impl Registry {
    /// Opens the registry of a home, creating its directories, mode 0700, where they are missing.
    pub fn open(home: HomeLayout) -> Result<Self, RegistryError> {
        for directory in [home.shards(), home.pods(), home.quarantine()] {
            pod_disk::create_dirs(&directory)?;
        }
        Ok(Self { home: Arc::new(home) })
    }

    /// The places of its home.
    pub fn home(&self) -> &HomeLayout {
        &self.home
    }

    /// Reads a pod's record as it stands, without a lock.
    pub fn read(&self, id: &PodId) -> Result<PodRecord, ReadError> {
        if let Some(record) = read_file(&self.home.pods(), &format!("{id}.json"), id)? {
            return Ok(record);
        }
        match set_aside(&self.home, id)? {
            Some(file) => Err(diagnosis(&file, id)),
            None => Err(ReadError::Missing { id: id.clone() }),
        }
    }

    /// Takes the lock of one pod, waiting for up to `wait` in all.
    ///
    /// Nobody may wait for a process while holding it, nor take a second one: pods share shards.
    pub fn lock(&self, id: &PodId, wait: Duration) -> Result<LockedPod<'_>, RegistryError> {
        let deadline = Instant::now() + wait;
        // Passing the turnstile is what lets one who waits for the whole registry ever have it.
        let turnstile = FileLock::take(&self.home.turnstile(), LockMode::Shared, wait)?;
        let shared = FileLock::take(&self.home.lock(), LockMode::Shared, left(deadline))?;
        turnstile.unlock();
        let shard = FileLock::take(&self.home.shard(id), LockMode::Exclusive, left(deadline))?;
        Ok(LockedPod::new(self, id.clone(), shard, shared))
    }

    /// Takes the lock of the whole registry, waiting for up to `wait` in all.
    ///
    /// While it waits nobody new gets a lock, so it waits for those alone who hold one already.
    pub fn lock_all(&self, wait: Duration) -> Result<LockedRegistry<'_>, RegistryError> {
        let deadline = Instant::now() + wait;
        let turnstile = FileLock::take(&self.home.turnstile(), LockMode::Exclusive, wait)?;
        let all = FileLock::take(&self.home.lock(), LockMode::Exclusive, left(deadline))?;
        Ok(LockedRegistry::new(self, all, turnstile))
    }

    /// Reads a record, changes it and writes it, all under its lock, waiting for that for up to `wait`.
    ///
    /// Nothing is written if `change` refuses or leaves the record as it was. `change` runs with the lock
    /// held, so it must not wait for anything.
    pub fn update<T, E>(
        &self,
        id: &PodId,
        wait: Duration,
        change: impl FnOnce(&mut PodRecord) -> Result<T, E>,
    ) -> Result<T, UpdateError<E>> {
        let locked = self.lock(id, wait)?;
        let old = locked.read().map_err(UpdateError::Read)?;
        let mut new = old.clone();
        let answer = change(&mut new).map_err(UpdateError::Refused)?;
        if new != old {
            locked.replace(&new)?;
        }
        Ok(answer)
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Reads the record of `id` from a file; `None` if there is no such file.
pub(crate) fn read_file(directory: &Path, name: &str, id: &PodId) -> Result<Option<PodRecord>, ReadError> {
    let file = directory.join(name);
    match pod_disk::read_below(directory, Path::new(name), LONGEST_RECORD) {
        Ok(Some(bytes)) => decode(&file, id, &bytes).map(Some),
        Ok(None) => Ok(None),
        Err(error) if error.source.kind() == io::ErrorKind::FileTooLarge => {
            let why = "it goes on".to_owned();
            Err(ReadError::Unreadable {
                file,
                byte: LONGEST_RECORD,
                why,
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// What is wrong with a file in quarantine.
pub(crate) fn diagnosis(file: &Path, id: &PodId) -> ReadError {
    let (directory, name) = (file.parent(), file.file_name().and_then(|name| name.to_str()));
    let read = match (directory, name) {
        (Some(directory), Some(name)) => read_file(directory, name, id),
        _ => Ok(None),
    };
    match read {
        Err(ReadError::Unreadable { file, byte, why }) => ReadError::Unreadable {
            file,
            byte,
            why: format!("it was set aside: {why}"),
        },
        Err(error) => error,
        Ok(_) => ReadError::Unreadable {
            file: file.to_owned(),
            byte: 0,
            why: "it was set aside; nothing looks wrong now".to_owned(),
        },
    }
}

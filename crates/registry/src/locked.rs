//! What may be done while a lock is held. Only these guards write.

use std::fs;
use std::path::PathBuf;

use pod_core::{PodId, PodRecord, SCHEMA_VERSION};
use pod_disk::{DiskError, FileLock};

use crate::encoding::encode;
use crate::listing::set_aside;
use crate::{ReadError, Registry, RegistryError};

/// One pod, which nobody else changes, adds or removes while this lives.
#[derive(Debug)]
#[must_use = "the pod is unlocked when this is dropped"]
pub struct LockedPod<'a> {
    registry: &'a Registry,
    id: PodId,
    // Released in this order, so that who waits for the whole registry finds no shard taken.
    _shard: FileLock,
    _shared: FileLock,
}

impl<'a> LockedPod<'a> {
    pub(crate) fn new(registry: &'a Registry, id: PodId, shard: FileLock, shared: FileLock) -> Self {
        Self {
            registry,
            id,
            _shard: shard,
            _shared: shared,
        }
    }

    /// The pod.
    pub fn id(&self) -> &PodId {
        &self.id
    }

    /// Reads the record, which stays as it is until this guard changes it.
    pub fn read(&self) -> Result<PodRecord, ReadError> {
        self.registry.read(&self.id)
    }

    /// Adds the pod. Its id must be free: neither in use nor set aside.
    pub fn create(&self, record: &PodRecord) -> Result<(), RegistryError> {
        let file = self.registry.home().pod(&self.id);
        if let Some(file) = set_aside(self.registry.home(), &self.id)? {
            return Err(RegistryError::SetAside {
                id: self.id.clone(),
                file,
            });
        }
        match fs::symlink_metadata(&file) {
            Ok(_) => Err(RegistryError::Exists { id: self.id.clone() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.replace(record),
            Err(error) => Err(DiskError::new("look at", file, error).into()),
        }
    }

    /// Replaces the record by a changed one. A missing, unreadable or newer one is left as it is.
    pub fn write(&self, record: &PodRecord) -> Result<(), RegistryError> {
        self.read()?;
        self.replace(record)
    }

    /// Removes the record for good. One that is missing is no error.
    pub fn remove(&self) -> Result<(), RegistryError> {
        Ok(pod_disk::remove_durably(&self.registry.home().pod(&self.id))?)
    }

    /// Sets an unreadable record aside and returns where it lies now; one that can be read is refused.
    pub fn quarantine(&self) -> Result<PathBuf, RegistryError> {
        let home = self.registry.home();
        match self.read() {
            // One that lies in quarantine already is none of ours to move.
            Err(ReadError::Unreadable { file, .. }) if file == home.pod(&self.id) => {}
            Err(ReadError::Unreadable { .. }) => {
                return Err(ReadError::Missing { id: self.id.clone() }.into());
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(RegistryError::NotBroken { id: self.id.clone() }),
        }
        let place = (1_u64..)
            .map(|count| home.quarantine().join(format!("{}.{count}.json", self.id)))
            .find(|place| {
                fs::symlink_metadata(place).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            });
        let place = place.ok_or_else(|| RegistryError::NotBroken { id: self.id.clone() })?;
        pod_disk::move_durably(&home.pod(&self.id), &place)?;
        Ok(place)
    }

    /// Writes without looking at what is there.
    pub(crate) fn replace(&self, record: &PodRecord) -> Result<(), RegistryError> {
        if record.id != self.id || record.schema_version != SCHEMA_VERSION {
            let (locked, found) = (self.id.clone(), record.id.clone());
            return Err(RegistryError::Foreign { locked, found });
        }
        let bytes = encode(record)?;
        Ok(pod_disk::replace_durably(
            &self.registry.home().pod(&self.id),
            &bytes,
        )?)
    }
}

/// The whole registry, in which nobody else changes anything while this lives.
#[derive(Debug)]
#[must_use = "the registry is unlocked when this is dropped"]
pub struct LockedRegistry<'a> {
    registry: &'a Registry,
    _all: FileLock,
    _turnstile: FileLock,
}

impl<'a> LockedRegistry<'a> {
    pub(crate) fn new(registry: &'a Registry, all: FileLock, turnstile: FileLock) -> Self {
        Self {
            registry,
            _all: all,
            _turnstile: turnstile,
        }
    }

    /// Removes the temporary files of writers that were killed, and returns how many there were.
    ///
    /// Nobody writes while this guard lives, so whatever looks like one belongs to nobody.
    pub fn clear_leftovers(&self) -> Result<usize, RegistryError> {
        let directory = self.registry.home().pods();
        let failed = |error| DiskError::new("list", &directory, error);
        let mut cleared = 0;
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with('.') {
                fs::remove_file(entry.path())
                    .map_err(|error| DiskError::new("remove", entry.path(), error))?;
                cleared += 1;
            }
        }
        Ok(cleared)
    }
}

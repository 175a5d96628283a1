//! Reading all records, one broken one stopping no other.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pod_core::{HomeLayout, PodId, PodRecord};
use pod_disk::DiskError;
use serde::Serialize;

use crate::registry::{diagnosis, read_file};
use crate::{ReadError, Registry, RegistryError};

/// Why a record is not among those that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It makes no sense. This one alone may be set aside.
    Broken,
    /// A newer version wrote it, which may well be at work on it.
    Newer,
    /// It could not be opened or read, which may pass.
    Disk,
    /// It was set aside; its id stays taken.
    SetAside,
    /// Its name is no pod id, so no pod can be meant.
    Stranger,
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The pod's id, or what stands in its place in the file's name, with control characters escaped.
    pub id: String,
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, causes included.
    pub error: String,
    /// The class of what is wrong.
    #[serde(skip)]
    pub fault: Fault,
}

/// All records of a registry.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Those that could be read, by id.
    pub records: Vec<PodRecord>,
    /// Those that could not, by id.
    pub unreadable: Vec<Unreadable>,
}

/// All records of a registry, shared with the cache that they came from.
#[derive(Debug, Clone, Default)]
pub struct CachedListing {
    /// Those that could be read, by id.
    pub records: Vec<Arc<PodRecord>>,
    /// Those that could not, by id.
    pub unreadable: Vec<Unreadable>,
}

/// What [`Registry::list_cached`] remembers from one listing to the next.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<PodId, (Stamp, Arc<PodRecord>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    mtime_ns: i128,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            mtime_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }

    /// Whether the file was written so close to `now` that another version could bear the same stamp: file
    /// clocks are coarse, and an inode is used again.
    fn is_young(self, now: SystemTime) -> bool {
        const COARSE_NS: u128 = 200_000_000;
        let now_ns = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        self.mtime_ns.unsigned_abs().abs_diff(now_ns) < COARSE_NS
    }
}

impl Registry {
    /// Reads all records, without a lock: each is whole, but not all are of one instant.
    pub fn list(&self) -> Result<Listing, RegistryError> {
        let listing = self.list_cached(&mut Cache::default())?;
        Ok(Listing {
            records: listing.records.into_iter().map(Arc::unwrap_or_clone).collect(),
            unreadable: listing.unreadable,
        })
    }

    /// Reads all records as [`Registry::list`] does, but those whose inode, size and mtime are as they were.
    pub fn list_cached(&self, cache: &mut Cache) -> Result<CachedListing, RegistryError> {
        let directory = self.home().pods();
        let failed = |error| DiskError::new("list", &directory, error);
        let now = SystemTime::now();
        let mut old = std::mem::take(&mut cache.entries);
        let mut listing = CachedListing::default();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            match record_name(&name) {
                Name::Other => {}
                Name::Stranger(id) => listing.unreadable.push(stranger(&entry, id)),
                Name::Record(id) => match self.look(&entry, &id, old.remove(&id)) {
                    Ok(Some((stamp, record))) => {
                        listing.records.push(Arc::clone(&record));
                        if !stamp.is_young(now) {
                            cache.entries.insert(id, (stamp, record));
                        }
                    }
                    Ok(None) => {}
                    Err(error) => listing.unreadable.push(unreadable(&id, entry.path(), &error)),
                },
            }
        }
        listing.unreadable.extend(quarantined(self.home())?);
        listing.records.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        listing
            .unreadable
            .sort_by(|a, b| (&a.id, &a.file).cmp(&(&b.id, &b.file)));
        Ok(listing)
    }

    /// Returns the record of a directory entry, from the cache if it is unchanged; `None` if it has gone.
    fn look(
        &self,
        entry: &DirEntry,
        id: &PodId,
        known: Option<(Stamp, Arc<PodRecord>)>,
    ) -> Result<Option<(Stamp, Arc<PodRecord>)>, ReadError> {
        // Before the file is read: a version that comes in between is then read again the next time.
        let stamp = match entry.metadata() {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DiskError::new("look at", entry.path(), error).into()),
        };
        if let Some((_, record)) = known.filter(|(old, _)| *old == stamp) {
            return Ok(Some((stamp, record)));
        }
        let record = read_file(&self.home().pods(), &format!("{id}.json"), id)?;
        Ok(record.map(|record| (stamp, Arc::new(record))))
    }
}

enum Name {
    Record(PodId),
    Stranger(String),
    /// A temporary file, or nothing of ours.
    Other,
}

fn record_name(name: &OsStr) -> Name {
    let text = name.to_string_lossy();
    match text.strip_suffix(".json") {
        Some(stem) if !stem.starts_with('.') => match stem.parse() {
            Ok(id) => Name::Record(id),
            Err(_) => Name::Stranger(pod_core::quoted(stem, 80)),
        },
        _ => Name::Other,
    }
}

fn stranger(entry: &DirEntry, id: String) -> Unreadable {
    let error = "the name of the file is no pod id".to_owned();
    Unreadable {
        id,
        file: entry.path(),
        error,
        fault: Fault::Stranger,
    }
}

fn unreadable(id: &PodId, file: PathBuf, error: &ReadError) -> Unreadable {
    let fault = match error {
        ReadError::Unreadable { .. } => Fault::Broken,
        ReadError::Newer { .. } => Fault::Newer,
        ReadError::Missing { .. } | ReadError::Disk(_) => Fault::Disk,
    };
    Unreadable {
        id: id.to_string(),
        file,
        error: chain(error),
        fault,
    }
}

fn chain(error: &ReadError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn quarantined(home: &HomeLayout) -> Result<Vec<Unreadable>, RegistryError> {
    let mut found = Vec::new();
    for (id, file) in quarantine_files(home)? {
        let error = match id.parse() {
            Ok(id) => chain(&diagnosis(&file, &id)),
            Err(_) => "the name of the file is no pod id".to_owned(),
        };
        found.push(Unreadable {
            id: pod_core::quoted(&id, 80),
            file,
            error,
            fault: Fault::SetAside,
        });
    }
    Ok(found)
}

/// The file under which a record of `id` lies in quarantine, if one does.
pub(crate) fn set_aside(home: &HomeLayout, id: &PodId) -> Result<Option<PathBuf>, DiskError> {
    let files = quarantine_files(home)?;
    Ok(files
        .into_iter()
        .find(|(of, _)| of == id.as_str())
        .map(|(_, file)| file))
}

/// The files in quarantine, each with the id in its name: what stands before the first dot.
fn quarantine_files(home: &HomeLayout) -> Result<Vec<(String, PathBuf)>, DiskError> {
    let directory = home.quarantine();
    let failed = |error| DiskError::new("list", &directory, error);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((id, _)) = name.split_once('.').filter(|(id, _)| !id.is_empty()) {
            files.push((id.to_owned(), entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

//! A registry of its own for each test, and records to put there.

use std::path::PathBuf;
use std::time::Duration;

use pod_core::{HomeLayout, PodId, PodRecord};
use pod_registry::Registry;
use tempfile::TempDir;

/// Longer than anything takes here; a wait that ends by it is a failure.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Long enough for a lock that is free, and short for one that will never be.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

pub(crate) struct Place {
    pub(crate) registry: Registry,
    _directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = HomeLayout::new(directory.path().join("home"));
        Self {
            registry: Registry::open(home).unwrap(),
            _directory: directory,
        }
    }

    /// Puts bytes where the record of `name` belongs.
    pub(crate) fn plant(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.registry.home().pod(&id(name));
        std::fs::write(&file, bytes).unwrap();
        file
    }
}

pub(crate) fn id(name: &str) -> PodId {
    name.parse().unwrap()
}

pub(crate) fn record(name: &str, goal: &str) -> PodRecord {
    serde_json::from_value(serde_json::json!({
        "schemaVersion": 1, "id": name, "project": "/p", "goal": goal, "state": "idle",
        "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z",
        "keyOfAnotherVersion": [1, 2],
    }))
    .unwrap()
}

pub(crate) fn create(registry: &Registry, name: &str, goal: &str) {
    registry
        .lock(&id(name), LONG)
        .unwrap()
        .create(&record(name, goal))
        .unwrap();
}

/// What a reader sees of a registry, on a few lines.
pub(crate) fn face(registry: &Registry) -> String {
    let listing = registry.list().unwrap();
    let records = listing
        .records
        .iter()
        .map(|record| format!("{}: {}\n", record.id, record.goal));
    let unreadable = listing
        .unreadable
        .iter()
        .map(|one| format!("{}: {:?}\n", one.id, one.fault));
    records.chain(unreadable).collect()
}

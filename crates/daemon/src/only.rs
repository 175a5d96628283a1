//! One podd a home.

use pod_core::{HomeLayout, SCHEMA_VERSION, Timestamp};
use pod_disk::{FileLock, LockMode};
use pod_process::Identity;
use serde::Serialize;

use crate::Failure;

/// Proof that this is the only podd of its home, as long as it is held.
#[derive(Debug)]
pub(crate) struct OnlyOne {
    home: HomeLayout,
    _lock: FileLock,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PoddFile {
    schema_version: u32,
    pid: i32,
    pgid: i32,
    start_ticks: u64,
    boot_id: String,
    pid_ns: u64,
    started_at: Timestamp,
    version: &'static str,
}

impl OnlyOne {
    pub(crate) fn take(home: &HomeLayout) -> Result<Self, Failure> {
        let taken = FileLock::take(&home.podd_lock(), LockMode::Exclusive, std::time::Duration::ZERO);
        let lock = taken.map_err(|error| {
            let hint = "one podd keeps a home; `podctl doctor` shows it, and `systemctl --user status podd` its unit";
            let error = anyhow::Error::new(error)
                .context(format!("another podd keeps `{}`", pod_disk::shown(home.root())));
            Failure::new(error, hint)
        })?;
        let identity = Identity::of_self().map_err(|error| Failure::new(error, "is /proc mounted here?"))?;
        let file = PoddFile {
            schema_version: SCHEMA_VERSION,
            pid: identity.pid,
            pgid: pod_process::stat(identity.pid)
                .ok()
                .flatten()
                .map_or(identity.pid, |found| found.pgid),
            start_ticks: identity.start_ticks,
            boot_id: identity.boot_id,
            pid_ns: identity.pid_ns,
            started_at: pod_reconcile::now(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let bytes = serde_json::to_vec_pretty(&file).map_err(|error| Failure::new(error, "this is a bug"))?;
        // The lock says that we run; the file only says who we are.
        let _written = pod_disk::replace(&home.podd_identity(), &bytes);
        Ok(Self {
            home: home.clone(),
            _lock: lock,
        })
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        let _removed = std::fs::remove_file(self.home.podd_identity());
    }
}

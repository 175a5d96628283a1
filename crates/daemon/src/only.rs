//! One podd a home.

use std::time::Duration;

use pod_core::{HomeLayout, Liveness, SCHEMA_VERSION, Timestamp};
use pod_disk::{FileLock, LockError, LockMode};
use pod_process::Identity;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// Proof that this is the only podd of its home, as long as it is held.
#[derive(Debug)]
pub(crate) struct OnlyOne {
    home: HomeLayout,
    _lock: FileLock,
}

/// A podd that was killed while it started a wrapper leaves its lock to that child until the child's exec.
const LINGERING: Duration = Duration::from_secs(3);

/// Whether the podd that last said who it is still lives. One that cannot be told counts as alive.
fn lives(home: &HomeLayout) -> bool {
    let said = std::fs::read(home.podd_identity()).ok();
    let file: Option<PoddFile> = said.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    file.is_some_and(|file| {
        let identity = Identity {
            pid: file.pid,
            start_ticks: file.start_ticks,
            boot_id: file.boot_id,
            pid_ns: file.pid_ns,
        };
        !matches!(identity.liveness(), Liveness::Dead { .. })
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoddFile {
    schema_version: u32,
    pid: i32,
    pgid: i32,
    start_ticks: u64,
    boot_id: String,
    pid_ns: u64,
    started_at: Timestamp,
    version: String,
}

impl OnlyOne {
    pub(crate) fn take(home: &HomeLayout) -> Result<Self, Failure> {
        let wait = if lives(home) { Duration::ZERO } else { LINGERING };
        let taken = FileLock::take(&home.podd_lock(), LockMode::Exclusive, wait);
        let lock = taken.map_err(|error| match error {
            LockError::Busy { .. } => {
                let hint = "one podd keeps a home; `podctl doctor` shows it, and `systemctl --user status podd` its unit";
                let said = format!("another podd keeps `{}`", pod_disk::shown(home.root()));
                Failure::new(anyhow::Error::new(error).context(said), hint)
            }
            LockError::Disk(_) => {
                let said = format!("cannot keep `{}`", pod_disk::shown(home.root()));
                Failure::new(anyhow::Error::new(error).context(said), "the home has to be a directory that you may write to")
            }
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
            version: env!("CARGO_PKG_VERSION").to_owned(),
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

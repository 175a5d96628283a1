//! Everything that a wave has on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pod_core::{SubCheckpoint, SubId, SubState, SubView, Timestamp, WaveLayout, sub_state};

use super::{Dispatch, Wave, WaveError, completions};

pub(super) const CHECKPOINT: &str = ".checkpoint.json";
pub(super) const MISNAMED: &str = "its name is not `subagent-<SUB>.checkpoint.json`";
const DISPATCH: &str = ".dispatch.json";

/// What was found of a wave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The checkpoints.
    pub checkpoints: BTreeMap<SubId, SubCheckpoint>,
    /// The dispatches.
    pub dispatches: BTreeMap<SubId, Dispatch>,
    /// Whose work somebody took.
    pub completed: BTreeSet<SubId>,
    /// What was skipped, and why.
    pub warnings: Vec<String>,
}

impl Found {
    /// Every subagent that left a sign.
    pub fn subs(&self) -> BTreeSet<&SubId> {
        let dispatched = self.dispatches.keys().chain(&self.completed);
        self.checkpoints.keys().chain(dispatched).collect()
    }

    /// Where a subagent stands at `now`.
    pub fn state(&self, sub: &SubId, now: Timestamp) -> SubState {
        let checkpoint = self.checkpoints.get(sub);
        let view = SubView {
            complete: self.completed.contains(sub),
            dispatched_at: self.dispatches.get(sub).map(|dispatch| dispatch.at),
            checkpoint: checkpoint.map(|checkpoint| (checkpoint.at, checkpoint.blockers().is_some())),
        };
        sub_state(view, now)
    }
}

impl Wave {
    /// Looks at all files of the wave. A file that is a symlink, no checkpoint, or of another name than it says
    /// is skipped with a warning.
    pub fn scan(&self) -> Result<Found, WaveError> {
        let mut found = Found::default();
        for name in pod_disk::list_below(&self.root, self.layout.dir())? {
            let Some(name) = name.to_str() else { continue };
            let result = if let Some(sub) = WaveLayout::sub_of(name, CHECKPOINT) {
                self.load(&sub).map(|checkpoint| {
                    found
                        .checkpoints
                        .extend(checkpoint.map(|checkpoint| (sub, checkpoint)));
                })
            } else if let Some(sub) = WaveLayout::sub_of(name, DISPATCH) {
                self.dispatched(&sub).map(|dispatch| {
                    found.dispatches.extend(dispatch.map(|dispatch| (sub, dispatch)));
                })
            } else if !name.starts_with('.') && name.contains(CHECKPOINT) {
                Err(MISNAMED.to_owned())
            } else {
                Ok(())
            };
            if let Err(why) = result {
                found
                    .warnings
                    .push(skipped(&self.root.join(self.layout.dir()).join(name), &why));
            }
        }
        found.completed = completions::completed(&self.state()?);
        Ok(found)
    }

    /// A subagent's checkpoint; `None` if there is none, and why what stands there is none otherwise.
    pub fn load(&self, sub: &SubId) -> Result<Option<SubCheckpoint>, String> {
        let limit = SubCheckpoint::LIMIT as u64;
        let read = pod_disk::read_below(&self.root, &self.layout.checkpoint(sub), limit);
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.source.to_string()),
        };
        let checkpoint = SubCheckpoint::parse(&bytes).map_err(|error| error.to_string())?;
        if checkpoint.wave != self.id || checkpoint.sub != *sub {
            return Err(format!(
                "it says that it is of subagent `{}` of wave `{}`",
                checkpoint.sub, checkpoint.wave
            ));
        }
        Ok(Some(checkpoint))
    }

    /// When a subagent was dispatched; `None` if that was not noted.
    pub fn dispatched(&self, sub: &SubId) -> Result<Option<Dispatch>, String> {
        let limit = SubCheckpoint::LIMIT as u64;
        let read = pod_disk::read_below(&self.root, &self.layout.dispatch(sub), limit);
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.source.to_string()),
        };
        let dispatch: Dispatch = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if dispatch.wave_id != self.id || dispatch.sub_id != *sub {
            return Err("its ids are others than its name says".to_owned());
        }
        Ok(Some(dispatch))
    }
}

pub(super) fn skipped(file: &Path, why: &str) -> String {
    format!(
        "`{}` is skipped: {}",
        pod_disk::shown(file),
        pod_core::quoted(why, 200)
    )
}

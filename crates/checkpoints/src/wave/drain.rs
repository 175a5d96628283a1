//! Saves the checkpoints of a disposable worktree.

use std::path::Path;

use pod_core::{SubCheckpoint, SubCheckpointError, WaveLayout};
use pod_disk::Durability;

use super::scan::skipped;
use super::{Wave, WaveError};

/// What a drain did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drained {
    /// Checkpoints that were copied.
    pub drained: u32,
    /// Checkpoints that stayed as they were in the parent, since theirs are no newer.
    pub kept: u32,
    /// What was skipped or kept, and why.
    pub warnings: Vec<String>,
}

impl Wave {
    /// Copies the wave's checkpoints from a worktree, each whole and byte for byte. It may be done again at any time:
    /// a checkpoint that is as new here stays, and one that is newer here is never replaced.
    pub fn drain(&self, worktree: &Path) -> Result<Drained, WaveError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if real(worktree) == real(&self.root) {
            return Err(WaveError::SameRoot {
                root: self.root.clone(),
            });
        }
        let source = Self::at(worktree, self.id.clone());
        let mut done = Drained::default();
        for name in pod_disk::list_below(worktree, source.layout.dir())? {
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let Some(sub) = WaveLayout::sub_of(name, ".checkpoint.json") else {
                if name.contains(".checkpoint.json") {
                    let file = worktree.join(source.layout.dir()).join(name);
                    done.warnings
                        .push(skipped(&file, "its name is not `subagent-<SUB>.checkpoint.json`"));
                }
                continue;
            };
            let file = source.layout.checkpoint(&sub);
            let limit = SubCheckpoint::LIMIT as u64;
            let bytes = match pod_disk::read_below(worktree, &file, limit) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    done.warnings
                        .push(skipped(&worktree.join(&file), &error.source.to_string()));
                    continue;
                }
            };
            let theirs = match SubCheckpoint::parse(&bytes) {
                Ok(theirs) if theirs.wave == self.id && theirs.sub == sub => Some(theirs.at),
                // It is about to vanish with its worktree, and somebody can read it.
                Err(SubCheckpointError::Newer(_)) => None,
                Ok(_) => {
                    done.warnings.push(skipped(
                        &worktree.join(&file),
                        "its ids are others than its name says",
                    ));
                    continue;
                }
                Err(error) => {
                    done.warnings
                        .push(skipped(&worktree.join(&file), &error.to_string()));
                    continue;
                }
            };
            let _held = self.lock(&sub)?;
            match (self.load(&sub), theirs) {
                (Ok(Some(ours)), Some(theirs)) if ours.at >= theirs => {
                    done.kept += 1;
                    if ours.at > theirs {
                        let why = format!(
                            "the checkpoint of {} here is newer than that of {theirs}",
                            ours.at
                        );
                        done.warnings.push(format!("subagent `{sub}` is kept: {why}"));
                    }
                    continue;
                }
                (Ok(Some(_)), None) | (Err(_), None) => {
                    done.kept += 1;
                    done.warnings.push(format!(
                        "subagent `{sub}` is kept: a newer version wrote the checkpoint in the worktree, and there is \
                         one here"
                    ));
                    continue;
                }
                (Err(why), Some(_)) if why.contains("schema_version") => {
                    done.kept += 1;
                    done.warnings.push(format!("subagent `{sub}` is kept: {why}"));
                    continue;
                }
                (Ok(_) | Err(_), _) => {}
            }
            pod_disk::replace_below(
                &self.root,
                &self.layout.checkpoint(&sub),
                &bytes,
                Durability::Durable,
            )?;
            done.drained += 1;
        }
        Ok(done)
    }
}

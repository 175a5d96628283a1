//! Saves the checkpoints of a disposable worktree.

use std::path::Path;

use pod_core::{SubCheckpoint, SubCheckpointError, SubId, WaveLayout};
use pod_disk::Durability;

use super::scan::{CHECKPOINT, MISNAMED, skipped};
use super::{ANY_VERSION, Wave, WaveError};

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

/// What became of one file.
enum Taken {
    /// It was copied.
    Drained,
    /// The one here stays; why, if that is worth a word.
    Kept(Option<String>),
    /// It is none.
    Skipped(String),
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
        let mut done = Drained::default();
        for name in pod_disk::list_below(worktree, self.layout.dir())? {
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let taken = match WaveLayout::sub_of(name, CHECKPOINT) {
                Some(sub) => self.take(worktree, &sub)?,
                None if name.contains(CHECKPOINT) => Taken::Skipped(MISNAMED.to_owned()),
                None => continue,
            };
            match taken {
                Taken::Drained => done.drained += 1,
                Taken::Kept(why) => {
                    done.kept += 1;
                    done.warnings.extend(why);
                }
                Taken::Skipped(why) => {
                    let file = worktree.join(self.layout.dir()).join(name);
                    done.warnings.push(skipped(&file, &why));
                }
            }
        }
        Ok(done)
    }

    fn take(&self, worktree: &Path, sub: &SubId) -> Result<Taken, WaveError> {
        let file = self.layout.checkpoint(sub);
        let bytes = match pod_disk::read_below(worktree, &file, ANY_VERSION) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) => return Ok(Taken::Skipped(error.source.to_string())),
        };
        let theirs = match SubCheckpoint::parse(&bytes) {
            Ok(_) if bytes.len() > SubCheckpoint::LIMIT => {
                return Ok(Taken::Skipped(format!(
                    "it is longer than {} bytes",
                    SubCheckpoint::LIMIT
                )));
            }
            Ok(theirs) if theirs.wave == self.id && theirs.sub == *sub => Some(theirs.at),
            Ok(_) => return Ok(Taken::Skipped("its ids are others than its name says".to_owned())),
            // It is about to vanish with its worktree, and another version can read it.
            Err(SubCheckpointError::Newer(_)) => None,
            Err(error) => return Ok(Taken::Skipped(error.to_string())),
        };
        let _held = self.lock(sub)?;
        let here = pod_disk::read_below(&self.root, &file, ANY_VERSION);
        let here = here.ok().flatten().map(|bytes| SubCheckpoint::parse(&bytes));
        match (here, theirs) {
            (Some(Ok(ours)), Some(theirs)) if ours.at >= theirs => {
                let newer = ours.at > theirs;
                return Ok(Taken::Kept(newer.then(|| {
                    format!(
                        "subagent `{sub}` is kept: the checkpoint of {} here is newer than that of {theirs}",
                        ours.at
                    )
                })));
            }
            (Some(Err(SubCheckpointError::Newer(_))), _) | (Some(Ok(_)), None) => {
                let why =
                    format!("subagent `{sub}` is kept: a newer version wrote one of the two checkpoints");
                return Ok(Taken::Kept(Some(why)));
            }
            // What stands here is older, or no checkpoint, or nothing.
            (Some(_) | None, _) => {}
        }
        pod_disk::replace_below(&self.root, &file, &bytes, Durability::Durable)?;
        Ok(Taken::Drained)
    }
}

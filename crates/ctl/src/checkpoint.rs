//! `podctl checkpoint`: what a subagent, or a wake-up, wants to survive its end.

use std::io;
use std::path::Path;

use pod_checkpoints::{Wave, WaveError, find_root};
use pod_core::{SubCheckpoint, SubCheckpointError, WaveId};
use pod_reconcile::save_own_checkpoint;

use crate::args::Checkpoint;
use crate::context::{self, Context, Source};
use crate::fault::{Ended, Exit, Fault};
use crate::handoff::{Own, own};
use crate::ui;

const CANNOT: &str = "cannot save the checkpoint";

/// What a wake-up keeps of its own is a page and no archive.
const LONGEST_OWN: usize = 256 * 1024;

/// Saves a checkpoint.
pub(crate) fn run(context: &Context, args: &Checkpoint) -> Ended {
    if let Some(file) = &args.save {
        let text = Source::of_file(file).read("the checkpoint")?;
        let n = save_own(&own(context, CANNOT)?, &text)?;
        ui::say(&format!("checkpoint: saved for wake-up {n}\n"));
        return Ok(Exit::Done);
    }
    let (Some(wave), Some(sub), Some(payload)) = (&args.wave, &args.sub, &args.payload) else {
        return Err(Fault::usage("nothing to save was named", "see `podctl checkpoint --help`").into());
    };
    let payload = Source::of_argument(payload).read_any("the payload")?;
    let wave = open(wave.clone())?;
    let file = wave.file(sub);
    let at = context::now();
    let made = SubCheckpoint::new(wave.id().clone(), sub.clone(), at, &payload);
    let made = made.and_then(|made| made.to_bytes().map(|_| made));
    let made = made.map_err(|error| Fault::new(CANNOT, payload_hint(&error)).because(&error))?;
    ui::say(&format!("checkpoint: writing to {}\n", pod_disk::shown(&file)));
    wave.write(&made).map_err(|error| Fault::of(CANNOT, &error))?;
    Ok(Exit::Done)
}

/// The wave of the project that this runs in or for.
pub(crate) fn open(wave: WaveId) -> Result<Wave, Fault> {
    let cannot = "cannot tell whose wave it is";
    let cwd = std::env::current_dir().map_err(|error: io::Error| {
        Fault::new(cannot, "change into a directory that exists").because(&error)
    })?;
    let parent = std::env::var_os("AGENTS_POD_PARENT_PROJECT_ROOT");
    let root = find_root(parent.as_deref(), &cwd).map_err(|error: WaveError| Fault::of(cannot, &error))?;
    Ok(Wave::at(root, wave))
}

/// Keeps a text of a wake-up's agent.
pub(crate) fn save_own(wake_up: &Own, text: &str) -> Result<u32, Fault> {
    if text.len() > LONGEST_OWN {
        let why = format!(
            "it is {} bytes long, and the limit is {LONGEST_OWN} bytes",
            text.len()
        );
        return Err(
            Fault::new(CANNOT, "say what the next session needs, and where the rest is").caused_by(why),
        );
    }
    let saved = save_own_checkpoint(wake_up.files(), &wake_up.record, text);
    saved.map_err(|error| Fault::of(CANNOT, &error))
}

fn payload_hint(error: &SubCheckpointError) -> &'static str {
    match error {
        SubCheckpointError::NotJson(_) | SubCheckpointError::NotAnObject => {
            "hand over an object, as in '{\"last_action\":\"…\",\"next_step\":\"…\"}'"
        }
        SubCheckpointError::OurKey(_) => "leave that key out: podctl writes it",
        SubCheckpointError::TooLong { .. } => {
            "keep `last_action` and `next_step` under 200 characters and the file lists under 20 entries; the old \
             checkpoint stands"
        }
        SubCheckpointError::Newer(_) | SubCheckpointError::Key(_) => "see `podctl checkpoint --help`",
    }
}

/// Whether a path is a directory, before it is looked into.
pub(crate) fn directory(path: &Path) -> Result<&Path, Fault> {
    if path.is_dir() {
        return Ok(path);
    }
    let shown = pod_disk::shown(path);
    Err(Fault::new(
        format!("`{shown}` is no directory"),
        "name a worktree that exists",
    ))
}

//! `podctl decisions`: what was decided about a gated pod, and why.

use pod_core::{DecisionEntry, DecisionLog};
use pod_reconcile::PodFiles;

use crate::args::Decisions;
use crate::context::Context;
use crate::fault::{Ended, Exit, Fault};
use crate::ui;

/// Prints the log.
pub(crate) fn run(context: &Context, args: &Decisions) -> Ended {
    let record = context.read(&args.id)?;
    let files = PodFiles::new(&record.project, &args.id);
    let read = files.read(&files.layout().decision_log());
    let bytes = match read {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => {
            return Err(Fault::of(format!("cannot read the decisions of `{}`", args.id), &error).into());
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    if args.format.json {
        let log = DecisionLog::parse(&text);
        let entries: Vec<&DecisionEntry> = log.decisions().collect();
        ui::json(&entries)?;
    } else if text.trim().is_empty() {
        ui::note("nothing was decided yet; only gated pods have decisions");
    } else {
        ui::answer(&pod_core::escaped(&text))?;
    }
    Ok(Exit::Done)
}

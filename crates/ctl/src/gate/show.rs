//! `podctl gate show`: the steps of a gate's last run.

use std::fmt::Write as _;
use std::io::Read as _;

use pod_core::{GateEvidence, GateMode, PodId, StepRecord};
use pod_disk::OpenKind;
use pod_reconcile::gate_evidence;

use super::Gated;
use crate::context::Context;
use crate::fault::{Ended, Exit, Fault};
use crate::{ui, words};

/// So much of what a step printed is shown.
const SHOWN: u64 = 64 << 20;

/// Shows a gate's last run.
pub(crate) fn run(context: &Context, id: &PodId, mode: GateMode, json: bool) -> Ended {
    let gated = Gated::read(context, id)?;
    let Some(evidence) = gate_evidence(&gated.files, mode) else {
        let hint = format!("run it: `podctl gate run {id} {mode}`");
        return Err(Fault::new(format!("gate {mode} of pod `{id}` has left no evidence"), hint).into());
    };
    if json {
        ui::json(&evidence)?;
        return Ok(Exit::Done);
    }
    ui::answer(&summary(&evidence))?;
    for step in &evidence.steps {
        let place = gated.files.layout().gates().join(&step.log);
        ui::answer(&format!("\n--- {} ---\n", pod_core::quoted(&step.name, 200)))?;
        let opened = gated.files.open(&place, OpenKind::Read);
        let read = opened.and_then(|file| {
            let mut bytes = Vec::new();
            let read = file.take(SHOWN).read_to_end(&mut bytes);
            read.map(|_| bytes)
                .map_err(|error| pod_disk::DiskError::new("read", &place, error))
        });
        match read {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                ui::answer(&pod_core::escaped(&text))?;
                if !text.is_empty() && !text.ends_with('\n') {
                    ui::answer("\n")?;
                }
            }
            Err(error) => ui::note(&pod_core::error_chain(&error)),
        }
    }
    Ok(Exit::Done)
}

/// What a run came to, a line a step.
pub(crate) fn summary(evidence: &GateEvidence) -> String {
    let mut text = format!("gate {}: {}\n", evidence.mode, evidence.overall);
    for step in &evidence.steps {
        let took = words::span(std::time::Duration::from_millis(step.duration_ms));
        let name = pod_core::quoted(&step.name, 80);
        writeln!(text, "  {name}: {}, took {took}", ended(step)).expect("a String takes every write");
    }
    if evidence.input_diff_hash.is_none() || evidence.input_diff_hash != evidence.output_diff_hash {
        text.push_str(
            "  the worktree moved while it ran, or could not be read: this is evidence of nothing\n",
        );
    }
    text
}

fn ended(step: &StepRecord) -> String {
    match step {
        StepRecord { error: Some(why), .. } => {
            format!("could not be started: {}", pod_core::quoted(why, 200))
        }
        StepRecord { timed_out: true, .. } => "took too long".to_owned(),
        StepRecord {
            exit_code: Some(0), ..
        } => "passed".to_owned(),
        StepRecord {
            exit_code: Some(code @ (126 | 127)),
            ..
        } => format!("could not be started (exit {code})"),
        StepRecord {
            exit_code: Some(code),
            ..
        } => format!("exit {code}"),
        StepRecord {
            signal: Some(signal), ..
        } => signal.clone(),
        StepRecord { .. } => "an unknown end".to_owned(),
    }
}

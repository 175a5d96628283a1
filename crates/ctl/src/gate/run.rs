//! `podctl gate run`: one run of one gate, by the same program that podd starts.

use std::ffi::OsString;
use std::time::Duration;

use pod_core::{ExitStatus, GateEvidence, GateMode, GateOverall, PodId, Stage, Timestamp};
use pod_process::Reaped;
use pod_reconcile::{gate_evidence, settle_dead};

use super::{Gated, show};
use crate::context::{self, Context};
use crate::fault::{Ended, Exit, Fault};
use crate::ui;
use crate::wake::refusal_of;
use crate::watch::Watch;

/// How long a look at the process may be put off.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs a gate.
pub(crate) fn run(context: &Context, id: &PodId, mode: Option<GateMode>, json: bool) -> Ended {
    let gated = Gated::read(context, id)?;
    let mode = mode.unwrap_or(gated.record.stage.unwrap_or(Stage::Building).mode());
    let evidence = run_gate(context, &gated, mode)?;
    if json {
        ui::json(&evidence)?;
    } else {
        ui::answer(&show::summary(&evidence))?;
    }
    Ok(if evidence.overall == GateOverall::Pass {
        Exit::Done
    } else {
        Exit::No
    })
}

/// Runs a gate and returns what it left. It goes on by itself where we are ended meanwhile.
pub(crate) fn run_gate(context: &Context, gated: &Gated, mode: GateMode) -> Result<GateEvidence, Fault> {
    let id = &gated.record.id;
    let cannot = format!("cannot run gate {mode} of pod `{id}`");
    if context::inside_wake_up() {
        let hint = "hand off instead: gates are run when the wake-up has ended";
        return Err(Fault::new(cannot, hint).caused_by("this runs inside a wake-up"));
    }
    let before = gated
        .record
        .gates
        .as_ref()
        .and_then(|state| Some(state.last_run.as_ref()?.finished_at));
    let program = pod_process::sibling("pod-wrapper").map_err(|error| {
        Fault::new(&cannot, "install agents-pod's programs beside one another").because(&error)
    })?;
    let args: [OsString; 5] = [
        "--home".into(),
        context.home().root().into(),
        "--gate".into(),
        mode.word().into(),
        id.as_str().into(),
    ];
    let watch = Watch::on(&[&context.home().pods()]);
    let launched = pod_process::launch_detached(&program, &args);
    let (launched, output) = launched.map_err(|error| Fault::of(&cannot, &error))?;
    let status = loop {
        match pod_process::reap(launched.handle.pid()) {
            Reaped::Ended(status) => break status,
            Reaped::NotOurs => break ExitStatus::Code(1),
            Reaped::Lives => watch.wait(LOOK_AGAIN),
        }
    };
    if status == ExitStatus::Code(2) {
        return Err(refusal_of(&cannot, id, &output.text(), "it ended with code 2"));
    }
    if matches!(status, ExitStatus::Signal(_)) {
        let policy = context.policy(&gated.record)?;
        let settled = settle_dead(&context.registry()?, id, &policy, None, Vec::new(), context::now);
        // Whoever comes next settles it otherwise.
        drop(settled);
    }
    evidence_behind(context, gated, mode, before).ok_or_else(|| {
        let hint = format!("`podctl logs {id}` says why; it may have been cancelled");
        Fault::new(format!("gate {mode} of pod `{id}` left no evidence"), hint).caused_by(output.text())
    })
}

fn evidence_behind(
    context: &Context,
    gated: &Gated,
    mode: GateMode,
    before: Option<Timestamp>,
) -> Option<GateEvidence> {
    let run = context.read(&gated.record.id).ok()?.gates?.last_run?;
    let evidence = gate_evidence(&gated.files, mode)?;
    let newer = before.is_none_or(|before| evidence.finished_at > before);
    (newer && run.finished_at >= evidence.finished_at).then_some(evidence)
}

//! `podctl retry` and what `podctl resume` does for a gated pod: recovery by gate result, validity and freshness.

use pod_core::{
    By, GateMode, GateOverall, Next, Phase, PodId, PodRecord, PodState, Refusal, Stage, Validity,
};
use pod_reconcile::{Outcome, Reconciled, look_at_worktree, reconcile_pod};
use serde_json::json;

use crate::args::Retry;
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault};
use crate::gate::{Gated, run_gate};
use crate::ui;

/// So often a record that changes under us is looked at again.
const TRIES: usize = 20;

/// What a retry came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    GateRerun,
    CheckpointBlock,
    WorkerRetry,
}

impl Answer {
    fn word(self) -> &'static str {
        match self {
            Self::GateRerun => "gate_rerun",
            Self::CheckpointBlock => "checkpoint_block",
            Self::WorkerRetry => "worker_retry",
        }
    }
}

/// Reruns a gate against the worktree as it is, and reconciles.
pub(crate) fn run(context: &Context, args: &Retry) -> Ended {
    let id = &args.id;
    let cannot = format!("cannot retry pod `{id}`");
    let gated = Gated::read(context, id)?;
    let record = &gated.record;
    if record.state.is_terminal() {
        let (pod, state) = (id.to_string(), record.state);
        return Err(Fault::of(cannot, &Refusal::Terminal { pod, state }).into());
    }
    if let Some(current) = &record.current {
        let (pod, n, pid) = (id.to_string(), current.n, current.pid);
        return Err(Fault::of(cannot, &Refusal::Awake { pod, n, pid }).into());
    }
    let mode = args
        .gate
        .unwrap_or(record.stage.unwrap_or(Stage::Building).mode());
    let state = record.gates.as_ref();
    let validity = state.map_or(Validity::Unknown, |state| {
        look_at_worktree(&gated.files, state, None).validity()
    });
    let mut overall = None;
    if validity != Validity::Invalid && gated.pinned.definitions.gates.contains_key(&mode) {
        overall = Some(run_gate(context, &gated, mode)?.overall);
    }
    if validity != Validity::Invalid {
        claim(context, id, &cannot, true)?;
    }
    let outcome = reconciled(context, id, Phase::Retry)?;
    let answer = match (&outcome, validity) {
        (_, Validity::Invalid) => Answer::CheckpointBlock,
        (Some(outcome), _) if outcome.next == Next::Wake => Answer::WorkerRetry,
        (Some(_) | None, _) => Answer::GateRerun,
    };
    tell(answer, mode, overall, outcome.as_deref(), args.format.json)?;
    Ok(if overall == Some(GateOverall::Pass) {
        Exit::Done
    } else {
        Exit::No
    })
}

fn tell(
    answer: Answer,
    mode: GateMode,
    overall: Option<GateOverall>,
    outcome: Option<&Outcome>,
    json: bool,
) -> Result<(), Fault> {
    let entry = outcome.map(|outcome| &outcome.entry);
    let violations = outcome.map(|outcome| &outcome.look.violations);
    if json {
        let printed = ui::json(&json!({
            "outcome": answer.word(),
            "gate": mode,
            "overall": overall,
            "plan_decision": entry.map(|entry| entry.plan_decision),
            "execution_disposition": entry.map(|entry| entry.execution_disposition),
            "stage": entry.map(|entry| entry.stage),
            "status": entry.map(|entry| entry.status),
            "reasons": entry.map(|entry| &entry.reasons),
            "violations": violations,
        }));
        return printed.map_err(|_| Fault::new("cannot write the answer", "look at where stdout goes"));
    }
    let ran = match overall {
        Some(overall) => format!("gate {mode} was run: {overall}"),
        None => format!("gate {mode} was not run"),
    };
    let mut text = format!("{}: {ran}\n", answer.word());
    if let Some(entry) = entry {
        text.push_str(&format!(
            "plan {}, execution {}; the pod is {} in stage {}\n",
            entry.plan_decision, entry.execution_disposition, entry.status, entry.stage
        ));
    }
    for violation in violations.into_iter().flatten() {
        text.push_str(&format!(
            "violation: {} ({})\n",
            violation.path,
            pod_core::escaped(&violation.rule)
        ));
    }
    let printed = ui::answer(&text);
    printed.map_err(|_| Fault::new("cannot write the answer", "look at where stdout goes"))
}

/// Unparks what podd parked, forgives what led there, and takes the operator's word that the work is done.
fn claim(context: &Context, id: &PodId, cannot: &str, claim: bool) -> Result<(), Fault> {
    let updated = context.registry()?.update(id, LOCK_WAIT, |record| {
        if record.parked.as_ref().is_some_and(|parked| parked.by == By::Podd) {
            let _changed = record.resume(context::now())?;
        }
        take_word(record, claim);
        Ok::<(), Refusal>(())
    });
    updated.map_err(|error| Fault::of(cannot, &error))
}

/// The operator's claim begins a new row of tries.
fn take_word(record: &mut PodRecord, claim: bool) {
    if let Some(state) = &mut record.gates {
        state.claim |= claim;
        state.reruns = 0;
        state.repairs = 0;
    }
}

/// Resumes a parked gated pod: it is reconciled at once. Returns whether it stays unparked; `None` for an ungated one.
pub(crate) fn resume(context: &Context, id: &PodId) -> Result<Option<bool>, Fault> {
    let record = context.read(id)?;
    if record.gates.is_none() || record.state != PodState::Parked {
        return Ok(None);
    }
    let ours = record
        .parked
        .as_ref()
        .is_some_and(|parked| parked.code.is_of_gates());
    let updated = context.registry()?.update(id, LOCK_WAIT, |record| {
        let _changed = record.resume(context::now())?;
        take_word(record, ours);
        Ok::<(), Refusal>(())
    });
    updated.map_err(|error| Fault::of(format!("cannot resume pod `{id}`"), &error))?;
    let Some(outcome) = reconciled(context, id, Phase::Resume)? else {
        return Ok(Some(true));
    };
    let entry = &outcome.entry;
    ui::note(&format!(
        "pod `{id}`: plan {}, execution {} ({})",
        entry.plan_decision,
        entry.execution_disposition,
        entry.reasons.join(", ")
    ));
    Ok(Some(entry.status != PodState::Parked))
}

/// Reconciles, whatever somebody else does to the record meanwhile. `None` where there is nothing to reconcile.
fn reconciled(context: &Context, id: &PodId, phase: Phase) -> Result<Option<Box<Outcome>>, Fault> {
    let registry = context.registry()?;
    let cannot = format!("cannot reconcile pod `{id}`");
    for _ in 0..TRIES {
        let record = context.read(id)?;
        let policy = context.policy(&record)?;
        match reconcile_pod(&registry, &record, &policy, phase, context::now) {
            Ok(Reconciled::Decided(outcome)) => return Ok(Some(outcome)),
            Ok(Reconciled::NothingToDo) => return Ok(None),
            Ok(Reconciled::MovedOn) => {}
            Err(error) => {
                let hint = format!("`podctl gate status {id}` says what is known");
                return Err(Fault::new(cannot, hint).because(&error));
            }
        }
    }
    let hint = "podd may be at it: `podctl decisions` shows what it decides";
    Err(Fault::new(cannot, hint).caused_by("its record changes all the time"))
}

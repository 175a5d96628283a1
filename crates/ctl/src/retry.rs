//! `podctl retry` and what `podctl resume` does for a gated pod: recovery by gate result, validity and freshness.

use pod_core::{
    By, DecisionEntry, DecisionLog, GateMode, GateOverall, Next, Phase, PodId, PodRecord, PodState, Refusal,
    Stage, Timestamp, Validity, Violation,
};
use pod_reconcile::{Outcome, Reconciled, look_at_worktree, reconcile_pod};
use serde_json::json;

use crate::args::Retry;
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault};
use crate::gate::{Gated, busy, run_gate};
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
        return Err(Fault::of(cannot, &busy(id, current)).into());
    }
    let gates = &gated.pinned.definitions.gates;
    let mode = args
        .gate
        .unwrap_or(record.stage.unwrap_or(Stage::Building).mode());
    if args.gate.is_some() && !gates.contains_key(&mode) {
        let defined: Vec<&str> = gates.keys().map(|mode| mode.word()).collect();
        let hint = format!("there are: {}", defined.join(", "));
        return Err(Fault::new(cannot, hint)
            .caused_by(format!("there is no gate `{mode}`"))
            .into());
    }
    let began = context::now();
    let validity = look_at_worktree(&gated.files, &gated.state, None).validity();
    let mut overall = None;
    if validity != Validity::Invalid {
        // Said before the gate runs: whoever reconciles behind it goes by the claim.
        let claimed = context.registry()?.update(id, LOCK_WAIT, |record| {
            take_word(record);
            Ok::<(), Refusal>(())
        });
        claimed.map_err(|error| Fault::of(&cannot, &error))?;
        if gates.contains_key(&mode) {
            overall = Some(run_gate(context, &gated, mode)?.overall);
        }
    }
    let outcome = reconciled(context, id, Phase::Retry, |record| {
        let podds = record.parked.as_ref().is_some_and(|parked| parked.by == By::Podd);
        if podds && validity != Validity::Invalid {
            // A terminal pod is not reconciled, and nothing else refuses.
            let _changed = record.resume(context::now());
        }
    })?;
    let answer = match outcome.as_ref().map(|outcome| outcome.next) {
        _ if validity == Validity::Invalid => Answer::CheckpointBlock,
        Some(Next::Wake) => Answer::WorkerRetry,
        Some(Next::Stay | Next::Park(_) | Next::Gate(_) | Next::Done) | None => Answer::GateRerun,
    };
    // podd may have been quicker, and the pod at its next gate already.
    let entry = outcome.as_ref().map(|outcome| outcome.entry.clone());
    let entry = entry.or_else(|| decided_since(&gated, began));
    let violations = outcome.map(|outcome| outcome.look.violations);
    tell(
        answer,
        mode,
        overall,
        entry.as_ref(),
        violations.as_deref(),
        args.format.json,
    )?;
    Ok(if overall == Some(GateOverall::Pass) {
        Exit::Done
    } else {
        Exit::No
    })
}

/// What somebody else decided meanwhile.
fn decided_since(gated: &Gated, began: Timestamp) -> Option<DecisionEntry> {
    let bytes = gated
        .files
        .read(&gated.files.layout().decision_log())
        .ok()
        .flatten()?;
    let log = DecisionLog::parse(&String::from_utf8_lossy(&bytes));
    log.decisions()
        .next_back()
        .filter(|entry| entry.at >= began)
        .cloned()
}

fn tell(
    answer: Answer,
    mode: GateMode,
    overall: Option<GateOverall>,
    entry: Option<&DecisionEntry>,
    violations: Option<&[Violation]>,
    json: bool,
) -> Result<(), Fault> {
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

/// The operator's claim begins a new row of tries.
fn take_word(record: &mut PodRecord) {
    if let Some(state) = &mut record.gates {
        state.claim = true;
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
    let Some(outcome) = reconciled(context, id, Phase::Resume, |record| {
        let ours = record
            .parked
            .as_ref()
            .is_some_and(|parked| parked.code.is_of_gates());
        let _changed = record.resume(context::now());
        if ours {
            take_word(record);
        }
    })?
    else {
        return Ok(None);
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
fn reconciled(
    context: &Context,
    id: &PodId,
    phase: Phase,
    prepare: impl Fn(&mut PodRecord),
) -> Result<Option<Box<Outcome>>, Fault> {
    let registry = context.registry()?;
    let cannot = format!("cannot reconcile pod `{id}`");
    for _ in 0..TRIES {
        let record = context.read(id)?;
        let policy = context.policy(&record)?;
        match reconcile_pod(&registry, &record, &policy, phase, &prepare, context::now) {
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

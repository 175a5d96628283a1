//! Reconciles a gated pod: looks at worktree and evidence, decides by the pure function, carries it out in one
//! locked step and writes down what was decided.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use pod_config::definition_hash;
use pod_core::{
    By, Classification, Decision, DecisionEntry, DecisionLog, Freshness, GateEvidence, GateMode, GateOverall,
    GateState, ModeView, Next, ParkCode, Phase, PodRecord, PodState, Policy, ReconciledTo, Situation, Stage,
    Timestamp, Verdict, error_chain, freshness, reconcile,
};
use pod_disk::{DiskError, OpenKind};
use pod_registry::{ReadError, Registry, RegistryError, UpdateError};

use crate::files::PodFiles;
use crate::worktree::{Pinned, WorktreeLook, hashed_evidence, look_at_worktree};

/// How long a decision waits for the registry's lock.
const DECISION_WAIT: Duration = Duration::from_secs(10);

/// Why a pod could not be reconciled. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The pinned gates make no sense to this version.
    #[error("the pinned gates cannot be read: {0}")]
    Pinned(String),
    /// The record could not be read.
    #[error("the record could not be read")]
    Read(#[source] ReadError),
    /// The record could not be written.
    #[error("the decision could not be recorded")]
    Registry(#[source] RegistryError),
}

/// What a reconciliation came to.
#[derive(Debug, Clone)]
pub enum Reconciled {
    /// The pod is ungated, over, or at work.
    NothingToDo,
    /// Somebody changed the record meanwhile.
    MovedOn,
    /// It is decided, and carried out as far as a record can.
    Decided(Box<Outcome>),
}

/// A decision with what led to it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was decided.
    pub entry: DecisionEntry,
    /// Why it could not be written down. It holds all the same.
    pub unwritten: Option<String>,
    /// What is to be done.
    pub next: Next,
    /// The worktree as it was.
    pub look: WorktreeLook,
    /// The gates as they stood.
    pub gates: GateReport,
}

/// Every defined gate with its evidence and what that is worth.
#[derive(Debug, Clone, Default)]
pub struct GateReport {
    /// By mode.
    pub modes: BTreeMap<GateMode, (Option<GateEvidence>, Freshness)>,
}

impl GateReport {
    /// Compares the evidence of all defined gates with a worktree.
    pub fn of(files: &PodFiles, state: &GateState, pinned: &Pinned, look: &WorktreeLook) -> Self {
        let one = |(mode, steps): (&GateMode, &Vec<pod_core::StepDefinition>)| {
            let (evidence, hash) = hashed_evidence(files, *mode).unzip();
            let fresh = freshness(
                evidence.as_ref(),
                *mode,
                look.diff_hash(),
                &definition_hash(steps),
            );
            // One that no run of ours has left, an agent's perhaps, is about nothing.
            let fresh = match fresh {
                Freshness::Current if hash.as_ref() != state.evidence.get(mode) => Freshness::Stale,
                fresh => fresh,
            };
            (*mode, (evidence, fresh))
        };
        Self {
            modes: pinned.definitions.gates.iter().map(one).collect(),
        }
    }

    /// The gate that is in the way: the stage's; in the last stage the earliest that does not agree.
    fn open(&self, stage: Stage) -> GateMode {
        let agrees = |(evidence, fresh): &(Option<GateEvidence>, Freshness)| {
            let passed = evidence
                .as_ref()
                .is_some_and(|evidence| evidence.overall == GateOverall::Pass);
            passed && *fresh == Freshness::Current
        };
        let open = self
            .modes
            .iter()
            .find(|(_, one)| !agrees(one))
            .map(|(mode, _)| *mode);
        open.filter(|_| stage == Stage::ReadyToMerge)
            .unwrap_or(stage.mode())
    }

    fn view(&self, mode: GateMode) -> Option<(Option<GateOverall>, Freshness)> {
        let (evidence, fresh) = self.modes.get(&mode)?;
        Some((evidence.as_ref().map(|evidence| evidence.overall), *fresh))
    }
}

/// Reconciles a pod that nothing runs in. What `prepare` does to the record, an unpark perhaps, happens in the same step
/// as the decision: nobody sees the one without the other.
pub fn reconcile_pod(
    registry: &Registry,
    seen: &PodRecord,
    policy: &Policy,
    phase: Phase,
    prepare: impl Fn(&mut PodRecord),
    now: impl Fn() -> Timestamp,
) -> Result<Reconciled, ReconcileError> {
    let mut prepared = seen.clone();
    prepare(&mut prepared);
    let record = &prepared;
    let Some(state) = &record.gates else {
        return Ok(Reconciled::NothingToDo);
    };
    // A person may have asked, and died, before it was done.
    let phase = state.phase.filter(|_| phase != Phase::Retry).unwrap_or(phase);
    if record.current.is_some() || !matches!(record.state, PodState::Idle | PodState::Parked) {
        return Ok(Reconciled::NothingToDo);
    }
    let files = PodFiles::new(&record.project, &record.id);
    if !files.layout().project().is_dir() {
        return leave(registry, record, None);
    }
    let pinned = match Pinned::of(state) {
        Ok(pinned) => pinned,
        // Nobody but a person can mend it.
        Err(why) if seen.parked.is_none() => return leave(registry, seen, Some((why, now()))),
        Err(why) => return Err(ReconcileError::Pinned(why)),
    };
    let look = look_at_worktree(&files, state, None);
    let gates = GateReport::of(&files, state, &pinned, &look);
    let situation = situation(record, state, policy, &pinned, &look, &gates, &files);
    let decision = reconcile(&situation);
    let mut entry = None;
    let changed = registry.update(&record.id, DECISION_WAIT, |current| {
        if current != seen {
            return Err(Refused::MovedOn);
        }
        current.clone_from(record);
        carry_out(current, &decision, &gates, &look, now());
        let made = make_entry(current, &decision, &gates, &look, phase, now());
        let written = write_down(&files, current, made);
        entry = Some(written);
        Ok(())
    });
    match (changed, entry) {
        (Ok(()), Some((entry, unwritten))) => Ok(Reconciled::Decided(Box::new(Outcome {
            entry,
            unwritten,
            next: decision.next,
            look,
            gates,
        }))),
        (Ok(()), None) | (Err(UpdateError::Refused(Refused::MovedOn)), _) => Ok(Reconciled::MovedOn),
        (Err(UpdateError::Registry(error)), _) => Err(ReconcileError::Registry(error)),
        (Err(UpdateError::Read(error)), _) => Err(ReconcileError::Read(error)),
    }
}

/// Where the project is gone there is nothing to look at and no place to write down what was seen. The same holds where
/// the pinned gates make no sense; that pod is parked.
fn leave(
    registry: &Registry,
    record: &PodRecord,
    unreadable: Option<(String, Timestamp)>,
) -> Result<Reconciled, ReconcileError> {
    let left = registry.update(&record.id, DECISION_WAIT, |current| {
        let newest = newest(current);
        if let Some(state) = &mut current.gates {
            state.reconciled = Some(newest);
        }
        if let Some((why, now)) = &unreadable {
            let detail = ReconcileError::Pinned(why.clone()).to_string();
            // A pod that has ended meanwhile refuses.
            let _parked = current.park(ParkCode::GateError, Some(detail), By::Podd, *now);
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match left {
        Ok(()) => Ok(Reconciled::NothingToDo),
        Err(UpdateError::Registry(error)) => Err(ReconcileError::Registry(error)),
        Err(UpdateError::Read(error)) => Err(ReconcileError::Read(error)),
        Err(UpdateError::Refused(never)) => match never {},
    }
}

fn newest(record: &PodRecord) -> ReconciledTo {
    ReconciledTo {
        wake_up: record.last().map_or(0, |last| last.n),
        gate: record
            .gates
            .as_ref()
            .and_then(|state| Some(state.last_run.as_ref()?.finished_at)),
    }
}

enum Refused {
    MovedOn,
}

fn situation(
    record: &PodRecord,
    state: &GateState,
    policy: &Policy,
    pinned: &Pinned,
    look: &WorktreeLook,
    gates: &GateReport,
    files: &PodFiles,
) -> Situation {
    let last = record
        .last()
        .filter(|last| last.n > record.streak_since || record.parked.is_some());
    let since = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| entry.n > record.streak_since);
    let invalid_outputs = since
        .clone()
        .filter_map(|entry| entry.classification)
        .take_while(|class| *class == Classification::ProviderOutputInvalid)
        .count();
    let no_new_work = since
        .filter(|entry| matches!(entry.verdict, Verdict::More | Verdict::Done))
        .take_while(|entry| entry.classification == Some(Classification::NoNewWork))
        .count();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let failed_twice = state
        .failed_on
        .as_ref()
        .is_some_and(|(content, times)| *times >= 2 && look.diff_hash() == Some(content));
    Situation {
        stage: record.stage.unwrap_or(Stage::Building),
        modes: gates
            .modes
            .keys()
            .filter_map(|mode| {
                let (overall, freshness) = gates.view(*mode)?;
                Some((*mode, ModeView { freshness, overall }))
            })
            .collect(),
        stage_agents: pinned.definitions.stages.keys().copied().collect(),
        validity: look.validity(),
        violations: look.violations.iter().map(|violation| violation.reason).collect(),
        parked: record.parked.as_ref().map(|parked| (parked.by, parked.code)),
        claim: state.claim,
        has_content: look.content.as_ref().is_ok_and(|content| !content.is_empty()),
        last: last.and_then(|last| last.classification),
        invalid_outputs: count(invalid_outputs),
        max_failures: policy.max_failures,
        no_new_work: count(no_new_work),
        gate_reruns: state.reruns,
        max_gate_reruns: policy.max_gate_reruns,
        // The repair that this very wake-up was counted for may be decided again: it is the same one.
        gate_repairs: state
            .repairs
            .saturating_sub(u32::from(state.repaired_behind == Some(newest(record).wake_up))),
        max_gate_repairs: policy.max_gate_repairs,
        plan_update_required: last.is_some_and(|last| last.plan_update_required),
        tasks_name_forbidden: tasks_name_forbidden(files, pinned),
        failed_twice,
    }
}

/// Whether TASKS.md names a path that the scope forbids: a word with a slash or a dot in it that breaks a rule.
fn tasks_name_forbidden(files: &PodFiles, pinned: &Pinned) -> bool {
    let tasks = pod_checkpoints::read_document(&files.layout().tasks()).unwrap_or_default();
    let text = String::from_utf8_lossy(&tasks).into_owned();
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | ','));
    let path = |word: &&str| {
        let word = word.trim_end_matches(['.', ':', ';']);
        let file = word.rsplit('/').next().unwrap_or_default();
        word.contains('/')
            || file
                .split_once('.')
                .is_some_and(|(name, end)| !name.is_empty() && !end.is_empty())
    };
    words
        .filter(path)
        .map(|word| word.trim_end_matches(['.', ':', ';']).trim_start_matches("./"))
        .any(|word| pinned.scope.violation(std::path::Path::new(word), word).is_some())
}

/// Changes the record as decided.
fn carry_out(
    record: &mut PodRecord,
    decision: &Decision,
    gates: &GateReport,
    look: &WorktreeLook,
    now: Timestamp,
) {
    let newest = newest(record);
    let advanced = record.stage.is_some_and(|stage| stage != decision.stage);
    record.stage = Some(decision.stage);
    if let Some(state) = &mut record.gates {
        if advanced {
            state.repairs = 0;
            state.repaired_behind = None;
            state.reruns = 0;
        }
        // A gate that a person runs again in between is no repair.
        if decision.repairs && state.repaired_behind != Some(newest.wake_up) {
            state.repairs += 1;
            state.repaired_behind = Some(newest.wake_up);
        }
        state.claim = decision.claim;
        state.due = match decision.next {
            Next::Gate(mode) => Some(mode),
            Next::Stay | Next::Park(_) | Next::Wake | Next::Done => None,
        };
        state.reconciled = Some(newest);
        state.phase = None;
    }
    match decision.next {
        Next::Park(code) => {
            let detail = Some(blocker(decision, look, gates));
            // A terminal pod is not reconciled, and nothing else refuses.
            let _parked = record.park(code, detail, By::Podd, now);
        }
        Next::Done => record.finish(now),
        Next::Stay | Next::Wake | Next::Gate(_) => {}
    }
    record.updated_at = now;
}

/// The blocker in one line.
fn blocker(decision: &Decision, look: &WorktreeLook, gates: &GateReport) -> String {
    let mut parts = vec![format!("{}: {}", decision.stage, decision.disposition)];
    let violations: Vec<String> = look
        .violations
        .iter()
        .take(5)
        .map(|violation| format!("`{}` ({})", violation.path, violation.rule))
        .collect();
    if !violations.is_empty() {
        parts.push(violations.join(", "));
    }
    if let Err(why) = &look.content {
        parts.push(format!("the worktree could not be read: {why}"));
    }
    if let Some((Some(evidence), fresh)) = gates.modes.get(&gates.open(decision.stage)) {
        let failed = evidence
            .steps
            .last()
            .filter(|_| evidence.overall != GateOverall::Pass);
        let step = failed
            .map(|step| format!(" at step `{}`", step.name))
            .unwrap_or_default();
        parts.push(format!(
            "gate {} {}{step}, {fresh}, of {}",
            evidence.mode, evidence.overall, evidence.finished_at
        ));
    }
    parts.push(decision.reasons.join(", "));
    parts.join("; ")
}

fn make_entry(
    record: &PodRecord,
    decision: &Decision,
    gates: &GateReport,
    look: &WorktreeLook,
    phase: Phase,
    at: Timestamp,
) -> DecisionEntry {
    let view = gates.view(decision.stage.mode());
    DecisionEntry {
        phase,
        iteration: record
            .gates
            .as_ref()
            .map_or(0, |state| state.iteration)
            .saturating_add(1),
        at,
        plan_decision: decision.plan,
        execution_disposition: decision.disposition,
        status: record.state,
        stage: decision.stage,
        latest_gate_overall: view.and_then(|(overall, _)| overall),
        gate_evidence_freshness: view.map(|(_, fresh)| fresh),
        checkpoint_validity: look.validity(),
        reasons: decision.reasons.clone(),
    }
}

/// Appends a decision that differs from the last one. Whoever died between the file and the record finds it there. A
/// file that cannot be written keeps nobody from going on.
fn write_down(
    files: &PodFiles,
    record: &mut PodRecord,
    entry: DecisionEntry,
) -> (DecisionEntry, Option<String>) {
    let Some(state) = &mut record.gates else {
        return (entry, None);
    };
    let text = match files.read(&files.layout().decision_log()) {
        Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        Err(error) if error.is_missing() => String::new(),
        Err(error) => return (entry, Some(error_chain(&error))),
    };
    let log = DecisionLog::parse(&text);
    let last = log.decisions().next_back();
    if let Some(last) = last.filter(|last| last.says_the_same(&entry)) {
        state.iteration = state.iteration.max(last.iteration);
        return (entry, None);
    }
    let behind = last.map_or(0, |last| last.iteration.saturating_add(1));
    let entry = DecisionEntry {
        iteration: entry.iteration.max(behind),
        ..entry
    };
    state.iteration = entry.iteration;
    let appended = append(files, &text, &DecisionLog::render(&entry));
    (entry, appended.err().map(|error| error_chain(&error)))
}

fn append(files: &PodFiles, text: &str, entry: &str) -> Result<(), DiskError> {
    let place = files.layout().decision_log();
    files.ensure_base()?;
    files.create_dirs(files.layout().root())?;
    let mut file = files.open(&place, OpenKind::Append)?;
    // A killed writer, or a person, may have left a line without its end.
    let ends = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n\n"
    };
    let written = file.write_all(format!("{ends}{entry}").as_bytes());
    written.map_err(|error| DiskError::new("write", place, error))
}

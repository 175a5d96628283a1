//! What follows: whether the plan has to change, and what execution does next. The rows are those of contract
//! section 11, first match wins.

use std::collections::{BTreeMap, BTreeSet};

use super::{Classification, Freshness, GateMode, GateOverall, Stage, Validity, ViolationKind};
use crate::outcome::words;
use crate::{By, ParkCode};

/// So many wake-ups that change nothing are enough.
const NO_NEW_WORK: u32 = 3;

words! {
    /// Whether the plan stands.
    PlanDecision {
        /// It has to be changed.
        UpdateRequired = "update_required",
        /// It stands.
        Unchanged = "unchanged",
    }
}

words! {
    /// What execution does next.
    Disposition {
        /// Nothing: everything agrees.
        Converged = "converged",
        /// Wake the builder.
        RetryBuild = "retry_build",
        /// Wake whoever examines.
        RetryQa = "retry_qa",
        /// Run the fast gate.
        RerunFastGate = "rerun_fast_gate",
        /// Run the full gate.
        RerunFullGate = "rerun_full_gate",
        /// Run the merge gate.
        RerunMergeGate = "rerun_merge_gate",
        /// Wait for a person: the worktree breaks its rules.
        BlockedCheckpointInvalid = "blocked_checkpoint_invalid",
        /// Wait for a person: the agent's output makes no sense.
        BlockedProviderFailure = "blocked_provider_failure",
        /// Wait for a person: nothing is known of the worktree as it is.
        BlockedStaleEvidence = "blocked_stale_evidence",
        /// Wait for a person, for another reason.
        BlockedOther = "blocked_other",
    }
}

impl Disposition {
    fn rerun(mode: GateMode) -> Self {
        match mode {
            GateMode::Fast => Self::RerunFastGate,
            GateMode::Full => Self::RerunFullGate,
            GateMode::Merge => Self::RerunMergeGate,
        }
    }

    fn retry(stage: Stage) -> Self {
        match stage {
            Stage::Building => Self::RetryBuild,
            Stage::Qa | Stage::ReadyToMerge => Self::RetryQa,
        }
    }

    /// Whether it waits for a person.
    pub fn is_blocked(self) -> bool {
        match self {
            Self::BlockedCheckpointInvalid
            | Self::BlockedProviderFailure
            | Self::BlockedStaleEvidence
            | Self::BlockedOther => true,
            Self::Converged
            | Self::RetryBuild
            | Self::RetryQa
            | Self::RerunFastGate
            | Self::RerunFullGate
            | Self::RerunMergeGate => false,
        }
    }
}

/// What is known of one gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeView {
    /// Whether its evidence is about the worktree as it is.
    pub freshness: Freshness,
    /// What it came to; `None` where there is no evidence.
    pub overall: Option<GateOverall>,
}

impl ModeView {
    /// A gate that nobody defined agrees with everything.
    const UNDEFINED: Self = Self {
        freshness: Freshness::Current,
        overall: Some(GateOverall::Pass),
    };

    fn agrees(self) -> bool {
        self == Self::UNDEFINED
    }
}

/// Everything that a reconciliation goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// Where the pod stands.
    pub stage: Stage,
    /// The gates that are defined.
    pub modes: BTreeMap<GateMode, ModeView>,
    /// The stages for which an agent is named.
    pub stage_agents: BTreeSet<Stage>,
    /// Whether the worktree keeps to its scope.
    pub validity: Validity,
    /// How it does not.
    pub violations: BTreeSet<ViolationKind>,
    /// Who parked the pod, and why.
    pub parked: Option<(By, ParkCode)>,
    /// Whether somebody claims that the work of the stage is done.
    pub claim: bool,
    /// Whether anything differs from the base.
    pub has_content: bool,
    /// What the newest wake-up came to.
    pub last: Option<Classification>,
    /// Wake-ups in a row whose output made no sense, and how many are borne.
    pub invalid_outputs: u32,
    /// `maxFailures`.
    pub max_failures: u32,
    /// Wake-ups in a row that changed nothing.
    pub no_new_work: u32,
    /// Gate runs in a row whose worktree moved, and how many are borne.
    pub gate_reruns: u32,
    /// `maxGateReruns`.
    pub max_gate_reruns: u32,
    /// Wake-ups in a row that were to repair a failing gate, and how many are borne.
    pub gate_repairs: u32,
    /// `maxGateRepairs`.
    pub max_gate_repairs: u32,
    /// Whether the newest handoff asks for another plan.
    pub plan_update_required: bool,
    /// Whether TASKS.md names a path that the scope forbids.
    pub tasks_name_forbidden: bool,
    /// Whether the gate failed twice on the same content.
    pub failed_twice: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the pod stays as it is.
    Stay,
    /// Park it.
    Park(ParkCode),
    /// Wake it, when the policy allows it.
    Wake,
    /// Run a gate.
    Gate(GateMode),
    /// It is done.
    Done,
}

/// What a reconciliation comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the plan stands.
    pub plan: PlanDecision,
    /// What execution does next.
    pub disposition: Disposition,
    /// All that holds, not only what decided.
    pub reasons: Vec<String>,
    /// What is to be done.
    pub next: Next,
    /// The stage from now on.
    pub stage: Stage,
    /// Whether the claim lasts.
    pub claim: bool,
    /// Whether the wake-up is to repair a failing gate.
    pub repairs: bool,
}

/// Reconciles. Total: every situation has a decision, with both its dimensions.
pub fn reconcile(situation: &Situation) -> Decision {
    let mut at = situation.clone();
    // A stage that is passed leads to the next one, three times at most.
    loop {
        match row(&at) {
            Row::Advance(stage) => {
                at.stage = stage;
                at.claim = at.claim && !at.stage_agents.contains(&stage);
            }
            Row::Decided {
                disposition,
                next,
                plan,
                repairs,
            } => return decided(&at, disposition, next, plan, repairs),
        }
    }
}

enum Row {
    Decided {
        disposition: Disposition,
        next: Next,
        plan: bool,
        repairs: bool,
    },
    Advance(Stage),
}

impl Row {
    fn of(disposition: Disposition, next: Next) -> Self {
        Self::Decided {
            disposition,
            next,
            plan: false,
            repairs: false,
        }
    }

    fn plan_changes(self, changes: bool) -> Self {
        match self {
            Self::Decided {
                disposition,
                next,
                repairs,
                ..
            } => Self::Decided {
                disposition,
                next,
                plan: changes,
                repairs,
            },
            Self::Advance(stage) => Self::Advance(stage),
        }
    }
}

/// The gate that counts: the stage's; in the last stage the earliest that does not agree.
fn mode_of(at: &Situation) -> GateMode {
    let own = at.stage.mode();
    if at.stage != Stage::ReadyToMerge {
        return own;
    }
    let open = at.modes.iter().find(|(_, view)| !view.agrees());
    open.map_or(own, |(mode, _)| *mode)
}

fn view(at: &Situation, mode: GateMode) -> ModeView {
    at.modes.get(&mode).copied().unwrap_or(ModeView::UNDEFINED)
}

fn row(at: &Situation) -> Row {
    use Disposition as D;
    let mode = mode_of(at);
    let ModeView { freshness, overall } = view(at, mode);
    let (current, absent) = (freshness == Freshness::Current, freshness == Freshness::Missing);
    let stale = freshness == Freshness::Stale;
    let invalid_output = at.last == Some(Classification::ProviderOutputInvalid);
    let retry = || Row::of(D::retry(at.stage), Next::Wake);
    match at.parked {
        // 1
        Some((By::Operator, _)) => return Row::of(D::BlockedOther, Next::Stay),
        Some((By::Podd, _)) | None => {}
    }
    // 2
    if at.validity == Validity::Invalid {
        let next = Next::Park(ParkCode::CheckpointInvalid);
        return Row::of(D::BlockedCheckpointInvalid, next).plan_changes(at.tasks_name_forbidden);
    }
    // 3
    if invalid_output && at.invalid_outputs >= at.max_failures {
        return Row::of(D::BlockedProviderFailure, Next::Park(ParkCode::ProviderFailure));
    }
    // 4
    if freshness == Freshness::Unknown || at.validity == Validity::Unknown {
        return Row::of(D::BlockedStaleEvidence, Next::Park(ParkCode::StaleEvidence));
    }
    if at.parked.is_some() {
        // 5, 6
        let disposition = if stale {
            D::BlockedStaleEvidence
        } else {
            D::BlockedOther
        };
        return Row::of(disposition, Next::Stay);
    }
    // 7
    if (stale || absent) && at.gate_reruns >= at.max_gate_reruns {
        return Row::of(D::BlockedStaleEvidence, Next::Park(ParkCode::StaleEvidence));
    }
    // 8; nothing to judge three times is no more worth waking for than nothing new (16)
    if absent && !at.claim && !at.has_content && at.no_new_work < NO_NEW_WORK {
        return retry();
    }
    if absent && !at.claim && !at.has_content {
        return Row::of(D::BlockedOther, Next::Park(ParkCode::NoNewWork));
    }
    // 9
    if stale || absent {
        return Row::of(D::rerun(mode), Next::Gate(mode));
    }
    debug_assert!(current, "every other freshness has been dealt with");
    match overall {
        // 10; evidence that is there and says nothing judged nothing
        Some(GateOverall::Error) | None => {
            return Row::of(D::BlockedOther, Next::Park(ParkCode::GateError));
        }
        // 11
        Some(GateOverall::Fail) if at.gate_repairs < at.max_gate_repairs => {
            return Row::Decided {
                disposition: D::retry(at.stage),
                next: Next::Wake,
                plan: at.failed_twice,
                repairs: true,
            };
        }
        // 12
        Some(GateOverall::Fail) => {
            let next = Next::Park(ParkCode::GateFailed);
            return Row::of(D::BlockedOther, next).plan_changes(at.failed_twice);
        }
        Some(GateOverall::Pass) => {}
    }
    // 13
    if invalid_output {
        return retry();
    }
    if at.claim {
        return match at.stage.next() {
            // 14
            Some(next) => Row::Advance(next),
            // 15
            None if at.plan_update_required => Row::of(D::RetryBuild, Next::Wake),
            None => Row::of(D::Converged, Next::Done),
        };
    }
    // 16
    if at.no_new_work >= NO_NEW_WORK {
        return Row::of(D::BlockedOther, Next::Park(ParkCode::NoNewWork));
    }
    // 17
    retry()
}

fn decided(at: &Situation, disposition: Disposition, next: Next, plan: bool, repairs: bool) -> Decision {
    let plan = if plan || at.plan_update_required {
        PlanDecision::UpdateRequired
    } else {
        PlanDecision::Unchanged
    };
    Decision {
        plan,
        disposition,
        reasons: reasons(at, next),
        next,
        stage: at.stage,
        claim: at.claim,
        repairs,
    }
}

fn reasons(at: &Situation, next: Next) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    match at.parked {
        Some((By::Operator, _)) => reasons.push("parked_by_operator".to_owned()),
        Some((By::Podd, code)) => reasons.push(code.word().to_owned()),
        None => {}
    }
    reasons.extend(at.violations.iter().map(|kind| kind.word().to_owned()));
    let open: Vec<GateMode> = match at.stage {
        Stage::Building | Stage::Qa => vec![at.stage.mode()],
        Stage::ReadyToMerge => at.modes.keys().copied().collect(),
    };
    for mode in open {
        let Some(view) = at.modes.get(&mode) else { continue };
        let said = match (view.freshness, view.overall) {
            (Freshness::Current, Some(GateOverall::Pass)) => continue,
            (Freshness::Current, Some(overall)) => overall.word(),
            (Freshness::Current, None) => "error",
            (freshness, _) => {
                reasons.push(format!("{mode}_gate_evidence_{freshness}"));
                continue;
            }
        };
        reasons.push(format!("{mode}_gate_{said}"));
    }
    match at.last {
        Some(Classification::NoNewWork) => reasons.push("no_new_work".to_owned()),
        Some(Classification::ProviderOutputInvalid) => reasons.push("provider_output_invalid".to_owned()),
        Some(Classification::CheckpointInvalid | Classification::ProgressApplied) | None => {}
    }
    if at.plan_update_required {
        reasons.push("plan_update_required".to_owned());
    }
    if let Next::Park(code) = next {
        let word = code.word().to_owned();
        if !reasons.contains(&word) {
            reasons.push(word);
        }
    }
    reasons
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;

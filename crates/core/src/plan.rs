//! One pass of podd as a function of the world and the time.

use std::collections::BTreeSet;

use crate::account::Probe;
use crate::{
    AccountHold, AccountLimits, AccountName, By, GateMode, KillCause, ParkCode, PodId, PodRecord, PodState,
    PodView, ProjectView, Pulse, Review, Timestamp, Usage, WakeMode, World, WrapperView, budget_exhausted,
    next_mode, review,
};

/// One thing to do, or the reason to do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a wrapper.
    Wake(WakeMode),
    /// Record when the pod is woken next.
    Schedule {
        /// When.
        at: Timestamp,
        /// The streak that led there.
        streak: u32,
    },
    /// Park the pod.
    Park {
        /// The class of the reason.
        code: ParkCode,
    },
    /// End the tree of a dead wrapper and record its outcome.
    Settle,
    /// Record the intent, then signal the wrapper.
    Kill(KillCause),
    /// Signal the wrapper for an intent or a cancel that is recorded already.
    Signal,
    /// Run a gate.
    Gate(GateMode),
    /// Look at worktree and evidence of a gated pod, and decide.
    Reconcile,
    /// Finish a cancel that met nothing running.
    FinishCancel,
    /// Nothing, for now.
    Wait,
}

impl Action {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Wake(WakeMode::Cold) => "wake",
            Self::Wake(WakeMode::Warm) => "wakeWarm",
            Self::Schedule { .. } => "schedule",
            Self::Park { .. } => "park",
            Self::Settle => "settle",
            Self::Kill(_) => "kill",
            Self::Signal => "signal",
            Self::Gate(_) => "gate",
            Self::Reconcile => "reconcile",
            Self::FinishCancel => "cancel",
            Self::Wait => "wait",
        }
    }
}

/// One pod's line in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub pod: PodId,
    /// What.
    pub action: Action,
    /// Why.
    pub because: String,
    /// When, where that is not now.
    pub at: Option<Timestamp>,
}

impl Step {
    fn new(view: &PodView, action: Action, because: impl Into<String>) -> Self {
        Self {
            pod: view.record.id.clone(),
            action,
            because: because.into(),
            at: None,
        }
    }

    fn wait(view: &PodView, because: impl Into<String>) -> Self {
        Self::new(view, Action::Wait, because)
    }

    fn at(self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self }
    }
}

enum Verdict {
    Decided(Step),
    Due(Timestamp, Due),
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Wake,
    Gate(GateMode),
}

/// Decides what podd does now: at most one step a pod, none for a terminal one.
///
/// The steps come in the order in which they have to be done. The world may have changed by then, so
/// whoever acts looks again under the lock.
pub fn plan(world: &World, now: Timestamp) -> Vec<Step> {
    let limits = AccountLimits::of(world.pods.iter().map(|view| (&view.record, &view.account)), now);
    let mut steps = Vec::new();
    let mut due = Vec::new();
    for view in &world.pods {
        match decide(&limits, view, now) {
            Some(Verdict::Decided(step)) => steps.push(step),
            Some(Verdict::Due(since, what)) => due.push((since, view, what)),
            None => {}
        }
    }
    due.sort_by(|a, b| (a.0, &a.1.record.id).cmp(&(b.0, &b.1.record.id)));
    let awake = world.pods.iter().filter(|view| is_awake(view)).count();
    let mut free = (world.limits.max_concurrent as usize).saturating_sub(awake);
    let mut starts = world.room.starts_left;
    let mut probing = BTreeSet::new();
    for (_, view, what) in due {
        let held = match what {
            Due::Wake => behind_probe(world, &limits, view, &probing),
            Due::Gate(_) => None,
        };
        let step = held.unwrap_or_else(|| start(world, view, what, &mut free, &mut starts));
        if matches!(step.action, Action::Wake(_)) {
            probing.insert(view.account.clone());
        }
        steps.push(step);
    }
    park_accounts(world, &mut steps);
    steps
}

fn is_awake(view: &PodView) -> bool {
    view.record.state == PodState::Active
        || view.record.gate().is_some()
        || view.wrapper == WrapperView::Starting
}

fn decide(limits: &AccountLimits, view: &PodView, now: Timestamp) -> Option<Verdict> {
    let record = &view.record;
    if record.gate().is_some() {
        return Some(Verdict::Decided(gate_running(view)));
    }
    match record.state {
        PodState::Done | PodState::Cancelled => None,
        PodState::Active => Some(Verdict::Decided(awake(view))),
        PodState::Parked if record.cancel.is_some() => Some(Verdict::Decided(Step::new(
            view,
            Action::FinishCancel,
            "a cancel is recorded and nothing runs",
        ))),
        PodState::Parked if record.needs_reconciliation() => Some(Verdict::Decided(reconcile_step(view))),
        PodState::Parked => {
            let why = record.parked.as_ref().map_or_else(
                || "it is parked".to_owned(),
                |parked| match parked.by {
                    By::Operator => "it is parked by the operator".to_owned(),
                    By::Podd => format!("it is parked by podd ({})", parked.code),
                },
            );
            Some(Verdict::Decided(Step::wait(view, why)))
        }
        PodState::Idle => Some(idle(limits, view, now)),
    }
}

fn gate_running(view: &PodView) -> Step {
    let wedged_after = view
        .policy
        .heartbeat_interval
        .0
        .saturating_mul(view.policy.wedge_after);
    match &view.wrapper {
        WrapperView::Alive(pulse) if pulse.silent >= wedged_after => {
            let because = format!("no heartbeat for {} s", pulse.silent.as_secs());
            Step::new(view, Action::Kill(KillCause::Wedged), because)
        }
        WrapperView::Alive(_) if view.record.cancel.is_some() => {
            Step::new(view, Action::Signal, "a cancel is recorded")
        }
        WrapperView::Alive(_) | WrapperView::Starting => Step::wait(view, "a gate is running"),
        WrapperView::Dead { .. } | WrapperView::Absent => {
            Step::new(view, Action::Settle, "the runner of its gate is gone")
        }
        WrapperView::Unknown(why) => Step::wait(
            view,
            format!("it cannot be told whether its gate still runs: {why}"),
        ),
    }
}

fn reconcile_step(view: &PodView) -> Step {
    Step::new(
        view,
        Action::Reconcile,
        "its newest outcome is not reconciled with its gates",
    )
}

fn awake(view: &PodView) -> Step {
    match &view.wrapper {
        WrapperView::Alive(pulse) => alive(view, *pulse),
        WrapperView::Dead { rebooted: true } => Step::new(view, Action::Settle, "the machine was restarted"),
        WrapperView::Dead { rebooted: false } | WrapperView::Absent => {
            Step::new(view, Action::Settle, "its wrapper is gone")
        }
        WrapperView::Starting => Step::wait(view, "its wrapper is starting"),
        WrapperView::Unknown(why) => Step::wait(
            view,
            format!("it cannot be told whether its wrapper lives: {why}"),
        ),
    }
}

fn alive(view: &PodView, pulse: Pulse) -> Step {
    let (record, policy) = (&view.record, &view.policy);
    let n = record.wake().map_or(record.wake_up_count, |current| current.n);
    let wedged_after = policy.heartbeat_interval.0.saturating_mul(policy.wedge_after);
    // A wrapper that does not answer is past being asked, whatever was asked of it before.
    if pulse.silent >= wedged_after {
        let because = format!("no heartbeat for {} s", pulse.silent.as_secs());
        return Step::new(view, Action::Kill(KillCause::Wedged), because);
    }
    if record.cancel.is_some() {
        return Step::new(view, Action::Signal, "a cancel is recorded");
    }
    if let Some(cause) = record.intent(n) {
        return Step::new(view, Action::Signal, format!("{cause} is recorded as the intent"));
    }
    if pulse.stalled >= policy.stall_timeout.0 {
        let because = format!("nothing moved for {} s", pulse.stalled.as_secs());
        return Step::new(view, Action::Kill(KillCause::Progressless), because);
    }
    // The wrapper keeps its own time; this is for one whose timer does not fire.
    let patience = wedged_after + policy.cancel_grace.0 + policy.drain_limit.0;
    if pulse.watched >= policy.wake_timeout.0.saturating_add(patience) {
        return Step::new(
            view,
            Action::Kill(KillCause::TimedOut),
            "it runs longer than wakeTimeout",
        );
    }
    Step::wait(view, format!("wake-up {n} is running"))
}

fn idle(limits: &AccountLimits, view: &PodView, now: Timestamp) -> Verdict {
    let (record, policy) = (&view.record, &view.policy);
    let decided = |step| Verdict::Decided(step);
    let park = |code, why: String| decided(Step::new(view, Action::Park { code }, why));
    if record.cancel.is_some() {
        return decided(Step::new(
            view,
            Action::FinishCancel,
            "a cancel is recorded and nothing runs",
        ));
    }
    match &view.wrapper {
        WrapperView::Starting => return decided(Step::wait(view, "its wrapper is starting")),
        WrapperView::Alive(_) | WrapperView::Dead { .. } | WrapperView::Unknown(_) => {
            return decided(Step::wait(view, "its last wrapper is still winding down"));
        }
        WrapperView::Absent => {}
    }
    match &view.project {
        ProjectView::Gone => {
            return park(
                ParkCode::ProjectGone,
                format!("there is no directory `{}`", record.project),
            );
        }
        ProjectView::Unknown(why) => {
            return decided(Step::wait(view, format!("its project cannot be seen: {why}")));
        }
        ProjectView::There => {}
    }
    if !view.survivors.is_empty() {
        let why = format!(
            "processes of its last wake-up resist SIGKILL: {:?}",
            view.survivors
        );
        return decided(Step::wait(view, why));
    }
    // Gates use nothing up: a claim is judged although the budget is spent.
    if record.needs_reconciliation() {
        return decided(reconcile_step(view));
    }
    if let Some(gates) = &record.gates
        && let Some(mode) = gates.due
    {
        let since = gates
            .last_run
            .as_ref()
            .map_or(record.created_at, |run| run.finished_at);
        return Verdict::Due(since, Due::Gate(mode));
    }
    if let Some(line) = budget_exhausted(record, policy, Usage::default()) {
        return park(ParkCode::BudgetExhausted, line.0);
    }
    let at = match record.next_wake_at {
        Some(at) => at,
        None => match review(record, policy, now) {
            // What is due already is woken in this pass; whoever acts records the streak before the start. It
            // has waited since its last outcome: a pod that always declares more does not overtake the others.
            Review::Wake { at, .. } if at <= now => {
                let since = record
                    .last()
                    .map_or(Some(record.created_at), |last| last.ended_at);
                since.unwrap_or(at).min(at)
            }
            Review::Wake { at, streak, because } => {
                return decided(Step::new(view, Action::Schedule { at, streak }, because).at(at));
            }
            Review::Park { code, detail } => return park(code, detail),
        },
    };
    if at > now {
        return decided(Step::wait(view, waits_for(record)).at(at));
    }
    if let Some(AccountHold { until, pod, .. }) = limits.hold(&view.account) {
        let why = format!(
            "account `{}` is held back by a limit that pod `{pod}` ran into",
            view.account
        );
        return decided(Step::wait(view, why).at(*until));
    }
    Verdict::Due(at, Due::Wake)
}

fn waits_for(record: &PodRecord) -> String {
    match record.last() {
        Some(last) if last.verdict.is_held() => format!("it waits for a limit ({})", last.verdict),
        Some(last) => format!("it rests after {} ({} in a row)", last.verdict, record.streak),
        None => "its time has not come".to_owned(),
    }
}

/// Why a pod that is due still waits: a limit of its account has ended, and one wake-up alone finds out whether
/// it is over. `started` are the accounts that this pass has given a wake-up.
fn behind_probe(
    world: &World,
    limits: &AccountLimits,
    view: &PodView,
    started: &BTreeSet<AccountName>,
) -> Option<Step> {
    let starting = world
        .pods
        .iter()
        .find(|other| other.account == view.account && other.wrapper == WrapperView::Starting);
    let by = match limits.probe(&view.account) {
        Probe::NotNeeded => return None,
        Probe::Running(pod) => format!("pod `{pod}`"),
        Probe::Due => match starting {
            Some(other) => format!("pod `{}`", other.record.id),
            None if started.contains(&view.account) => "another pod".to_owned(),
            None => return None,
        },
    };
    let why = format!(
        "the limit of account `{}` has ended, and {by} finds out whether it is over",
        view.account
    );
    Some(Step::wait(view, why))
}

fn start(world: &World, view: &PodView, what: Due, free: &mut usize, starts: &mut u32) -> Step {
    if let Some(why) = &world.room.refused {
        return Step::wait(view, why.clone());
    }
    if let Some(why) = &view.disk_full {
        return Step::wait(view, why.clone());
    }
    if *free == 0 {
        return Step::wait(
            view,
            format!("maxConcurrent {} is reached", world.limits.max_concurrent),
        );
    }
    if *starts == 0 {
        return Step::wait(
            view,
            format!("startRate {} a second is reached", world.limits.start_rate),
        );
    }
    *free -= 1;
    *starts -= 1;
    if let Due::Gate(mode) = what {
        return Step::new(
            view,
            Action::Gate(mode),
            "its evidence is not about the worktree as it is",
        );
    }
    let mode = next_mode(&view.record, &view.policy);
    let because = match (mode, view.record.last()) {
        (WakeMode::Warm, Some(last)) => format!("wake-up {} was lost; its session is continued", last.n),
        (WakeMode::Warm, None) | (WakeMode::Cold, _) => "it is due".to_owned(),
    };
    Step::new(view, Action::Wake(mode), because)
}

/// A refused key or an empty purse concerns every pod of the account: they are parked in front of the one
/// that met it, so that a podd that dies in between finds the cause still standing.
fn park_accounts(world: &World, steps: &mut Vec<Step>) {
    let mut first = Vec::new();
    for step in steps.iter() {
        let Action::Park {
            code: code @ (ParkCode::AuthFailed | ParkCode::QuotaExhausted),
        } = step.action
        else {
            continue;
        };
        let Some(cause) = world.pods.iter().find(|view| view.record.id == step.pod) else {
            continue;
        };
        let met_by = cause
            .record
            .last()
            .and_then(|last| last.account.clone())
            .unwrap_or_else(|| cause.account.0.clone());
        for other in &world.pods {
            let same = other.record.id != step.pod && other.account.0 == met_by;
            if same && other.record.state == PodState::Idle && !is_awake(other) {
                let why = format!("account `{met_by}`: pod `{}`: {}", step.pod, step.because);
                first.push(Step::new(other, Action::Park { code }, why));
            }
        }
    }
    let mut seen = BTreeSet::new();
    first.retain(|step| seen.insert(step.pod.clone()));
    let own_park = |step: &Step| matches!(step.action, Action::Park { .. });
    first.retain(|step| !steps.iter().any(|own| own.pod == step.pod && own_park(own)));
    steps.retain(|step| !first.iter().any(|parked| parked.pod == step.pod));
    first.append(steps);
    *steps = first;
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

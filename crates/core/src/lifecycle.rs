//! The transitions of a record. Each is one locked step of somebody; none looks at the world.

use crate::{
    By, CancelMark, Current, CurrentKind, GateRun, KillCause, KillIntent, ParkCode, Parked, Phase, PodId,
    PodRecord, PodState, PolicyOverrides, SCHEMA_VERSION, Timestamp, Token, Verdict, WakeUpEntry,
};

/// Why a transition does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pod is over.
    #[error("pod `{pod}` is {state}")]
    Terminal {
        /// Which.
        pod: String,
        /// `done` or `cancelled`.
        state: PodState,
    },
    /// The pod is parked.
    #[error("pod `{pod}` is parked ({code})")]
    Parked {
        /// Which.
        pod: String,
        /// Why.
        code: ParkCode,
    },
    /// Something runs in it.
    #[error("wake-up `{pod}/{n}` is still running (pid {pid})")]
    Awake {
        /// Which.
        pod: String,
        /// The wake-up.
        n: u32,
        /// Its wrapper.
        pid: i32,
    },
    /// A gate runs in it.
    #[error("a gate of pod `{pod}` is running (pid {pid})")]
    GateRunning {
        /// Which.
        pod: String,
        /// Its process.
        pid: i32,
    },
    /// A cancel is on its way.
    #[error("pod `{pod}` is being cancelled")]
    BeingCancelled {
        /// Which.
        pod: String,
    },
    /// The wake-up is not the one that runs, or no longer.
    #[error("wake-up `{pod}/{n}` is not the one that runs")]
    Fenced {
        /// Which.
        pod: String,
        /// The wake-up.
        n: u32,
    },
    /// There is no number left for a further wake-up.
    #[error("pod `{pod}` has no wake-up number left")]
    NoNumber {
        /// Which.
        pod: String,
    },
    /// It was asked to continue a session, and the last wake-up was not lost.
    #[error("pod `{pod}` has no lost wake-up to continue (last outcome: {last})")]
    NotLost {
        /// Which.
        pod: String,
        /// The last outcome, or `none`.
        last: String,
    },
}

/// Which wake-up a write belongs to. A write of any other changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The wake-up's number.
    pub n: u32,
    /// The wake-up's mark; absent for a record that is active without saying what runs.
    pub token: Option<Token>,
}

/// What recording an outcome did.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The outcome is now in the record.
    Recorded,
    /// The record had it, or another's, before: nothing was changed.
    Fenced,
}

/// What a wish to cancel met.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelEffect {
    /// Nothing ran: the pod is cancelled.
    Cancelled,
    /// Something runs and has to be signalled.
    Signal,
    /// It was cancelled before.
    AlreadyCancelled,
    /// It is done; that stands.
    Done,
}

impl PodRecord {
    /// A pod that was never woken, and is due.
    pub fn new(id: PodId, project: String, goal: String, policy: PolicyOverrides, now: Timestamp) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            id,
            project,
            goal,
            state: PodState::Idle,
            created_at: now,
            updated_at: now,
            policy,
            parked: None,
            current: None,
            cancel: None,
            kill_intent: None,
            next_wake_at: Some(now),
            streak: 0,
            wake_up_count: 0,
            wake_ups: Vec::new(),
            streak_since: 0,
            held_wake_ups: 0,
            stage: None,
            gates: None,
            usage_total: None,
            extra: serde_json::Map::new(),
        }
    }

    fn name(&self) -> String {
        self.id.to_string()
    }

    /// Refuses what may not be woken, in the order in which a person wants to hear it.
    pub fn wakeable(&self) -> Result<(), Refusal> {
        let pod = self.name();
        match self.state {
            state @ (PodState::Done | PodState::Cancelled) => return Err(Refusal::Terminal { pod, state }),
            PodState::Active => {
                let (n, pid) = self
                    .wake()
                    .map_or((self.wake_up_count, 0), |current| (current.n, current.pid));
                return Err(Refusal::Awake { pod, n, pid });
            }
            PodState::Idle | PodState::Parked => {}
        }
        if self.cancel.is_some() {
            return Err(Refusal::BeingCancelled { pod });
        }
        if let Some(parked) = &self.parked {
            return Err(Refusal::Parked {
                pod,
                code: parked.code,
            });
        }
        if self.state == PodState::Parked {
            return Err(Refusal::Parked {
                pod,
                code: ParkCode::Operator,
            });
        }
        match &self.current {
            Some(gate) => Err(Refusal::GateRunning { pod, pid: gate.pid }),
            None => Ok(()),
        }
    }

    /// Refuses to continue a session unless the last wake-up was lost.
    pub fn warm_allowed(&self) -> Result<(), Refusal> {
        match self.last().map(|last| last.verdict) {
            Some(Verdict::Lost(_)) => Ok(()),
            last => Err(Refusal::NotLost {
                pod: self.name(),
                last: last.map_or_else(|| "none".to_owned(), |verdict| verdict.outcome().to_string()),
            }),
        }
    }

    /// The wrapper's first act: the pod is awake, and it is this wrapper that woke it.
    pub fn claim(&mut self, current: Current, now: Timestamp) -> Result<(), Refusal> {
        self.wakeable()?;
        if current.warm {
            self.warm_allowed()?;
        }
        self.wake_up_count = current.n.max(self.wake_up_count);
        self.state = PodState::Active;
        self.kill_intent = None;
        self.next_wake_at = None;
        self.current = Some(current);
        self.updated_at = now;
        Ok(())
    }

    /// A gate begins: nothing else may run in the pod, whose state stays as it is.
    pub fn claim_gate(&mut self, current: Current, now: Timestamp) -> Result<(), Refusal> {
        let pod = self.name();
        match (self.state, &self.current) {
            (state @ (PodState::Done | PodState::Cancelled), _) => {
                return Err(Refusal::Terminal { pod, state });
            }
            (PodState::Active, current) => {
                let (n, pid) = current
                    .as_ref()
                    .map_or((self.wake_up_count, 0), |current| (current.n, current.pid));
                return Err(Refusal::Awake { pod, n, pid });
            }
            (PodState::Idle | PodState::Parked, Some(gate)) => {
                return Err(Refusal::GateRunning { pod, pid: gate.pid });
            }
            (PodState::Idle | PodState::Parked, None) => {}
        }
        if self.cancel.is_some() {
            return Err(Refusal::BeingCancelled { pod });
        }
        self.current = Some(current);
        self.updated_at = now;
        Ok(())
    }

    /// A gate has ended; `run` is what it left, if it left evidence.
    pub fn settle_gate(&mut self, token: &Token, run: Option<GateRun>, now: Timestamp) -> Settlement {
        if self.gate().is_none_or(|current| current.token != *token) {
            return Settlement::Fenced;
        }
        self.current = None;
        if let Some(gates) = &mut self.gates {
            gates.note_run(run);
        }
        self.updated_at = now;
        Settlement::Recorded
    }

    /// Records a wake-up's outcome, once, and moves the pod on.
    pub fn settle(&mut self, fence: &Fence, entry: WakeUpEntry, now: Timestamp) -> Settlement {
        if self.state != PodState::Active {
            return Settlement::Fenced;
        }
        let matches = match (self.wake(), &fence.token) {
            (Some(current), Some(token)) => current.n == fence.n && current.token == *token,
            (None, None) => self.wake_up_count == fence.n,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !matches {
            return Settlement::Fenced;
        }
        let verdict = entry.verdict;
        if let Some(usage) = entry.usage {
            self.usage_total = Some(self.usage_total.unwrap_or_default().plus(usage));
        }
        if verdict.is_held() {
            self.held_wake_ups += 1;
        }
        if self.entry(fence.n).is_none() {
            self.wake_ups.push(entry);
        }
        let surplus = self.wake_ups.len().saturating_sub(Self::KEPT_WAKE_UPS);
        self.wake_ups.drain(..surplus);
        self.state = self.state_after(verdict);
        if let Some(gates) = &mut self.gates {
            gates.claim = verdict == Verdict::Done;
            gates.due = None;
        }
        if self.state.is_terminal() {
            self.parked = None;
        }
        self.current = None;
        self.kill_intent = None;
        self.next_wake_at = None;
        self.updated_at = now;
        Settlement::Recorded
    }

    fn state_after(&self, verdict: Verdict) -> PodState {
        match verdict {
            // Of a gated pod it is a claim.
            Verdict::Done if self.gates.is_none() => PodState::Done,
            Verdict::Cancelled => PodState::Cancelled,
            Verdict::More | Verdict::Done | Verdict::Failed(_) | Verdict::Lost(_)
                if self.cancel.is_some() =>
            {
                PodState::Cancelled
            }
            Verdict::More | Verdict::Done | Verdict::Failed(_) | Verdict::Lost(_)
                if self.parked.is_some() =>
            {
                PodState::Parked
            }
            Verdict::More | Verdict::Done | Verdict::Failed(_) | Verdict::Lost(_) => PodState::Idle,
        }
    }

    /// Everything agrees: a gated pod that nothing runs in is done.
    pub fn finish(&mut self, now: Timestamp) {
        if self.state == PodState::Idle && self.current.is_none() {
            self.state = PodState::Done;
            self.next_wake_at = None;
            self.updated_at = now;
        }
    }

    /// A person's wish to end the pod.
    pub fn request_cancel(&mut self, by: By, now: Timestamp) -> CancelEffect {
        match self.state {
            PodState::Done => return CancelEffect::Done,
            PodState::Cancelled => return CancelEffect::AlreadyCancelled,
            PodState::Idle | PodState::Active | PodState::Parked => {}
        }
        if self.cancel.is_none() {
            self.cancel = Some(CancelMark { at: now, by });
            self.updated_at = now;
        }
        if self.state == PodState::Active {
            return CancelEffect::Signal;
        }
        self.state = PodState::Cancelled;
        self.parked = None;
        self.next_wake_at = None;
        self.updated_at = now;
        if self.current.is_some() {
            CancelEffect::Signal
        } else {
            CancelEffect::Cancelled
        }
    }

    /// Stops waking the pod. A wake-up that runs goes on, and the pod is parked when it ends.
    ///
    /// An operator's park replaces podd's, never the other way round. Returns whether anything changed.
    pub fn park(
        &mut self,
        code: ParkCode,
        detail: Option<String>,
        by: By,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        if self.state.is_terminal() {
            return Err(Refusal::Terminal {
                pod: self.name(),
                state: self.state,
            });
        }
        if self
            .parked
            .as_ref()
            .is_some_and(|parked| parked.by == By::Operator || by == By::Podd)
        {
            return Ok(false);
        }
        self.parked = Some(Parked {
            code,
            detail,
            since: now,
            by,
        });
        if self.state == PodState::Idle {
            self.state = PodState::Parked;
        }
        self.next_wake_at = None;
        self.updated_at = now;
        Ok(true)
    }

    /// Unparks the pod and forgives its streak. Returns whether anything changed.
    pub fn resume(&mut self, now: Timestamp) -> Result<bool, Refusal> {
        if self.state.is_terminal() {
            return Err(Refusal::Terminal {
                pod: self.name(),
                state: self.state,
            });
        }
        if self.parked.is_none() && self.state != PodState::Parked {
            return Ok(false);
        }
        self.parked = None;
        self.streak = 0;
        self.streak_since = self.wake_up_count;
        if self.state == PodState::Parked {
            self.state = PodState::Idle;
            self.next_wake_at = Some(now);
        }
        if let Some(gates) = &mut self.gates {
            // Nobody is woken before worktree and evidence were looked at.
            gates.reconciled = None;
            gates.phase = Some(Phase::Resume);
            self.next_wake_at = None;
        }
        self.updated_at = now;
        Ok(true)
    }

    /// Makes an idle pod due, whatever its backoff. Returns whether anything changed.
    pub fn make_due(&mut self, now: Timestamp) -> Result<bool, Refusal> {
        if self.state != PodState::Active {
            self.wakeable()?;
            self.next_wake_at = Some(now);
            self.updated_at = now;
        }
        Ok(self.state != PodState::Active)
    }

    /// podd's decision about an idle pod: when it is woken next.
    pub fn schedule(&mut self, at: Timestamp, streak: u32, now: Timestamp) -> Result<(), Refusal> {
        self.wakeable()?;
        self.next_wake_at = Some(at);
        self.streak = streak;
        self.updated_at = now;
        Ok(())
    }

    /// Writes down that wake-up `fence` is about to be killed. The first intent stands.
    pub fn intend_kill(&mut self, fence: &Fence, cause: KillCause, now: Timestamp) -> Result<(), Refusal> {
        let current = self
            .current
            .as_ref()
            .filter(|current| current.kind == CurrentKind::Wake);
        let ours = current
            .is_some_and(|current| current.n == fence.n && Some(&current.token) == fence.token.as_ref());
        if !ours {
            return Err(Refusal::Fenced {
                pod: self.name(),
                n: fence.n,
            });
        }
        if self.intent(fence.n).is_none() {
            self.kill_intent = Some(KillIntent {
                n: fence.n,
                cause,
                at: now,
            });
            self.updated_at = now;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
pub(crate) mod tests;

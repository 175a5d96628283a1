//! Performs the steps of a plan. Each looks again under the lock: the world may have moved on.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pod_core::{
    Action, By, Fence, GateMode, KillCause, Liveness, ParkCode, Phase, PodId, PodRecord, Policy, Refusal,
    Step, Timestamp, WakeMode, error_chain, streak,
};
use pod_process::{Handle, Launched, Output};
use pod_reconcile::{Reconciled, Settled, kill_wedged, liveness_of, reconcile_pod, settle_dead};
use pod_registry::{Registry, UpdateError};
use tracing::{debug, error, info, warn};

use pod_reconcile::now;

/// A pass that does not get the lock leaves the step to the next one.
const WAIT: Duration = Duration::from_secs(2);

/// The home of the steps.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) registry: Registry,
    pub(crate) config_file: Option<PathBuf>,
}

/// The record is not the one that the plan was made of.
struct MovedOn;

impl Actor {
    /// Changes a record, if it is still the one that the plan saw.
    fn change(
        &self,
        seen: &PodRecord,
        what: &'static str,
        change: impl FnOnce(&mut PodRecord, Timestamp) -> Result<(), Refusal>,
    ) -> bool {
        let done = self.registry.update(&seen.id, WAIT, |record| {
            if record != seen {
                return Err(MovedOn);
            }
            change(record, now()).map_err(|_| MovedOn)
        });
        match done {
            Ok(()) => true,
            Err(UpdateError::Refused(MovedOn)) => {
                debug!(pod = %seen.id, what, "the record has moved on; the next pass looks again");
                false
            }
            Err(UpdateError::Read(error)) => {
                warn!(pod = %seen.id, what, error = %error_chain(&error), "record could not be read; the next pass tries again");
                false
            }
            Err(UpdateError::Registry(error)) => {
                warn!(pod = %seen.id, what, error = %error_chain(&error), "record could not be changed; the next pass tries again");
                false
            }
        }
    }

    pub(crate) fn schedule(&self, seen: &PodRecord, at: Timestamp, streak: u32, because: &str) {
        if self.change(seen, "schedule", |record, now| record.schedule(at, streak, now)) {
            let retry_in_s = at.since(now()).as_secs();
            info!(pod = %seen.id, %at, retry_in_s, streak, because, "next wake-up is set");
        }
    }

    pub(crate) fn park(&self, seen: &PodRecord, code: ParkCode, because: &str) {
        let detail = Some(because.to_owned());
        if self.change(seen, "park", |record, now| {
            record.park(code, detail, By::Podd, now).map(drop)
        }) {
            error!(pod = %seen.id, code = %code, because, "pod is parked: it waits for a person");
        }
    }

    pub(crate) fn finish_cancel(&self, seen: &PodRecord) {
        let _changed = self.change(seen, "cancel", |record, now| {
            let _effect = record.request_cancel(By::Operator, now);
            Ok(())
        });
    }

    /// Starts a wrapper. What the wrapper itself may refuse is its own to say.
    pub(crate) fn wake(&self, seen: &PodRecord, mode: WakeMode) -> Option<(Launched, Output)> {
        if seen.next_wake_at.is_none() {
            let count = streak(seen);
            if !self.change(seen, "schedule", |record, now| record.schedule(now, count, now)) {
                return None;
            }
        }
        let mut args: Vec<OsString> = vec![seen.id.as_str().into()];
        if mode == WakeMode::Warm {
            args.push("--warm".into());
        }
        self.launch(&seen.id, args)
    }

    /// Starts the run of a gate.
    pub(crate) fn gate(&self, seen: &PodRecord, mode: GateMode) -> Option<(Launched, Output)> {
        let args = vec!["--gate".into(), mode.word().into(), seen.id.as_str().into()];
        self.launch(&seen.id, args)
    }

    fn launch(&self, pod: &PodId, mut args: Vec<OsString>) -> Option<(Launched, Output)> {
        args.extend([OsString::from("--home"), self.registry.home().root().into()]);
        if let Some(file) = &self.config_file {
            args.extend([OsString::from("--config"), file.into()]);
        }
        let started = pod_process::sibling("pod-wrapper")
            .map_err(|error| error_chain(&error))
            .and_then(|program| {
                pod_process::launch_detached(&program, &args).map_err(|error| error_chain(&error))
            });
        match started {
            Ok((launched, output)) => {
                debug!(%pod, pid = launched.handle.pid(), "wrapper started");
                Some((launched, output))
            }
            Err(error) => {
                error!(%pod, error, "wrapper could not be started; the next pass tries again");
                None
            }
        }
    }

    /// Tells a live wrapper to end, proven to be the one that the record names. A stopped one goes on to hear it.
    pub(crate) fn signal(&self, seen: &PodRecord, because: &str) {
        let Some(current) = &seen.current else { return };
        if liveness_of(seen) != Liveness::Alive {
            return;
        }
        let told = Handle::of(current.pid, current.start_ticks)
            .and_then(|held| held.map_or(Ok(false), |held| held.ask_to_end()));
        match told {
            Ok(true) => {
                info!(pod = %seen.id, wakeup = current.n, pid = current.pid, because, "wrapper told to end")
            }
            Ok(false) => debug!(pod = %seen.id, wakeup = current.n, "wrapper ended before it was told to"),
            Err(error) => {
                warn!(pod = %seen.id, wakeup = current.n, %error, "wrapper could not be told to end")
            }
        }
    }

    /// Writes an intent down; only then may its signal be sent.
    pub(crate) fn intend(&self, seen: &PodRecord, cause: KillCause, because: &str) -> bool {
        let Some(current) = seen.wake() else { return false };
        let fence = Fence {
            n: current.n,
            token: Some(current.token.clone()),
        };
        let written = self.change(seen, "kill", |record, now| record.intend_kill(&fence, cause, now));
        if written {
            warn!(pod = %seen.id, wakeup = current.n, cause = %cause, because, "wake-up is about to be ended");
        }
        written
    }
}

/// What an attempt to settle came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The outcome is in the record, or there was none to record.
    Over,
    /// It has to be made again.
    Unfinished,
}

/// Settles a dead wake-up; of a wedged one first kills the wrapper. It takes as long as a sweep may.
pub(crate) fn settle(registry: &Registry, seen: &PodRecord, policy: &Policy, wedged: bool) -> Attempt {
    let pod: &PodId = &seen.id;
    let known = if wedged { kill_wedged(seen) } else { Ok(Vec::new()) };
    let known = match known {
        Ok(known) => known,
        Err(error) => {
            warn!(%pod, %error, "wedged wrapper could not be killed; the next pass tries again");
            return Attempt::Unfinished;
        }
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    let mut known = Some(known);
    loop {
        let held: Vec<Handle> = known.take().unwrap_or_default();
        let again: Vec<(i32, u64)> = held.iter().map(|one| (one.pid(), one.start_ticks())).collect();
        match settle_dead(registry, pod, policy, None, held, now) {
            // The kernel takes a moment to give up a killed wrapper's lock.
            Ok(Settled::StillHeld) if wedged && std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
                known = Some(
                    again
                        .into_iter()
                        .filter_map(|(pid, start)| Handle::of(pid, start).ok().flatten())
                        .collect(),
                );
            }
            Ok(Settled::Recorded {
                n,
                verdict,
                adopted,
                swept,
            }) => {
                info!(%pod, wakeup = n, outcome = %verdict, adopted, swept, "dead wake-up settled");
                return Attempt::Over;
            }
            Ok(Settled::GateEnded { swept }) => {
                info!(%pod, swept, "dead gate settled");
                return Attempt::Over;
            }
            Ok(Settled::NothingToDo) => return Attempt::Over,
            Ok(Settled::StillHeld) => return Attempt::Unfinished,
            Ok(Settled::Unknown(why)) => {
                warn!(%pod, why, "it cannot be told whether the wake-up runs; nothing was touched");
                return Attempt::Unfinished;
            }
            Err(error) => {
                error!(%pod, error = %error_chain(&error), "dead wake-up could not be settled; the next pass tries again");
                return Attempt::Unfinished;
            }
        }
    }
}

/// Reconciles a gated pod. It takes as long as a look at its worktree.
pub(crate) fn reconcile(registry: &Registry, seen: &PodRecord, policy: &Policy) -> Attempt {
    let pod: &PodId = &seen.id;
    let newest = seen.last().map(|last| last.n);
    let woken = seen
        .gates
        .as_ref()
        .is_some_and(|gates| gates.reconciled.map_or(0, |to| to.wake_up) != newest.unwrap_or(0));
    let phase = if woken {
        Phase::PostWakeReconciliation
    } else {
        Phase::PostGateReconciliation
    };
    match reconcile_pod(registry, seen, policy, phase, |_| (), now) {
        Ok(Reconciled::Decided(outcome)) => {
            let entry = &outcome.entry;
            info!(%pod, stage = %entry.stage, plan = %entry.plan_decision, execution = %entry.execution_disposition,
                reasons = entry.reasons.join(","), "reconciled");
            if let Some(error) = &outcome.unwritten {
                warn!(%pod, error, "the decision holds, and could not be written into decisions.md");
            }
            Attempt::Over
        }
        Ok(Reconciled::NothingToDo | Reconciled::MovedOn) => Attempt::Over,
        Err(error) => {
            error!(%pod, error = %error_chain(&error), "pod could not be reconciled; the next pass tries again");
            Attempt::Unfinished
        }
    }
}

/// Whether a step is one that only waits.
pub(crate) fn waits(step: &Step) -> bool {
    step.action == Action::Wait
}

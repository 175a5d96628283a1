//! When an agent is asked to end, when it is killed, and when we stop reading.
//!
//! A pure machine: it is told what happened and what time it is, and says what to do. Time is how long the
//! agent has run, on a clock that no step moves. The loop in `run` performs.

use std::time::Duration;

use pod_core::{KillCause, Policy};

/// Behind the agent's exit a pipe that was quiet for so long is released.
const QUIET: Duration = Duration::from_secs(1);

/// An agent that SIGKILL does not end within this is left to the record.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// What the machine keeps time for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) wake_timeout: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) settle_grace: Duration,
    pub(crate) drain_limit: Duration,
}

impl From<&Policy> for Limits {
    fn from(policy: &Policy) -> Self {
        Self {
            wake_timeout: policy.wake_timeout.0,
            cancel_grace: policy.cancel_grace.0,
            settle_grace: policy.settle_grace.0,
            drain_limit: policy.drain_limit.0,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The agent wrote something; `settled` if its last record is its terminal one.
    Output { settled: bool },
    /// The agent tries for ever what cannot succeed.
    Hopeless,
    /// Both pipes are at their end.
    Closed,
    /// The agent's process has ended.
    Exited,
    /// We were told to end, by a signal or by the record.
    EndRequested,
    /// A limit that the loop watches is reached.
    Limit(KillCause),
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Write down the intent, before the signal that follows.
    RecordIntent(KillCause),
    /// SIGTERM to the agent and its group.
    Terminate,
    /// SIGKILL to the agent and its group.
    Kill,
    /// Stop reading; what the pipes still hold is nobody's.
    Finish,
}

/// Why the agent is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Somebody else's wish.
    Requested,
    /// A limit of ours.
    Limit(KillCause),
    /// It had finished and did not exit, or had given its last word in all but name.
    Settled,
}

#[derive(Debug, Clone, Copy)]
struct Wind {
    why: Ending,
    since: Duration,
    killed_at: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Machine {
    limits: Limits,
    last_output: Duration,
    settled: bool,
    closed: bool,
    exited_at: Option<Duration>,
    wind: Option<Wind>,
    finished: bool,
}

impl Machine {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            last_output: Duration::ZERO,
            settled: false,
            closed: false,
            exited_at: None,
            wind: None,
            finished: false,
        }
    }

    /// Why the agent was told to end, if it was before it ended by itself.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.wind.map(|wind| wind.why)
    }

    /// Whether it took SIGKILL.
    pub(crate) fn killed_after_grace(&self) -> bool {
        self.wind.is_some_and(|wind| wind.killed_at.is_some())
    }

    pub(crate) fn step(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Output { settled } => {
                self.last_output = now;
                self.settled = settled;
            }
            Event::Hopeless => self.begin(Ending::Settled, now, &mut effects),
            Event::Closed => self.closed = true,
            Event::Exited => self.exited_at = self.exited_at.or(Some(now)),
            Event::EndRequested => self.begin(Ending::Requested, now, &mut effects),
            Event::Limit(cause) => self.begin(Ending::Limit(cause), now, &mut effects),
            Event::Tick => {}
        }
        self.pass_time(now, &mut effects);
        effects
    }

    fn begin(&mut self, why: Ending, now: Duration, effects: &mut Vec<Effect>) {
        // A second wish changes nothing; a person's wish is not delayed by one of ours.
        if self.wind.is_some() || self.exited_at.is_some() {
            return;
        }
        if let Ending::Limit(cause) = why {
            effects.push(Effect::RecordIntent(cause));
        }
        effects.push(Effect::Terminate);
        self.wind = Some(Wind {
            why,
            since: now,
            killed_at: None,
        });
    }

    fn pass_time(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.exited_at.is_none() && self.wind.is_none() {
            if now >= self.limits.wake_timeout {
                self.begin(Ending::Limit(KillCause::TimedOut), now, effects);
            } else if self.settled && now >= self.last_output + self.limits.settle_grace {
                self.begin(Ending::Settled, now, effects);
            }
        }
        if let (None, Some(wind)) = (self.exited_at, &mut self.wind)
            && wind.killed_at.is_none()
            && now >= wind.since + self.limits.cancel_grace
        {
            wind.killed_at = Some(now);
            effects.push(Effect::Kill);
        }
        if !self.finished && self.is_over(now) {
            self.finished = true;
            effects.push(Effect::Finish);
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        match (self.exited_at, self.wind.and_then(|wind| wind.killed_at)) {
            (Some(_), _) if self.closed => true,
            (Some(exited), _) => self.release_at(exited).is_some_and(|at| now >= at),
            (None, Some(killed)) => now >= killed + KILL_PATIENCE,
            (None, None) => false,
        }
    }

    /// When a pipe that somebody else holds is released.
    fn release_at(&self, exited: Duration) -> Option<Duration> {
        let quiet = exited.max(self.last_output) + QUIET;
        let latest = exited + self.limits.drain_limit;
        // Whoever was told to end is not listened to for longer than it was given.
        let told = self
            .wind
            .map(|wind| wind.since + self.limits.cancel_grace)
            .map(|at| at.max(exited + QUIET));
        Some(quiet.min(latest).min(told.unwrap_or(latest)))
    }

    /// When something is to be done even if nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        if self.finished {
            return None;
        }
        match (self.exited_at, self.wind) {
            (Some(exited), _) => self.release_at(exited),
            (
                None,
                Some(Wind {
                    killed_at: Some(killed),
                    ..
                }),
            ) => Some(killed + KILL_PATIENCE),
            (None, Some(wind)) => Some(wind.since + self.limits.cancel_grace),
            (None, None) => {
                let settle = self.settled.then(|| self.last_output + self.limits.settle_grace);
                Some(settle.map_or(self.limits.wake_timeout, |at| at.min(self.limits.wake_timeout)))
            }
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

//! Runs the agent: one loop that hears, one machine that decides.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use pod_adapters::StdoutPlan;
use pod_core::{CurrentKind, ExitFacts, ExitStatus, StartFailure, StartHead, Usage, error_chain};
use pod_process::{Cgroup, Handle, Sig, SweepReport};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGXFSZ};
use signal_hook_tokio::Signals;

use crate::claim::Claimed;
use crate::ears::Ears;
use crate::heart::Heart;
use crate::machine::{Effect, Ending, Event, Limits, Machine};
use crate::prepare::Prepared;
use crate::start::{Read, Running, read_now, read_stdout, readable, start, stdout_readable};
use crate::streams::Streams;
use pod_reconcile::now;

/// So much is read at once.
const PIECE: usize = 64 * 1024;

/// An intent is recorded before its signal, but a busy registry does not keep an agent alive.
const INTENT_WAIT: Duration = Duration::from_secs(2);

/// The agent's end, as it was seen.
pub(crate) struct Ran {
    pub(crate) exit: ExitFacts,
    pub(crate) ending: Option<Ending>,
    pub(crate) swept: SweepReport,
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// What woke the loop.
enum Woken {
    Signal(Option<i32>),
    Stdout,
    Stderr,
    Beat,
    Time,
}

pub(crate) struct Runner<'a, E> {
    pub(crate) claimed: &'a Claimed,
    pub(crate) heart: &'a Heart,
    pub(crate) signals: &'a mut Signals,
    pub(crate) streams: &'a mut E,
    /// Whether we were told to end before there was an agent.
    pub(crate) end_requested: bool,
    /// HEAD as it was before the start.
    pub(crate) start_head: Option<StartHead>,
    /// The wake-up's own control group.
    pub(crate) group: Option<PathBuf>,
    /// Whether the agent's own process has ended.
    pub(crate) exited: bool,
    /// The usage that wrapper.json has.
    pub(crate) noted: Usage,
}

impl Runner<'_, Streams> {
    /// Starts the agent and stays with it until it and everything below it is gone.
    pub(crate) async fn run(
        &mut self,
        prepared: Prepared,
        group: Option<&Cgroup>,
    ) -> Result<Ran, StartFailure> {
        self.streams.speak(prepared.adapter, prepared.recorded);
        self.group = group.map(|group| group.dir().to_owned());
        if prepared.command.stdout == StdoutPlan::File {
            self.streams.leave_raw_log();
        }
        let running = start(prepared, self.claimed, group, self.start_head.as_ref())?;
        Ok(self.see_out(running, group, (&self.claimed.policy).into()).await)
    }
}

impl<E: Ears> Runner<'_, E> {
    /// Stays with a process that was started until it and everything below it is gone.
    pub(crate) async fn see_out(
        &mut self,
        mut running: Running,
        group: Option<&Cgroup>,
        limits: Limits,
    ) -> Ran {
        let oom_kills = (
            group.and_then(Cgroup::oom_kills),
            pod_process::oom_kills_on_machine(),
        );
        let pid = running.agent.pid();
        let machine = self.attend(&mut running, limits).await;
        self.streams.end();
        let status = pod_process::exit_status(pid).ok().flatten();
        // The pipes stay open until everyone who could write is gone: nobody meets a closed one.
        let swept = self.sweep(group);
        let _reaped = pod_process::reap(pid);
        pod_process::reap_adopted(None);
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let exit = ExitFacts {
            status,
            sent_by: None,
            killed_after_grace: machine.killed_after_grace(),
            oom_killed: since(oom_kills.0, group.and_then(Cgroup::oom_kills)).map(|kills| kills > 0),
            oom_kills_on_machine: since(oom_kills.1, pod_process::oom_kills_on_machine()),
        };
        Ran {
            exit,
            ending: machine.ending(),
            swept,
        }
    }

    async fn attend(&mut self, running: &mut Running, limits: Limits) -> Machine {
        let start = tokio::time::Instant::now();
        let mut machine = Machine::new(limits);
        let mut heartbeat = tokio::time::interval(self.heart.interval);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut piece = vec![0; PIECE];
        let mut event = if self.end_requested {
            Event::EndRequested
        } else {
            Event::Tick
        };
        loop {
            let effects = machine.step(event, start.elapsed());
            for effect in effects {
                if self.perform(effect, &running.agent) {
                    return machine;
                }
            }
            let deadline = machine.next_deadline().unwrap_or(Duration::MAX);
            let deadline = start
                .checked_add(deadline)
                .unwrap_or_else(|| start + Duration::from_secs(86_400));
            let woken = tokio::select! {
                signal = self.signals.next() => Woken::Signal(signal),
                () = stdout_readable(running.stdout.as_ref()) => Woken::Stdout,
                () = readable(running.stderr.as_ref()) => Woken::Stderr,
                _ = heartbeat.tick() => Woken::Beat,
                () = tokio::time::sleep_until(deadline) => Woken::Time,
            };
            event = match woken {
                Woken::Signal(signal) => self.hear(signal, running),
                Woken::Stdout => self.take(running, Stream::Stdout, &mut piece),
                Woken::Stderr => self.take(running, Stream::Stderr, &mut piece),
                Woken::Beat => self.tick(),
                Woken::Time => Event::Tick,
            };
        }
    }

    fn take(&mut self, running: &mut Running, stream: Stream, piece: &mut [u8]) -> Event {
        let read = match stream {
            Stream::Stdout => {
                let stdout = running.stdout.as_mut();
                stdout.map_or(Read::End, |stdout| read_stdout(stdout, piece, self.exited))
            }
            Stream::Stderr => running
                .stderr
                .as_ref()
                .map_or(Read::End, |pipe| read_now(pipe, piece)),
        };
        match read {
            Read::Nothing => return Event::Tick,
            Read::Some(count) => match stream {
                Stream::Stdout => self.streams.stdout(&piece[..count]),
                Stream::Stderr => self.streams.stderr(&piece[..count]),
            },
            Read::End => {
                match stream {
                    Stream::Stdout => running.stdout = None,
                    Stream::Stderr => running.stderr = None,
                }
                let both = running.stdout.is_none() && running.stderr.is_none();
                return if both { Event::Closed } else { Event::Tick };
            }
        }
        self.note_usage(&running.agent);
        self.streams.heard(self.claimed)
    }

    /// Writes down what is used as it becomes known: whoever finds us dead has nothing else to record.
    fn note_usage(&mut self, agent: &Handle) {
        let usage = self.streams.usage();
        if usage != self.noted {
            self.noted = usage;
            let start = self.start_head.as_ref();
            self.claimed
                .announce_agent(agent, self.group.as_deref(), start, usage);
        }
    }

    fn hear(&mut self, signal: Option<i32>, running: &Running) -> Event {
        match signal {
            Some(SIGCHLD) => {
                let agent = running.agent.pid();
                pod_process::reap_adopted(Some(agent));
                // It stays a zombie until what it left is swept: its number is not given away before.
                if pod_process::exit_status(agent).is_ok_and(|status| status.is_none()) {
                    Event::Tick
                } else {
                    self.exited = true;
                    Event::Exited
                }
            }
            // A closed terminal ends nothing, and a file that may not grow is one that cannot be written.
            Some(SIGHUP | SIGXFSZ) | None => Event::Tick,
            Some(_) => {
                self.end_requested = true;
                Event::EndRequested
            }
        }
    }

    /// Beats, and looks whether a cancel or an intent was recorded whose signal never came.
    fn tick(&self) -> Event {
        self.heart.beat();
        let wished = self
            .claimed
            .registry
            .read(&self.claimed.record.id)
            .is_ok_and(|record| {
                let ours = record
                    .current
                    .as_ref()
                    .is_some_and(|current| current.token == self.claimed.current.token);
                ours && (record.cancel.is_some() || record.intent(self.claimed.current.n).is_some())
            });
        if wished { Event::EndRequested } else { Event::Tick }
    }

    /// Performs an effect. Returns whether it was the last one.
    fn perform(&mut self, effect: Effect, agent: &Handle) -> bool {
        match effect {
            // A gate that takes too long says so in its evidence.
            Effect::RecordIntent(_) if self.claimed.current.kind == CurrentKind::Gate => {}
            Effect::RecordIntent(cause) => {
                let fence = self.claimed.fence();
                let written = self
                    .claimed
                    .registry
                    .update(&self.claimed.record.id, INTENT_WAIT, |record| {
                        record.intend_kill(&fence, cause, now())
                    });
                if let Err(error) = written {
                    self.streams.note(&format!(
                        "the intent {cause} could not be recorded: {}",
                        error_chain(&error)
                    ));
                }
            }
            Effect::Terminate => {
                // Some CLIs end their tools on SIGTERM alone, and some launchers do not hand it on.
                signal_both(agent, Sig::TERM);
                signal_both(agent, Sig::CONT);
            }
            Effect::Kill => signal_both(agent, Sig::KILL),
            Effect::Finish => return true,
        }
        false
    }

    fn sweep(&mut self, group: Option<&Cgroup>) -> SweepReport {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let find = || {
            let mut found = Vec::new();
            for process in pod_process::descendants(me)?
                .iter()
                .filter(|process| process.is_live())
            {
                found.extend(Handle::of(process.pid, process.start_ticks)?);
            }
            Ok(found)
        };
        let mut beaten = tokio::time::Instant::now();
        let report = pod_process::sweep(find, self.claimed.policy.sweep_grace.0, || {
            pod_process::reap_adopted(None);
            if beaten.elapsed() >= self.heart.interval {
                self.heart.beat();
                beaten = tokio::time::Instant::now();
            }
        });
        if let Some(group) = group {
            let _killed = group.kill();
        }
        report.unwrap_or_else(|error| {
            self.streams
                .note(&format!("what the agent left could not be looked for: {error}"));
            SweepReport::default()
        })
    }
}

fn signal_both(agent: &Handle, signal: Sig) {
    // One that has ended meanwhile needs no signal.
    let _one = agent.signal(signal);
    let _group = agent.signal_group(signal);
}

/// Whether a signal that means an end has come already.
pub(crate) fn told_to_end(signals: &mut Signals) -> bool {
    let mut told = false;
    while let Some(Some(signal)) = signals.next().now_or_never() {
        told |= !matches!(signal, SIGCHLD | SIGHUP | SIGXFSZ);
    }
    told
}

/// How an end looks that we caused: the agent's own death is not told from our signal by the kernel.
pub(crate) fn ended_by_us(status: Option<&ExitStatus>, ending: Option<Ending>) -> bool {
    ending.is_some() && status.is_some()
}

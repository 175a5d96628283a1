//! `podctl wake`: one wake-up now, with or without podd.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pod_core::{AccountLimits, AgentName, ExitStatus, PodId, PodRecord, PodState, Timestamp, Verdict};
use pod_process::{Output, Reaped};
use pod_reconcile::{Observer, Settled, settle_dead};
use pod_registry::Registry;

use crate::args::Wake;
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault, Stop};
use crate::podd_note::warn_without_podd;
use crate::watch::Watch;
use crate::{ui, wait};

/// How often the new wrapper is looked at until it has claimed.
const CLAIMING: Duration = Duration::from_millis(20);

/// How often it is looked at while its end is waited for.
const RUNNING: Duration = Duration::from_millis(500);

/// Wakes a pod.
pub(crate) fn run(context: &Context, args: &Wake) -> Ended {
    if context::inside_wake_up() {
        return make_due(context, args);
    }
    let registry = context.registry()?;
    let record = ready(context, &registry, args)?;
    let cannot = cannot(&args.id);
    if record.parked.is_some() || record.state == PodState::Parked {
        let resumed = registry.update(&args.id, LOCK_WAIT, |record| record.resume(context::now()));
        resumed.map_err(|error| Fault::of(&cannot, &error))?;
    }
    let mut wrapper = Wrapper::start(context, args, record.wake_up_count)?;
    let n = wrapper.claimed(&registry)?;
    if !args.wait {
        ui::answer(&format!("{}/{n}\n", args.id))?;
        return Ok(Exit::Done);
    }
    let verdict = wrapper.ended(context, &registry, n)?;
    told(&args.id, n, verdict)
}

fn cannot(id: &PodId) -> String {
    format!("cannot wake pod `{id}`")
}

fn told(id: &PodId, n: u32, verdict: Verdict) -> Ended {
    ui::answer(&format!("{id}/{n}\t{verdict}\n"))?;
    Ok(match verdict {
        Verdict::More | Verdict::Done => Exit::Done,
        Verdict::Failed(_) | Verdict::Lost(_) | Verdict::Cancelled => Exit::No,
    })
}

/// Refuses what may not be woken, before anything is changed. A dead wrapper is settled on the way.
fn ready(context: &Context, registry: &Registry, args: &Wake) -> Result<PodRecord, Fault> {
    let id = &args.id;
    let cannot = cannot(id);
    if let Some(agent) = &args.agent {
        context::defined(context, agent)?;
    }
    let mut record = context.read(id)?;
    if record.state == PodState::Active {
        settle(context, registry, &record)?;
        record = context.read(id)?;
    }
    let now = context::now();
    let mut unparked = record.clone();
    unparked.resume(now).map_err(|error| Fault::of(&cannot, &error))?;
    unparked.wakeable().map_err(|error| Fault::of(&cannot, &error))?;
    if args.warm {
        record
            .warm_allowed()
            .map_err(|error| Fault::of(&cannot, &error))?;
    }
    if !Path::new(&record.project).is_dir() {
        let hint = format!("put the project back, or run `podctl cancel {id}`");
        return Err(Fault::new(cannot, hint).caused_by(format!("there is no directory `{}`", record.project)));
    }
    room(context, registry, &record, args, now)?;
    Ok(record)
}

fn settle(context: &Context, registry: &Registry, record: &PodRecord) -> Result<(), Fault> {
    let policy = context.policy(record)?;
    let settled = settle_dead(registry, &record.id, &policy, None, Vec::new(), context::now);
    match settled.map_err(|error| Fault::of(cannot(&record.id), &error))? {
        Settled::Recorded { n, verdict, .. } => {
            ui::note(&format!("wake-up {n} had died; its outcome is {verdict}"));
            Ok(())
        }
        Settled::NothingToDo | Settled::StillHeld | Settled::GateEnded { .. } => Ok(()),
        Settled::Unknown(why) => Err(Fault::new(
            cannot(&record.id),
            "look where it was started: another container of the same home may be running it",
        )
        .caused_by(format!(
            "it cannot be told whether its last wake-up still runs: {why}"
        ))),
    }
}

/// Refuses a start for which the machine has no room, or which a limit holds back.
fn room(
    context: &Context,
    registry: &Registry,
    record: &PodRecord,
    args: &Wake,
    now: Timestamp,
) -> Result<(), Fault> {
    let cannot = cannot(&record.id);
    let (config, agents) = (context.config()?, context.agents()?);
    let mut observer = Observer::new(registry.clone());
    let observed = observer.observe(&config, &agents, &BTreeSet::new(), now, pod_process::monotonic());
    let world = observed.map_err(|error| Fault::of(&cannot, &error))?.world;
    let least = config.podd.min_free_disk;
    let free = pod_disk::free_space(Path::new(&record.project));
    let project = free.ok().filter(|free| *free < least.0).map(|free| {
        let project = pod_core::escaped(&record.project);
        format!(
            "`{project}` has {} MiB free, less than minFreeDisk {least}",
            free >> 20
        )
    });
    if let Some(why) = world.room.refused.or(project) {
        let hint = "make room, or lower minFreeDisk or minFreeMemory under `[podd]` in config.toml";
        return Err(Fault::new(cannot, hint).caused_by(why));
    }
    let account = match agents.get(
        args.agent
            .as_ref()
            .unwrap_or(&config.policy_for(&record.policy).agent),
    ) {
        Ok(Some(definition)) => definition.account(),
        // The wrapper says what is wrong with it.
        Ok(None) | Err(_) => return Ok(()),
    };
    let pods = world.pods.iter().map(|view| (&view.record, &view.account));
    let limits = AccountLimits::of(pods, now);
    match limits.hold(&account).filter(|_| !args.force) {
        Some(hold) => {
            let hint = "wait until then, or wake it all the same with `--force`";
            Err(Fault::new(cannot, hint).caused_by(format!(
                "account `{account}` is held back until {} by a limit that pod `{}` ran into (known by {})",
                hold.until, hold.pod, hold.source
            )))
        }
        None => Ok(()),
    }
}

/// A wrapper that we started.
struct Wrapper<'a> {
    args: &'a Wake,
    pid: i32,
    output: Output,
    /// The highest wake-up number before it.
    before: u32,
    ended: Option<ExitStatus>,
    watch: Watch,
}

impl<'a> Wrapper<'a> {
    fn start(context: &Context, args: &'a Wake, before: u32) -> Result<Self, Fault> {
        let cannot = cannot(&args.id);
        let program = pod_process::sibling("pod-wrapper").map_err(|error| {
            Fault::new(&cannot, "install agents-pod's programs beside one another").because(&error)
        })?;
        let mut line = vec![
            "--home".into(),
            context.home().root().into(),
            args.id.to_string().into(),
        ];
        line.extend(args.agent.iter().map(AgentName::to_string).map(Into::into));
        line.extend(args.warm.then(|| "--warm".into()));
        let watch = Watch::on(&[&context.home().pods()]);
        let launched = pod_process::launch_detached(&program, &line);
        let (launched, output) = launched.map_err(|error| Fault::of(&cannot, &error))?;
        let pid = launched.handle.pid();
        Ok(Self {
            args,
            pid,
            output,
            before,
            ended: None,
            watch,
        })
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = match pod_process::reap(self.pid) {
                Reaped::Ended(status) => Some(status),
                Reaped::Lives => None,
                Reaped::NotOurs => Some(ExitStatus::Code(1)),
            };
        }
        self.ended.is_some()
    }

    /// Waits until it has claimed a wake-up, and returns its number.
    fn claimed(&mut self, registry: &Registry) -> Result<u32, Fault> {
        loop {
            let ended = self.has_ended();
            // The record behind the look at the process: what it wrote before its end is then seen.
            let record = self.read(registry)?;
            let running = record.wake().filter(|current| current.pid == self.pid);
            if let Some(current) = running {
                return Ok(current.n);
            }
            if ended {
                return self.claimed_before_its_end(&record);
            }
            self.watch.wait(CLAIMING);
        }
    }

    fn claimed_before_its_end(&self, record: &PodRecord) -> Result<u32, Fault> {
        let woken = record.wake_up_count > self.before;
        match self.ended {
            Some(ExitStatus::Code(0)) if woken => Ok(record.wake_up_count),
            // A pod that was unparked is due, and podd may have been quicker. It is awake, as was asked.
            Some(ExitStatus::Code(2)) if woken && self.args.agent.is_none() && !self.args.warm => {
                ui::note("somebody else woke it first");
                Ok(record.wake_up_count)
            }
            _ => Err(self.refused()),
        }
    }

    /// What it said, as our own error.
    fn refused(&self) -> Fault {
        let how = match &self.ended {
            Some(ExitStatus::Code(code)) => format!("it ended with code {code}"),
            Some(ExitStatus::Signal(name)) => format!("it died of {name}"),
            None => "it is still there".to_owned(),
        };
        refusal(&self.args.id, &self.output.text(), &how)
    }

    fn read(&self, registry: &Registry) -> Result<PodRecord, Fault> {
        registry
            .read(&self.args.id)
            .map_err(|error| Fault::of(cannot(&self.args.id), &error))
    }

    /// Waits until wake-up `n` has an outcome. Where the wrapper dies without one, it is settled here.
    fn ended(&mut self, context: &Context, registry: &Registry, n: u32) -> Result<Verdict, Stop> {
        loop {
            let ended = self.has_ended();
            let record = self.read(registry)?;
            if let Some(entry) = record.entry(n) {
                return Ok(entry.verdict);
            }
            if record.wake().is_none_or(|current| current.n != n) {
                let hint = format!("`podctl show {}` says where it stands", self.args.id);
                return Err(
                    Fault::new(format!("wake-up `{}/{n}` left no outcome", self.args.id), hint).into(),
                );
            }
            if ended
                && matches!(
                    pod_reconcile::liveness_of(&record),
                    pod_core::Liveness::Dead { .. }
                )
            {
                settle(context, registry, &record)?;
                continue;
            }
            self.watch.wait(RUNNING);
        }
    }
}

/// Puts what pod-wrapper said on stderr into an error of ours: its causes and its hint are kept.
fn refusal(id: &PodId, text: &str, how: &str) -> Fault {
    refusal_of(&cannot(id), id, text, how)
}

/// The same for whatever could not be done.
pub(crate) fn refusal_of(own: &str, id: &PodId, text: &str, how: &str) -> Fault {
    let said = |prefix: &'static str| {
        text.lines()
            .filter_map(move |line| line.trim_start().strip_prefix(prefix))
    };
    let hint = said("hint: ").next().map(str::to_owned);
    let hint = hint.unwrap_or_else(|| format!("`podctl logs {id}` may say more"));
    let errors = said("error: ").map(|error| error.strip_prefix(own).unwrap_or(error));
    let errors = errors
        .map(|error| error.trim_start_matches([':', ' ']))
        .filter(|error| !error.is_empty());
    let causes: Vec<&str> = errors.chain(said("caused by: ")).collect();
    let fault = Fault::new(own, hint);
    if causes.is_empty() {
        return fault.caused_by(format!("pod-wrapper claimed no wake-up: {how}"));
    }
    causes.into_iter().fold(fault, Fault::caused_by)
}

/// Inside a wake-up nothing is started: podd does that, so that the new one is no part of this one's tree.
fn make_due(context: &Context, args: &Wake) -> Ended {
    let id = &args.id;
    let own = context::variable("AGENTS_POD_POD_ID").is_some_and(|own| own == id.as_str());
    if args.wait && own {
        let hint = "leave out `--wait`: hand off, and podd wakes it again";
        return Err(Fault::new(
            format!("a wake-up of pod `{id}` cannot wait for the next one"),
            hint,
        )
        .into());
    }
    if args.warm || args.agent.is_some() {
        let hint = "leave them out: inside a wake-up a pod is only made due, and podd starts it";
        return Err(Fault::new("`--warm` and `--agent` cannot be had inside a wake-up", hint).into());
    }
    let registry = context.registry()?;
    let updated = registry.update(id, LOCK_WAIT, |record| {
        let due = record.make_due(context::now())?;
        Ok::<_, pod_core::Refusal>((due, record.wake_up_count))
    });
    let (due, count) = updated.map_err(|error| Fault::of(cannot(id), &error))?;
    if !due {
        ui::note(&format!("pod `{id}` is awake already"));
    }
    warn_without_podd(context);
    if !args.wait {
        return Ok(Exit::Done);
    }
    let n = if due { count + 1 } else { count };
    let verdict = wait::for_record(context, id, |record| record.entry(n).map(|entry| entry.verdict))?;
    told(id, n, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_wrapper_said_is_kept() {
        let id: PodId = "p".parse().unwrap();
        let text = "error: cannot wake pod `p`\n  caused by: it is full\nhint: free some space\n";
        assert_eq!(
            refusal(&id, text, "").text(),
            "error: cannot wake pod `p`\n  caused by: it is full\nhint: free some space\n"
        );
        let text = "error: cannot wake pod `p`: there is no directory `/x`\nhint: put it back\n";
        assert!(
            refusal(&id, text, "")
                .text()
                .contains("  caused by: there is no directory `/x`\n")
        );
        let silent = refusal(&id, "", "it died of SIGKILL").text();
        assert!(
            silent.contains("claimed no wake-up: it died of SIGKILL"),
            "{silent}"
        );
    }
}

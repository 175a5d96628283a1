//! The loop: something happens, a pass is made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use notify::{RecursiveMode, Watcher as _};
use pod_config::{AgentStore, Config};
use pod_core::{Action, KillCause, PodId, PodRecord, PodState, PodView, Step, error_chain};
use pod_process::{Handle, Launched, Output, monotonic};
use pod_reconcile::{Observation, Observer};
use pod_registry::Registry;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use crate::Failure;
use crate::act::{Actor, waits};
use crate::broken::{BROKEN_FOR, Broken};
use crate::children::Children;
use crate::pass::News;
use crate::settling::{Job, Settling};
use crate::tending::Tending;
use pod_reconcile::now;

/// A pass is made at least so often: what watches are hints, and may be missed.
const REGULAR: Duration = Duration::from_secs(10);

/// How often a wrapper is told again to end.
const TOLD_AGAIN: Duration = Duration::from_secs(5);

/// How long `--once` waits for the wrappers that it started to claim.
const ONCE_WAITS: Duration = Duration::from_secs(10);

pub(crate) struct Keeper {
    actor: Actor,
    config: Config,
    observer: Observer,
    children: Children,
    news: News,
    settling: Settling,
    tending: Tending,
    /// Wrappers of an earlier podd whose end is waited for, by pod and pid.
    adopted: BTreeSet<(PodId, i32)>,
    told: BTreeMap<PodId, Duration>,
    broken: Broken,
    /// When wrappers were started, within the last second.
    starts: VecDeque<Duration>,
    complained: Option<String>,
}

impl Keeper {
    pub(crate) fn new(registry: Registry, config: Config, config_file: Option<PathBuf>) -> Self {
        Self {
            observer: Observer::new(registry.clone()),
            actor: Actor {
                registry,
                config_file,
            },
            config,
            children: Children::default(),
            news: News::new(),
            settling: Settling::new(),
            tending: Tending::new(),
            adopted: BTreeSet::new(),
            told: BTreeMap::new(),
            broken: Broken::default(),
            starts: VecDeque::new(),
            complained: None,
        }
    }

    /// Makes one pass, and waits until what it began has its effect in the records.
    pub(crate) async fn once(mut self) -> Result<(), Failure> {
        self.pass();
        while !self.settling.is_empty() {
            self.settling.ended().await;
        }
        for _ in 0..self.tending.rounds() {
            self.tending.ended().await;
            self.tending.begin(&self.actor.registry, &self.config);
        }
        let deadline = tokio::time::Instant::now() + ONCE_WAITS;
        while !self.children.starting().is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
            for pod in self.children.starting() {
                if let Some(current) = self
                    .actor
                    .registry
                    .read(&pod)
                    .ok()
                    .and_then(|record| record.current)
                {
                    self.children.claimed(current.pid);
                }
            }
            self.reap();
        }
        Ok(())
    }

    /// Traps what [`forever`](Self::forever) listens to.
    pub(crate) fn trap_signals() -> Result<Signals, Failure> {
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD])
            .map_err(|error| Failure::new(error, "are there file descriptors left?"))
    }

    /// Keeps the home until it is told to stop. Running wake-ups go on.
    pub(crate) async fn forever(mut self, mut signals: Signals) -> Result<(), Failure> {
        let (changed, mut changes) = mpsc::channel(1);
        let _watcher = self.watch(changed.clone());
        let watchdog = sd_notify::watchdog_enabled().map(|every| every / 2);
        info!(home = %pod_disk::shown(self.actor.registry.home().root()), pid = std::process::id(), "podd keeps this home");
        self.clear_leftovers();
        let mut wait = self.pass();
        notify_systemd(&[NotifyState::Ready]);
        loop {
            let pause = watchdog.map_or(wait, |every| every.min(wait));
            tokio::select! {
                signal = signals.next() => match signal {
                    Some(SIGTERM | SIGINT) | None => break,
                    Some(SIGHUP) => self.reload(),
                    Some(_) => debug!(because = "child", "pass"),
                },
                _ = changes.recv() => debug!(because = "change", "pass"),
                () = self.settling.ended() => debug!(because = "settled", "pass"),
                () = self.tending.ended() => debug!(because = "tended", "pass"),
                () = tokio::time::sleep(pause) => debug!(because = "timer", "pass"),
            }
            wait = self.pass();
            self.attend_adopted(&changed);
            notify_systemd(&[NotifyState::Watchdog]);
        }
        notify_systemd(&[NotifyState::Stopping]);
        info!("podd stops; running wake-ups go on");
        Ok(())
    }

    fn watch(&self, changed: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
        let pods = self.actor.registry.home().pods();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own look at the records opens them; that is no change.
            if event.is_ok_and(|event| event.kind.is_access()) {
                return;
            }
            // One that waits already is enough: a pass sees everything.
            let _queued = changed.try_send(());
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(&pods, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                warn!(%error, retry_in_s = REGULAR.as_secs(), "records cannot be watched; they are looked at regularly");
                None
            }
        }
    }

    /// Removes what writers that were killed have left. Nobody waits for it.
    fn clear_leftovers(&self) {
        match self
            .actor
            .registry
            .lock_all(Duration::from_millis(200))
            .and_then(|all| all.clear_leftovers())
        {
            Ok(0) => {}
            Ok(cleared) => info!(cleared, "leftovers of killed writers removed"),
            Err(error) => debug!(error = %error_chain(&error), "leftovers not looked for"),
        }
    }

    fn reload(&mut self) {
        let home = self.actor.registry.home();
        match Config::load(home, self.actor.config_file.as_deref(), &|name| {
            std::env::var_os(name)
        }) {
            Ok(config) => {
                self.config = config;
                info!("configuration read again");
            }
            Err(error) => {
                error!(error = %error_chain(&error), "configuration could not be read; the old one holds")
            }
        }
    }

    /// Observes, plans, acts. Returns how long nothing has to be done.
    fn pass(&mut self) -> Duration {
        self.reap();
        let Some(observation) = self.observe() else {
            return Duration::from_secs(1);
        };
        let steps = pod_core::plan(&observation.world, now());
        let views: BTreeMap<&PodId, &PodView> = observation
            .world
            .pods
            .iter()
            .map(|view| (&view.record.id, view))
            .collect();
        let mut acted = false;
        for step in &steps {
            if let Some(view) = views.get(&step.pod).filter(|_| !self.settling.has(&step.pod)) {
                acted |= !waits(step);
                self.perform(step, view);
            }
        }
        self.broken
            .set_aside(&self.actor.registry, &observation.unreadable);
        self.tending.note(&observation.records);
        self.tending.begin(&self.actor.registry, &self.config);
        self.report(&observation);
        self.next_pass(&observation, &steps, acted)
    }

    fn reap(&mut self) {
        let registry = &self.actor.registry;
        self.children.reap(monotonic(), |pod| {
            registry.read(pod).ok().map(|record| record.wake_up_count)
        });
    }

    fn observe(&mut self) -> Option<Observation> {
        let agents = match AgentStore::load(self.actor.registry.home()) {
            Ok(agents) => agents,
            Err(error) => {
                self.complain(
                    "agent definitions could not be read; nothing is woken",
                    error_chain(&error),
                );
                return None;
            }
        };
        let starting = self.children.starting();
        match self
            .observer
            .observe(&self.config, &agents, &starting, now(), monotonic())
        {
            Ok(mut observation) => {
                self.complained = None;
                let room = &mut observation.world.room;
                room.starts_left = room.starts_left.saturating_sub(self.recent_starts());
                for record in &observation.records {
                    if let Some(current) = &record.current {
                        self.children.claimed(current.pid);
                    }
                }
                self.news.tell(observation.records.iter().map(AsRef::as_ref));
                self.broken.remember(&observation);
                Some(observation)
            }
            Err(error) => {
                self.complain(
                    "registry could not be read; nothing is woken",
                    error_chain(&error),
                );
                None
            }
        }
    }

    /// How many wrappers were started within the last second.
    fn recent_starts(&mut self) -> u32 {
        let since = monotonic().saturating_sub(Duration::from_secs(1));
        self.starts.retain(|at| *at > since);
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    /// Says once what goes on being wrong.
    fn complain(&mut self, what: &str, error: String) {
        if self.complained.as_ref() != Some(&error) {
            error!(error, retry_in_s = 1, "{what}");
            self.complained = Some(error);
        }
    }

    fn perform(&mut self, step: &Step, view: &PodView) {
        let record = &view.record;
        match &step.action {
            Action::Wait => debug!(pod = %step.pod, because = %step.because, "nothing to do"),
            Action::Schedule { at, streak } => self.actor.schedule(record, *at, *streak, &step.because),
            Action::Park { code } => self.actor.park(record, *code, &step.because),
            Action::FinishCancel => self.actor.finish_cancel(record),
            Action::Signal => self.tell_to_end(record, &step.because),
            Action::Settle => self.settling.begin(&self.actor.registry, view, Job::Settle),
            Action::Reconcile => self.settling.begin(&self.actor.registry, view, Job::Reconcile),
            Action::Kill(_) if record.gate().is_some() => {
                self.settling.begin(&self.actor.registry, view, Job::KillWedged);
            }
            Action::Kill(cause) => {
                let n = record.wake().map_or(0, |current| current.n);
                let intended = record.intent(n).is_some() || self.actor.intend(record, *cause, &step.because);
                match cause {
                    KillCause::Wedged if intended => {
                        self.settling.begin(&self.actor.registry, view, Job::KillWedged);
                    }
                    KillCause::TimedOut
                    | KillCause::Progressless
                    | KillCause::BudgetExhausted
                    | KillCause::OutputLimit
                        if intended =>
                    {
                        self.tell_to_end(record, &step.because);
                    }
                    _ => {}
                }
            }
            Action::Wake(_) | Action::Gate(_) if self.children.rests(&step.pod, monotonic()).is_some() => {}
            Action::Wake(mode) => {
                let started = self.actor.wake(record, *mode);
                self.note_start(record, started);
            }
            Action::Gate(mode) => {
                let started = self.actor.gate(record, *mode);
                self.note_start(record, started);
            }
        }
    }

    fn note_start(&mut self, record: &PodRecord, started: Option<(Launched, Output)>) {
        if let Some((launched, output)) = started {
            self.starts.push_back(monotonic());
            self.children.add(record, launched, output);
        }
    }

    fn tell_to_end(&mut self, record: &PodRecord, because: &str) {
        let told = self
            .told
            .get(&record.id)
            .is_some_and(|at| monotonic() < *at + TOLD_AGAIN);
        if !told {
            self.told.insert(record.id.clone(), monotonic());
            self.actor.signal(record, because);
        }
    }

    fn report(&self, observation: &Observation) {
        let total = observation.records.len();
        let count = |state| {
            observation
                .records
                .iter()
                .filter(|record| record.state == state)
                .count()
        };
        let (active, parked) = (count(PodState::Active), count(PodState::Parked));
        notify_systemd(&[NotifyState::Status(&format!(
            "{total} pods: {active} active, {parked} parked"
        ))]);
    }

    fn next_pass(&self, observation: &Observation, steps: &[Step], acted: bool) -> Duration {
        let now = now();
        let mut wait = REGULAR;
        // What was done changes records, and is seen then; a start that was put off is not.
        if acted {
            wait = wait.min(Duration::from_millis(200));
        }
        if !self.starts.is_empty() || self.settling.rests() || !self.tending.is_empty() {
            wait = wait.min(Duration::from_secs(1));
        }
        for step in steps.iter().filter(|step| waits(step)) {
            wait = wait.min(step.at.map_or(REGULAR, |at| at.since(now)));
        }
        for view in &observation.world.pods {
            if view.record.state == PodState::Active || view.record.gate().is_some() {
                wait = wait.min(view.policy.heartbeat_interval.0 / 2);
            }
        }
        if self.broken.any() {
            wait = wait.min(BROKEN_FOR);
        }
        wait.max(Duration::from_millis(10))
    }

    /// Waits for the end of wrappers that are no children of ours.
    fn attend_adopted(&mut self, changed: &mpsc::Sender<()>) {
        let running = self.observer.running();
        self.adopted.retain(|known| {
            running
                .iter()
                .any(|(record, pid)| (record, *pid) == (&known.0, known.1))
        });
        for (pod, pid) in running {
            if self.children.has(pid) || self.adopted.contains(&(pod.clone(), pid)) {
                continue;
            }
            if let Ok(Some(handle)) = Handle::open(pid, pod_process::ProcStat::is_live) {
                self.adopted.insert((pod, pid));
                attend(handle, changed.clone());
            }
        }
    }
}

fn notify_systemd(state: &[NotifyState<'_>]) {
    // Without systemd there is nobody to tell.
    let _told = sd_notify::notify(state);
}

/// Starts a pass when the process has ended.
fn attend(handle: Handle, changed: mpsc::Sender<()>) {
    #[expect(
        deprecated,
        reason = "the handle owns its descriptor, which is what the newer, unsafe form asks for"
    )]
    let registered = tokio::io::unix::AsyncFd::with_interest(handle, tokio::io::Interest::READABLE);
    let Ok(registered) = registered else { return };
    tokio::spawn(async move {
        if registered.readable().await.is_ok() {
            let _queued = changed.try_send(());
        }
    });
}

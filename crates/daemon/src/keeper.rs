//! The loop: something happens, a pass is made.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use notify::{RecursiveMode, Watcher as _};
use pod_config::{AgentStore, Config};
use pod_core::{Action, KillCause, PodId, PodRecord, PodState, PodView, Step, error_chain};
use pod_process::{Handle, monotonic};
use pod_reconcile::{Observation, Observer, PodFiles, take_wake_lock};
use pod_registry::{Fault, Registry, Unreadable};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use crate::Failure;
use crate::act::{Actor, settle, waits};
use crate::children::Children;
use crate::pass::News;
use pod_reconcile::now;

/// A pass is made at least so often: what watches are hints, and may be missed.
const REGULAR: Duration = Duration::from_secs(10);

/// A broken record is set aside if it is still broken after so long.
const BROKEN_FOR: Duration = Duration::from_secs(2);

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
    /// Pods whose dead wake-up is being settled.
    settling: BTreeSet<PodId>,
    settled: (mpsc::UnboundedSender<PodId>, mpsc::UnboundedReceiver<PodId>),
    /// Wrappers of an earlier podd whose end is waited for, by pod and pid.
    adopted: BTreeSet<(PodId, i32)>,
    told: BTreeMap<PodId, Duration>,
    broken: BTreeMap<String, Duration>,
    /// Where the pods lay when their records could be read.
    projects: HashMap<PodId, String>,
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
            settling: BTreeSet::new(),
            settled: mpsc::unbounded_channel(),
            adopted: BTreeSet::new(),
            told: BTreeMap::new(),
            broken: BTreeMap::new(),
            projects: HashMap::new(),
            starts: VecDeque::new(),
            complained: None,
        }
    }

    /// Makes one pass, and waits until what it began has its effect in the records.
    pub(crate) async fn once(mut self) -> Result<(), Failure> {
        self.pass();
        while !self.settling.is_empty() {
            if let Some(pod) = self.settled.1.recv().await {
                self.settling.remove(&pod);
            }
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
            self.children.reap(monotonic());
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
        info!(home = %self.actor.registry.home().root().display(), pid = std::process::id(), "podd keeps this home");
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
                pod = self.settled.1.recv() => {
                    if let Some(pod) = pod {
                        self.settling.remove(&pod);
                    }
                }
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
        self.children.reap(monotonic());
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
            if let Some(view) = views
                .get(&step.pod)
                .filter(|_| !self.settling.contains(&step.pod))
            {
                acted |= !waits(step);
                self.perform(step, view);
            }
        }
        for unreadable in &observation.unreadable {
            self.set_aside(unreadable);
        }
        self.broken
            .retain(|id, _| observation.unreadable.iter().any(|one| one.id == *id));
        self.report(&observation);
        self.next_pass(&observation, &steps, acted)
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
                    if let Some(current) = record.wake() {
                        self.children.claimed(current.pid);
                    }
                }
                self.news.tell(observation.records.iter().map(AsRef::as_ref));
                self.remember_projects(&observation);
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

    /// Keeps in mind where running pods lie: a record that breaks meanwhile does not say it any more.
    fn remember_projects(&mut self, observation: &Observation) {
        for record in observation
            .records
            .iter()
            .filter(|record| record.state == PodState::Active)
        {
            if !self.projects.contains_key(&record.id) {
                self.projects.insert(record.id.clone(), record.project.clone());
            }
        }
        let broken = &self.broken;
        let readable: BTreeSet<&PodId> = observation
            .records
            .iter()
            .filter(|r| r.state != PodState::Active)
            .map(|r| &r.id)
            .collect();
        self.projects
            .retain(|id, _| !readable.contains(id) || broken.contains_key(id.as_str()));
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
            Action::Settle => self.begin_settling(view, false),
            Action::Kill(cause) => {
                let n = record.wake().map_or(0, |current| current.n);
                let intended = record.intent(n).is_some() || self.actor.intend(record, *cause, &step.because);
                match cause {
                    KillCause::Wedged if intended => self.begin_settling(view, true),
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
            Action::Wake(mode) => {
                if self.children.rests(&step.pod, monotonic()).is_none()
                    && let Some((launched, output)) = self.actor.wake(record, *mode)
                {
                    self.starts.push_back(monotonic());
                    self.children.add(step.pod.clone(), launched, output);
                }
            }
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

    fn begin_settling(&mut self, view: &PodView, wedged: bool) {
        let (registry, record, policy) = (
            self.actor.registry.clone(),
            view.record.clone(),
            view.policy.clone(),
        );
        let done = self.settled.0.clone();
        self.settling.insert(record.id.clone());
        tokio::task::spawn_blocking(move || {
            settle(&registry, &record, &policy, wedged);
            let _told = done.send(record.id);
        });
    }

    /// Moves a broken record aside, if it stays broken and nothing of its pod runs.
    fn set_aside(&mut self, unreadable: &Unreadable) {
        if unreadable.fault != Fault::Broken {
            return;
        }
        let since = *self.broken.entry(unreadable.id.clone()).or_insert_with(|| {
            error!(pod = %unreadable.id, error = %unreadable.error, "record cannot be read");
            monotonic()
        });
        let Ok(id) = unreadable.id.parse::<PodId>() else {
            return;
        };
        if monotonic() < since + BROKEN_FOR || something_runs(&id, self.projects.get(&id)) {
            return;
        }
        let moved = self
            .actor
            .registry
            .lock(&id, Duration::from_secs(1))
            .and_then(|locked| locked.quarantine());
        match moved {
            Ok(file) => {
                error!(pod = %id, file = %file.display(), "broken record set aside: `podctl doctor` says what to do")
            }
            Err(error) => debug!(pod = %id, error = %error_chain(&error), "broken record not set aside"),
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
        if !self.starts.is_empty() {
            wait = wait.min(Duration::from_secs(1));
        }
        for step in steps.iter().filter(|step| waits(step)) {
            wait = wait.min(step.at.map_or(REGULAR, |at| at.since(now)));
        }
        for view in &observation.world.pods {
            if view.record.state == PodState::Active {
                wait = wait.min(view.policy.heartbeat_interval.0 / 2);
            }
        }
        if !observation.unreadable.is_empty() {
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

/// Whether anything of a pod runs, by its wake-up's lock and by what processes' environments and arguments say.
fn something_runs(pod: &PodId, project: Option<&String>) -> bool {
    let lock = project.map(|project| take_wake_lock(&PodFiles::new(project, pod)));
    if matches!(lock, Some(Ok(None))) || pod_process::runs_with_argument("pod-wrapper", pod.as_str()) {
        return true;
    }
    let mark = pod_process::Mark {
        variable: format!("AGENTS_POD_POD_ID={pod}"),
        session: None,
    };
    // What cannot be looked for may be there.
    pod_process::marked(&mark).map_or(true, |found| !found.is_empty())
}

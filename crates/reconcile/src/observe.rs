//! Looks at the whole world of one home.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pod_config::{AgentStore, Config};
use pod_core::{
    AccountName, AgentName, ByteSize, FailReason, Liveness, PodId, PodRecord, PodState, PodView, Policy,
    ProjectView, Room, Timestamp, Verdict, World, WrapperView,
};
use pod_registry::{Cache, Registry, RegistryError, Unreadable};

use crate::settle::liveness_of;
use crate::watch::Watch;

/// One look at the world.
#[derive(Debug)]
pub struct Observation {
    /// What a plan is made of. Terminal pods are not in it, but for those whose limit may still hold others
    /// back.
    pub world: World,
    /// Records that could not be read.
    pub unreadable: Vec<Unreadable>,
    /// All records that could be read, terminal ones included, by id.
    pub records: Vec<Arc<PodRecord>>,
}

/// Looks at the world again and again, and remembers what does not change and what only time shows.
#[derive(Debug)]
pub struct Observer {
    registry: Registry,
    cache: Cache,
    watch: Watch,
    running: Vec<(PodId, i32)>,
}

impl Observer {
    /// An observer that has seen nothing yet.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            cache: Cache::default(),
            watch: Watch::default(),
            running: Vec::new(),
        }
    }

    /// The pods that a wake-up runs in, with their wrappers' pids, as of the last look.
    pub fn running(&self) -> Vec<(PodId, i32)> {
        self.running.clone()
    }

    /// Looks. `starting` are the pods whose wrapper was started and has not claimed yet; `monotonic` is the
    /// time on a clock that no step moves.
    pub fn observe(
        &mut self,
        config: &Config,
        agents: &AgentStore,
        starting: &BTreeSet<PodId>,
        now: Timestamp,
        monotonic: Duration,
    ) -> Result<Observation, RegistryError> {
        let listing = self.registry.list_cached(&mut self.cache)?;
        let mut pods = Vec::new();
        let mut active = BTreeSet::new();
        self.running.clear();
        let base = config.policy_for(&Default::default());
        let accounts = Accounts::new(agents);
        let mut disks = Disks::new(config.podd.min_free_disk);
        for record in &listing.records {
            if record.state == PodState::Active || record.current.is_some() {
                active.insert(record.id.clone());
            }
            self.running.extend(
                record
                    .current
                    .iter()
                    .map(|current| (record.id.clone(), current.pid)),
            );
            if matters(record) {
                let policy = base.overlaid(&record.policy);
                let account = accounts.of(&policy.agent);
                pods.push(self.view(record, policy, account, starting, now, monotonic, &mut disks));
            }
        }
        self.watch.keep_only(|id| active.contains(id));
        let room = room(
            self.registry.home().root(),
            config.podd.min_free_memory,
            &mut disks,
            config.podd.start_rate,
        );
        let world = World {
            pods,
            limits: config.podd.clone(),
            room,
        };
        Ok(Observation {
            world,
            unreadable: listing.unreadable,
            records: listing.records,
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is one look that was taken already"
    )]
    fn view(
        &mut self,
        record: &Arc<PodRecord>,
        policy: Policy,
        account: AccountName,
        starting: &BTreeSet<PodId>,
        now: Timestamp,
        monotonic: Duration,
        disks: &mut Disks,
    ) -> PodView {
        let due = record.state == PodState::Idle && record.next_wake_at.is_none_or(|at| at <= now);
        let wrapper = match record.state {
            _ if record.gate().is_some() => match liveness_of(record) {
                Liveness::Alive => WrapperView::Alive(self.watch.look(record, &policy, monotonic)),
                Liveness::Dead { rebooted } => WrapperView::Dead { rebooted },
                Liveness::Unknown(why) => WrapperView::Unknown(why),
            },
            PodState::Active => match liveness_of(record) {
                Liveness::Alive => WrapperView::Alive(self.watch.look(record, &policy, monotonic)),
                Liveness::Dead { rebooted } => WrapperView::Dead { rebooted },
                Liveness::Unknown(why) => WrapperView::Unknown(why),
            },
            _ if starting.contains(&record.id) => WrapperView::Starting,
            _ => WrapperView::Absent,
        };
        PodView {
            record: PodRecord::clone(record),
            account,
            wrapper,
            // What is not due is not looked at: a project may be away meanwhile.
            project: if due {
                project_view(Path::new(&record.project))
            } else {
                ProjectView::There
            },
            survivors: if due { living_survivors(record) } else { Vec::new() },
            disk_full: if due {
                disks.refusal(Path::new(&record.project))
            } else {
                None
            },
            policy,
        }
    }
}

fn matters(record: &PodRecord) -> bool {
    let held = |last: &pod_core::WakeUpEntry| last.verdict == Verdict::Failed(FailReason::RateLimited);
    !record.state.is_terminal() || record.current.is_some() || record.last().is_some_and(held)
}

fn project_view(project: &Path) -> ProjectView {
    match std::fs::metadata(project) {
        Ok(found) if found.is_dir() => ProjectView::There,
        Ok(_) => ProjectView::Gone,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            ProjectView::Gone
        }
        Err(error) => ProjectView::Unknown(error.to_string()),
    }
}

/// Pids of a pod's last wake-up that resisted SIGKILL and still live. What cannot be told counts as alive.
pub fn living_survivors(record: &PodRecord) -> Vec<i32> {
    let Some(last) = record.last().filter(|last| !last.survivors.is_empty()) else {
        return Vec::new();
    };
    let Ok(boot) = pod_process::boot_id() else {
        return last.survivors.iter().map(|one| one.pid).collect();
    };
    let lives = |one: &&pod_core::Survivor| {
        let found = pod_process::stat(one.pid);
        one.boot_id == boot
            && found.map_or(true, |found| {
                found.is_some_and(|f| f.is_live() && f.start_ticks == one.start_ticks)
            })
    };
    last.survivors.iter().filter(lives).map(|one| one.pid).collect()
}

/// Whose limits each agent shares, read once an agent.
#[derive(Debug)]
pub struct Accounts<'a> {
    agents: &'a AgentStore,
    known: std::cell::RefCell<HashMap<AgentName, AccountName>>,
}

impl<'a> Accounts<'a> {
    /// Of these definitions.
    pub fn new(agents: &'a AgentStore) -> Self {
        Self {
            agents,
            known: Default::default(),
        }
    }

    /// An agent that is not defined shares its limits with nobody.
    pub fn of(&self, agent: &AgentName) -> AccountName {
        let mut known = self.known.borrow_mut();
        let found = known
            .entry(agent.clone())
            .or_insert_with(|| match self.agents.get(agent) {
                Ok(Some(definition)) => definition.account(),
                Ok(None) | Err(_) => AccountName(format!("agent {agent}")),
            });
        found.clone()
    }
}

/// Free space, asked once for each project.
struct Disks {
    least: ByteSize,
    known: HashMap<std::path::PathBuf, Option<String>>,
}

impl Disks {
    fn new(least: ByteSize) -> Self {
        Self {
            least,
            known: HashMap::new(),
        }
    }

    /// Why nothing may be started there; `None` where there is room, or where that cannot be told.
    fn refusal(&mut self, place: &Path) -> Option<String> {
        let least = self.least;
        let found = self.known.entry(place.to_owned()).or_insert_with(|| {
            let free = pod_disk::free_space(place).ok().filter(|free| *free < least.0)?;
            let free = free >> 20;
            Some(format!(
                "`{}` has {free} MiB free, less than minFreeDisk {least}",
                place.display()
            ))
        });
        found.clone()
    }
}

fn room(home: &Path, least_memory: ByteSize, disks: &mut Disks, start_rate: u32) -> Room {
    let memory = available_memory()
        .filter(|available| *available < least_memory.0)
        .map(|available| {
            format!(
                "{} MiB of memory are available, less than minFreeMemory {least_memory}",
                available >> 20
            )
        });
    Room {
        refused: disks.refusal(home).or(memory),
        starts_left: start_rate,
    }
}

/// What the machine, or the control group that we are in, has left; `None` where that cannot be told.
fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    let machine = system.available_memory();
    let group = system
        .cgroup_limits()
        .map_or(u64::MAX, |limits| limits.free_memory);
    (system.total_memory() > 0).then(|| machine.min(group))
}

//! The wrapper's first act: refuse, or claim the wake-up in one locked step.

use std::path::Path;
use std::time::{Duration, Instant};

use pod_config::Config;
use pod_core::{
    AgentName, Current, CurrentKind, GateMode, Liveness, PodId, PodRecord, PodState, Policy, Refusal, Token,
};
use pod_disk::DiskError;
use pod_process::Identity;
use pod_reconcile::{Pinned, PodFiles, Settled, WakeLock, liveness_of, now, settle_dead, take_wake_lock};
use pod_registry::{ReadError, Registry, UpdateError};

use crate::refusal::Refused;

/// How long a claim waits for the registry's lock.
const CLAIM_WAIT: Duration = Duration::from_secs(10);

/// How long a wrapper that has recorded its outcome may take to go.
const HANDOVER: Duration = Duration::from_secs(10);

/// What the command line asks for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) pod: PodId,
    pub(crate) agent: Option<AgentName>,
    pub(crate) warm: bool,
    /// Run this gate instead of a wake-up.
    pub(crate) gate: Option<GateMode>,
}

/// A wake-up that is ours.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) registry: Registry,
    pub(crate) record: PodRecord,
    pub(crate) policy: Policy,
    pub(crate) current: Current,
    pub(crate) files: PodFiles,
    /// Held until the wrapper ends.
    pub(crate) _lock: WakeLock,
}

/// Claims a wake-up of a pod, or a gate, settling what died in it first.
pub(crate) fn claim(request: &Request, registry: Registry, config: &Config) -> Result<Claimed, Refused> {
    let id = &request.pod;
    let cannot = match request.gate {
        Some(mode) => format!("cannot run gate {mode} of pod `{id}`"),
        None => format!("cannot wake pod `{id}`"),
    };
    let read = || {
        registry
            .read(id)
            .map_err(|error| Refused::because(cannot.clone(), &error, error.hint()))
    };
    let record = read()?;
    let files = PodFiles::new(&record.project, id);
    if !Path::new(&record.project).is_dir() {
        let cause = format!(
            "{cannot}: there is no directory `{}`",
            pod_core::escaped(&record.project)
        );
        return Err(Refused::new(
            cause,
            format!("put the project back, or run `podctl cancel {id}`"),
        ));
    }
    let policy = config.policy_for(&record.policy);
    let lock = take_lock(&registry, id, &files, &cannot)?;
    let record = read()?;
    if record.state == PodState::Active || record.current.is_some() {
        settle(&registry, id, &policy, &lock, &cannot)?;
    }
    // What the agent is told to write to has to be below the project.
    let documents = files.create_dirs(&files.layout().docs());
    documents.map_err(|error| unreachable_files(&cannot, &error))?;
    let record = read()?;
    refuse_survivors(&record, &cannot)?;
    let identity = Identity::of_self().map_err(|error| {
        Refused::because(
            cannot.clone(),
            &error,
            "is /proc mounted here? `podctl doctor` looks",
        )
    })?;
    let token = draw_token()
        .map_err(|error| Refused::because(cannot.clone(), &error, "the system has no random bytes"))?;
    let taken = files
        .wakeup_numbers()
        .map_err(|error| unreachable_files(&cannot, &error))?;
    if let Some(mode) = request.gate {
        refuse_undefined(&record, mode, &cannot)?;
    }
    let claimed = registry.update(id, CLAIM_WAIT, |record| {
        if request.gate.is_some() {
            let agent = config.policy_for(&record.policy).agent;
            let current = Current {
                kind: CurrentKind::Gate,
                ..current(record.wake_up_count, &identity, &token, agent, false)
            };
            record.claim_gate(current.clone(), now())?;
            return Ok((record.clone(), current));
        }
        let n = next_number(record.wake_up_count, &taken).ok_or_else(|| Refusal::NoNumber {
            pod: record.id.to_string(),
        })?;
        let agent = request
            .agent
            .clone()
            .or_else(|| stage_agent(record))
            .unwrap_or_else(|| config.policy_for(&record.policy).agent);
        let current = current(n, &identity, &token, agent, request.warm);
        record.claim(current.clone(), now())?;
        Ok((record.clone(), current))
    });
    let (record, current) = claimed.map_err(|error| refused(&cannot, id, error))?;
    let policy = config.policy_for(&record.policy);
    Ok(Claimed {
        registry,
        record,
        policy,
        current,
        files,
        _lock: lock,
    })
}

/// The agent that `agents-pod.toml` names for the stage of a gated pod.
fn stage_agent(record: &PodRecord) -> Option<AgentName> {
    let pinned = Pinned::of(record.gates.as_ref()?).ok()?;
    pinned.definitions.stages.get(&record.stage?).cloned()
}

fn refuse_undefined(record: &PodRecord, mode: GateMode, cannot: &str) -> Result<(), Refused> {
    let Some(state) = &record.gates else {
        return Err(Refused::new(
            format!("{cannot}: the pod is ungated"),
            "gates are defined in agents-pod.toml before a pod is spawned; `podctl gate reload` pins them later",
        ));
    };
    match Pinned::of(state) {
        Ok(pinned) if pinned.definitions.gates.contains_key(&mode) => Ok(()),
        Ok(pinned) => {
            let defined: Vec<&str> = pinned.definitions.gates.keys().map(|mode| mode.word()).collect();
            Err(Refused::new(
                format!("{cannot}: there is no gate `{mode}`"),
                format!("there are: {}", defined.join(", ")),
            ))
        }
        Err(why) => Err(Refused::new(
            format!("{cannot}: the pinned gates cannot be read: {why}"),
            "pin them anew: `podctl gate reload`",
        )),
    }
}

/// A number above every one that was ever claimed and above every directory that was left behind. One that
/// somebody made at the end of all numbers is passed over.
fn next_number(count: u32, taken: &[u32]) -> Option<u32> {
    let highest = taken.last().copied().unwrap_or(0).max(count);
    let after = highest.checked_add(1);
    after.or_else(|| (count.checked_add(1)?..u32::MAX).find(|n| taken.binary_search(n).is_err()))
}

fn draw_token() -> std::io::Result<Token> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(Token::from_random(bytes))
}

fn current(n: u32, identity: &Identity, token: &Token, agent: AgentName, warm: bool) -> Current {
    Current {
        n,
        kind: CurrentKind::Wake,
        pid: identity.pid,
        // podd and podctl start the wrapper as a session leader; by hand it may be in a shell's group.
        pgid: nix_pgid(),
        start_ticks: identity.start_ticks,
        boot_id: identity.boot_id.clone(),
        pid_ns: identity.pid_ns,
        token: token.clone(),
        claimed_at: now(),
        agent,
        warm,
        extra: Default::default(),
    }
}

fn nix_pgid() -> i32 {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    pod_process::stat(me)
        .ok()
        .flatten()
        .map_or(me, |found| found.pgid)
}

/// Takes the wake-up's lock. A wrapper that lives is refused at once; one that has recorded its outcome is
/// given a moment to go.
fn take_lock(registry: &Registry, id: &PodId, files: &PodFiles, cannot: &str) -> Result<WakeLock, Refused> {
    let deadline = Instant::now() + HANDOVER;
    loop {
        let taken = take_wake_lock(files).map_err(|error| unreachable_files(cannot, &error))?;
        if let Some(lock) = taken {
            return Ok(lock);
        }
        let record = registry
            .read(id)
            .map_err(|error| Refused::because(cannot, &error, error.hint()))?;
        let alive = record.current.is_some() && liveness_of(&record) == Liveness::Alive;
        let busy = alive || record.state.is_terminal() || Instant::now() >= deadline;
        if busy {
            return Err(match record.wakeable() {
                Err(refusal) => refuse(cannot, id, &refusal),
                Ok(()) => Refused::new(
                    format!("{cannot}: its last wrapper is still winding down"),
                    "try again in a moment".to_owned(),
                ),
            });
        }
        // Sweeping a dead wake-up's tree holds the lock for as long as it may take.
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn unreachable_files(cannot: &str, error: &DiskError) -> Refused {
    let hint = if error.is_full() {
        "free some space: nothing was started".to_owned()
    } else {
        format!(
            "look at `{}`: it has to be a directory of yours, without a symlink in it",
            error.path.display()
        )
    };
    Refused::because(cannot, error, hint)
}

fn settle(
    registry: &Registry,
    id: &PodId,
    policy: &Policy,
    lock: &WakeLock,
    cannot: &str,
) -> Result<(), Refused> {
    let settled = settle_dead(registry, id, policy, Some(lock), Vec::new(), now);
    match settled {
        Ok(Settled::NothingToDo | Settled::Recorded { .. } | Settled::GateEnded { .. }) => Ok(()),
        Ok(Settled::StillHeld) => Err(Refused::new(
            format!("{cannot}: its wrapper is still running"),
            format!("run `podctl show {id}`"),
        )),
        Ok(Settled::Unknown(why)) => Err(Refused::new(
            format!("{cannot}: it cannot be told whether its last wake-up still runs: {why}"),
            "look where it was started: another container of the same home may be running it".to_owned(),
        )),
        Err(error) => Err(Refused::because(cannot, &error, "run `podctl doctor`")),
    }
}

fn refuse_survivors(record: &PodRecord, cannot: &str) -> Result<(), Refused> {
    let alive = pod_reconcile::living_survivors(record);
    if alive.is_empty() {
        return Ok(());
    }
    Err(Refused::new(
        format!("{cannot}: processes of its last wake-up resist SIGKILL: {alive:?}"),
        "they hang in the kernel, often on a dead mount; see `ps -o pid,stat,wchan,cmd`".to_owned(),
    ))
}

fn refused(cannot: &str, id: &PodId, error: UpdateError<Refusal>) -> Refused {
    match error {
        UpdateError::Refused(refusal) => refuse(cannot, id, &refusal),
        UpdateError::Read(error) => Refused::because(cannot, &error, ReadError::hint(&error)),
        UpdateError::Registry(error) => Refused::because(cannot, &error, error.hint()),
    }
}

fn refuse(cannot: &str, id: &PodId, refusal: &Refusal) -> Refused {
    let hint = match refusal {
        Refusal::Terminal { .. } => {
            "a pod that is over is not woken; `podctl spawn` starts another".to_owned()
        }
        Refusal::Parked { .. } => format!("`podctl show {id}` says why; `podctl resume {id}` unparks it"),
        Refusal::Awake { .. } => format!("wait for it, or run `podctl cancel {id}`"),
        Refusal::GateRunning { .. } => "wait until the gate has ended".to_owned(),
        Refusal::BeingCancelled { .. } => format!("run `podctl wait {id}`"),
        Refusal::Fenced { .. } => format!("run `podctl show {id}`"),
        Refusal::NoNumber { .. } => format!("run `podctl cancel {id}` and spawn another"),
        Refusal::NotLost { .. } => "leave out `--warm`: only a lost wake-up is continued".to_owned(),
    };
    Refused::because(cannot, refusal, hint)
}

#[cfg(test)]
mod tests {
    use super::next_number;

    #[test]
    fn numbers_rise_and_none_is_used_twice() {
        assert_eq!(next_number(0, &[]), Some(1));
        assert_eq!(next_number(3, &[1, 2]), Some(4));
        assert_eq!(next_number(3, &[1, 7]), Some(8));
        assert_eq!(next_number(3, &[4, u32::MAX]), Some(5));
        assert_eq!(next_number(u32::MAX, &[]), None);
    }
}

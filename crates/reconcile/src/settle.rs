//! Settles a wake-up whose wrapper is dead: adopt its verdict, else end its tree and record it as lost.

use std::time::Duration;

use pod_core::{
    ByteSize, Current, Fence, GateMode, GateRun, Liveness, LostReason, MissingBytes, PodId, PodRecord,
    PodState, Policy, Settlement, StartHead, Survivor, Timestamp, Usage, Verdict, WakeUpEntry, WrapperFile,
};
use pod_disk::{DiskError, FileLock, LockMode};
use pod_process::{Cgroup, Handle, Identity, Mark, Sig, SweepReport};
use pod_registry::{ReadError, Registry, RegistryError, UpdateError};

use crate::aftermath::{Seen, keep_work, words_in_log, write_checkpoint};
use crate::files::{PodFiles, footer};
use crate::worktree::hashed_evidence;

/// How long an outcome waits for the registry's lock.
const OUTCOME_WAIT: Duration = Duration::from_secs(30);

/// The lock that is held for the whole of a wake-up.
pub type WakeLock = FileLock;

/// What settling did.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// No wake-up is claimed.
    NothingToDo,
    /// The wrapper lives, or somebody else is settling it.
    StillHeld,
    /// It cannot be told whether the wrapper lives; nothing was touched.
    Unknown(String),
    /// A gate is over; what it left, if anything, is in the record.
    GateEnded {
        /// How many processes were ended.
        swept: u32,
    },
    /// The outcome is in the record.
    Recorded {
        /// The wake-up.
        n: u32,
        /// Its outcome.
        verdict: Verdict,
        /// Whether the wrapper had left the verdict itself.
        adopted: bool,
        /// How many processes were ended.
        swept: u32,
    },
}

/// Why a dead wake-up could not be settled. It stays claimed, and the next pass tries again.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The record could not be read.
    #[error("the record could not be read")]
    Read(#[source] ReadError),
    /// The record could not be written.
    #[error("the outcome could not be recorded")]
    Registry(#[source] RegistryError),
    /// The pod's own files could not be reached.
    #[error("the pod's files could not be reached")]
    Files(#[source] DiskError),
    /// /proc did not answer.
    #[error("the wake-up's processes could not be looked for")]
    Processes(#[source] std::io::Error),
}

/// Takes the lock of a wake-up without waiting; `None` if somebody holds it.
pub fn take_wake_lock(files: &PodFiles) -> Result<Option<WakeLock>, DiskError> {
    files.create_dirs(files.layout().root())?;
    FileLock::try_take(&files.layout().wake_lock(), LockMode::Exclusive)
}

/// The process that a record says runs in the pod.
pub fn identity_of(current: &Current) -> Identity {
    Identity {
        pid: current.pid,
        start_ticks: current.start_ticks,
        boot_id: current.boot_id.clone(),
        pid_ns: current.pid_ns,
    }
}

/// Whether the wrapper of the wake-up or gate that a record has claimed lives.
pub fn liveness_of(record: &PodRecord) -> Liveness {
    record
        .current
        .as_ref()
        .map_or(Liveness::Dead { rebooted: false }, |current| {
            identity_of(current).liveness()
        })
}

/// Kills a wrapper that does not answer. What it leaves is found and ended by [`settle_dead`], to which the
/// returned processes have to be given: once their wrapper is gone, ancestry does not show them any more.
pub fn kill_wedged(record: &PodRecord) -> std::io::Result<Vec<Handle>> {
    let Some(current) = &record.current else {
        return Ok(Vec::new());
    };
    let Some(wrapper) = Handle::of(current.pid, current.start_ticks)? else {
        return Ok(Vec::new());
    };
    // Held still, it forks nothing between the look and the kill.
    wrapper.signal(Sig::STOP)?;
    let mut below = Vec::new();
    for found in pod_process::descendants(current.pid)? {
        below.extend(Handle::of(found.pid, found.start_ticks)?);
    }
    wrapper.signal(Sig::KILL)?;
    Ok(below)
}

/// Settles the wake-up that a pod's record has claimed, if its wrapper is dead.
///
/// `lock` is the wake-up's lock if the caller holds it already. `known` are processes that are known to be
/// the wake-up's. The record is written once, fenced by the wake-up's token: two that settle at the same
/// time record one outcome.
pub fn settle_dead(
    registry: &Registry,
    id: &PodId,
    policy: &Policy,
    lock: Option<&WakeLock>,
    known: Vec<Handle>,
    now: impl Fn() -> Timestamp,
) -> Result<Settled, SettleError> {
    let record = registry.read(id).map_err(SettleError::Read)?;
    if !is_claimed(&record) {
        return Ok(Settled::NothingToDo);
    }
    let files = PodFiles::new(&record.project, id);
    let project_stands = std::path::Path::new(&record.project).is_dir();
    let _held = match lock {
        Some(_) => None,
        // Without a project there is no lock to take; the identity has to do.
        None if !project_stands => None,
        None => match take_wake_lock(&files).map_err(SettleError::Files)? {
            Some(held) => Some(held),
            None => return Ok(Settled::StillHeld),
        },
    };
    let record = registry.read(id).map_err(SettleError::Read)?;
    if !is_claimed(&record) {
        return Ok(Settled::NothingToDo);
    }
    let rebooted = match liveness_of(&record) {
        Liveness::Alive => return Ok(Settled::StillHeld),
        Liveness::Unknown(why) => return Ok(Settled::Unknown(why)),
        Liveness::Dead { rebooted } => rebooted,
    };
    let wrapper = files.wrapper().filter(|file| {
        record
            .current
            .as_ref()
            .is_some_and(|current| current.token == file.current.token)
    });
    let report = if rebooted {
        SweepReport::default()
    } else {
        end_tree(&record, wrapper.as_ref(), known, policy.sweep_grace.0).map_err(SettleError::Processes)?
    };
    if let Some(gate) = record.gate() {
        return settle_gate(registry, &record, &files, gate, report.ended, now());
    }
    let died = Died {
        rebooted,
        usage: wrapper.as_ref().and_then(|file| file.usage),
        at: now(),
        save_limit: policy.save_file_limit,
    };
    let start = wrapper.and_then(|file| file.start_head);
    record_outcome(registry, &record, &files, report, died, start)
}

/// Whether anything runs in a pod, or is said to.
fn is_claimed(record: &PodRecord) -> bool {
    record.state == PodState::Active || record.current.is_some()
}

/// A gate whose runner died leaves no evidence, unless it had written it and died on the way to the record.
fn settle_gate(
    registry: &Registry,
    record: &PodRecord,
    files: &PodFiles,
    gate: &Current,
    swept: u32,
    now: Timestamp,
) -> Result<Settled, SettleError> {
    let newest = GateMode::ALL
        .iter()
        .filter_map(|mode| hashed_evidence(files, *mode))
        .filter(|(evidence, _)| evidence.started_at >= gate.claimed_at)
        .max_by_key(|(evidence, _)| evidence.finished_at);
    let run = newest.map(|(evidence, hash)| GateRun::of(&evidence, hash));
    let settled = registry.update(&record.id, OUTCOME_WAIT, |record| {
        Ok::<Settlement, std::convert::Infallible>(record.settle_gate(&gate.token, run.clone(), now))
    });
    match settled {
        Ok(Settlement::Recorded) => {}
        Ok(Settlement::Fenced) => return Ok(Settled::NothingToDo),
        Err(UpdateError::Registry(error)) => return Err(SettleError::Registry(error)),
        Err(UpdateError::Read(error)) => return Err(SettleError::Read(error)),
        Err(UpdateError::Refused(never)) => match never {},
    }
    let line = match &run {
        Some(run) => format!("--- gate {}: {} ---\n", run.mode, run.overall),
        None => "--- a gate was killed, and left no evidence ---\n".to_owned(),
    };
    let _noted = files.append_output(&line);
    let _removed = files.remove(&files.layout().wrapper());
    Ok(Settled::GateEnded { swept })
}

fn end_tree(
    record: &PodRecord,
    wrapper: Option<&WrapperFile>,
    known: Vec<Handle>,
    grace: Duration,
) -> std::io::Result<SweepReport> {
    let Some(current) = &record.current else {
        return Ok(SweepReport::default());
    };
    let group = wrapper
        .and_then(|file| file.cgroup.as_deref())
        .and_then(Cgroup::at);
    let mark = Mark {
        variable: format!("AGENTS_POD_WAKE_TOKEN={}", current.token.reveal()),
        session: wrapper.and_then(proven_session),
    };
    let mut known: Vec<Handle> = known;
    let report = pod_process::sweep(
        || {
            known.retain(Handle::is_live);
            let mut found = pod_process::marked(&mark)?;
            if let Some(group) = &group {
                for pid in group.members().unwrap_or_default() {
                    found.extend(Handle::open(pid, pod_process::ProcStat::is_live)?);
                }
            }
            for process in &known {
                found.extend(Handle::of(process.pid(), process.start_ticks())?);
            }
            found.sort_by_key(Handle::pid);
            found.dedup_by_key(|process| process.pid());
            Ok(found)
        },
        grace,
        || (),
    )?;
    if let Some(group) = group {
        let _killed = group.kill();
        group.remove();
    }
    Ok(report)
}

/// The agent's session, unless its number has come to belong to another process since.
fn proven_session(wrapper: &WrapperFile) -> Option<i32> {
    let (pid, start) = (wrapper.agent_pid?, wrapper.agent_start_ticks?);
    match pod_process::stat(pid) {
        Ok(Some(found)) => (found.start_ticks == start).then_some(pid),
        // While a session has members its number is given to nobody: the members are the agent's.
        Ok(None) => Some(pid),
        Err(_) => None,
    }
}

/// What is known of a wrapper that died.
#[derive(Debug, Clone, Copy)]
struct Died {
    /// The largest file that is kept of its uncommitted work.
    save_limit: ByteSize,
    /// With the whole machine.
    rebooted: bool,
    /// What its agent had used by then, as it noted.
    usage: Option<Usage>,
    /// When it was found.
    at: Timestamp,
}

fn record_outcome(
    registry: &Registry,
    record: &PodRecord,
    files: &PodFiles,
    report: SweepReport,
    died: Died,
    start: Option<StartHead>,
) -> Result<Settled, SettleError> {
    let now = died.at;
    let n = record.wake().map_or(record.wake_up_count, |current| current.n);
    let left = files.result(n, &record.id);
    let adopted = left.is_some();
    let mut entry = left.map_or_else(|| lost_entry(record, files, n, died), |result| result.entry);
    let last_words = words_in_log(files, n);
    if !adopted {
        let token = record.wake().map(|current| &current.token);
        let kept = keep_work(files, record, n, died.save_limit, token);
        entry.saved_work = kept.saved;
        // A log that cannot be written keeps nothing from its outcome.
        let _noted = kept
            .note
            .map(|note| files.append_output(&format!("{}\n", pod_core::escaped(&note))));
    }
    entry.swept += report.ended;
    merge_survivors(&mut entry, report.survivors);
    let (verdict, detail, ended) = (entry.verdict, entry.detail.clone(), entry.clone());
    let fence = Fence {
        n,
        token: record.wake().map(|current| current.token.clone()),
    };
    let recorded = registry.update(&record.id, OUTCOME_WAIT, |record| {
        Ok::<Settlement, std::convert::Infallible>(record.settle(&fence, entry, now))
    });
    let settlement = match recorded {
        Ok(settlement) => settlement,
        Err(UpdateError::Registry(error)) => return Err(SettleError::Registry(error)),
        Err(UpdateError::Read(error)) => return Err(SettleError::Read(error)),
        Err(UpdateError::Refused(never)) => match never {},
    };
    if settlement == Settlement::Fenced {
        return Ok(Settled::NothingToDo);
    }
    // The outcome stands. What follows makes the files agree with it, and may fail.
    let _tidied = files
        .end_torn_line(&files.layout().events(n))
        .and_then(|()| files.append_output(&footer(n, verdict, detail.as_deref())))
        .and_then(|()| if adopted { Ok(()) } else { files.keep_handoff(n) });
    let seen = Seen { start, last_words };
    // podd writes a missing one.
    let _written = write_checkpoint(files, record, &ended, &seen);
    let _removed = files.remove(&files.layout().wrapper());
    Ok(Settled::Recorded {
        n,
        verdict,
        adopted,
        swept: report.ended,
    })
}

fn merge_survivors(entry: &mut WakeUpEntry, survivors: Vec<Survivor>) {
    for survivor in survivors {
        if !entry.survivors.contains(&survivor) {
            entry.survivors.push(survivor);
        }
    }
}

fn lost_entry(record: &PodRecord, files: &PodFiles, n: u32, died: Died) -> WakeUpEntry {
    let reason = if died.rebooted {
        LostReason::Rebooted
    } else {
        LostReason::WrapperDied
    };
    let (verdict, detail) = match record.intent(n) {
        Some(cause) => (
            Verdict::Failed(cause.into()),
            Some("its wrapper was killed with it".to_owned()),
        ),
        None => (Verdict::Lost(reason), None),
    };
    let mut entry = WakeUpEntry::bare(n, verdict);
    entry.detail = detail;
    entry.ended_at = Some(died.at);
    if let Some(current) = record.wake() {
        entry.started_at = Some(current.claimed_at);
        entry.agent = Some(current.agent.clone());
        entry.warm = current.warm;
    }
    entry.usage = died.usage;
    if let Some(agent) = files.agent(n) {
        entry.model = agent.model;
        entry.account = agent.account;
        entry.missing = vec![MissingBytes {
            log: "events.jsonl".to_owned(),
            bytes: None,
            cause: if died.rebooted {
                "the machine went down"
            } else {
                "the wrapper was killed"
            }
            .to_owned(),
        }];
    }
    entry
}

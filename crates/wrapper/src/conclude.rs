//! From the agent's end to the recorded outcome.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use pod_checkpoints::{Fingerprint, Look, Worktree, all_ticked, documents_fingerprint, worktree};
use pod_core::{
    AgentFile, Evidence, ExitRecord, FailReason, Fence, KillCause, KilledBy, LimitSource, PodRecord,
    Progress, RateLimit, SCHEMA_VERSION, Settlement, StartFailure, StartHead, Token, Usage, Verdict,
    WakeResult, WakeUpEntry, WorktreeCheckpoint, WorktreeFile, WrapperFile, adjudicate,
    asks_for_another_plan, classify, error_chain, leaves_unsaved_work,
};
use pod_disk::Durability;
use pod_process::Handle;
use pod_reconcile::{
    PodFiles, Seen, footer, keep_work, look, look_at_worktree, worktree_before, write_checkpoint,
};
use pod_registry::{RegistryError, UpdateError};

use crate::claim::Claimed;
use crate::handoff::Baseline;
use crate::heart::Heart;
use crate::machine::Ending;
use crate::run::{Ran, ended_by_us};
use crate::streams::Streams;
use pod_reconcile::now;

/// How long an outcome waits for the registry's lock.
pub(crate) const OUTCOME_WAIT: Duration = Duration::from_secs(30);

/// How long a first try waits, in which the heart does not beat.
const SHORT_WAIT: Duration = Duration::from_millis(200);

/// How long the project is looked at, before the start and behind the end.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// The project as it was before the agent started.
pub(crate) struct Before {
    pub(crate) handoff: Baseline,
    pub(crate) documents: Option<Fingerprint>,
    pub(crate) worktree: Option<Worktree>,
    /// Of a gated pod.
    checkpoint: Option<WorktreeCheckpoint>,
    look: Look,
}

impl Before {
    pub(crate) fn take(files: &PodFiles, record: &PodRecord, token: &Token) -> Self {
        let look = look(LOOK_LIMIT, Some(token));
        Self {
            documents: documents(files),
            worktree: worktree(files.layout().project(), &look),
            look,
            checkpoint: record.gates.as_ref().map(|state| {
                let before = worktree_before(files, record);
                look_at_worktree(files, state, Some(token))
                    .checkpoint()
                    .behind(before.as_ref())
            }),
            handoff: Baseline::take(files),
        }
    }

    /// HEAD as it was, if that is known.
    pub(crate) fn head(&self) -> Option<StartHead> {
        self.worktree.as_ref()?.head.clone()
    }

    /// What has moved since. Unknown stays unknown.
    fn progress(&self, files: &PodFiles) -> Progress {
        let same = |before: Option<Fingerprint>, after: Option<Fingerprint>| Some(before? == after?);
        let changed = match same(self.documents, documents(files)) {
            Some(true) => {
                let moment = |found: &Worktree| found.fingerprint;
                let after = worktree(files.layout().project(), &self.look);
                same(self.worktree.as_ref().map(moment), after.as_ref().map(moment)).map(|same| !same)
            }
            Some(false) => Some(true),
            None => None,
        };
        let tasks = pod_checkpoints::read_document(&files.layout().tasks()).unwrap_or_default();
        Progress {
            changed,
            all_ticked: all_ticked(&String::from_utf8_lossy(&tasks)),
        }
    }
}

fn documents(files: &PodFiles) -> Option<Fingerprint> {
    documents_fingerprint([
        files.layout().tasks().as_path(),
        files.layout().decisions().as_path(),
    ])
}

impl End<'_> {
    /// Whether the agent had come to its end before its group was ended.
    fn settled(&self) -> bool {
        self.ran
            .as_ref()
            .is_ok_and(|ran| ran.ending == Some(Ending::Settled))
    }
}

impl Claimed {
    /// What fences every write of this wake-up.
    pub(crate) fn fence(&self) -> Fence {
        Fence {
            n: self.current.n,
            token: Some(self.current.token.clone()),
        }
    }

    fn wrapper_file(&self) -> WrapperFile {
        WrapperFile {
            schema_version: SCHEMA_VERSION,
            pod_id: self.record.id.clone(),
            agent_pid: None,
            agent_start_ticks: None,
            cgroup: None,
            usage: None,
            start_head: None,
            current: self.current.clone(),
        }
    }

    /// Writes down who we are, and which group we are about to make. Without the file a dead wake-up is settled
    /// by the record and the token alone.
    pub(crate) fn announce(&self, group: Option<&Path>) {
        let file = WrapperFile {
            cgroup: group.map(Path::to_owned),
            ..self.wrapper_file()
        };
        let _written = self
            .files
            .write_json(&self.files.layout().wrapper(), &file, Durability::Atomic);
    }

    /// Writes down whom we have started, and what it has used so far.
    pub(crate) fn announce_agent(
        &self,
        agent: &Handle,
        group: Option<&Path>,
        start: Option<&StartHead>,
        usage: Usage,
    ) {
        let file = WrapperFile {
            agent_pid: Some(agent.pid()),
            agent_start_ticks: Some(agent.start_ticks()),
            cgroup: group.map(Path::to_owned),
            usage: (usage != Usage::default()).then_some(usage),
            start_head: start.cloned(),
            ..self.wrapper_file()
        };
        let _written = self
            .files
            .write_json(&self.files.layout().wrapper(), &file, Durability::Atomic);
    }
}

/// What a wake-up came to, before it is judged.
pub(crate) struct End<'a> {
    pub(crate) agent: &'a AgentFile,
    pub(crate) ran: Result<Ran, StartFailure>,
    pub(crate) end_requested: bool,
}

/// Judges the wake-up, writes result.json once, and records the outcome. Returns whether it is recorded.
pub(crate) fn conclude(
    claimed: &Claimed,
    heart: &Heart,
    streams: &mut Streams,
    before: &Before,
    end: End<'_>,
) -> bool {
    let n = claimed.current.n;
    // An agent that cleans its project of what git ignores takes our files along.
    let _made = claimed
        .files
        .ensure_base()
        .and_then(|()| claimed.files.create_dirs(&claimed.files.layout().wakeup(n)));
    let kept = claimed.files.keep_handoff(n);
    if let Err(error) = kept {
        streams
            .human
            .note(&format!("HANDOFF.md could not be kept: {}", error_chain(&error)));
    }
    // A record that cannot be read says nothing of a cancel; settling it will say what is wrong.
    let record = claimed
        .registry
        .read(&claimed.record.id)
        .unwrap_or_else(|_| claimed.record.clone());
    let evidence = gather(claimed, &record, streams, before, &end);
    let judged = adjudicate(&evidence);
    let mut entry = entry(claimed, &evidence, &end, streams, judged.verdict);
    entry.detail = judged.detail;
    if leaves_unsaved_work(judged.verdict, entry.exit.as_ref(), end.settled()) {
        let kept = heart.while_beating(|| {
            let limit = claimed.policy.save_file_limit;
            keep_work(&claimed.files, &record, n, limit, Some(&claimed.current.token))
        });
        entry.saved_work = kept.saved;
        kept.note.iter().for_each(|note| streams.human.note(note));
    }
    if let (Some(state), Some(before)) = (&claimed.record.gates, &before.checkpoint) {
        let after = heart.while_beating(|| {
            look_at_worktree(&claimed.files, state, Some(&claimed.current.token)).checkpoint()
        });
        classified(claimed, &mut entry, before, after.behind(Some(before)));
    }
    if judged.verdict == Verdict::More {
        entry.progress = Some(before.progress(&claimed.files));
    }
    let result = WakeResult {
        schema_version: SCHEMA_VERSION,
        pod_id: claimed.record.id.clone(),
        entry,
        declaration: evidence.declaration,
        events: evidence.events,
        tail: streams.tail(),
    };
    let place = claimed.files.layout().result(claimed.current.n);
    let written = claimed.files.write_json(&place, &result, Durability::Durable);
    if let Err(error) = &written {
        streams.human.note(&format!(
            "result.json could not be written: {}",
            error_chain(error)
        ));
    }
    let seen = Seen {
        start: before.head(),
        last_words: Some(streams.human.last_words().to_owned()),
    };
    record_outcome(claimed, heart, streams, &result.entry, &seen)
}

/// Notes what a wake-up of a gated pod came to.
fn classified(
    claimed: &Claimed,
    entry: &mut WakeUpEntry,
    before: &WorktreeCheckpoint,
    after: WorktreeCheckpoint,
) {
    let declared = matches!(entry.verdict, Verdict::More | Verdict::Done);
    let handoff = claimed.files.layout().handoff();
    let head = || pod_checkpoints::read_document(&handoff).unwrap_or_default();
    entry.plan_update_required = declared && asks_for_another_plan(&head());
    entry.classification = classify(entry.verdict, &after, entry.plan_update_required);
    entry.violations.clone_from(&after.violations);
    let file = WorktreeFile {
        schema_version: SCHEMA_VERSION,
        before: before.clone(),
        after,
    };
    // The next look compares with nothing then.
    let place = claimed.files.layout().worktree(entry.n);
    let _written = claimed.files.write_json(&place, &file, Durability::Atomic);
}

fn gather(
    claimed: &Claimed,
    record: &PodRecord,
    streams: &Streams,
    before: &Before,
    end: &End<'_>,
) -> Evidence {
    let n = claimed.current.n;
    let ran = end.ran.as_ref().ok();
    let ending = ran.and_then(|ran| ran.ending);
    let own = match ending {
        Some(Ending::Limit(cause)) => Some(cause),
        Some(Ending::Requested | Ending::Settled) | None => None,
    };
    let ours = record
        .wake()
        .is_some_and(|current| current.token == claimed.current.token);
    let cancelled = ours && record.cancel.is_some();
    // An agent that had ended by itself before it could be told is judged by what it did.
    let told = ending == Some(Ending::Requested) || (ran.is_none() && end.end_requested);
    // The registry may have been too busy to take an intent of ours.
    let intent = own.or(record.intent(n)).filter(|_| !cancelled);
    Evidence {
        declaration: before.handoff.declaration(&claimed.files),
        events: streams.facts(ran.and_then(|ran| ran.exit.status.as_ref())),
        exit: ran.map(|ran| {
            let mut exit = ran.exit.clone();
            exit.sent_by =
                ended_by_us(exit.status.as_ref(), ran.ending).then(|| sender(ran.ending, cancelled, intent));
            exit
        }),
        start_failure: end
            .ran
            .as_ref()
            .err()
            .cloned()
            .filter(|_| !(told && ran.is_none())),
        intent,
        cancelled,
        interrupted: told && !cancelled && intent.is_none(),
        stderr_tail: streams.tail().stderr,
    }
}

fn sender(ending: Option<Ending>, cancelled: bool, intent: Option<KillCause>) -> KilledBy {
    match ending {
        Some(Ending::Requested) if cancelled => KilledBy::Operator,
        Some(Ending::Requested) if intent.is_some() => KilledBy::Podd,
        Some(Ending::Requested | Ending::Limit(_) | Ending::Settled) | None => KilledBy::Wrapper,
    }
}

fn entry(
    claimed: &Claimed,
    evidence: &Evidence,
    end: &End<'_>,
    streams: &Streams,
    verdict: Verdict,
) -> WakeUpEntry {
    let mut entry = WakeUpEntry::bare(claimed.current.n, verdict);
    let ended = now();
    entry.started_at = Some(claimed.current.claimed_at);
    entry.ended_at = Some(ended);
    entry.agent = Some(claimed.current.agent.clone());
    entry.model.clone_from(&end.agent.model);
    entry.account.clone_from(&end.agent.account);
    entry.warm = claimed.current.warm;
    entry.exit = evidence.exit.as_ref().and_then(|exit| {
        Some(ExitRecord {
            status: exit.status.clone()?,
            sent_by: exit.sent_by,
            killed_after_grace: exit.killed_after_grace,
        })
    });
    if let Ok(ran) = &end.ran {
        entry.swept = ran.swept.ended;
        entry.survivors.clone_from(&ran.swept.survivors);
    }
    entry.missing = streams.missing();
    entry.usage = evidence.events.usage.filter(|usage| *usage != Usage::default());
    if verdict == Verdict::Failed(FailReason::RateLimited) {
        let known = evidence.events.error.as_ref().and_then(|error| error.resets);
        let default = || (ended.plus(claimed.policy.limit_default.0), LimitSource::Default);
        let (resets_at, source) = known.filter(|(at, _)| *at > ended).unwrap_or_else(default);
        entry.rate_limit = Some(RateLimit { resets_at, source });
    }
    entry
}

fn record_outcome(
    claimed: &Claimed,
    heart: &Heart,
    streams: &mut Streams,
    entry: &WakeUpEntry,
    seen: &Seen,
) -> bool {
    let (n, verdict, detail) = (entry.n, entry.verdict, entry.detail.clone());
    let fence = claimed.fence();
    let settle = |wait| {
        claimed.registry.update(&claimed.record.id, wait, |record| {
            Ok::<Settlement, Infallible>(record.settle(&fence, entry.clone(), now()))
        })
    };
    let recorded = match settle(heart.interval.min(SHORT_WAIT)) {
        // A busy registry is waited for with a heartbeat that goes on.
        Err(UpdateError::Registry(RegistryError::Lock(_))) => heart.while_beating(|| settle(OUTCOME_WAIT)),
        recorded => recorded,
    };
    match recorded {
        Ok(Settlement::Recorded) => {
            streams.human.note(&footer(n, verdict, detail.as_deref()));
            let written =
                heart.while_beating(|| write_checkpoint(&claimed.files, &claimed.record, entry, seen));
            if let Err(error) = written {
                let error = error_chain(&error);
                streams.human.note(&format!(
                    "the checkpoint of wake-up {n} could not be written: {error}"
                ));
            }
            let _removed = claimed.files.remove(&claimed.files.layout().wrapper());
            true
        }
        Ok(Settlement::Fenced) => {
            streams.human.note(&format!(
                "wake-up {n} was settled by somebody else meanwhile: {verdict} is not recorded"
            ));
            false
        }
        Err(error) => {
            let error = match error {
                UpdateError::Registry(error) => error_chain(&error),
                UpdateError::Read(error) => error_chain(&error),
                UpdateError::Refused(never) => match never {},
            };
            streams.human.note(&format!(
                "wake-up {n}: the outcome {verdict} could not be recorded: {error}"
            ));
            false
        }
    }
}

/// Says what an agent that was never started could not do.
pub(crate) fn declared_nothing(failure: &StartFailure) -> String {
    match failure {
        StartFailure::Unresolved(why)
        | StartFailure::TypeRefused(why)
        | StartFailure::Missing(why)
        | StartFailure::Spawn(why) => format!("the agent was not started: {why}"),
    }
}

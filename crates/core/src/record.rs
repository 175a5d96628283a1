//! The registry record of one pod, as it stands on disk.
//!
//! The fields are public to read. What changes a record is a transition in `lifecycle`, so that states
//! that must not exist (a terminal pod that is due, a second wake-up beside one that runs) are not written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::outcome::words;
use crate::{
    AgentName, Classification, ExitStatus, GateState, KillCause, KilledBy, ParkCode, PodId, PolicyOverrides,
    ReconciledTo, SavedWork, Stage, Timestamp, Token, Verdict, Violation,
};

/// The version of every JSON file that this build writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

words! {
    /// Where a pod stands.
    PodState {
        /// Nothing runs; it may be woken.
        Idle = "idle",
        /// A wake-up runs.
        Active = "active",
        /// Stopped until somebody resumes it.
        Parked = "parked",
        /// The goal is reached. Terminal.
        Done = "done",
        /// A person cancelled it. Terminal.
        Cancelled = "cancelled",
    }
}

impl PodState {
    /// Whether nothing will ever wake the pod again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}

words! {
    /// Who did something to a pod.
    By {
        /// podd, by its policy.
        Podd = "podd",
        /// A person.
        Operator = "operator",
    }
}

/// Why a pod is parked and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// The class of the reason.
    pub code: ParkCode,
    /// The reason in words.
    #[serde(default)]
    pub detail: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Who parked it.
    pub by: By,
}

words! {
    /// What runs in a pod.
    CurrentKind {
        /// A wake-up of its agent.
        Wake = "wake",
        /// A gate.
        Gate = "gate",
    }
}

/// The identity of what runs in a pod: enough to prove that a pid is still the same process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Current {
    /// The wake-up's number.
    pub n: u32,
    /// Wake-up or gate.
    #[serde(default = "Current::wake")]
    pub kind: CurrentKind,
    /// The wrapper's process.
    pub pid: i32,
    /// The wrapper's process group.
    pub pgid: i32,
    /// When the wrapper started, in clock ticks since boot: proc(5), stat, field 22.
    pub start_ticks: u64,
    /// The boot during which that holds: /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// The pid namespace in which `pid` has its meaning.
    pub pid_ns: u64,
    /// The wake-up's mark.
    pub token: Token,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// The agent that was asked for.
    pub agent: AgentName,
    /// Whether it continues a lost wake-up's session.
    #[serde(default)]
    pub warm: bool,
    /// Keys of another version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Current {
    fn wake() -> CurrentKind {
        CurrentKind::Wake
    }
}

/// A person's wish to end the pod, written before any signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelMark {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: By,
}

/// Our own intent to kill wake-up `n`, written before any signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KillIntent {
    /// The wake-up that it names, and no other.
    pub n: u32,
    /// Why.
    pub cause: KillCause,
    /// When.
    pub at: Timestamp,
}

/// How an agent's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// Code or signal.
    #[serde(flatten)]
    pub status: ExitStatus,
    /// Who sent the signal that ended it, where that was one of us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<KilledBy>,
    /// Whether it ignored SIGTERM for `cancelGrace` and was killed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub killed_after_grace: bool,
}

/// Bytes that an agent wrote and a log lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingBytes {
    /// The log's file name.
    pub log: String,
    /// How many; null where nobody can know.
    pub bytes: Option<u64>,
    /// Why.
    pub cause: String,
}

/// What a wake-up used. Unknown is null, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens without cache reads.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: Option<u64>,
    /// Money, in US dollars.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// The sum, in which a known figure beside an unknown one stays known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn sum<T>(a: Option<T>, b: Option<T>, add: fn(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(add(a, b)),
                (a, b) => a.or(b),
            }
        }
        // What a CLI prints is no reason to overflow.
        let tokens = |a, b| sum(a, b, u64::saturating_add);
        Self {
            input_tokens: tokens(self.input_tokens, other.input_tokens),
            output_tokens: tokens(self.output_tokens, other.output_tokens),
            cache_read_tokens: tokens(self.cache_read_tokens, other.cache_read_tokens),
            cost_usd: sum(self.cost_usd, other.cost_usd, |a, b| a + b),
        }
    }

    /// Input and output together, without cache reads; `None` if neither is known.
    pub fn tokens(self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        }
    }
}

words! {
    /// Where a reset time comes from.
    LimitSource {
        /// A structured event of the CLI.
        Event = "event",
        /// A sentence of the CLI.
        Text = "text",
        /// Nowhere: the policy's `limitDefault`.
        Default = "default",
    }
}

/// Until when a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// When it ends.
    pub resets_at: Timestamp,
    /// How that is known.
    pub source: LimitSource,
}

/// A process that resisted SIGKILL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survivor {
    /// Its pid.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
    /// The boot during which that holds.
    pub boot_id: String,
}

/// What a wake-up that declared `more` moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Whether documents (HANDOFF.md apart) or worktree changed; null where that could not be told.
    pub changed: Option<bool>,
    /// Whether TASKS.md has boxes and all of them are ticked.
    pub all_ticked: bool,
}

impl Progress {
    /// Whether it is proven that the wake-up led nowhere. Unknown is no proof.
    pub fn is_none(self) -> bool {
        self.changed == Some(false) || self.all_ticked
    }
}

/// One wake-up in the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WakeUpEntry {
    /// Its number.
    pub n: u32,
    /// Outcome and reason.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What a person should know beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it was claimed.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When its outcome was found.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// The agent that ran.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// The model that was asked for.
    #[serde(default)]
    pub model: Option<String>,
    /// The account that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether it continued a lost wake-up's session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// How the agent ended, if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitRecord>,
    /// How many processes the sweep ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swept: u32,
    /// What the logs lack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingBytes>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The limit that it ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// What resisted SIGKILL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<Survivor>,
    /// What a `more` moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What it came to for a gated pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<Classification>,
    /// What its worktree was that it may not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Whether its handoff asks for another plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_update_required: bool,
    /// Where its uncommitted work was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_work: Option<SavedWork>,
    /// Keys of another version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl WakeUpEntry {
    /// An entry of which only number and verdict are known.
    pub fn bare(n: u32, verdict: Verdict) -> Self {
        Self {
            n,
            verdict,
            detail: None,
            started_at: None,
            ended_at: None,
            agent: None,
            model: None,
            account: None,
            warm: false,
            exit: None,
            swept: 0,
            missing: Vec::new(),
            usage: None,
            rate_limit: None,
            survivors: Vec::new(),
            progress: None,
            classification: None,
            violations: Vec::new(),
            plan_update_required: false,
            saved_work: None,
            extra: Map::new(),
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// The format's version.
    pub schema_version: u32,
    /// Its name, which is also the file's.
    pub id: PodId,
    /// The project directory: absolute, no symlink in it when the pod was spawned.
    pub project: String,
    /// What is to be reached.
    pub goal: String,
    /// Where it stands.
    pub state: PodState,
    /// When it was spawned.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
    /// What differs from the configuration.
    #[serde(default)]
    pub policy: PolicyOverrides,
    /// Why it is parked; beside `active`: park when this wake-up ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// What runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Current>,
    /// A person's wish to end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelMark>,
    /// Our intent to kill the wake-up that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_intent: Option<KillIntent>,
    /// When podd wakes it next. Absent behind an outcome that podd has not reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_wake_at: Option<Timestamp>,
    /// Failed and lost wake-ups in a row, as podd last counted them.
    #[serde(default)]
    pub streak: u32,
    /// The highest wake-up number that was ever claimed.
    #[serde(default)]
    pub wake_up_count: u32,
    /// The newest wake-ups, oldest first.
    #[serde(default)]
    pub wake_ups: Vec<WakeUpEntry>,
    /// The streak counts wake-ups above this number: those up to it were forgiven by a resume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub streak_since: u32,
    /// Wake-ups that only ran into a limit; they are not part of `maxWakeUps`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_wake_ups: u32,
    /// How far a gated pod has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The gates of a gated pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateState>,
    /// What all wake-ups used together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_total: Option<Usage>,
    /// Keys of another version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl PodRecord {
    /// How many wake-ups the record itself keeps.
    pub const KEPT_WAKE_UPS: usize = 50;

    /// The wake-up that runs.
    pub fn wake(&self) -> Option<&Current> {
        self.current
            .as_ref()
            .filter(|current| current.kind == CurrentKind::Wake)
    }

    /// The gate that runs.
    pub fn gate(&self) -> Option<&Current> {
        self.current
            .as_ref()
            .filter(|current| current.kind == CurrentKind::Gate)
    }

    /// Whether a gated pod has an outcome or a gate run that nobody has reconciled.
    pub fn needs_reconciliation(&self) -> bool {
        let newest = ReconciledTo {
            wake_up: self.last().map_or(0, |last| last.n),
            gate: self
                .gates
                .as_ref()
                .and_then(|gates| Some(gates.last_run.as_ref()?.finished_at)),
        };
        let never = ReconciledTo {
            wake_up: 0,
            gate: None,
        };
        self.gates
            .as_ref()
            .is_some_and(|gates| gates.phase.is_some() || gates.reconciled.unwrap_or(never) != newest)
    }

    /// The newest wake-up with an outcome.
    pub fn last(&self) -> Option<&WakeUpEntry> {
        self.wake_ups.last()
    }

    /// The entry of wake-up `n`, if the record still has it.
    pub fn entry(&self, n: u32) -> Option<&WakeUpEntry> {
        self.wake_ups.iter().rev().find(|entry| entry.n == n)
    }

    /// The intent to kill wake-up `n`, if it names that one.
    pub fn intent(&self, n: u32) -> Option<KillCause> {
        self.kill_intent
            .as_ref()
            .filter(|intent| intent.n == n)
            .map(|intent| intent.cause)
    }
}

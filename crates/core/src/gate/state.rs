//! What a record says of a gated pod.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{GateEvidence, GateMode, GateOverall};
use crate::Timestamp;

/// A gate run that left evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateRun {
    /// Which gate.
    pub mode: GateMode,
    /// What it came to.
    pub overall: GateOverall,
    /// Whether the worktree moved while it ran.
    pub moved: bool,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl GateRun {
    /// What evidence says of its run.
    pub fn of(evidence: &GateEvidence) -> Self {
        Self {
            mode: evidence.mode,
            overall: evidence.overall,
            moved: evidence.input_diff_hash.is_none()
                || evidence.input_diff_hash != evidence.output_diff_hash,
            finished_at: evidence.finished_at,
        }
    }
}

/// Up to where a pod was reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconciledTo {
    /// The newest wake-up with an outcome.
    pub wake_up: u32,
    /// The end of the newest gate run.
    #[serde(default)]
    pub gate: Option<Timestamp>,
}

/// Gates of a pod as they were pinned, and how far it has come with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateState {
    /// `agents-pod.toml`, byte for byte.
    pub toml: String,
    /// The commit that content is compared with; null where there was none.
    pub base: Option<String>,
    /// The hash of the repository's hooks.
    pub hooks: String,
    /// When all this was pinned.
    pub pinned_at: Timestamp,
    /// Whether somebody claims that the work of the stage is done.
    #[serde(default)]
    pub claim: bool,
    /// The gate that podd runs next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<GateMode>,
    /// The newest gate run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<GateRun>,
    /// Gate runs in a row whose worktree moved.
    #[serde(default)]
    pub reruns: u32,
    /// Wake-ups in a row that were to repair a failing gate.
    #[serde(default)]
    pub repairs: u32,
    /// The wake-up behind which a repair was counted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_behind: Option<u32>,
    /// The content on which the gate failed last, and how often it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_on: Option<(String, u32)>,
    /// Up to where it was reconciled; absent where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<ReconciledTo>,
    /// How many decisions were made.
    #[serde(default)]
    pub iteration: u32,
    /// Keys of another version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl GateState {
    /// Gates that were just pinned.
    pub fn pinned(toml: String, base: Option<String>, hooks: String, now: Timestamp) -> Self {
        Self {
            toml,
            base,
            hooks,
            pinned_at: now,
            claim: false,
            due: None,
            last_run: None,
            reruns: 0,
            repairs: 0,
            repaired_behind: None,
            failed_on: None,
            reconciled: None,
            iteration: 0,
            extra: Map::new(),
        }
    }
}

//! What a record says of a gated pod.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{GateEvidence, GateMode, GateOverall, Phase};
use crate::Timestamp;

/// A gate run that left evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The content that it judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The hash of its evidence file: what somebody else writes there is no evidence.
    #[serde(default)]
    pub evidence: String,
}

impl GateRun {
    /// What evidence says of its run.
    pub fn of(evidence: &GateEvidence, hash: String) -> Self {
        Self {
            content: evidence.input_diff_hash.clone(),
            evidence: hash,
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
    /// The hashes of the newest evidence files.
    #[serde(default)]
    pub evidence: BTreeMap<GateMode, String>,
    /// What the next reconciliation is about, where a person asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
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
            evidence: BTreeMap::new(),
            phase: None,
            iteration: 0,
            extra: Map::new(),
        }
    }

    /// Notes what a gate run left; `None`: nothing. A run that fails on the same content again, one whose worktree moved
    /// and one that left nothing are counted, so that none of them goes on for ever.
    pub(crate) fn note_run(&mut self, run: Option<GateRun>) {
        self.due = None;
        let Some(run) = run else {
            self.reruns += 1;
            // It has to be decided anew.
            self.reconciled = None;
            return;
        };
        self.reruns = if run.moved { self.reruns + 1 } else { 0 };
        match (&run.content, run.overall) {
            (Some(content), GateOverall::Fail) if !run.moved => {
                let before = self.failed_on.take().filter(|(on, _)| on == content);
                self.failed_on = Some((content.clone(), before.map_or(0, |(_, times)| times) + 1));
            }
            (_, GateOverall::Pass) if !run.moved => {
                self.failed_on = None;
                self.repairs = 0;
            }
            (_, GateOverall::Pass | GateOverall::Fail | GateOverall::Error) => {}
        }
        self.evidence.insert(run.mode, run.evidence.clone());
        self.last_run = Some(run);
    }
}

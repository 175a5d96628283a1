//! decisions.md: what was decided about a gated pod, for people and for programs.

use serde::{Deserialize, Serialize};

use super::{Disposition, Freshness, GateOverall, PlanDecision, Stage, Validity};
use crate::outcome::words;
use crate::{PodState, Timestamp};

words! {
    /// What led to a decision.
    Phase {
        /// A wake-up ended.
        PostWakeReconciliation = "post_wake_reconciliation",
        /// A gate ended.
        PostGateReconciliation = "post_gate_reconciliation",
        /// A person resumed the pod.
        Resume = "resume",
        /// A person asked for another try.
        Retry = "retry",
    }
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// What led to it.
    pub phase: Phase,
    /// Its number, which rises.
    pub iteration: u32,
    /// When it was made.
    pub at: Timestamp,
    /// Whether the plan stands.
    pub plan_decision: PlanDecision,
    /// What execution does next.
    pub execution_disposition: Disposition,
    /// The pod's state after it was carried out.
    pub status: PodState,
    /// The pod's stage.
    pub stage: Stage,
    /// What the stage's gate came to.
    pub latest_gate_overall: Option<GateOverall>,
    /// Whether that is about the worktree as it is.
    pub gate_evidence_freshness: Option<Freshness>,
    /// Whether the worktree keeps to its scope.
    pub checkpoint_validity: Validity,
    /// All that holds.
    pub reasons: Vec<String>,
}

impl DecisionEntry {
    /// Whether it says the same, whenever and wherever it was made.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let plain = |entry: &Self| Self {
            phase: self.phase,
            iteration: self.iteration,
            at: self.at,
            ..entry.clone()
        };
        plain(self) == plain(other)
    }
}

/// A piece of decisions.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPart {
    /// A decision that this version reads, and its text.
    Decision(Box<DecisionEntry>, String),
    /// Whatever else stands there: an older entry, a person's words.
    Foreign(String),
}

/// The whole of decisions.md, which reads back as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionLog {
    /// Its pieces, from the top.
    pub parts: Vec<LogPart>,
}

impl DecisionLog {
    /// Reads a log. Nothing in it is an error.
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let (mut piece, mut json, mut fenced) = (String::new(), String::new(), false);
        for line in text.split_inclusive('\n') {
            piece.push_str(line);
            match (fenced, line.trim_end()) {
                (false, "```json") => {
                    fenced = true;
                    json.clear();
                }
                (true, "```") => {
                    fenced = false;
                    let piece = std::mem::take(&mut piece);
                    parts.push(match serde_json::from_str(&json) {
                        Ok(entry) => LogPart::Decision(Box::new(entry), piece),
                        Err(_) => LogPart::Foreign(piece),
                    });
                }
                (true, _) => json.push_str(line),
                (false, _) => {}
            }
        }
        if !piece.is_empty() {
            parts.push(LogPart::Foreign(piece));
        }
        Self { parts }
    }

    /// The decisions that this version reads, oldest first.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &DecisionEntry> {
        self.parts.iter().filter_map(|part| match part {
            LogPart::Decision(entry, _) => Some(&**entry),
            LogPart::Foreign(_) => None,
        })
    }

    /// The text, as it was read.
    pub fn text(&self) -> String {
        let text = |part: &LogPart| match part {
            LogPart::Decision(_, text) | LogPart::Foreign(text) => text.clone(),
        };
        self.parts.iter().map(text).collect()
    }

    /// A decision as it is appended: a heading for people, and an object for programs.
    pub fn render(entry: &DecisionEntry) -> String {
        let json = serde_json::to_string_pretty(entry).unwrap_or_default();
        format!(
            "## {}. {}: {}\n\n{}: {}; plan {}, pod {}{}\n\n```json\n{json}\n```\n\n",
            entry.iteration,
            entry.stage,
            entry.execution_disposition,
            entry.at,
            entry.phase,
            entry.plan_decision,
            entry.status,
            entry
                .reasons
                .iter()
                .map(|reason| format!(", {reason}"))
                .collect::<String>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(iteration: u32) -> DecisionEntry {
        DecisionEntry {
            phase: Phase::PostGateReconciliation,
            iteration,
            at: Timestamp::from_millis(0),
            plan_decision: PlanDecision::Unchanged,
            execution_disposition: Disposition::BlockedCheckpointInvalid,
            status: PodState::Parked,
            stage: Stage::Building,
            latest_gate_overall: Some(GateOverall::Fail),
            gate_evidence_freshness: Some(Freshness::Stale),
            checkpoint_validity: Validity::Invalid,
            reasons: vec![
                "checkpoint_outside_allowed_areas".into(),
                "fast_gate_evidence_stale".into(),
            ],
        }
    }

    #[test]
    fn a_log_reads_back_without_loss_and_tolerates_what_it_does_not_know() {
        let old = "# Decisions\n\n```json\n{\"phase\":\"post_qa_reconciliation\",\"decision\":\"no_update\"}\n```\n";
        let text = format!(
            "{old}\n{}A word of a person.\n{}```json\n{{\"cut",
            DecisionLog::render(&entry(1)),
            DecisionLog::render(&entry(2))
        );
        let log = DecisionLog::parse(&text);
        assert_eq!(log.text(), text);
        assert_eq!(log.decisions().cloned().collect::<Vec<_>>(), [entry(1), entry(2)]);
        assert_eq!(DecisionLog::parse("").parts, []);
    }

    #[test]
    fn when_and_why_a_decision_was_made_does_not_make_it_another() {
        let mut other = entry(7);
        other.phase = Phase::Retry;
        assert!(entry(1).says_the_same(&other));
        other.status = PodState::Idle;
        assert!(!entry(1).says_the_same(&other));
    }
}

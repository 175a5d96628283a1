//! Worktree checkpoints: what a worktree was at one moment, and whether it might be that.

use serde::{Deserialize, Serialize};

use super::{Classification, Validity, Violation};
use crate::outcome::words;
use crate::{FailReason, Timestamp, Verdict};

words! {
    /// What a look at a worktree found.
    ValidationStatus {
        /// It keeps to its scope.
        Valid = "valid",
        /// It does not.
        Invalid = "invalid",
        /// It is what it was at the look before, under the same pin and hooks: that verdict stays in force.
        Skipped = "skipped",
        /// It could not be read.
        Unknown = "unknown",
    }
}

/// A worktree at one moment, as it stands on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeCheckpoint {
    /// The same for the same content under the same pin and hooks.
    pub checkpoint_id: Option<String>,
    /// The content; null where it could not be read.
    pub diff_hash: Option<String>,
    /// HEAD.
    pub head_sha: Option<String>,
    /// What was found.
    pub validation_status: ValidationStatus,
    /// What it may not be.
    pub violations: Vec<Violation>,
    /// Whether the content differs from that of the look before; null where that is unknown.
    pub net_new_worktree_change: Option<bool>,
    /// When.
    pub at: Timestamp,
}

impl WorktreeCheckpoint {
    /// Compares with the look before.
    #[must_use]
    pub fn behind(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        self.net_new_worktree_change = match (&self.diff_hash, &before.diff_hash) {
            (Some(now), Some(then)) => Some(now != then),
            (None, _) | (_, None) => None,
        };
        if self.checkpoint_id.is_some() && self.checkpoint_id == before.checkpoint_id {
            self.validation_status = ValidationStatus::Skipped;
        }
        self
    }

    /// Whether it keeps to its scope, whoever found that out.
    pub fn validity(&self) -> Validity {
        match self.validation_status {
            ValidationStatus::Unknown => Validity::Unknown,
            ValidationStatus::Valid | ValidationStatus::Invalid | ValidationStatus::Skipped => {
                if self.violations.is_empty() {
                    Validity::Valid
                } else {
                    Validity::Invalid
                }
            }
        }
    }
}

/// worktree.json of a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeFile {
    /// The format's version.
    pub schema_version: u32,
    /// Before the agent started.
    pub before: WorktreeCheckpoint,
    /// When everything of it was gone.
    pub after: WorktreeCheckpoint,
}

/// What a wake-up of a gated pod came to, beside its outcome; `None` where that says nothing about the work.
pub fn classify(verdict: Verdict, after: &WorktreeCheckpoint, another_plan: bool) -> Option<Classification> {
    match verdict {
        Verdict::Lost(_) | Verdict::Cancelled => return None,
        Verdict::Failed(
            FailReason::RateLimited
            | FailReason::Overloaded
            | FailReason::AuthFailed
            | FailReason::QuotaExhausted
            | FailReason::AgentMissing
            | FailReason::NeedsInput
            | FailReason::BudgetExhausted,
        ) => return None,
        Verdict::Failed(FailReason::ProviderOutputInvalid | FailReason::HandoffMalformed) => {
            return Some(Classification::ProviderOutputInvalid);
        }
        Verdict::More | Verdict::Done | Verdict::Failed(_) => {}
    }
    match (after.validity(), after.net_new_worktree_change) {
        (Validity::Invalid, _) => Some(Classification::CheckpointInvalid),
        (_, Some(true)) => Some(Classification::ProgressApplied),
        (_, _) if another_plan => Some(Classification::ProgressApplied),
        (_, Some(false)) => Some(Classification::NoNewWork),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ViolationKind;
    use super::*;
    use crate::LostReason;

    fn checkpoint(content: Option<&str>, broken: bool) -> WorktreeCheckpoint {
        let violation = Violation {
            path: "x".into(),
            rule: "deny x".into(),
            reason: ViolationKind::OutsideAllowedAreas,
        };
        WorktreeCheckpoint {
            checkpoint_id: content.map(str::to_owned),
            diff_hash: content.map(str::to_owned),
            head_sha: None,
            validation_status: match (content, broken) {
                (None, _) => ValidationStatus::Unknown,
                (_, true) => ValidationStatus::Invalid,
                (_, false) => ValidationStatus::Valid,
            },
            violations: if broken { vec![violation] } else { Vec::new() },
            net_new_worktree_change: None,
            at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn the_same_content_keeps_the_verdict_of_the_look_before() {
        let (first, bad) = (checkpoint(Some("a"), false), checkpoint(Some("b"), true));
        let again = first.clone().behind(Some(&first));
        assert_eq!(again.validation_status, ValidationStatus::Skipped);
        assert_eq!(
            (again.net_new_worktree_change, again.validity()),
            (Some(false), Validity::Valid)
        );
        let worse = bad.clone().behind(Some(&first));
        assert_eq!(
            (worse.net_new_worktree_change, worse.validity()),
            (Some(true), Validity::Invalid)
        );
        assert_eq!(
            bad.clone().behind(Some(&bad)).validity(),
            Validity::Invalid,
            "skipped is not valid"
        );
        let unknown = checkpoint(None, false).behind(Some(&first));
        assert_eq!(
            (unknown.net_new_worktree_change, unknown.validity()),
            (None, Validity::Unknown)
        );
    }

    #[test]
    fn the_table_of_classes() {
        use Classification::{CheckpointInvalid, NoNewWork, ProgressApplied, ProviderOutputInvalid};
        let before = checkpoint(Some("a"), false);
        let same = checkpoint(Some("a"), false).behind(Some(&before));
        let moved = checkpoint(Some("b"), false).behind(Some(&before));
        let broken = checkpoint(Some("b"), true).behind(Some(&before));
        let unknown = checkpoint(None, false).behind(Some(&before));
        let failed = |reason| Verdict::Failed(reason);
        for (verdict, after, plan, class) in [
            (Verdict::More, &moved, false, Some(ProgressApplied)),
            (Verdict::Done, &same, false, Some(NoNewWork)),
            (Verdict::More, &same, true, Some(ProgressApplied)),
            (Verdict::More, &broken, false, Some(CheckpointInvalid)),
            (
                failed(FailReason::NoHandoff),
                &moved,
                false,
                Some(ProgressApplied),
            ),
            (
                failed(FailReason::HandoffMalformed),
                &broken,
                false,
                Some(ProviderOutputInvalid),
            ),
            (
                failed(FailReason::ProviderOutputInvalid),
                &moved,
                false,
                Some(ProviderOutputInvalid),
            ),
            (failed(FailReason::RateLimited), &moved, false, None),
            (failed(FailReason::AuthFailed), &broken, false, None),
            (Verdict::Lost(LostReason::WrapperDied), &moved, false, None),
            (Verdict::Cancelled, &moved, false, None),
            (Verdict::More, &unknown, false, None),
        ] {
            assert_eq!(classify(verdict, after, plan), class, "{verdict} {after:?}");
        }
    }
}

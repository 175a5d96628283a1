//! Work that a wake-up left uncommitted.

use serde::{Deserialize, Serialize};

use crate::{ExitRecord, ExitStatus, FailReason, PodId, Verdict};

/// Where the uncommitted work of a wake-up was kept, or why it could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum SavedWork {
    /// As a commit.
    Kept {
        /// The ref that keeps it.
        #[serde(rename = "ref")]
        name: String,
        /// The commit, whose parent is the HEAD of that moment.
        commit: String,
        /// Paths that differ and were left out, shown harmlessly: too large, or a repository of their own.
        #[serde(default, rename = "leftOut", skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<String>,
    },
    /// Nothing but these paths differed, and they are not kept.
    LeftOut {
        /// The paths, as above.
        #[serde(rename = "leftOut")]
        left_out: Vec<String>,
    },
    /// Not at all.
    Failed {
        /// Why.
        error: String,
    },
}

/// The ref below which the work of a pod's wake-ups is kept.
pub fn saved_refs(pod: &PodId) -> String {
    format!("refs/agents-pod/{pod}/")
}

/// The ref that keeps the work of one wake-up.
pub fn saved_ref(pod: &PodId, n: u32) -> String {
    format!("{}{n}", saved_refs(pod))
}

/// Whether a wake-up ended in a way that leaves unfinished edits behind: cancelled, lost, or killed by whomever. A
/// group that was ended because its agent had settled was not.
pub fn leaves_unsaved_work(verdict: Verdict, exit: Option<&ExitRecord>, settled: bool) -> bool {
    match verdict {
        Verdict::Cancelled | Verdict::Lost(_) => true,
        Verdict::Failed(
            FailReason::TimedOut
            | FailReason::Progressless
            | FailReason::Wedged
            | FailReason::BudgetExhausted
            | FailReason::OutputLimit
            | FailReason::OutOfMemory
            | FailReason::Terminated,
        ) => true,
        // Killed, and with more to say than that: a declaration, an error of its own.
        Verdict::More | Verdict::Done | Verdict::Failed(_) => {
            let killed =
                |exit: &ExitRecord| exit.sent_by.is_some() || matches!(exit.status, ExitStatus::Signal(_));
            !settled && exit.is_some_and(killed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KilledBy, LostReason};

    #[test]
    fn what_was_ended_from_outside_leaves_work_and_what_ended_by_itself_does_not() {
        let exit = |status, sent_by| ExitRecord {
            status,
            sent_by,
            killed_after_grace: false,
        };
        let code = exit(ExitStatus::Code(3), None);
        let told = exit(ExitStatus::Code(0), Some(KilledBy::Podd));
        let killed = exit(ExitStatus::Signal("SIGKILL".into()), None);
        for (verdict, exit, settled, leaves) in [
            (Verdict::Cancelled, None, false, true),
            (Verdict::Lost(LostReason::WrapperDied), None, false, true),
            (Verdict::Failed(FailReason::TimedOut), Some(&told), false, true),
            (
                Verdict::Failed(FailReason::Terminated),
                Some(&killed),
                false,
                true,
            ),
            (Verdict::Failed(FailReason::NoHandoff), Some(&code), false, false),
            (Verdict::Failed(FailReason::AgentMissing), None, false, false),
            (Verdict::More, Some(&told), false, true),
            (Verdict::More, Some(&killed), true, false),
            (Verdict::Done, Some(&code), false, false),
        ] {
            assert_eq!(
                leaves_unsaved_work(verdict, exit, settled),
                leaves,
                "{verdict} {exit:?} {settled}"
            );
        }
    }

    #[test]
    fn it_reads_back() {
        for text in [
            r#"{"ref":"refs/agents-pod/p/1","commit":"abc","leftOut":["big"]}"#,
            r#"{"ref":"refs/agents-pod/p/1","commit":"abc"}"#,
            r#"{"leftOut":["big"]}"#,
            r#"{"error":"git is not there"}"#,
        ] {
            let saved: SavedWork = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&saved).unwrap(), text);
        }
    }
}

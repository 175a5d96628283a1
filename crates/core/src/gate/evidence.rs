//! What a gate run leaves, and whether it still says anything.

use serde::{Deserialize, Serialize};

use super::{Freshness, GateMode, GateOverall, Validity};
use crate::Timestamp;

/// One step of a gate run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its name.
    pub name: String,
    /// How it ended, if by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Why it could not be started.
    pub error: Option<String>,
    /// How long it ran.
    pub duration_ms: u64,
    /// What it printed, below the pod's gates directory.
    pub log: String,
}

impl StepRecord {
    /// What the step says. 126 and 127 are the shell's words for a program that cannot be started: POSIX, 2.8.2.
    pub fn overall(&self) -> GateOverall {
        match self {
            Self { error: Some(_), .. } => GateOverall::Error,
            Self {
                exit_code: Some(126 | 127),
                timed_out: false,
                ..
            } => GateOverall::Error,
            Self {
                exit_code: Some(0),
                timed_out: false,
                ..
            } => GateOverall::Pass,
            Self { .. } => GateOverall::Fail,
        }
    }
}

/// The evidence of one gate run, as it stands on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateEvidence {
    /// The format's version.
    pub schema_version: u32,
    /// Which gate.
    pub mode: GateMode,
    /// What it came to.
    pub overall: GateOverall,
    /// Its steps, as far as they ran.
    pub steps: Vec<StepRecord>,
    /// The content before the first step; null where it could not be read.
    pub input_diff_hash: Option<String>,
    /// The content behind the last step.
    pub output_diff_hash: Option<String>,
    /// The worktree checkpoint of the content before the first step.
    pub input_checkpoint_id: Option<String>,
    /// Whether that content kept to its scope.
    pub input_worktree_validity: Validity,
    /// The hash of the steps.
    pub gate_definition_hash: String,
    /// HEAD before and behind.
    pub head_before: Option<String>,
    /// HEAD behind the last step.
    pub head_after: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// Whether evidence says anything about the content `diff_hash` (`None` where it cannot be read) under the steps
/// `definition_hash` of `mode`. Of another mode it is none.
pub fn freshness(
    evidence: Option<&GateEvidence>,
    mode: GateMode,
    diff_hash: Option<&str>,
    definition_hash: &str,
) -> Freshness {
    let Some(evidence) = evidence.filter(|evidence| evidence.mode == mode) else {
        return Freshness::Missing;
    };
    let Some(diff_hash) = diff_hash else {
        return Freshness::Unknown;
    };
    let judged = evidence.input_diff_hash.as_deref();
    let moved = judged.is_none() || evidence.output_diff_hash.as_deref() != judged;
    if moved || judged != Some(diff_hash) || evidence.gate_definition_hash != definition_hash {
        Freshness::Stale
    } else {
        Freshness::Current
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn evidence(mode: GateMode, overall: GateOverall, content: &str) -> GateEvidence {
        GateEvidence {
            schema_version: 1,
            mode,
            overall,
            steps: Vec::new(),
            input_diff_hash: Some(content.into()),
            output_diff_hash: Some(content.into()),
            input_checkpoint_id: None,
            input_worktree_validity: Validity::Valid,
            gate_definition_hash: "steps".into(),
            head_before: None,
            head_after: None,
            started_at: Timestamp::from_millis(0),
            finished_at: Timestamp::from_millis(1),
        }
    }

    #[test]
    fn evidence_is_about_one_content_one_mode_and_one_definition() {
        use Freshness::{Current, Missing, Stale, Unknown};
        let fast = evidence(GateMode::Fast, GateOverall::Pass, "a");
        let of = |mode, content, steps| freshness(Some(&fast), mode, content, steps);
        assert_eq!(of(GateMode::Fast, Some("a"), "steps"), Current);
        assert_eq!(of(GateMode::Fast, Some("b"), "steps"), Stale);
        assert_eq!(of(GateMode::Fast, Some("a"), "other steps"), Stale);
        assert_eq!(of(GateMode::Fast, None, "steps"), Unknown);
        assert_eq!(of(GateMode::Full, Some("a"), "steps"), Missing);
        assert_eq!(freshness(None, GateMode::Fast, None, "steps"), Missing);
        for (input, output) in [
            (Some("a"), Some("b")),
            (Some("b"), Some("a")),
            (None, None),
            (Some("a"), None),
        ] {
            let moved = GateEvidence {
                input_diff_hash: input.map(str::to_owned),
                output_diff_hash: output.map(str::to_owned),
                ..fast.clone()
            };
            assert_eq!(
                freshness(Some(&moved), GateMode::Fast, Some("a"), "steps"),
                Stale,
                "{input:?} {output:?}"
            );
        }
    }

    #[test]
    fn a_step_that_cannot_be_started_judges_nothing() {
        let step = |exit_code, signal: Option<&str>, timed_out, error: Option<&str>| {
            let step = StepRecord {
                name: "check".into(),
                exit_code,
                signal: signal.map(str::to_owned),
                timed_out,
                error: error.map(str::to_owned),
                duration_ms: 1,
                log: String::new(),
            };
            step.overall()
        };
        assert_eq!(step(Some(0), None, false, None), GateOverall::Pass);
        assert_eq!(step(Some(1), None, false, None), GateOverall::Fail);
        assert_eq!(step(None, Some("SIGSEGV"), false, None), GateOverall::Fail);
        assert_eq!(step(Some(0), None, true, None), GateOverall::Fail);
        assert_eq!(step(Some(127), None, true, None), GateOverall::Fail);
        for code in [126, 127] {
            assert_eq!(step(Some(code), None, false, None), GateOverall::Error);
        }
        assert_eq!(step(None, None, false, Some("no shell")), GateOverall::Error);
    }
}

//! Gates: what has to agree before an agent's `done` is believed.
//!
//! A gate's verdict is bound to the content that it judged. What follows from verdicts, their freshness and the
//! state of the worktree is decided in `reconcile`, which looks at nothing.

mod checkpoint;
mod decision;
mod evidence;
mod reconcile;
mod scope;
mod state;

pub use checkpoint::{ValidationStatus, WorktreeCheckpoint, WorktreeFile, classify};
pub use decision::{DecisionEntry, DecisionLog, LogPart, Phase};
pub use evidence::{GateEvidence, StepRecord, freshness};
pub use reconcile::{Decision, Disposition, ModeView, Next, PlanDecision, Situation, reconcile};

pub use scope::{GateDefinitions, PatternError, Scope, ScopeDefinition, StepDefinition};

pub use state::{GateRun, GateState, ReconciledTo};

use serde::{Deserialize, Serialize};

use crate::outcome::words;

words! {
    /// Which gate.
    GateMode {
        /// The quick one, behind every piece of building.
        Fast = "fast",
        /// The thorough one.
        Full = "full",
        /// The one in front of a merge.
        Merge = "merge",
    }
}

words! {
    /// How far a gated pod has come.
    Stage {
        /// Its content is made.
        Building = "building",
        /// Its content is examined.
        Qa = "qa",
        /// It waits for the last gate.
        ReadyToMerge = "ready_to_merge",
    }
}

impl Stage {
    /// The gate at the end of the stage.
    pub fn mode(self) -> GateMode {
        match self {
            Self::Building => GateMode::Fast,
            Self::Qa => GateMode::Full,
            Self::ReadyToMerge => GateMode::Merge,
        }
    }

    /// The stage behind it.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Building => Some(Self::Qa),
            Self::Qa => Some(Self::ReadyToMerge),
            Self::ReadyToMerge => None,
        }
    }
}

words! {
    /// What a gate came to.
    GateOverall {
        /// Every step passed.
        Pass = "pass",
        /// A step said no, died or took too long.
        Fail = "fail",
        /// A step could not be started: nothing was judged.
        Error = "error",
    }
}

words! {
    /// Whether evidence says anything about the worktree as it is.
    Freshness {
        /// It judged this content by these steps.
        Current = "current",
        /// It judged another content, or by other steps, or the content moved meanwhile.
        Stale = "stale",
        /// There is none.
        Missing = "missing",
        /// The worktree could not be read.
        Unknown = "unknown",
    }
}

words! {
    /// Whether a worktree keeps to its scope.
    Validity {
        /// It does.
        Valid = "valid",
        /// It does not.
        Invalid = "invalid",
        /// It could not be read.
        Unknown = "unknown",
    }
}

words! {
    /// What a wake-up of a gated pod came to, beside its outcome.
    Classification {
        /// Its output made no sense.
        ProviderOutputInvalid = "provider_output_invalid",
        /// The worktree is not what it may be.
        CheckpointInvalid = "checkpoint_invalid",
        /// It changed something.
        ProgressApplied = "progress_applied",
        /// It changed nothing.
        NoNewWork = "no_new_work",
    }
}

words! {
    /// What a worktree may not be.
    ViolationKind {
        /// A path changed that the scope does not allow.
        OutsideAllowedAreas = "checkpoint_outside_allowed_areas",
        /// `agents-pod.toml` is not what was pinned.
        GateDefinitionChanged = "gate_definition_changed",
        /// Hooks of the repository, or where they lie, changed.
        GitHooksChanged = "git_hooks_changed",
    }
}

/// One thing that a worktree may not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The path, bytes that are no UTF-8 shown `\xNN`.
    pub path: String,
    /// The rule that it breaks, in words.
    pub rule: String,
    /// The class of the rule.
    pub reason: ViolationKind,
}

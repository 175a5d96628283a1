//! The closed sets: outcomes, reasons, causes and codes, with the words that files use for them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every member, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that files, logs and the command line use.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|one| one.word() == word);
                found.ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|one| one.word()).collect();
                    format!("`{}` is none of {}", crate::quoted(word, 40), known.join(", "))
                })
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What happened in a wake-up.
    Outcome {
        /// It declared that more is to be done.
        More = "more",
        /// It declared that the goal is reached.
        Done = "done",
        /// It ended without a declaration that counts.
        Failed = "failed",
        /// Its wrapper did not live to judge it, or was told to end by a stranger.
        Lost = "lost",
        /// A person cancelled it.
        Cancelled = "cancelled",
    }
}

words! {
    /// Why a wake-up failed.
    FailReason {
        /// It ran longer than `wakeTimeout`.
        TimedOut = "timedOut",
        /// It did nothing for `stallTimeout`.
        Progressless = "progressless",
        /// Its wrapper stopped answering.
        Wedged = "wedged",
        /// Tokens or money ran out while it ran.
        BudgetExhausted = "budgetExhausted",
        /// It wrote more than `outputLimit`.
        OutputLimit = "outputLimit",
        /// No definition has the agent's name.
        AgentUnresolved = "agentUnresolved",
        /// The definition's type is none that we know.
        AgentTypeRefused = "agentTypeRefused",
        /// The agent's program is not there or cannot be executed.
        AgentMissing = "agentMissing",
        /// The agent could not be started for another cause.
        SpawnFailed = "spawnFailed",
        /// HANDOFF.md was written, but its head says nothing that we know.
        HandoffMalformed = "handoffMalformed",
        /// The key or the login was refused.
        AuthFailed = "authFailed",
        /// A limit that ends by itself.
        RateLimited = "rateLimited",
        /// Money or credit that does not come back by itself.
        QuotaExhausted = "quotaExhausted",
        /// The provider had no room.
        Overloaded = "overloaded",
        /// The prompt or the context is too long.
        ContextExhausted = "contextExhausted",
        /// Any other error that the CLI reported as its last word.
        AgentError = "agentError",
        /// It asked a question that nobody can answer.
        NeedsInput = "needsInput",
        /// The kernel killed it for want of memory.
        OutOfMemory = "outOfMemory",
        /// It died by a signal that is not ours.
        Terminated = "terminated",
        /// It printed nothing and exited 0.
        NoEvents = "noEvents",
        /// It printed lines, none of which is a record of its CLI.
        ProviderOutputInvalid = "providerOutputInvalid",
        /// Its CLI's terminal event is missing.
        Incomplete = "incomplete",
        /// The last answer was cut by a limit.
        Truncated = "truncated",
        /// It ended well and declared nothing.
        NoHandoff = "noHandoff",
    }
}

words! {
    /// Why a wake-up is lost.
    LostReason {
        /// The wrapper is gone and left no verdict.
        WrapperDied = "wrapperDied",
        /// The machine was restarted.
        Rebooted = "rebooted",
        /// Somebody who is not podctl told the wrapper to end.
        Interrupted = "interrupted",
    }
}

words! {
    /// What we intend before we kill.
    KillCause {
        /// `wakeTimeout` is over.
        TimedOut = "timedOut",
        /// Nothing moved for `stallTimeout`.
        Progressless = "progressless",
        /// The wrapper's heartbeat stopped.
        Wedged = "wedged",
        /// Tokens or money ran out.
        BudgetExhausted = "budgetExhausted",
        /// `outputLimit` is reached.
        OutputLimit = "outputLimit",
    }
}

impl From<KillCause> for FailReason {
    fn from(cause: KillCause) -> Self {
        match cause {
            KillCause::TimedOut => Self::TimedOut,
            KillCause::Progressless => Self::Progressless,
            KillCause::Wedged => Self::Wedged,
            KillCause::BudgetExhausted => Self::BudgetExhausted,
            KillCause::OutputLimit => Self::OutputLimit,
        }
    }
}

words! {
    /// Why a pod is parked.
    ParkCode {
        /// A person parked it.
        Operator = "operator",
        /// `maxFailures` failed or lost wake-ups in a row.
        FailureStreak = "failureStreak",
        /// Wake-ups, tokens or money ran out.
        BudgetExhausted = "budgetExhausted",
        /// Wake-ups went by and nothing changed.
        Progressless = "progressless",
        /// The project directory is gone.
        ProjectGone = "projectGone",
        /// A wake-up was lost, and the policy says to stop then.
        Lost = "lost",
        /// The account's key or login was refused.
        AuthFailed = "authFailed",
        /// The account's money or credit is used up.
        QuotaExhausted = "quotaExhausted",
        /// The agent's program is not there.
        AgentMissing = "agentMissing",
        /// The agent waits for an answer.
        NeedsInput = "needsInput",
        /// The worktree breaks the rules of its gates' definition.
        CheckpointInvalid = "checkpointInvalid",
        /// The agent's output made no sense too often.
        ProviderFailure = "providerFailure",
        /// Nothing is known of the worktree as it is, and asking again does not help.
        StaleEvidence = "staleEvidence",
        /// A gate failed, and repairs did not help.
        GateFailed = "gateFailed",
        /// A step of a gate could not be started.
        GateError = "gateError",
        /// Wake-ups changed nothing.
        NoNewWork = "noNewWork",
    }
}

impl ParkCode {
    /// Whether gates parked the pod: a resume is then the operator's word that the work is done.
    pub fn is_of_gates(self) -> bool {
        matches!(
            self,
            Self::CheckpointInvalid
                | Self::ProviderFailure
                | Self::StaleEvidence
                | Self::GateFailed
                | Self::GateError
                | Self::NoNewWork
        )
    }
}

#[derive(Serialize, Deserialize)]
struct VerdictWords {
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl TryFrom<VerdictWords> for Verdict {
    type Error = String;

    fn try_from(words: VerdictWords) -> Result<Self, String> {
        Self::from_words(words.outcome, words.reason.as_deref())
    }
}

impl From<Verdict> for VerdictWords {
    fn from(verdict: Verdict) -> Self {
        Self {
            outcome: verdict.outcome(),
            reason: verdict.reason().map(str::to_owned),
        }
    }
}

/// An outcome together with the reason that belongs to it, and to it alone.
///
/// In files it is two keys, `outcome` and `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "VerdictWords", into = "VerdictWords")]
pub enum Verdict {
    /// More is to be done.
    More,
    /// The goal is reached.
    Done,
    /// It failed, and why.
    Failed(FailReason),
    /// It is lost, and why.
    Lost(LostReason),
    /// A person cancelled it.
    Cancelled,
}

impl Verdict {
    /// The outcome without its reason.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::More => Outcome::More,
            Self::Done => Outcome::Done,
            Self::Failed(_) => Outcome::Failed,
            Self::Lost(_) => Outcome::Lost,
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The reason's word, where there is one.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Failed(reason) => Some(reason.word()),
            Self::Lost(reason) => Some(reason.word()),
            Self::More | Self::Done | Self::Cancelled => None,
        }
    }

    /// Whether it waits for a limit and is held against nobody: no failure, no wake-up of the budget.
    pub fn is_held(self) -> bool {
        matches!(
            self,
            Self::Failed(FailReason::RateLimited | FailReason::Overloaded)
        )
    }

    /// Puts an outcome and a reason's word together, if they belong together.
    pub fn from_words(outcome: Outcome, reason: Option<&str>) -> Result<Self, String> {
        match (outcome, reason) {
            (Outcome::More, None) => Ok(Self::More),
            (Outcome::Done, None) => Ok(Self::Done),
            (Outcome::Cancelled, _) => Ok(Self::Cancelled),
            (Outcome::Failed, Some(word)) => word.parse().map(Self::Failed),
            (Outcome::Lost, Some(word)) => word.parse().map(Self::Lost),
            (outcome, reason) => Err(format!("outcome `{outcome}` with reason {reason:?}")),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "{}/{reason}", self.outcome()),
            None => write!(f, "{}", self.outcome()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_belong_to_one_outcome() {
        for reason in FailReason::ALL {
            let verdict = Verdict::Failed(*reason);
            assert_eq!(
                Verdict::from_words(verdict.outcome(), verdict.reason()),
                Ok(verdict)
            );
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
        }
        assert!(Verdict::from_words(Outcome::Done, Some("noHandoff")).is_err());
        assert!(Verdict::from_words(Outcome::Lost, Some("noHandoff")).is_err());
        assert!(Verdict::from_words(Outcome::Failed, None).is_err());
        assert_eq!(
            Verdict::Failed(FailReason::NoHandoff).to_string(),
            "failed/noHandoff"
        );
    }
}

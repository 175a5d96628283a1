//! The facts about one wake-up, without opinions.

use serde::{Deserialize, Serialize};

use crate::outcome::words;
use crate::{Declaration, KillCause, LimitSource, Timestamp, Usage};

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExitStatus {
    /// With an exit code.
    Code(i32),
    /// By a signal, named as in signal(7).
    Signal(String),
}

words! {
    /// Which of us ended an agent.
    KilledBy {
        /// A person, by `podctl cancel`.
        Operator = "operator",
        /// podd.
        Podd = "podd",
        /// The wrapper itself.
        Wrapper = "wrapper",
    }
}

/// Layer 3: what the operating system says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitFacts {
    /// Code or signal; absent where the agent's end was not seen.
    pub status: Option<ExitStatus>,
    /// Who of us ended it.
    pub sent_by: Option<KilledBy>,
    /// Whether it took SIGKILL after the grace.
    pub killed_after_grace: bool,
    /// Whether the oom_kill count of its own cgroup rose; `None` where it had none.
    pub oom_killed: Option<bool>,
    /// How often the kernel killed for memory meanwhile on the whole machine: /proc/vmstat, oom_kill.
    pub oom_kills_on_machine: Option<u64>,
}

words! {
    /// The class of a CLI's final error.
    ErrorClass {
        /// Key or login refused.
        Auth = "auth",
        /// A limit that ends by itself.
        RateLimit = "rateLimit",
        /// Money or credit.
        Quota = "quota",
        /// The provider has no room.
        Overloaded = "overloaded",
        /// Prompt or context too long.
        Context = "context",
        /// Any other.
        Other = "other",
    }
}

/// An error that was the CLI's last word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalError {
    /// Its class.
    pub class: ErrorClass,
    /// The CLI's own words, cut.
    pub message: String,
    /// The row of the adapter's error catalogue that matched.
    pub rule: String,
    /// When its limit ends, and how that is known. Never `Default` here.
    pub resets: Option<(Timestamp, LimitSource)>,
}

words! {
    /// Why the last answer stopped.
    Stop {
        /// It was finished.
        Stop = "stop",
        /// A tool was called.
        ToolUse = "toolUse",
        /// A limit of tokens or turns cut it.
        Length = "length",
        /// An error.
        Error = "error",
        /// It was aborted.
        Aborted = "aborted",
    }
}

words! {
    /// How far the CLI came in its own vocabulary.
    Terminal {
        /// Its terminal event was seen.
        Settled = "settled",
        /// It has one, and it was not seen.
        Missing = "missing",
        /// Nothing can be expected: plain text.
        NotSpoken = "notSpoken",
    }
}

/// Layer 2: what the adapter saw. Only records that the CLI itself authored count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventFacts {
    /// Lines that are not blank.
    pub lines: u64,
    /// Lines that are records of the CLI.
    pub records: u64,
    /// Lines that are no records.
    pub noise: u64,
    /// Whether lines that are no records are this agent's ordinary output.
    pub plain_text: bool,
    /// Whether the terminal event was seen.
    pub terminal: Terminal,
    /// What the terminal event said of an abort.
    pub aborted: Option<bool>,
    /// Why the last answer stopped.
    pub stop: Option<Stop>,
    /// Whether the last tool call was the handoff itself.
    pub handed_off_by_tool: bool,
    /// The CLI's final error.
    pub error: Option<FinalError>,
    /// The question that it asked, where it could go no further.
    pub question: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// The session's id, where the CLI names one.
    pub session_id: Option<String>,
}

impl Default for EventFacts {
    fn default() -> Self {
        Self {
            lines: 0,
            records: 0,
            noise: 0,
            plain_text: false,
            terminal: Terminal::Missing,
            aborted: None,
            stop: None,
            handed_off_by_tool: false,
            error: None,
            question: None,
            usage: None,
            session_id: None,
        }
    }
}

/// Why the agent never ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "detail")]
pub enum StartFailure {
    /// No definition has the name.
    Unresolved(String),
    /// The definition's type is unknown.
    TypeRefused(String),
    /// No such program, or it cannot be executed.
    Missing(String),
    /// Any other error of the start.
    Spawn(String),
}

/// All that is known about a wake-up whose wrapper lived to judge it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Layer 1.
    pub declaration: Declaration,
    /// Layer 2.
    pub events: EventFacts,
    /// Layer 3; absent where the agent never ran.
    pub exit: Option<ExitFacts>,
    /// Why it never ran.
    pub start_failure: Option<StartFailure>,
    /// A kill that was intended for this wake-up.
    pub intent: Option<KillCause>,
    /// Whether a person cancelled.
    pub cancelled: bool,
    /// Whether the wrapper was told to end by somebody who is not podctl or podd.
    pub interrupted: bool,
    /// The last of stderr, for an error that has no event.
    pub stderr_tail: String,
}

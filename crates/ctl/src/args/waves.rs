//! The arguments of `podctl checkpoint` and `podctl wave`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pod_core::{SubId, Timestamp, WaveId};

use super::Format;

#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    /// The wave
    #[arg(
        value_name = "WAVE",
        required_unless_present = "save",
        allow_hyphen_values = true
    )]
    pub(crate) wave: Option<WaveId>,
    /// The subagent
    #[arg(
        value_name = "SUB",
        required_unless_present = "save",
        allow_hyphen_values = true
    )]
    pub(crate) sub: Option<SubId>,
    /// What it knows, as a JSON object; `-` reads it from stdin
    #[arg(
        value_name = "JSON",
        required_unless_present = "save",
        allow_hyphen_values = true
    )]
    pub(crate) payload: Option<String>,
    /// Keep a text for this wake-up instead; `-` reads it from stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wave", "sub", "payload"])]
    pub(crate) save: Option<PathBuf>,
}

/// One subagent of one wave.
#[derive(Debug, Args)]
pub(crate) struct OneSub {
    /// The wave
    #[arg(value_name = "WAVE", allow_hyphen_values = true)]
    pub(crate) wave: WaveId,
    /// The subagent
    #[arg(value_name = "SUB", allow_hyphen_values = true)]
    pub(crate) sub: SubId,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WaveCommand {
    /// Note that a subagent is sent to work
    Dispatch {
        #[command(flatten)]
        one: OneSub,
        /// The branch that its commits have to be on
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
    },
    /// Show where each subagent stands
    ///
    /// complete: its work was taken. blocked: its last checkpoint names blockers. running: it gave a sign within 90
    /// seconds, which proves nothing. orphaned: it has been silent for longer.
    Status {
        /// The wave
        #[arg(value_name = "WAVE", allow_hyphen_values = true)]
        wave: WaveId,
        #[command(flatten)]
        format: Format,
    },
    /// List subagents with a checkpoint whose work nobody took
    Orphans {
        /// The wave
        #[arg(value_name = "WAVE", allow_hyphen_values = true)]
        wave: WaveId,
        /// Look in this worktree as well; may be given again
        #[arg(long = "root", value_name = "DIR")]
        roots: Vec<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
    /// Note that a subagent's work was taken
    Complete {
        #[command(flatten)]
        one: OneSub,
    },
    /// Print what a subagent that was cut off has to be told
    Brief {
        #[command(flatten)]
        one: OneSub,
        #[command(flatten)]
        format: Format,
    },
    /// Save the checkpoints of a worktree before it is removed
    ///
    /// May be run again at any time. A checkpoint that is newer here is never replaced.
    Drain {
        /// The wave
        #[arg(value_name = "WAVE", allow_hyphen_values = true)]
        wave: WaveId,
        /// The worktree
        #[arg(value_name = "WORKTREE")]
        worktree: PathBuf,
        #[command(flatten)]
        format: Format,
    },
    /// Judge a subagent's report
    ///
    /// Exits 0 if its work is done and committed, else 3.
    Judge(Judge),
}

#[derive(Debug, Args)]
pub(crate) struct Judge {
    #[command(flatten)]
    pub(crate) one: OneSub,
    /// The report; `-` reads it from stdin
    #[arg(value_name = "REPORT-FILE")]
    pub(crate) report: PathBuf,
    /// When it was dispatched, in RFC 3339, if that was not noted
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Timestamp>,
    /// The branch that its commit has to be on
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,
    #[command(flatten)]
    pub(crate) format: Format,
}

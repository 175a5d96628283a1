//! The arguments of `podctl gate`, `retry` and `decisions`.

use clap::{Args, Subcommand};
use pod_core::{GateMode, PodId};

use super::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Run a gate against the worktree as it is
    ///
    /// Exits 0 if it passes, else 3. It runs parked or not, with or without podd, but not beside a wake-up or another gate of the pod.
    Run {
        /// The pod
        #[arg(value_name = "ID")]
        id: PodId,
        /// fast, full or merge; the stage's if not given
        #[arg(value_name = "MODE")]
        mode: Option<GateMode>,
        #[command(flatten)]
        format: Format,
    },
    /// Show what each gate came to, and what that is worth now
    Status {
        /// The pod
        #[arg(value_name = "ID")]
        id: PodId,
        #[command(flatten)]
        format: Format,
    },
    /// Show the steps of a gate's last run and what they printed
    Show {
        /// The pod
        #[arg(value_name = "ID")]
        id: PodId,
        /// fast, full or merge
        #[arg(value_name = "MODE")]
        mode: GateMode,
        #[command(flatten)]
        format: Format,
    },
    /// Pin agents-pod.toml, hooks and base anew, as they are now
    Reload {
        /// The pod
        #[arg(value_name = "ID")]
        id: PodId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    /// fast, full or merge; the stage's if not given
    #[arg(long, value_name = "MODE")]
    pub(crate) gate: Option<GateMode>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Decisions {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    #[command(flatten)]
    pub(crate) format: Format,
}

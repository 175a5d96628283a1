//! What podd sees at one moment.

use std::time::Duration;

use crate::{AccountName, PodRecord, PoddLimits, Policy};

/// Whether a process lives. `Unknown` is not `Dead`: the check failed, and nobody may start a second wake-up
/// on the strength of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// It lives.
    Alive,
    /// It is gone; with the boot that it lived in, if `rebooted`.
    Dead {
        /// Whether the machine was restarted since.
        rebooted: bool,
    },
    /// It cannot be told, and why.
    Unknown(String),
}

/// How a live wrapper gets on, by podd's own monotonic observation. Zero where podd has not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulse {
    /// How long podd has watched it.
    pub watched: Duration,
    /// How long the heartbeat has not moved.
    pub silent: Duration,
    /// How long nothing has moved: no event, no document, next to no CPU, and the worktree stood still too.
    pub stalled: Duration,
}

/// What stands behind a record's `state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrapperView {
    /// No wake-up is claimed, and none is on its way.
    Absent,
    /// podd has started a wrapper that has not claimed yet.
    Starting,
    /// The wrapper lives.
    Alive(Pulse),
    /// A wake-up is claimed and its wrapper is gone.
    Dead {
        /// Whether the machine was restarted since.
        rebooted: bool,
    },
    /// A wake-up is claimed, and it cannot be told whether its wrapper lives.
    Unknown(String),
}

/// Whether the project directory is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectView {
    /// It is.
    There,
    /// It is not.
    Gone,
    /// It cannot be told, and why.
    Unknown(String),
}

/// One pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// Its record.
    pub record: PodRecord,
    /// The policy that holds for it.
    pub policy: Policy,
    /// Whose limits it shares.
    pub account: AccountName,
    /// Its wrapper.
    pub wrapper: WrapperView,
    /// Its project.
    pub project: ProjectView,
    /// Pids of its last wake-up that resisted SIGKILL and still live.
    pub survivors: Vec<i32>,
    /// Why its project's disk has no room; `None` where it has, or where that is not known.
    pub disk_full: Option<String>,
}

/// What the machine has left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    /// Why nothing may be started at all; `None` where something may.
    pub refused: Option<String>,
    /// How many more may be started in this second.
    pub starts_left: u32,
}

/// Everything a plan is made of, but the time.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The pods.
    pub pods: Vec<PodView>,
    /// podd's own limits.
    pub limits: PoddLimits,
    /// What the machine has left.
    pub room: Room,
}

//! What stands between a record and reality: observing the world, and settling a wake-up whose wrapper is
//! dead.
//!
//! podd, pod-wrapper and podctl all meet dead wrappers, and all settle them by the one procedure here.

mod aftermath;
mod files;
mod gating;
mod observe;
mod retention;
mod settle;
mod watch;
mod worktree;

pub use aftermath::{
    KeptWork, Seen, ensure_checkpoint, keep_work, latest_checkpoint, look, save_own_checkpoint,
    write_checkpoint,
};
pub use files::{PodFiles, footer, header, now};
pub use gating::{GateReport, Outcome, ReconcileError, Reconciled, reconcile_pod};
pub use observe::{Accounts, Observation, Observer, living_survivors};
pub use retention::{ForgetError, forget_old, forget_saved_work};
pub use settle::{
    SettleError, Settled, WakeLock, identity_of, kill_wedged, liveness_of, settle_dead, take_wake_lock,
};
pub use worktree::{
    GATES_FILE_LIMIT, Pinned, WorktreeLook, gate_evidence, hashed_evidence, look_at_worktree, worktree_before,
};

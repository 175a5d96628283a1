//! What stands between a record and reality: observing the world, and settling a wake-up whose wrapper is
//! dead.
//!
//! podd, pod-wrapper and podctl all meet dead wrappers, and all settle them by the one procedure here.

mod files;
mod observe;
mod settle;
mod watch;

pub use files::{PodFiles, footer, header, now};
pub use observe::{Accounts, Observation, Observer, living_survivors};
pub use settle::{
    SettleError, Settled, WakeLock, identity_of, kill_wedged, liveness_of, settle_dead, take_wake_lock,
};

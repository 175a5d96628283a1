//! Where a subagent stands, as far as files tell.

use std::time::Duration;

use crate::Timestamp;
use crate::outcome::words;

/// A subagent whose last sign is younger than that is taken to be at work.
pub const RUNNING_FOR: Duration = Duration::from_secs(90);

words! {
    /// Where a subagent stands.
    SubState {
        /// Somebody took its work.
        Complete = "complete",
        /// Its last checkpoint says what it waits for.
        Blocked = "blocked",
        /// It gave a sign a moment ago. Nothing proves that it lives.
        Running = "running",
        /// It has been silent for long and nobody took its work.
        Orphaned = "orphaned",
    }
}

/// What is known of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubView {
    /// Whether it is among the wave's completions.
    pub complete: bool,
    /// When it was dispatched, if that was noted.
    pub dispatched_at: Option<Timestamp>,
    /// When it wrote its last checkpoint, and whether that names blockers.
    pub checkpoint: Option<(Timestamp, bool)>,
}

/// Where a subagent stands at `now`. A dispatch behind its last checkpoint begins anew.
pub fn sub_state(view: SubView, now: Timestamp) -> SubState {
    let dispatched = view.dispatched_at;
    let young = |at: Timestamp| now.since(at) < RUNNING_FOR;
    match view.checkpoint {
        _ if view.complete => SubState::Complete,
        Some((at, _)) if dispatched.is_some_and(|dispatched| dispatched > at && young(dispatched)) => {
            SubState::Running
        }
        Some((_, true)) => SubState::Blocked,
        Some((at, false)) if young(at) => SubState::Running,
        None if dispatched.is_some_and(young) => SubState::Running,
        Some(_) | None => SubState::Orphaned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_states() {
        use SubState::{Blocked, Complete, Orphaned, Running};
        let at = |secs: i64| Timestamp::from_millis(secs * 1000);
        let now = at(1000);
        for (complete, dispatched, checkpoint, state) in [
            (true, None, Some((990, true)), Complete),
            (true, None, None, Complete),
            (false, None, Some((990, false)), Running),
            (false, None, Some((911, false)), Running),
            (false, None, Some((910, false)), Orphaned),
            (false, None, Some((1, true)), Blocked),
            (false, Some(995), Some((1, true)), Running),
            (false, Some(995), Some((996, true)), Blocked),
            (false, Some(10), Some((1, true)), Blocked),
            (false, Some(995), Some((1, false)), Running),
            (false, Some(911), None, Running),
            (false, Some(910), None, Orphaned),
        ] {
            let view = SubView {
                complete,
                dispatched_at: dispatched.map(at),
                checkpoint: checkpoint.map(|(secs, blocked)| (at(secs), blocked)),
            };
            assert_eq!(sub_state(view, now), state, "{view:?}");
        }
    }
}

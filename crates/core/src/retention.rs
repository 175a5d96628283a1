//! Which wake-ups are forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{PodRecord, Policy, Timestamp, Verdict};

/// So many of the newest are never forgotten.
const NEVER: usize = 3;

/// A wake-up that something is kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// Its number.
    pub n: u32,
    /// When it ended, or the last time that anything of it changed; `None` where that is unknown.
    pub at: Option<Timestamp>,
}

/// The wake-ups that may be forgotten at `now`, in order: beyond `keepWakeUps`, or older than `keepFor`.
///
/// Never one of the newest three, never one in `in_use`. An unknown age is no age.
pub fn forgettable(mut kept: Vec<Kept>, policy: &Policy, in_use: &BTreeSet<u32>, now: Timestamp) -> Vec<u32> {
    kept.sort_by_key(|one| std::cmp::Reverse(one.n));
    let most = usize::try_from(policy.keep_wake_ups).unwrap_or(usize::MAX);
    let old = |one: &Kept| one.at.is_some_and(|at| now.since(at) > policy.keep_for.0);
    let mut numbers: Vec<u32> = kept
        .iter()
        .enumerate()
        .skip(NEVER)
        .filter(|(rank, one)| *rank >= most || old(one))
        .map(|(_, one)| one.n)
        .filter(|n| !in_use.contains(n))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The wake-ups of a pod that something still needs: the one that runs, and those whose messages are given again
/// until a wake-up declares something.
pub fn in_use(record: &PodRecord, has_messages: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let unanswered = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| !matches!(entry.verdict, Verdict::More | Verdict::Done));
    let mut numbers: BTreeSet<u32> = unanswered
        .map(|entry| entry.n)
        .filter(|n| has_messages(*n))
        .collect();
    numbers.extend(record.wake().map(|current| current.n));
    numbers
}

/// How long to wait until a look by age makes sense again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyOverrides;
    use crate::lifecycle::tests::with_outcomes;

    fn policy(keep: &str, keep_for: &str) -> Policy {
        let mut layer = PolicyOverrides::default();
        layer.set("keepWakeUps", keep).unwrap();
        layer.set("keepFor", keep_for).unwrap();
        Policy::of_layers(&[&layer])
    }

    #[test]
    fn what_is_too_many_or_too_old_goes_and_the_last_three_stay() {
        let at = |secs: i64| Some(Timestamp::from_millis(secs * 1000));
        let kept: Vec<Kept> = (1..=10)
            .map(|n| Kept {
                n,
                at: at(i64::from(n) * 10),
            })
            .collect();
        let none = BTreeSet::new();
        let of = |policy: &Policy, secs: i64, in_use: &BTreeSet<u32>| {
            forgettable(kept.clone(), policy, in_use, at(secs).unwrap())
        };
        assert_eq!(of(&policy("100", "1h"), 100, &none), [0_u32; 0]);
        assert_eq!(of(&policy("6", "1h"), 100, &none), [1, 2, 3, 4]);
        assert_eq!(of(&policy("1", "1h"), 100, &none), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(&policy("100", "30s"), 75, &none), [1, 2, 3, 4]);
        assert_eq!(of(&policy("100", "30s"), 100_000, &none), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(&policy("6", "1h"), 100, &BTreeSet::from([2, 3])), [1, 4]);
        let unknown: Vec<Kept> = (1..=5).map(|n| Kept { n, at: None }).collect();
        let late = at(1_000_000).unwrap();
        assert_eq!(
            forgettable(unknown, &policy("100", "30s"), &none, late),
            [0_u32; 0]
        );
    }

    #[test]
    fn unanswered_messages_are_in_use() {
        use crate::FailReason::NoHandoff;
        let record = with_outcomes(&[
            Verdict::Failed(NoHandoff),
            Verdict::More,
            Verdict::Failed(NoHandoff),
        ]);
        let numbers: Vec<u32> = record.wake_ups.iter().map(|entry| entry.n).collect();
        assert_eq!(in_use(&record, |_| true), BTreeSet::from([numbers[2]]));
        assert_eq!(in_use(&record, |_| false), BTreeSet::new());
    }
}

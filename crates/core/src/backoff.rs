//! How long a pod rests after failures.

use std::time::Duration;

use crate::{PodId, Policy};

/// How long the pod rests after `streak` failures in a row.
///
/// `backoffFirst` after the first, multiplied by `backoffFactor` for each further one, never above
/// `backoffCap`. Jitter is apart, in [`jittered`], so that this stays a table.
pub fn backoff(policy: &Policy, streak: u32) -> Duration {
    let cap = policy.backoff_cap.0;
    let doublings = i32::try_from(streak.saturating_sub(1)).unwrap_or(i32::MAX);
    let secs = policy.backoff_first.0.as_secs_f64() * policy.backoff_factor.powi(doublings);
    Duration::try_from_secs_f64(secs).map_or(cap, |delay| delay.min(cap))
}

/// Moves a delay by up to `backoffJitter` of itself, differently for each pod and wake-up, always the same
/// for the same one.
pub fn jittered(delay: Duration, policy: &Policy, pod: &PodId, n: u32) -> Duration {
    // FNV-1a: spread is all that is asked of it.
    let seed = pod.as_str().bytes().chain(n.to_le_bytes());
    let hash = seed.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let unit = f64::from(u32::try_from(hash >> 40).unwrap_or(0)) / f64::from(1u32 << 24);
    let scale = 1.0 + policy.backoff_jitter * (2.0 * unit - 1.0);
    Duration::try_from_secs_f64(delay.as_secs_f64() * scale).unwrap_or(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_and_stops_at_the_cap() {
        let policy = Policy::of_layers(&[]);
        let secs: Vec<u64> = (1..=9).map(|streak| backoff(&policy, streak).as_secs()).collect();
        assert_eq!(secs, [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]);
        assert_eq!(backoff(&policy, u32::MAX), Duration::from_secs(1800));
    }

    #[test]
    fn jitter_stays_within_its_fraction_and_is_repeatable() {
        let policy = Policy::of_layers(&[]);
        let delay = Duration::from_secs(100);
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..200 {
            let pod: PodId = format!("pod-{n}").parse().unwrap();
            let moved = jittered(delay, &policy, &pod, n);
            assert_eq!(moved, jittered(delay, &policy, &pod, n));
            assert!((90.0..=110.0).contains(&moved.as_secs_f64()), "{moved:?}");
            seen.insert(moved.as_millis() / 1000);
        }
        assert!(seen.len() > 10, "it spreads: {seen:?}");
    }
}

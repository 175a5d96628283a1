//! What follows an outcome: the next wake-up's time and mode, or a park.

use crate::account::{LONGEST_LIMIT, held_until};
use crate::{
    FailReason, LostReason, OnLost, ParkCode, PodRecord, Policy, Timestamp, Usage, Verdict, WakeUpEntry,
    backoff, budget_exhausted, jittered,
};

/// How a wake-up begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeMode {
    /// With a session of its own.
    Cold,
    /// In the lost wake-up's session.
    Warm,
}

/// podd's decision about an idle pod behind its newest outcome.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// Wake it at that time.
    Wake {
        /// When.
        at: Timestamp,
        /// The streak that led there.
        streak: u32,
        /// Why then.
        because: String,
    },
    /// Park it.
    Park {
        /// The class of the reason.
        code: ParkCode,
        /// The reason in words.
        detail: String,
    },
}

/// How many wake-ups in a row, the newest first, failed or were lost since the last resume.
///
/// Those that only ran into a limit neither count nor end the row.
pub fn streak(record: &PodRecord) -> u32 {
    let counted = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| entry.n > record.streak_since);
    let mut count = 0;
    for entry in counted {
        match entry.verdict {
            verdict if verdict.is_held() => {}
            Verdict::Failed(_) | Verdict::Lost(_) => count += 1,
            Verdict::More | Verdict::Done | Verdict::Cancelled => break,
        }
    }
    count
}

/// How the pod's next wake-up begins: warm behind a wake-up that was lost and was not warm itself.
pub fn next_mode(record: &PodRecord, policy: &Policy) -> WakeMode {
    let lost_cold = record
        .last()
        .is_some_and(|last| matches!(last.verdict, Verdict::Lost(_)) && !last.warm);
    match policy.on_lost {
        OnLost::WarmOnce if lost_cold => WakeMode::Warm,
        OnLost::WarmOnce | OnLost::Cold | OnLost::Park => WakeMode::Cold,
    }
}

/// Decides what follows the newest outcome. The result is written down and not computed again.
pub fn review(record: &PodRecord, policy: &Policy, now: Timestamp) -> Review {
    if let Some(line) = budget_exhausted(record, policy, Usage::default()) {
        return Review::Park {
            code: ParkCode::BudgetExhausted,
            detail: line.0,
        };
    }
    let Some(last) = record.last() else {
        return Review::Wake {
            at: now,
            streak: 0,
            because: "it was never woken".to_owned(),
        };
    };
    match last.verdict {
        // What leads nowhere in a gated pod is seen by its classification.
        Verdict::More if record.gates.is_none() => after_more(record, now),
        Verdict::More | Verdict::Done | Verdict::Cancelled => Review::Wake {
            at: now,
            streak: 0,
            because: format!("the last outcome was {}", last.verdict),
        },
        Verdict::Failed(reason) => after_failure(record, last, reason, policy, now),
        Verdict::Lost(reason) => after_loss(record, last, reason, policy, now),
    }
}

fn after_more(record: &PodRecord, now: Timestamp) -> Review {
    let since = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| entry.n > record.streak_since);
    let newest: Vec<&WakeUpEntry> = since
        .filter(|entry| entry.verdict == Verdict::More)
        .take(3)
        .collect();
    let led_nowhere = newest.len() == 3
        && newest
            .iter()
            .all(|entry| entry.progress.is_some_and(|p| p.is_none()));
    if led_nowhere {
        let ticked = newest
            .iter()
            .all(|entry| entry.progress.is_some_and(|p| p.all_ticked));
        let detail = if ticked {
            "three wake-ups in a row declared more work with every task ticked"
        } else {
            "three wake-ups in a row declared more work and changed nothing"
        };
        return Review::Park {
            code: ParkCode::Progressless,
            detail: detail.to_owned(),
        };
    }
    Review::Wake {
        at: now,
        streak: 0,
        because: "it declared that more is to be done".to_owned(),
    }
}

fn park_at_once(reason: FailReason) -> Option<ParkCode> {
    match reason {
        FailReason::AuthFailed => Some(ParkCode::AuthFailed),
        FailReason::QuotaExhausted => Some(ParkCode::QuotaExhausted),
        FailReason::AgentMissing => Some(ParkCode::AgentMissing),
        FailReason::NeedsInput => Some(ParkCode::NeedsInput),
        FailReason::BudgetExhausted => Some(ParkCode::BudgetExhausted),
        FailReason::TimedOut
        | FailReason::Progressless
        | FailReason::Wedged
        | FailReason::OutputLimit
        | FailReason::AgentUnresolved
        | FailReason::AgentTypeRefused
        | FailReason::SpawnFailed
        | FailReason::HandoffMalformed
        | FailReason::RateLimited
        | FailReason::Overloaded
        | FailReason::ContextExhausted
        | FailReason::AgentError
        | FailReason::OutOfMemory
        | FailReason::Terminated
        | FailReason::NoEvents
        | FailReason::ProviderOutputInvalid
        | FailReason::Incomplete
        | FailReason::Truncated
        | FailReason::NoHandoff => None,
    }
}

fn after_failure(
    record: &PodRecord,
    last: &WakeUpEntry,
    reason: FailReason,
    policy: &Policy,
    now: Timestamp,
) -> Review {
    let detail = |what: &str| match &last.detail {
        Some(detail) => format!("wake-up {}: {what}: {detail}", last.n),
        None => format!("wake-up {}: {what}", last.n),
    };
    if last.n > record.streak_since
        && let Some(code) = park_at_once(reason)
    {
        return Review::Park {
            code,
            detail: detail(reason.word()),
        };
    }
    match reason {
        FailReason::RateLimited => {
            let ended = last.ended_at.unwrap_or(record.updated_at);
            let default = ended.plus(policy.limit_default.0.min(LONGEST_LIMIT));
            let (at, source) =
                held_until(record).map_or((default, "default"), |(at, source)| (at, source.word()));
            Review::Wake {
                at,
                streak: streak(record),
                because: format!("its limit ends then ({source})"),
            }
        }
        FailReason::Overloaded => {
            let row = record.wake_ups.iter().rev();
            let same = row
                .take_while(|entry| entry.verdict == Verdict::Failed(FailReason::Overloaded))
                .count();
            let row = u32::try_from(same).unwrap_or(u32::MAX);
            let delay = jittered(backoff(policy, row), policy, &record.id, last.n);
            Review::Wake {
                at: now.plus(delay),
                streak: streak(record),
                because: "its provider had no room".to_owned(),
            }
        }
        _ => after_streak(record, last, policy, now),
    }
}

fn after_loss(
    record: &PodRecord,
    last: &WakeUpEntry,
    reason: LostReason,
    policy: &Policy,
    now: Timestamp,
) -> Review {
    if policy.on_lost == OnLost::Park && last.n > record.streak_since {
        let detail = format!("wake-up {} was lost ({reason}), and onLost is park", last.n);
        return Review::Park {
            code: ParkCode::Lost,
            detail,
        };
    }
    let count = streak(record);
    if count < policy.max_failures && next_mode(record, policy) == WakeMode::Warm {
        let because = format!("wake-up {} was lost ({reason}): it is continued once", last.n);
        return Review::Wake {
            at: now,
            streak: count,
            because,
        };
    }
    after_streak(record, last, policy, now)
}

fn after_streak(record: &PodRecord, last: &WakeUpEntry, policy: &Policy, now: Timestamp) -> Review {
    let count = streak(record);
    if count == 0 {
        return Review::Wake {
            at: now,
            streak: 0,
            because: "its failures were forgiven".to_owned(),
        };
    }
    if count >= policy.max_failures {
        let detail = format!(
            "{count} failed or lost wake-ups in a row, the last: {}",
            last.verdict
        );
        let detail = last
            .detail
            .as_ref()
            .map_or(detail.clone(), |why| format!("{detail} ({why})"));
        return Review::Park {
            code: ParkCode::FailureStreak,
            detail,
        };
    }
    let delay = jittered(backoff(policy, count), policy, &record.id, last.n);
    let because = format!(
        "backoff after {count} of {} failures in a row ({})",
        policy.max_failures, last.verdict
    );
    Review::Wake {
        at: now.plus(delay),
        streak: count,
        because,
    }
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;

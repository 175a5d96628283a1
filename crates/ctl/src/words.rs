//! Records in words.

use std::time::Duration;

use pod_core::{PodRecord, PodState, Timestamp, Usage, WakeUpEntry, ago};
use serde_json::Value;

/// Where a pod stands, in a few words; of a gated pod with its stage.
pub(crate) fn state(record: &PodRecord, now: Timestamp) -> String {
    let state = plain_state(record, now);
    match (record.gate(), record.stage) {
        (Some(_), _) => format!("{state}, a gate runs"),
        (None, Some(stage)) if !record.state.is_terminal() && record.state != PodState::Parked => {
            format!("{state}, {stage}")
        }
        (None, _) => state,
    }
}

fn plain_state(record: &PodRecord, now: Timestamp) -> String {
    match record.state {
        PodState::Parked => match &record.parked {
            Some(parked) => format!("parked ({})", parked.code),
            None => "parked".to_owned(),
        },
        PodState::Active if record.cancel.is_some() => "active, being cancelled".to_owned(),
        PodState::Active if record.parked.is_some() => "active, then parked".to_owned(),
        PodState::Idle => match record.next_wake_at.filter(|at| *at > now) {
            Some(at) if record.last().is_some_and(|last| last.verdict.is_held()) => {
                format!("limit until {}", clock(at, now))
            }
            Some(at) => format!("rests until {}", clock(at, now)),
            None => "idle".to_owned(),
        },
        PodState::Active | PodState::Done | PodState::Cancelled => record.state.to_string(),
    }
}

/// An instant in UTC, without what is plain from `now`.
pub(crate) fn clock(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (at.to_string(), now.to_string());
    let (day, time) = at.split_once('T').unwrap_or(("", &at));
    let time = time.split('.').next().unwrap_or(time);
    if now.starts_with(day) {
        format!("{time}Z")
    } else {
        format!("{day} {time}Z")
    }
}

/// How the newest wake-up ended, and how long ago.
pub(crate) fn last(record: &PodRecord, now: Timestamp) -> String {
    if let Some(current) = record.wake() {
        return format!("{} for {}", current.n, span(now.since(current.claimed_at)));
    }
    let Some(last) = record.last() else {
        return "-".to_owned();
    };
    match last.ended_at {
        Some(at) => format!("{}, {}", last.verdict, ago(now.since(at))),
        None => last.verdict.to_string(),
    }
}

/// A duration in its two largest units.
pub(crate) fn span(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0 => format!("{:.1}s", span.as_secs_f64()),
        1..=59 => format!("{secs}s"),
        60..=3599 => format!("{}m {}s", secs / 60, secs % 60),
        3600..=86_399 => format!("{}h {}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d {}h", secs / 86_400, secs % 86_400 / 3600),
    }
}

/// How far away an instant is: `now`, `in 5m 3s`, `2 hours ago`.
pub(crate) fn away(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", span(at.since(now)))
    } else {
        ago(now.since(at))
    }
}

/// How long a wake-up took.
pub(crate) fn took(entry: &WakeUpEntry) -> String {
    match (entry.started_at, entry.ended_at) {
        (Some(started), Some(ended)) => span(ended.since(started)),
        (None, _) | (_, None) => "-".to_owned(),
    }
}

/// What was used; `None` where nothing is known.
pub(crate) fn usage(usage: Usage) -> Option<String> {
    let mut parts = Vec::new();
    let mut count = |tokens: Option<u64>, what: &str| {
        if let Some(tokens) = tokens {
            parts.push(format!("{tokens} {what}"));
        }
    };
    count(usage.input_tokens, "tokens in");
    count(usage.output_tokens, "out");
    count(usage.cache_read_tokens, "from cache");
    if let Some(cost) = usage.cost_usd {
        parts.push(format!("{cost:.4} USD"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A record as it may be shown: whoever has the token can pass for the wake-up.
pub(crate) fn public(record: &PodRecord) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or(Value::Null);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("token");
        if let Some(current) = fields.get_mut("current").and_then(Value::as_object_mut) {
            current.remove("token");
        }
    }
    value
}

#[cfg(test)]
pub(crate) mod tests {
    use pod_core::{By, FailReason, ParkCode, SCHEMA_VERSION, Verdict};

    use super::*;

    pub(crate) fn at(time: &str) -> Timestamp {
        format!("2026-11-30T{time}Z").parse().unwrap()
    }

    pub(crate) fn record() -> PodRecord {
        let value = serde_json::json!({
            "schemaVersion": SCHEMA_VERSION, "id": "fix-login-7k2m", "project": "/src/app", "goal": "Fix the login",
            "state": "idle", "createdAt": at("20:00:00"), "updatedAt": at("20:00:00"),
            "nextWakeAt": at("20:00:00"),
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_state_says_what_it_waits_for() {
        let now = at("20:10:00");
        let mut pod = record();
        assert_eq!(state(&pod, now), "idle");
        pod.next_wake_at = Some(at("20:12:30"));
        assert_eq!(state(&pod, now), "rests until 20:12:30Z");
        let mut entry = WakeUpEntry::bare(1, Verdict::Failed(FailReason::RateLimited));
        entry.ended_at = Some(at("20:09:18"));
        pod.wake_ups.push(entry);
        assert_eq!(state(&pod, now), "limit until 20:12:30Z");
        assert_eq!(last(&pod, now), "failed/rateLimited, 42 seconds ago");
        assert!(pod.park(ParkCode::FailureStreak, None, By::Podd, now).unwrap());
        assert_eq!(state(&pod, now), "parked (failureStreak)");
        let tomorrow = now.plus(Duration::from_secs(86_400));
        assert_eq!(clock(tomorrow, now), "2026-12-01 20:10:00Z");
    }

    #[test]
    fn a_public_record_has_no_token() {
        let mut value = serde_json::to_value(record()).unwrap();
        value["state"] = "active".into();
        value["current"] = serde_json::json!({
            "n": 1, "pid": 7, "pgid": 7, "startTicks": 9, "bootId": "b", "pidNs": 1,
            "token": "secret", "claimedAt": at("20:00:00"), "agent": "default",
        });
        let active: PodRecord = serde_json::from_value(value).unwrap();
        let shown = public(&active);
        assert!(!shown.to_string().contains("secret"), "{shown}");
        assert_eq!(shown["current"]["pid"], 7);
        assert_eq!(last(&active, at("20:01:30")), "1 for 1m 30s");
    }

    #[test]
    fn spans_and_usage_are_short() {
        assert_eq!(span(Duration::from_millis(340)), "0.3s");
        assert_eq!(span(Duration::from_secs(3700)), "1h 1m");
        assert_eq!(usage(Usage::default()), None);
        let some = Usage {
            input_tokens: Some(5),
            cost_usd: Some(0.25),
            ..Usage::default()
        };
        assert_eq!(usage(some).unwrap(), "5 tokens in, 0.2500 USD");
    }
}

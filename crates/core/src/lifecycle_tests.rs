use super::*;
use crate::{FailReason, LostReason, PolicyOverrides};

pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(1_796_000_000_000 + secs * 1000)
}

pub(crate) fn idle() -> PodRecord {
    let new = PodRecord::new(
        "p".parse().unwrap(),
        "/p".into(),
        "g".into(),
        PolicyOverrides::default(),
        at(0),
    );
    PodRecord {
        next_wake_at: None,
        ..new
    }
}

pub(crate) fn current(n: u32) -> Current {
    Current {
        n,
        kind: CurrentKind::Wake,
        pid: 42,
        pgid: 42,
        start_ticks: 1,
        boot_id: "b".to_owned(),
        pid_ns: 1,
        token: Token::from_text(&format!("t{n}")),
        claimed_at: at(0),
        agent: crate::AgentName::default_agent(),
        warm: false,
        extra: serde_json::Map::new(),
    }
}

pub(crate) fn fence(n: u32) -> Fence {
    Fence {
        n,
        token: Some(Token::from_text(&format!("t{n}"))),
    }
}

pub(crate) fn with_outcomes(verdicts: &[Verdict]) -> PodRecord {
    let mut record = idle();
    for verdict in verdicts {
        let n = record.wake_up_count + 1;
        record.claim(current(n), at(0)).unwrap();
        assert_eq!(
            record.settle(&fence(n), WakeUpEntry::bare(n, *verdict), at(1)),
            Settlement::Recorded
        );
    }
    record
}

fn awake() -> PodRecord {
    let mut record = idle();
    record.claim(current(1), at(0)).unwrap();
    record
}

#[test]
fn one_claim_wins_and_a_second_is_refused() {
    let mut record = awake();
    assert_eq!(record.state, PodState::Active);
    assert!(matches!(
        record.claim(current(2), at(1)),
        Err(Refusal::Awake { n: 1, pid: 42, .. })
    ));
}

#[test]
fn an_outcome_is_recorded_once_and_only_by_its_own_wrapper() {
    let mut record = awake();
    let entry = WakeUpEntry::bare(1, Verdict::More);
    let stranger = Fence {
        n: 1,
        token: Some(Token::from_text("other")),
    };
    let before = record.clone();
    assert_eq!(record.settle(&stranger, entry.clone(), at(1)), Settlement::Fenced);
    assert_eq!(record, before);
    assert_eq!(
        record.settle(&fence(1), entry.clone(), at(1)),
        Settlement::Recorded
    );
    assert_eq!(record.settle(&fence(1), entry, at(2)), Settlement::Fenced);
    assert_eq!(record.wake_ups.len(), 1);
}

#[test]
fn the_state_after_an_outcome() {
    let failed = Verdict::Failed(FailReason::NoHandoff);
    let lost = Verdict::Lost(LostReason::WrapperDied);
    for (verdict, cancel, park, want) in [
        (Verdict::More, false, false, PodState::Idle),
        (Verdict::Done, false, false, PodState::Done),
        (failed, false, false, PodState::Idle),
        (failed, false, true, PodState::Parked),
        (Verdict::Done, false, true, PodState::Done),
        (Verdict::Cancelled, true, false, PodState::Cancelled),
        (lost, true, false, PodState::Cancelled),
        (lost, true, true, PodState::Cancelled),
        (Verdict::Done, true, false, PodState::Done),
    ] {
        let mut record = awake();
        if park {
            assert_eq!(
                record.park(ParkCode::Operator, None, By::Operator, at(1)),
                Ok(true)
            );
            assert_eq!(record.state, PodState::Active, "a running wake-up goes on");
        }
        if cancel {
            assert_eq!(record.request_cancel(By::Operator, at(1)), CancelEffect::Signal);
        }
        let _settled = record.settle(&fence(1), WakeUpEntry::bare(1, verdict), at(2));
        assert_eq!(record.state, want, "{verdict} cancel {cancel} park {park}");
        assert_eq!(record.parked.is_some(), want == PodState::Parked);
        assert!(record.current.is_none() && record.kill_intent.is_none());
    }
}

#[test]
fn a_terminal_pod_takes_nothing() {
    for verdict in [Verdict::Done, Verdict::Cancelled] {
        let mut record = with_outcomes(&[verdict]);
        let before = record.clone();
        assert!(record.claim(current(2), at(3)).is_err());
        assert!(record.make_due(at(3)).is_err());
        assert!(record.schedule(at(3), 0, at(3)).is_err());
        assert!(record.resume(at(3)).is_err());
        assert!(
            record
                .park(ParkCode::Operator, None, By::Operator, at(3))
                .is_err()
        );
        let _effect = record.request_cancel(By::Operator, at(3));
        assert_eq!(record, before);
    }
}

#[test]
fn an_operators_park_is_not_podds_to_change() {
    let mut record = idle();
    assert_eq!(
        record.park(ParkCode::FailureStreak, None, By::Podd, at(1)),
        Ok(true)
    );
    assert_eq!(
        record.park(ParkCode::Operator, None, By::Operator, at(2)),
        Ok(true)
    );
    assert_eq!(
        record.park(ParkCode::FailureStreak, None, By::Podd, at(3)),
        Ok(false)
    );
    assert_eq!(record.parked.as_ref().unwrap().by, By::Operator);
    assert!(matches!(
        record.claim(current(1), at(4)),
        Err(Refusal::Parked { .. })
    ));
    assert_eq!(record.resume(at(5)), Ok(true));
    assert_eq!((record.state, record.next_wake_at), (PodState::Idle, Some(at(5))));
}

#[test]
fn an_intent_names_one_wake_up_and_the_first_stands() {
    let mut record = awake();
    assert!(record.intend_kill(&fence(2), KillCause::Wedged, at(1)).is_err());
    record.intend_kill(&fence(1), KillCause::TimedOut, at(1)).unwrap();
    record.intend_kill(&fence(1), KillCause::Wedged, at(2)).unwrap();
    assert_eq!(record.intent(1), Some(KillCause::TimedOut));
    assert_eq!(record.intent(2), None);
}

#[test]
fn warm_is_for_a_lost_wake_up_alone() {
    let warm = |n| Current {
        warm: true,
        ..current(n)
    };
    let mut record = with_outcomes(&[Verdict::Failed(FailReason::NoHandoff)]);
    assert!(matches!(
        record.claim(warm(2), at(1)),
        Err(Refusal::NotLost { .. })
    ));
    let mut record = with_outcomes(&[Verdict::Lost(LostReason::WrapperDied)]);
    assert_eq!(record.claim(warm(2), at(1)), Ok(()));
}

#[test]
fn the_record_keeps_the_newest_fifty_and_all_that_was_used() {
    let mut record = idle();
    for n in 1..=60 {
        record.claim(current(n), at(0)).unwrap();
        let mut entry = WakeUpEntry::bare(n, Verdict::Failed(FailReason::RateLimited));
        entry.usage = Some(crate::Usage {
            input_tokens: Some(2),
            ..crate::Usage::default()
        });
        let _settled = record.settle(&fence(n), entry, at(1));
    }
    assert_eq!((record.wake_ups.len(), record.wake_ups[0].n), (50, 11));
    assert_eq!(record.usage_total.unwrap().input_tokens, Some(120));
    assert_eq!(record.held_wake_ups, 60);
}

#[test]
fn a_record_reads_back_with_keys_of_another_version() {
    let mut record = with_outcomes(&[
        Verdict::Failed(FailReason::NoHandoff),
        Verdict::Lost(LostReason::Rebooted),
    ]);
    record.claim(current(3), at(5)).unwrap();
    let mut value = serde_json::to_value(&record).unwrap();
    value["later"] = serde_json::json!({"a": [1, 2]});
    value["current"]["laterToo"] = serde_json::json!(7);
    value["wakeUps"][0]["laterAsWell"] = serde_json::json!("x");
    value["policy"]["laterKey"] = serde_json::json!(true);
    let read: PodRecord = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
    assert_eq!(value["wakeUps"][0]["outcome"], "failed");
    assert_eq!(value["wakeUps"][0]["reason"], "noHandoff");
}

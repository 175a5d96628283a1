use super::*;
use crate::lifecycle::tests::{at, with_outcomes};
use crate::{GateState, LimitSource, Progress, RateLimit};

const FAILED: Verdict = Verdict::Failed(FailReason::NoHandoff);
const LOST: Verdict = Verdict::Lost(LostReason::WrapperDied);
const LIMITED: Verdict = Verdict::Failed(FailReason::RateLimited);

fn policy() -> Policy {
    let mut policy = Policy::of_layers(&[]);
    policy.backoff_jitter = 0.0;
    policy
}

fn parked(record: &PodRecord, policy: &Policy) -> Option<ParkCode> {
    match review(record, policy, at(10)) {
        Review::Park { code, .. } => Some(code),
        Review::Wake { .. } => None,
    }
}

fn woken_in(record: &PodRecord, policy: &Policy) -> u64 {
    match review(record, policy, at(10)) {
        Review::Wake { at: when, .. } => when.since(at(10)).as_secs(),
        Review::Park { code, detail } => panic!("parked: {code} {detail}"),
    }
}

#[test]
fn the_streak_counts_failures_and_losses_and_skips_limits() {
    for (verdicts, want) in [
        (vec![], 0),
        (vec![FAILED], 1),
        (vec![FAILED, LOST], 2),
        (vec![FAILED, Verdict::More], 0),
        (vec![Verdict::More, FAILED, LIMITED, FAILED], 2),
        (vec![FAILED, LIMITED, LIMITED], 1),
    ] {
        assert_eq!(streak(&with_outcomes(&verdicts)), want, "{verdicts:?}");
    }
    let mut record = with_outcomes(&[FAILED, FAILED]);
    record.streak_since = 2;
    assert_eq!(streak(&record), 0);
}

#[test]
fn failures_rest_longer_each_time_and_then_park() {
    assert_eq!(woken_in(&with_outcomes(&[FAILED]), &policy()), 30);
    assert_eq!(woken_in(&with_outcomes(&[FAILED, FAILED]), &policy()), 60);
    assert_eq!(
        parked(&with_outcomes(&[FAILED, FAILED, FAILED]), &policy()),
        Some(ParkCode::FailureStreak)
    );
    assert_eq!(
        woken_in(&with_outcomes(&[FAILED, FAILED, Verdict::More]), &policy()),
        0
    );
}

#[test]
fn what_trying_again_cannot_mend_is_parked_at_once() {
    for (reason, code) in [
        (FailReason::AuthFailed, ParkCode::AuthFailed),
        (FailReason::QuotaExhausted, ParkCode::QuotaExhausted),
        (FailReason::AgentMissing, ParkCode::AgentMissing),
        (FailReason::NeedsInput, ParkCode::NeedsInput),
    ] {
        let mut record = with_outcomes(&[Verdict::Failed(reason)]);
        assert_eq!(parked(&record, &policy()), Some(code));
        record.streak_since = 1;
        assert_eq!(woken_in(&record, &policy()), 0, "a resume gives it another try");
    }
}

#[test]
fn a_limit_is_waited_for_and_counts_for_nothing() {
    let mut record = with_outcomes(&[FAILED, FAILED, LIMITED]);
    record.wake_ups.last_mut().unwrap().ended_at = Some(at(10));
    assert_eq!(
        woken_in(&record, &policy()),
        15 * 60,
        "the default where no time is known"
    );
    record.wake_ups.last_mut().unwrap().rate_limit = Some(RateLimit {
        resets_at: at(10 + 3600),
        source: LimitSource::Event,
    });
    assert_eq!(woken_in(&record, &policy()), 3600);
    record.wake_ups.last_mut().unwrap().rate_limit = Some(RateLimit {
        resets_at: at(10 + 30 * 86_400),
        source: LimitSource::Event,
    });
    assert_eq!(
        woken_in(&record, &policy()),
        8 * 86_400,
        "never longer than 8 days"
    );
    let many = with_outcomes(&[LIMITED; 49]);
    assert_eq!(parked(&many, &policy()), None);
    let mut small = policy();
    small.max_wake_ups = 1;
    assert_eq!(parked(&many, &small), None, "limits do not use up wake-ups");
}

#[test]
fn an_overloaded_provider_takes_the_curve_and_never_parks() {
    let overloaded = Verdict::Failed(FailReason::Overloaded);
    assert_eq!(woken_in(&with_outcomes(&[overloaded]), &policy()), 30);
    assert_eq!(woken_in(&with_outcomes(&[overloaded; 4]), &policy()), 240);
}

#[test]
fn a_lost_wake_up_is_continued_once() {
    let mut record = with_outcomes(&[LOST]);
    assert_eq!(next_mode(&record, &policy()), WakeMode::Warm);
    assert_eq!(woken_in(&record, &policy()), 0);
    record.wake_ups.last_mut().unwrap().warm = true;
    assert_eq!(next_mode(&record, &policy()), WakeMode::Cold);
    assert_eq!(woken_in(&record, &policy()), 30);
    let mut strict = policy();
    strict.on_lost = OnLost::Park;
    assert_eq!(parked(&record, &strict), Some(ParkCode::Lost));
    strict.on_lost = OnLost::Cold;
    assert_eq!(next_mode(&with_outcomes(&[LOST]), &strict), WakeMode::Cold);
    assert_eq!(
        parked(&with_outcomes(&[LOST, LOST, LOST]), &policy()),
        Some(ParkCode::FailureStreak)
    );
}

#[test]
fn three_that_led_nowhere_park_and_unknown_is_no_proof() {
    let with_progress = |progress: [Option<Progress>; 3]| {
        let mut record = with_outcomes(&[Verdict::More, FAILED, Verdict::More, Verdict::More]);
        for (entry, progress) in record
            .wake_ups
            .iter_mut()
            .filter(|e| e.verdict == Verdict::More)
            .zip(progress)
        {
            entry.progress = progress;
        }
        parked(&record, &policy())
    };
    let still = Some(Progress {
        changed: Some(false),
        all_ticked: false,
    });
    let ticked = Some(Progress {
        changed: Some(true),
        all_ticked: true,
    });
    let moved = Some(Progress {
        changed: Some(true),
        all_ticked: false,
    });
    let unknown = Some(Progress {
        changed: None,
        all_ticked: false,
    });
    assert_eq!(with_progress([still, still, still]), Some(ParkCode::Progressless));
    assert_eq!(
        with_progress([ticked, ticked, ticked]),
        Some(ParkCode::Progressless)
    );
    assert_eq!(with_progress([still, moved, still]), None);
    assert_eq!(with_progress([still, unknown, still]), None);
    assert_eq!(with_progress([None, still, still]), None);
}

/// Its evidence may be stale: then a gate is run, and that is for the table to say.
#[test]
fn a_gated_pod_is_not_parked_for_what_its_gates_decide() {
    let mut record = with_outcomes(&[Verdict::More, Verdict::More, Verdict::More]);
    for entry in &mut record.wake_ups {
        entry.progress = Some(Progress {
            changed: Some(false),
            all_ticked: false,
        });
    }
    assert_eq!(parked(&record, &policy()), Some(ParkCode::Progressless));
    record.gates = Some(GateState::pinned(String::new(), None, String::new(), at(0)));
    assert_eq!(parked(&record, &policy()), None);
}

#[test]
fn wake_ups_run_out() {
    let mut small = policy();
    small.max_wake_ups = 2;
    assert_eq!(parked(&with_outcomes(&[Verdict::More]), &small), None);
    assert_eq!(
        parked(&with_outcomes(&[Verdict::More, Verdict::More]), &small),
        Some(ParkCode::BudgetExhausted)
    );
}

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::lifecycle::tests::{at, current, idle, with_outcomes};
use crate::{
    AccountName, By, FailReason, LostReason, PoddLimits, Policy, Room, Verdict as Judged, WakeUpEntry,
};

fn view(id: &str, record: PodRecord) -> PodView {
    let wrapper = match record.state {
        PodState::Active => WrapperView::Alive(Pulse::default()),
        PodState::Idle | PodState::Parked | PodState::Done | PodState::Cancelled => WrapperView::Absent,
    };
    PodView {
        record: PodRecord {
            id: id.parse().unwrap(),
            ..record
        },
        policy: Policy::of_layers(&[]),
        account: AccountName("pi".into()),
        wrapper,
        project: ProjectView::There,
        survivors: Vec::new(),
        disk_full: None,
    }
}

fn world(pods: Vec<PodView>) -> World {
    World {
        pods,
        limits: PoddLimits::default(),
        room: Room {
            refused: None,
            starts_left: 20,
        },
    }
}

fn due(id: &str, secs: i64) -> PodView {
    view(
        id,
        PodRecord {
            next_wake_at: Some(at(secs)),
            ..idle()
        },
    )
}

fn awake_record() -> PodRecord {
    let mut record = idle();
    record.claim(current(1), at(0)).unwrap();
    record
}

fn only(view: PodView) -> Action {
    let steps = plan(&world(vec![view]), at(100));
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps[0].action.clone()
}

#[test]
fn the_oldest_due_is_woken_first_and_no_more_than_allowed() {
    let mut world = world(vec![due("c", 3), due("a", 9), due("b", 1), due("later", 200)]);
    world.limits.max_concurrent = 2;
    let woken: Vec<String> = plan(&world, at(100))
        .iter()
        .filter(|step| matches!(step.action, Action::Wake(_)))
        .map(|step| step.pod.to_string())
        .collect();
    assert_eq!(woken, ["b", "c"]);
    world.pods.push(view("runs", awake_record()));
    let count = plan(&world, at(100))
        .iter()
        .filter(|step| matches!(step.action, Action::Wake(_)))
        .count();
    assert_eq!(count, 1);
    world.room.refused = Some("no room".into());
    assert!(
        plan(&world, at(100))
            .iter()
            .all(|step| !matches!(step.action, Action::Wake(_)))
    );
}

#[test]
fn a_pod_that_was_not_reviewed_is_reviewed_and_not_woken() {
    let record = with_outcomes(&[Judged::Failed(FailReason::NoHandoff)]);
    assert!(matches!(
        only(view("p", record)),
        Action::Schedule { streak: 1, .. }
    ));
}

#[test]
fn more_is_woken_in_the_same_pass() {
    assert_eq!(
        only(view("p", with_outcomes(&[Judged::More]))),
        Action::Wake(WakeMode::Cold)
    );
    let lost = with_outcomes(&[Judged::Lost(LostReason::WrapperDied)]);
    assert_eq!(only(view("p", lost)), Action::Wake(WakeMode::Warm));
}

#[test]
fn a_pod_that_always_declares_more_does_not_starve_the_others() {
    let ended = |id: &str, secs| {
        let mut record = with_outcomes(&[Judged::More]);
        record.wake_ups[0].ended_at = Some(at(secs));
        view(id, record)
    };
    let mut world = world(vec![ended("a", 5), due("m", 3), ended("z", 1)]);
    for (free, want) in [(1, &["z"][..]), (2, &["z", "m"]), (3, &["z", "m", "a"])] {
        world.limits.max_concurrent = free;
        let steps = plan(&world, at(100));
        let woken: Vec<&str> = steps
            .iter()
            .filter(|step| matches!(step.action, Action::Wake(_)))
            .map(|step| step.pod.as_str())
            .collect();
        assert_eq!(woken, want);
    }
}

#[test]
fn what_stands_behind_an_active_record() {
    let with = |wrapper| {
        only(PodView {
            wrapper,
            ..view("p", awake_record())
        })
    };
    let pulse = |silent, stalled, watched| {
        WrapperView::Alive(Pulse {
            silent: Duration::from_secs(silent),
            stalled: Duration::from_secs(stalled),
            watched: Duration::from_secs(watched),
        })
    };
    assert_eq!(with(pulse(0, 0, 0)), Action::Wait);
    assert_eq!(with(pulse(89, 0, 0)), Action::Wait);
    assert_eq!(with(pulse(90, 0, 0)), Action::Kill(KillCause::Wedged));
    assert_eq!(with(pulse(0, 45 * 60, 0)), Action::Kill(KillCause::Progressless));
    assert_eq!(with(pulse(0, 0, 5 * 3600)), Action::Kill(KillCause::TimedOut));
    assert_eq!(with(WrapperView::Dead { rebooted: false }), Action::Settle);
    assert_eq!(with(WrapperView::Dead { rebooted: true }), Action::Settle);
    assert_eq!(with(WrapperView::Unknown("namespace".into())), Action::Wait);
}

#[test]
fn a_recorded_cancel_or_intent_is_signalled_again() {
    let mut record = awake_record();
    let _effect = record.request_cancel(By::Operator, at(1));
    assert_eq!(only(view("p", record)), Action::Signal);
    let mut record = awake_record();
    record
        .intend_kill(&crate::lifecycle::tests::fence(1), KillCause::TimedOut, at(1))
        .unwrap();
    assert_eq!(only(view("p", record)), Action::Signal);
}

#[test]
fn a_project_that_is_gone_parks_and_one_that_cannot_be_seen_waits() {
    assert_eq!(
        only(PodView {
            project: ProjectView::Gone,
            ..due("p", 1)
        }),
        Action::Park {
            code: ParkCode::ProjectGone
        }
    );
    assert_eq!(
        only(PodView {
            project: ProjectView::Unknown("EACCES".into()),
            ..due("p", 1)
        }),
        Action::Wait
    );
    assert_eq!(
        only(PodView {
            survivors: vec![7],
            ..due("p", 1)
        }),
        Action::Wait
    );
    assert_eq!(
        only(PodView {
            disk_full: Some("full".into()),
            ..due("p", 1)
        }),
        Action::Wait
    );
}

#[test]
fn one_limit_holds_back_the_account_and_no_other() {
    let mut limited = with_outcomes(&[Judged::Failed(FailReason::RateLimited)]);
    limited.wake_ups[0].rate_limit = Some(crate::RateLimit {
        resets_at: at(500),
        source: crate::LimitSource::Event,
    });
    limited.wake_ups[0].ended_at = Some(at(1));
    limited.next_wake_at = Some(at(500));
    let other = PodView {
        account: AccountName("claude".into()),
        ..due("other", 1)
    };
    let pods = vec![view("limited", limited), due("same", 1), other];
    let steps = plan(&world(pods.clone()), at(100));
    let of = |id: &str| steps.iter().find(|step| step.pod.as_str() == id).unwrap();
    assert_eq!(
        (&of("same").action, of("same").at),
        (&Action::Wait, Some(at(500)))
    );
    assert_eq!(of("other").action, Action::Wake(WakeMode::Cold));
    // When it ends, one of them finds out whether it does.
    let woken = |pods: &[PodView], secs| -> Vec<String> {
        let steps = plan(&world(pods.to_vec()), at(secs));
        let wakes = steps.iter().filter(|step| matches!(step.action, Action::Wake(_)));
        wakes.map(|step| step.pod.to_string()).collect()
    };
    assert_eq!(woken(&pods, 501), ["other", "same"]);
    let mut tried = pods.clone();
    tried[1].record.claim(current(1), at(501)).unwrap();
    tried[1].record.current.as_mut().unwrap().claimed_at = at(501);
    tried[1].wrapper = WrapperView::Alive(Pulse::default());
    assert_eq!(woken(&tried, 502), ["other"]);
    // One that runs for longer than any CLI tries again has shown it, and so has one that ended otherwise.
    assert_eq!(woken(&tried, 802), ["other", "limited"]);
    let mut entry = WakeUpEntry::bare(1, Judged::More);
    entry.started_at = Some(at(501));
    tried[1].record.current = None;
    tried[1].record.state = PodState::Idle;
    tried[1].record.wake_ups.push(entry);
    tried[1].wrapper = WrapperView::Absent;
    assert_eq!(woken(&tried, 502).len(), 3);
    // One that never reached its provider has shown nothing.
    for (verdict, used, shown) in [
        (Judged::Failed(FailReason::AgentMissing), false, false),
        (Judged::Lost(LostReason::WrapperDied), false, false),
        (Judged::Lost(LostReason::WrapperDied), true, true),
        (Judged::Failed(FailReason::NoHandoff), false, true),
    ] {
        let mut entry = WakeUpEntry::bare(1, verdict);
        entry.started_at = Some(at(501));
        entry.ended_at = Some(at(502));
        entry.usage = used.then(Usage::default);
        tried[1].record.next_wake_at = Some(at(502));
        *tried[1].record.wake_ups.last_mut().unwrap() = entry;
        assert_eq!(woken(&tried, 503).len() == 3, shown, "{verdict} {used}");
    }
}

#[test]
fn a_refused_key_parks_the_whole_account_the_cause_last() {
    let refused = with_outcomes(&[Judged::Failed(FailReason::AuthFailed)]);
    let steps = plan(
        &world(vec![
            view("cause", refused),
            due("idle", 1),
            view("runs", awake_record()),
        ]),
        at(100),
    );
    let parked: Vec<&str> = steps
        .iter()
        .filter(|step| {
            step.action
                == Action::Park {
                    code: ParkCode::AuthFailed,
                }
        })
        .map(|step| step.pod.as_str())
        .collect();
    assert_eq!(parked, ["idle", "cause"]);
    assert!(steps[0].because.contains("pod `cause`"), "{}", steps[0].because);
}

fn any_record() -> impl Strategy<Value = PodRecord> {
    let verdicts = prop::collection::vec(
        prop_oneof![
            Just(Judged::More),
            prop::sample::select(FailReason::ALL).prop_map(Judged::Failed),
            prop::sample::select(LostReason::ALL).prop_map(Judged::Lost)
        ],
        0..5,
    );
    let state = prop::sample::select(PodState::ALL);
    (
        verdicts,
        state,
        any::<(bool, bool, bool)>(),
        prop::option::of(0i64..200),
    )
        .prop_map(|(verdicts, state, (cancel, park, due), next)| {
            let mut record = with_outcomes(&verdicts);
            record.next_wake_at = next.filter(|_| due).map(at);
            match state {
                PodState::Active => record.claim(current(record.wake_up_count + 1), at(2)).unwrap(),
                PodState::Idle => {}
                PodState::Parked | PodState::Done | PodState::Cancelled => record.state = state,
            }
            if park {
                let _changed = record.park(ParkCode::Operator, None, By::Operator, at(3));
            }
            if cancel && record.state == PodState::Active {
                let _effect = record.request_cancel(By::Operator, at(3));
            }
            record
        })
}

fn any_view() -> impl Strategy<Value = PodView> {
    let wrapper = prop_oneof![
        Just(WrapperView::Absent),
        Just(WrapperView::Starting),
        (0u64..200, 0u64..4000).prop_map(|(silent, stalled)| WrapperView::Alive(Pulse {
            silent: Duration::from_secs(silent),
            stalled: Duration::from_secs(stalled),
            watched: Duration::ZERO,
        })),
        any::<bool>().prop_map(|rebooted| WrapperView::Dead { rebooted }),
        Just(WrapperView::Unknown("x".into())),
    ];
    (any_record(), wrapper, 0u8..4).prop_map(|(record, wrapper, odd)| PodView {
        wrapper,
        project: if odd == 1 {
            ProjectView::Gone
        } else {
            ProjectView::There
        },
        survivors: if odd == 2 { vec![1] } else { Vec::new() },
        ..view("p", record)
    })
}

proptest! {
    #[test]
    fn a_plan_is_repeatable_and_has_one_step_a_pod(views in prop::collection::vec(any_view(), 0..12), starts in 0u32..6) {
        let mut pods = views;
        for (number, pod) in pods.iter_mut().enumerate() {
            pod.record.id = format!("p{number}").parse().unwrap();
        }
        let mut world = world(pods);
        world.room.starts_left = starts;
        world.limits.max_concurrent = 4;
        let steps = plan(&world, at(100));
        prop_assert_eq!(&steps, &plan(&world, at(100)));
        let mut ids: Vec<_> = steps.iter().map(|step| &step.pod).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), steps.len());
        let awake = world.pods.iter().filter(|pod| is_awake(pod)).count();
        let woken = steps.iter().filter(|step| matches!(step.action, Action::Wake(_))).count();
        prop_assert!(woken == 0 || awake + woken <= 4);
        prop_assert!(woken <= starts as usize);
        for step in &steps {
            let pod = world.pods.iter().find(|pod| pod.record.id == step.pod).unwrap();
            prop_assert!(!pod.record.state.is_terminal());
            if matches!(step.action, Action::Wake(_)) {
                prop_assert!(pod.record.wakeable().is_ok());
                prop_assert_eq!(&pod.wrapper, &WrapperView::Absent);
                prop_assert!(pod.record.next_wake_at.is_none_or(|due| due <= at(100)));
                prop_assert!(pod.survivors.is_empty());
            }
            if step.action == Action::Settle {
                prop_assert!(!matches!(pod.wrapper, WrapperView::Alive(_) | WrapperView::Unknown(_)));
            }
        }
    }
}

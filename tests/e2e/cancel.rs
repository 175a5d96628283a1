//! Ending a wake-up, at any time and by whatever way.

use std::fs;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, TestEnv, process, wait_until};

use crate::env;

fn pod(script: &str) -> TestEnv {
    let env = env();
    env.fake(script);
    env.spawn("p");
    env
}

#[test]
fn a_cancel_ends_the_agent_and_the_pod() {
    let env = pod("pid agent\npi header\nhandoff done\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    wait_until("it has declared", LONG, || {
        let handoff = env.pod_dir("p").join("docs/HANDOFF.md");
        fs::read_to_string(handoff).is_ok_and(|text| text.starts_with("status: done"))
    });
    env.podctl(&["cancel", "p", "--wait"]).ok();
    wrapper.finish().code(0);
    let (record, last) = (env.record("p"), env.last("p"));
    assert_eq!(
        (&record["state"], &last["outcome"]),
        (&"cancelled".into(), &"cancelled".into())
    );
    assert_eq!(
        (&last["exit"]["signal"], &last["exit"]["sentBy"]),
        (&"SIGTERM".into(), &"operator".into())
    );
    assert_eq!(record["cancel"]["by"], "operator");
    env.assert_nothing_lives("p");
    let again = env.podctl(&["cancel", "p"]).code(0);
    assert!(!again.stderr.is_empty(), "a second cancel is noted");
    assert_eq!(env.record("p"), record);
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let env = pod("ignore TERM\npid agent\npi header\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    env.podctl(&["cancel", "p"]).ok();
    wrapper.finish().code(0);
    let last = env.last("p");
    assert_eq!(last["exit"]["signal"], "SIGKILL");
    assert_eq!(last["exit"]["killedAfterGrace"], true);
    assert!(
        last["detail"].as_str().unwrap().contains("killed after grace"),
        "{last}"
    );
    env.assert_nothing_lives("p");
}

#[test]
fn a_stopped_tree_dies_too() {
    let env =
        pod("spawn setsid child quiet\nawait child\npid agent\npi header\nstop\n[child]\npid child\nstop");
    let wrapper = env.wrapper("p", &[]);
    let (agent, _) = env.wait_for_pid("agent");
    wait_until("it has stopped", LONG, || {
        process::look(agent).is_some_and(|seen| seen.state == 'T')
    });
    env.podctl(&["cancel", "p"]).ok();
    wrapper.finish().code(0);
    assert_eq!(env.record("p")["state"], "cancelled");
    assert!(!env.lives("agent") && !env.lives("child"));
}

#[test]
fn a_cancel_between_claim_and_spawn_is_not_missed() {
    let env = env();
    env.fake("pid agent\npi header\nsleep forever");
    for moment in ["active", "wrapper.json", "prompt.md"] {
        let id = moment.replace('.', "-");
        env.spawn(&id);
        let wrapper = env.wrapper(&id, &[]);
        wait_until(moment, LONG, || match moment {
            "active" => env.record(&id)["state"] == "active",
            "prompt.md" => env.wake_dir(&id, 1).join("prompt.md").exists(),
            file => env.pod_dir(&id).join(file).exists(),
        });
        env.podctl(&["cancel", &id]).ok();
        wrapper.finish().code(0);
        let record = env.record(&id);
        assert_eq!(
            (&record["state"], &record["wakeUps"][0]["outcome"]),
            (&"cancelled".into(), &"cancelled".into())
        );
        env.assert_nothing_lives(&id);
    }
}

#[test]
fn idle_and_parked_pods_are_cancelled_at_once() {
    let env = pod("pi run x");
    env.spawn_with("q", &["--park"]);
    env.podctl(&["cancel", "p", "q"]).ok();
    for id in ["p", "q"] {
        assert_eq!(env.record(id)["state"], "cancelled");
        env.wrapper(id, &[]).finish().code(2);
    }
}

#[test]
fn a_wrapper_that_is_told_to_end_by_a_stranger_often_records_one_loss() {
    let env = pod("pid agent\npi header\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGHUP,
    ] {
        wrapper.signal(signal);
    }
    wrapper.finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], record["wakeUps"].as_array().map(Vec::len)),
        (&"idle".into(), Some(1))
    );
    assert_eq!(record["wakeUps"][0]["reason"], "interrupted");
    env.assert_nothing_lives("p");
}

#[test]
fn a_declaration_wins_over_a_strangers_signal() {
    let env = pod("pi header\nhandoff rotating\npid agent\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    wrapper.signal(Signal::SIGTERM);
    wrapper.finish().code(0);
    assert_eq!(env.last("p")["outcome"], "more");
}

#[test]
fn a_cancel_settles_what_a_dead_wrapper_left() {
    let child = "[child]\nignore TERM\npid child\nsleep forever";
    let env = pod(&format!(
        "pid agent\npi header\nspawn double child quiet\nawait child\nsleep forever\n{child}"
    ));
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("child");
    wrapper.kill9();
    assert!(env.lives("agent") && env.lives("child"));
    env.podctl(&["cancel", "p", "--wait"]);
    let record = env.record("p");
    assert_eq!(record["state"], "cancelled");
    assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1));
    assert_eq!(record["wakeUps"][0]["outcome"], "lost");
    assert_eq!(record.get("current"), None);
    assert!(!env.lives("agent") && !env.lives("child"));
}

#[test]
fn a_park_during_a_wake_up_waits_for_its_end() {
    let env = pod("pi header\ntouch up\nawait go\npi run Done.\nhandoff rotating");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    env.podctl(&["park", "p", "--reason", "later"]).ok();
    assert_eq!(env.record("p")["state"], "active");
    env.touch("go");
    wrapper.finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["wakeUps"][0]["outcome"]),
        (&"parked".into(), &"more".into())
    );
    assert_eq!(
        (&record["parked"]["code"], &record["parked"]["by"]),
        (&"operator".into(), &"operator".into())
    );
}

#[test]
fn only_a_lost_wake_up_is_continued_warm() {
    let env = pod("pid first\npi header\nsleep forever");
    env.fake_wake(2, "pi run Again.\nhandoff rotating");
    env.wrapper("p", &["--warm"]).finish().code(2);
    assert_eq!(env.record("p")["wakeUpCount"], 0);
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("first");
    wrapper.kill9();
    env.wrapper("p", &["--warm"]).finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["wakeUps"][0]["outcome"], &record["wakeUps"][1]["outcome"]),
        (&"lost".into(), &"more".into())
    );
    assert_eq!(record["wakeUps"][1]["warm"], true);
    env.wrapper("p", &["--warm"]).finish().code(2);
    assert_eq!(env.record("p"), record);
}

#[test]
fn twenty_cancels_at_once_are_one() {
    let env = pod("ignore TERM\npid agent\npi header\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    let cancels: Vec<_> = (0..20)
        .map(|_| env.start(&env.programs().podctl, &["cancel", "p"]))
        .collect();
    for one in cancels {
        one.finish().code(0);
    }
    wrapper.finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], record["wakeUps"].as_array().map(Vec::len)),
        (&"cancelled".into(), Some(1))
    );
    assert_eq!(record["wakeUps"][0]["outcome"], "cancelled");
    env.assert_nothing_lives("p");
}

//! What podd does behind an outcome: rest, hold back, continue, park.

use std::fs;

use nix::sys::signal::Signal;
use pod_core::Timestamp;
use pod_test_support::{TestEnv, process};
use serde_json::Value;

use crate::{builder, env};

fn pod(keys: &[(&str, &str)], script: &str) -> TestEnv {
    let env = env();
    env.configure(keys);
    env.fake(script);
    env.spawn("p");
    env
}

fn time(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    text.parse::<Timestamp>().expect("a time").as_millis()
}

/// Waits until the pod's wake-up `n` has an outcome.
#[track_caller]
fn wait_for_end(env: &TestEnv, id: &str, n: u32) -> Value {
    env.wait_for_record(id, &format!("wake-up {n} has ended"), |record| {
        let entries = record["wakeUps"].as_array().expect("a record has wake-ups");
        entries.iter().any(|entry| entry["n"].as_u64() >= Some(n.into()))
    })
}

/// Waits until the agent of wake-up `n` runs, which writes its identity to `agent`, and kills the wrapper.
#[track_caller]
fn kill_wrapper(env: &TestEnv, n: u32) {
    env.wait_for_record("p", &format!("wake-up {n} runs"), |record| {
        record["current"]["n"] == n
    });
    env.wait_for_pid("agent");
    fs::remove_file(env.scratch().join("agent")).unwrap();
    let pid = env.record("p")["current"]["pid"].as_i64().unwrap();
    process::signal(i32::try_from(pid).unwrap(), Signal::SIGKILL);
}

#[test]
fn failures_are_spaced_out_and_the_third_parks() {
    let env = pod(
        &[("backoffFirst", "10m"), ("backoffCap", "10h")],
        "pi header\nexit 1",
    );
    for (n, minutes) in [(1, 10), (2, 20)] {
        env.pass();
        wait_for_end(&env, "p", n);
        // Each pass is a podd of its own, and only the first one computes anything.
        env.pass();
        let record = env.record("p");
        assert_eq!(record["streak"], n);
        let rest = time(&record["nextWakeAt"]) - time(&record["updatedAt"]);
        assert!(
            (rest - minutes * 60_000).abs() < 30_000,
            "{rest} ms behind failure {n}"
        );
        for _ in 0..3 {
            env.pass();
        }
        assert_eq!(env.record("p"), record);
        env.edit_record("p", |record| record["nextWakeAt"] = record["createdAt"].clone());
    }
    env.pass();
    wait_for_end(&env, "p", 3);
    env.pass();
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["parked"]["code"]),
        (&"parked".into(), &"failureStreak".into())
    );
    assert_eq!(record["parked"]["by"], "podd");
    env.pass();
    assert_eq!(env.record("p"), record);
}

#[test]
fn a_failing_pod_ends_parked_however_often_podd_dies() {
    let env = pod(&[("maxFailures", "6")], "append starts one\npi header\nexit 1");
    let mut podd = env.podd();
    for n in 1..=6 {
        wait_for_end(&env, "p", n);
        podd.kill9();
        podd.restart();
    }
    let record = env.wait_for_state("p", "parked");
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"failureStreak".into(), &6.into())
    );
    assert_eq!(env.wait_for_scratch("starts"), b"one\n".repeat(6));
}

#[test]
fn a_limit_holds_back_the_pods_of_its_account_alone() {
    let env = pod(&[], "pi run Done.\nhandoff done");
    env.define_also("elsewhere", "account = \"another\"");
    env.fake_pod(
        "p",
        "pi header\npi error 429 Rate limit reached.\npi end\npi settled",
    );
    assert_eq!(env.wake("p")["reason"], "rateLimited");
    env.spawn("same");
    env.spawn_with("other", &["--agent", "elsewhere"]);
    let podd = env.podd();
    env.wait_for_state("other", "done");
    let limited = env.wait_for_record("p", "a time for the next wake-up", |record| {
        record.get("nextWakeAt").is_some()
    });
    assert_eq!(
        (&limited["streak"], &limited["state"]),
        (&0.into(), &"idle".into())
    );
    podd.term().code(0);
    // Whoever passes was not there when the limit was met.
    env.pass();
    env.pass();
    assert_eq!(
        env.record("same")["wakeUpCount"],
        0,
        "the limit holds for the whole account"
    );
    assert_eq!(env.record("p"), limited);
    env.edit_record("p", |record| {
        let past = record["createdAt"].clone();
        record["wakeUps"][0]["rateLimit"]["resetsAt"] = past;
    });
    env.pass();
    env.wait_for_state("same", "done");
}

#[test]
fn a_refused_key_parks_every_idle_pod_of_its_account() {
    let env = pod(
        &[("maxConcurrent", "1")],
        "append starts one\npi run Done.\nhandoff done",
    );
    env.define_also("elsewhere", "account = \"another\"");
    env.fake_pod(
        "p",
        "pi header\npi error 401 Incorrect API key provided.\npi end\npi settled",
    );
    env.spawn("same");
    env.spawn_with("other", &["--agent", "elsewhere"]);
    let _podd = env.podd();
    env.wait_for_state("other", "done");
    let (first, same) = (
        env.wait_for_state("p", "parked"),
        env.wait_for_state("same", "parked"),
    );
    for record in [&first, &same] {
        assert_eq!(
            (&record["parked"]["code"], &record["parked"]["by"]),
            (&"authFailed".into(), &"podd".into())
        );
    }
    assert_eq!(
        (&first["wakeUpCount"], &same["wakeUpCount"]),
        (&1.into(), &0.into())
    );
    let detail = same["parked"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("`p`"), "the first one is not named: {detail}");
}

#[test]
fn a_lost_wake_up_is_continued_once() {
    let env = pod(&[], "pid agent\npi header\nsleep forever");
    env.fake_wake(3, "pi run Done.\nhandoff done");
    let _podd = env.podd();
    kill_wrapper(&env, 1);
    kill_wrapper(&env, 2);
    let record = env.wait_for_state("p", "done");
    let told: Vec<_> = record["wakeUps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["outcome"].as_str().unwrap_or_default(),
                one["warm"].as_bool().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(told, [("lost", false), ("lost", true), ("done", false)]);
    assert_eq!(record["wakeUps"][0]["reason"], "wrapperDied");
    env.assert_nothing_lives("p");
}

#[test]
fn losses_are_continued_or_parked_as_the_policy_says() {
    for (on_lost, state) in [("cold", "done"), ("park", "parked")] {
        let env = pod(&[("onLost", on_lost)], "pid agent\npi header\nsleep forever");
        env.fake_wake(2, "pi run Done.\nhandoff done");
        let _podd = env.podd();
        kill_wrapper(&env, 1);
        let record = env.wait_for_state("p", state);
        assert_eq!(
            (&record["wakeUps"][0]["outcome"], &record["wakeUps"][0]["reason"]),
            (&"lost".into(), &"wrapperDied".into())
        );
        if state == "parked" {
            assert_eq!(
                (&record["parked"]["code"], &record["wakeUpCount"]),
                (&"lost".into(), &1.into())
            );
        } else {
            let warm = record["wakeUps"][1].get("warm").and_then(Value::as_bool);
            assert_ne!(warm, Some(true));
        }
    }
}

#[test]
fn three_wake_ups_that_change_nothing_park() {
    for git in [true, false] {
        let builder = builder();
        let env = if git { builder.git() } else { builder }.build();
        env.fake("pi run More.\nhandoff rotating");
        env.spawn("p");
        let _podd = env.podd();
        let record = env.wait_for_state("p", "parked");
        assert_eq!(
            (&record["parked"]["code"], &record["wakeUpCount"]),
            (&"progressless".into(), &3.into()),
            "git: {git}"
        );
    }
}

#[test]
fn a_failure_in_between_does_not_hide_that_nothing_changes() {
    let env = pod(&[], "pi run More.\nhandoff rotating");
    env.fake_wake(2, "pi header\nexit 1");
    let _podd = env.podd();
    let record = env.wait_for_state("p", "parked");
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"progressless".into(), &4.into())
    );
}

#[test]
fn a_pod_that_gets_on_is_parked_by_its_budget() {
    for changed in ["project/made", "project/.agents-pod/p/docs/DECISIONS.md"] {
        let env = pod(
            &[],
            &format!("append ../{changed} one\npi run More.\nhandoff rotating"),
        );
        env.edit_record("p", |record| record["policy"]["maxWakeUps"] = 5.into());
        let _podd = env.podd();
        let record = env.wait_for_state("p", "parked");
        assert_eq!(
            (&record["parked"]["code"], &record["wakeUpCount"]),
            (&"budgetExhausted".into(), &5.into()),
            "{changed}"
        );
    }
}

#[test]
fn a_pod_whose_project_is_gone_is_parked() {
    let env = pod(&[], "pi run Done.\nhandoff done");
    fs::rename(env.project(), env.root().join("elsewhere")).unwrap();
    let mut command = env.command(&env.programs().podd);
    command.arg("--once").current_dir(env.root());
    env.start_command(command).finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["parked"]["code"]),
        (&"parked".into(), &"projectGone".into())
    );
    assert_eq!(record["wakeUpCount"], 0);
    assert!(!env.project().exists(), "a project was made out of nothing");
}

#[test]
fn an_operators_park_and_cancel_outlast_every_pass() {
    let env = pod(&[], "append starts one\npi run Done.\nhandoff done");
    env.podctl(&["cancel", "p"]).ok();
    env.spawn_with("q", &["--park"]);
    let before = [env.record("p"), env.record("q")];
    for _ in 0..10 {
        env.pass();
    }
    let mut podd = env.podd();
    podd.kill9();
    podd.restart();
    podd.term().code(0);
    assert_eq!([env.record("p"), env.record("q")], before);
    assert!(!env.scratch().join("starts").exists(), "an agent was started");
}

#[test]
fn a_cancel_that_met_a_dead_wrapper_is_settled_by_the_next_pass() {
    let env = pod(
        &[],
        "pid agent\npi header\nspawn double child quiet\nawait child\nsleep forever\n[child]\nignore TERM\npid child\nsleep forever",
    );
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("child");
    wrapper.kill9();
    env.edit_record("p", |record| {
        record["cancel"] = serde_json::json!({"at": record["updatedAt"], "by": "operator"});
    });
    env.pass();
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["wakeUps"][0]["outcome"]),
        (&"cancelled".into(), &"lost".into())
    );
    assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1));
    assert!(!env.lives("agent") && !env.lives("child"));
    env.pass();
    assert_eq!(env.record("p"), record);
}

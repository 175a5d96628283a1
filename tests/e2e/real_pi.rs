//! The real pi coding agent, against a scripted model.

use std::fs;
use std::time::SystemTime;

use nix::sys::signal::Signal;
use pod_core::Timestamp;
use pod_test_support::model::{Model, Moment, Reply, Script, Stall};
use pod_test_support::{Cli, LONG, RealAgent, TestEnv, process, wait_until};
use serde_json::{Value, json};

use crate::env;

/// Runs a test with each version of pi.
fn both(test: impl Fn(&RealAgent)) {
    for version in [Cli::Pi16, Cli::Pi073] {
        if let Some(pi) = RealAgent::find(version) {
            test(&pi);
        }
    }
}

/// Runs a test with the newer version of pi.
fn newer(test: impl Fn(&RealAgent)) {
    if let Some(pi) = RealAgent::find(Cli::Pi16) {
        test(&pi);
    }
}

/// An environment with a model and one idle pod `p`.
fn pod(pi: &RealAgent, script: Script) -> (TestEnv, Model) {
    let env = env();
    let model = Model::start(script);
    pi.set_up(&env, &model);
    env.spawn("p");
    (env, model)
}

fn hanging() -> Reply {
    Reply::stall(Stall::Hang(Moment::Mid))
}

fn outcomes(record: &Value) -> Vec<&str> {
    let entries = record["wakeUps"].as_array().expect("a record has wake-ups");
    entries
        .iter()
        .map(|entry| entry["outcome"].as_str().unwrap_or_default())
        .collect()
}

#[test]
fn an_answer_without_a_handoff_is_a_failure() {
    both(|pi| {
        let (env, model) = pod(pi, Script::of([Reply::text("I am done, I think. status: done")]));
        let last = env.wake("p");
        assert_eq!(
            (&last["outcome"], &last["reason"]),
            (&"failed".into(), &"noHandoff".into()),
            "{last}"
        );
        assert_eq!(
            (&last["exit"]["code"], &last["usage"]["inputTokens"]),
            (&0.into(), &100.into())
        );
        let asked = model.requests();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].text().contains("Reach the goal."));
        assert!(env.output("p").contains("I am done, I think."));
    });
}

#[test]
fn a_rotation_ends_done_after_two_wake_ups() {
    both(|pi| {
        let script = Script::of([
            Reply::text("I begin.").write("made.txt", "half\n"),
            Reply::text("").handoff("rotating", "half of it is made"),
            Reply::text("").handoff("done", "all of it is made"),
        ]);
        let (env, model) = pod(pi, script);
        let _podd = env.podd();
        let record = env.wait_for_state("p", "done");
        assert_eq!(outcomes(&record), ["more", "done"], "{record:#}");
        assert_eq!(
            fs::read_to_string(env.project().join("made.txt")).unwrap(),
            "half\n"
        );
        let asked = model.requests();
        assert_eq!(
            asked.len(),
            3,
            "the handoff ends a wake-up without a further request"
        );
        assert!(asked[0].tools().iter().any(|tool| tool.ends_with("pod_handoff")));
        assert!(
            asked[2].messages().iter().all(|(role, _)| role != "assistant"),
            "each wake-up is a session of its own"
        );
        let first = fs::read_to_string(env.wake_dir("p", 1).join("handoff.md")).unwrap();
        assert!(first.contains("half of it is made"), "{first}");
    });
}

#[test]
fn a_refused_key_parks_the_pod() {
    both(|pi| {
        let body = json!({"error": {
            "message": "Incorrect API key provided: dummy.", "type": "invalid_request_error",
            "code": "invalid_api_key",
        }});
        let (env, _model) = pod(pi, Script::always(Reply::http(401, &body)));
        let _podd = env.podd();
        let record = env.wait_for_state("p", "parked");
        assert_eq!(record["wakeUps"][0]["reason"], "authFailed", "{record:#}");
        assert_eq!(
            (&record["parked"]["code"], &record["parked"]["by"]),
            (&"authFailed".into(), &"podd".into())
        );
        assert_eq!(record["wakeUpCount"], 1);
    });
}

#[test]
fn a_rate_limit_that_stays_is_waited_for() {
    both(|pi| {
        let body = json!({"error": {
            "message": "Rate limit reached for mock-model on requests per min (RPM): Limit 3, Used 3.",
            "type": "requests", "code": "rate_limit_exceeded",
        }});
        let (env, _model) = pod(pi, Script::always(Reply::http(429, &body)));
        let _podd = env.podd();
        let record = env.wait_for_record("p", "a time for the next wake-up", |record| {
            record["wakeUpCount"] == 1 && record["state"] == "idle" && record.get("nextWakeAt").is_some()
        });
        assert_eq!(record["wakeUps"][0]["reason"], "rateLimited", "{record:#}");
        assert_eq!(record["streak"], 0);
        let next: Timestamp = record["nextWakeAt"].as_str().unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(
            next.as_millis() > i64::try_from(now.as_millis()).unwrap(),
            "{next} is past"
        );
        assert!(
            record["wakeUps"][0]["rateLimit"]["source"].is_string(),
            "{record:#}"
        );
    });
}

#[test]
fn a_hanging_model_is_no_obstacle_to_a_cancel() {
    both(|pi| {
        let (env, model) = pod(pi, Script::always(hanging()));
        let wrapper = env.wrapper("p", &[]);
        model.wait_for_request(1, LONG);
        env.podctl(&["cancel", "p", "--wait"]).ok();
        wrapper.finish().code(0);
        assert_eq!(env.record("p")["state"], "cancelled");
        assert_eq!(env.last("p")["outcome"], "cancelled");
        env.assert_nothing_lives("p");
        model.wait_for_hang_up(1, LONG);
    });
}

#[test]
fn a_tool_in_a_session_of_its_own_goes_with_a_cancel() {
    both(|pi| {
        let escape = Reply::text("I start it.").bash("setsid sleep 600 & sleep 600");
        let (env, _model) = pod(pi, Script::of([escape]));
        let wrapper = env.wrapper("p", &[]);
        wait_until("both sleep", LONG, || {
            let sleeping = |seen: &process::Seen| seen.command == "sleep 600";
            env.alive_in("p").iter().filter(|seen| sleeping(seen)).count() == 2
        });
        env.podctl(&["cancel", "p", "--wait"]).ok();
        wrapper.finish().code(0);
        assert_eq!(env.record("p")["state"], "cancelled");
        env.assert_nothing_lives("p");
    });
}

#[test]
fn a_lost_wake_up_is_continued_in_its_session() {
    both(|pi| {
        let first = Reply::text("First thoughts.").bash("echo A-RESULT");
        let (env, model) = pod(pi, Script::of([first, hanging()]));
        let mut wrapper = env.wrapper("p", &[]);
        model.wait_for_request(2, LONG);
        wrapper.kill9();
        model.then([Reply::text("").handoff("done", "it is made")]);
        env.podctl(&["wake", "p", "--warm", "--wait"]).ok();
        let record = env.record("p");
        assert_eq!(outcomes(&record), ["lost", "done"], "{record:#}");
        assert_eq!(
            (&record["state"], &record["wakeUps"][1]["warm"]),
            (&"done".into(), &true.into())
        );
        let told = model.wait_for_request(3, LONG).text();
        for earlier in ["Reach the goal.", "First thoughts.", "A-RESULT"] {
            assert!(
                told.contains(earlier),
                "`{earlier}` is not in the session: {told}"
            );
        }
        env.assert_nothing_lives("p");
    });
}

#[test]
fn the_death_of_podd_disturbs_no_wake_up() {
    newer(|pi| {
        let script = Script::of([
            Reply::text("I wait.").bash("while [ ! -e go ]; do sleep 0.05; done"),
            Reply::text("").handoff("done", "it is made"),
        ]);
        let (env, model) = pod(pi, script);
        let mut podd = env.podd();
        model.wait_for_request(1, LONG);
        podd.kill9();
        let before = env.record("p")["current"].clone();
        let pid = i32::try_from(before["pid"].as_i64().unwrap()).unwrap();
        assert!(
            process::lives(pid, before["startTicks"].as_u64().unwrap()),
            "the wrapper died with podd"
        );
        podd.restart();
        assert_eq!(env.record("p")["current"], before, "another wake-up was begun");
        fs::write(env.project().join("go"), "").unwrap();
        let record = env.wait_for_state("p", "done");
        assert_eq!(outcomes(&record), ["done"]);
        assert_eq!(
            (&record["wakeUpCount"], &record["wakeUps"][0]["n"]),
            (&1.into(), &1.into())
        );
        podd.signal(Signal::SIGTERM);
    });
}

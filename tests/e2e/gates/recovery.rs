//! What a person, a killed runner and a hostile agent do to a gated pod.

use std::fs;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, TestEnv, process, wait_until};
use serde_json::Value;

use super::{
    NOTE, decisions, dispositions, edit, evidence, freshness, gated, gates, json, parked, pass_until,
};

/// A pod that podd has parked since its gate fails, and whose worktree would pass by now.
fn mended(more: &[(&str, &str)]) -> TestEnv {
    let env = gated(&gates(&[("fast", "test -f ok")], ""));
    env.podctl(&["edit", "p", "--set", "maxGateRepairs=0"]).ok();
    for (key, value) in more {
        env.podctl(&["edit", "p", "--set", &format!("{key}={value}")])
            .ok();
    }
    env.fake(&format!("sh echo $AGENTS_POD_WAKEUP_N > src/a\n{NOTE} done"));
    let record = parked(&env);
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"gateFailed".into(), &1.into())
    );
    edit(&env, "ok", "");
    env
}

#[test]
fn resume_beside_a_podd_runs_the_gate_and_wakes_nobody() {
    let env = mended(&[]);
    let _podd = env.podd();
    env.podctl(&["resume", "p"]).code(0);
    let record = env.wait_for_state("p", "done");
    assert_eq!(record["wakeUpCount"], 1, "{record:#}");
    let phases: Vec<Value> = decisions(&env)
        .iter()
        .map(|entry| entry["phase"].clone())
        .collect();
    assert!(phases.contains(&"resume".into()), "{phases:?}");
}

#[test]
fn retry_beside_a_podd_runs_the_gate_and_says_what_was_decided() {
    let env = mended(&[]);
    let _podd = env.podd();
    let answer = json(&env.podctl(&["retry", "p", "--json"]).code(0));
    assert_eq!(
        (&answer["outcome"], &answer["overall"]),
        (&"gate_rerun".into(), &"pass".into())
    );
    assert!(
        !answer["execution_disposition"].is_null() && !answer["stage"].is_null(),
        "{answer:#}"
    );
    let record = env.wait_for_state("p", "done");
    assert_eq!(record["wakeUpCount"], 1, "{record:#}");
}

#[test]
fn resume_of_an_invalid_worktree_stays_parked_beside_a_podd() {
    let env = gated(&gates(&[("fast", "true")], "[scope]\nallow = [\"src/**\"]\n"));
    env.fake(&format!("sh echo x > outside\n{NOTE} done"));
    parked(&env);
    let _podd = env.podd();
    let refused = env.podctl(&["resume", "p"]).code(3);
    assert!(
        refused.stderr.contains("blocked_checkpoint_invalid"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        (&env.record("p")["state"], &env.record("p")["wakeUpCount"]),
        (&"parked".into(), &1.into())
    );
    fs::remove_file(env.project().join("outside")).expect("it was there");
    env.podctl(&["resume", "p"]).code(0);
    env.wait_for_state("p", "done");
}

#[test]
fn a_gate_that_never_leaves_evidence_is_not_run_for_ever() {
    let env = gated(&gates(
        &[("fast", "echo x >> \"$TMPDIR/runs\"; kill -9 $PPID; sleep 1")],
        "",
    ));
    env.fake(&format!("sh echo two > src/a\n{NOTE} done"));
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "staleEvidence", "{record:#}");
    let runs = fs::read_to_string(env.root().join("tmp/runs")).expect("it ran");
    assert_eq!(runs.lines().count(), 3);
    env.assert_nothing_lives("p");
}

#[test]
fn a_gates_runner_that_does_not_answer_is_ended() {
    let env = gated(&gates(&[("fast", "sleep 600")], ""));
    env.configure(&[("heartbeatInterval", "100ms"), ("wedgeAfter", "3")]);
    env.podctl(&["park", "p"]).ok();
    let waiting = env.start(&env.programs().podctl, &["gate", "run", "p"]);
    let record = env.wait_for_record("p", "the gate runs", |record| record["current"]["kind"] == "gate");
    wait_until("its step runs", LONG, || {
        env.alive_in("p")
            .iter()
            .any(|seen| seen.command.contains("sleep 600"))
    });
    let runner = i32::try_from(record["current"]["pid"].as_i64().expect("a pid")).expect("it fits");
    process::signal(runner, Signal::SIGSTOP);
    let _podd = env.podd();
    env.wait_for_record("p", "it is settled", |record| record.get("current").is_none());
    waiting.finish().code(1);
    env.assert_nothing_lives("p");
}

#[test]
fn evidence_that_an_agent_writes_counts_for_nothing() {
    let env = gated(&gates(&[("fast", "test -f ok")], ""));
    env.fake_wake(1, &format!("sh echo two > src/a\n{NOTE} done"));
    env.fake_wake(
        2,
        &format!(
            "sh sed -i 's/\"overall\": \"fail\"/\"overall\": \"pass\"/' \"${{AGENTS_POD_DOCS_DIR%/docs}}/gates/latest-fast.json\"\n\
             {NOTE} done"
        ),
    );
    env.podctl(&["edit", "p", "--set", "maxGateRepairs=1"]).ok();
    let record = parked(&env);
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"gateFailed".into(), &2.into()),
        "{record:#}"
    );
    assert_eq!(evidence(&env, "fast")["overall"], "fail", "it was run again");
}

#[test]
fn the_gate_in_the_way_of_the_last_stage_is_in_the_prompt() {
    let all = [
        ("fast", "test ! -f q || { echo FAST-SAYS; test -f fix; }"),
        ("full", "test -f q"),
        ("merge", "true"),
    ];
    let env = gated(&gates(&all, ""));
    env.fake_wake(1, &format!("sh echo x > b\n{NOTE} done"));
    env.fake_wake(2, &format!("sh echo x > q\n{NOTE} done"));
    env.fake_wake(3, &format!("sh echo x > fix\n{NOTE} done"));
    pass_until(&env, "it is done", |record| record["state"] == "done");
    let prompt = fs::read_to_string(env.wake_dir("p", 3).join("prompt.md")).expect("it is there");
    assert!(
        prompt.contains("The last run of gate `fast` failed") && prompt.contains("    FAST-SAYS"),
        "{prompt}"
    );
}

#[test]
fn a_log_that_cannot_be_written_or_counts_too_far_stops_nobody() {
    for odd in ["a directory", "the last number"] {
        let env = gated(&gates(&[("fast", "true")], ""));
        let log = env.pod_dir("p").join("decisions.md");
        if odd == "a directory" {
            fs::create_dir(&log).expect("it is made");
        } else {
            let entry = r#"{"phase":"retry","iteration":4294967295,"at":"2026-01-01T00:00:00Z","plan_decision":"unchanged",
                "execution_disposition":"blocked_other","status":"parked","stage":"qa","latest_gate_overall":null,
                "gate_evidence_freshness":null,"checkpoint_validity":"valid","reasons":[]}"#;
            fs::write(&log, format!("```json\n{entry}\n```\n")).expect("it is written");
        }
        env.fake(&format!("sh echo two > src/a\n{NOTE} done"));
        pass_until(&env, odd, |record| record["state"] == "done");
    }
}

#[test]
fn a_persons_own_runs_are_no_repairs_and_two_failures_on_one_content_ask_for_another_plan() {
    let env = gated(&gates(&[("fast", "exit 1")], ""));
    env.podctl(&[
        "edit",
        "p",
        "--set",
        "backoffFirst=1h",
        "--set",
        "maxGateRepairs=2",
    ])
    .ok();
    env.fake_wake(1, &format!("sh echo two > src/a\n{NOTE} done"));
    env.fake_wake(2, "exit 3");
    pass_until(&env, "the second has failed", |record| record["wakeUpCount"] == 2);
    for _ in 0..4 {
        env.podctl(&["gate", "run", "p"]).code(3);
        env.pass();
    }
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["wakeUpCount"]),
        (&"idle".into(), &2.into()),
        "{record:#}"
    );
    let last = decisions(&env).pop().expect("one");
    assert_eq!(last["plan_decision"], "update_required", "{last:#}");
    let said = dispositions(&env);
    assert!(
        said.windows(2)
            .all(|two| two[0] != two[1] || two[0] == "retry_build"),
        "{said:?}"
    );
}

#[test]
fn the_first_step_that_does_not_pass_ends_the_run_and_a_claim_ends_with_the_next_outcome() {
    let steps = "[gates.fast]\nsteps = [{ name = \"a\", run = \"test -f ok\" }, { name = \"b\", run = \"touch src/ran\" }]\n";
    let env = gated(steps);
    env.fake_wake(1, &format!("sh echo two > src/a\n{NOTE} done"));
    env.fake_wake(2, &format!("sh echo three > ok\n{NOTE} rotating"));
    pass_until(&env, "it has been woken twice", |record| {
        record["wakeUpCount"] == 2
    });
    assert!(!env.project().join("src/ran").exists());
    assert_eq!(env.record("p")["gates"]["claim"], false, "more is no claim");
}

#[test]
fn a_definition_that_is_not_committed_is_no_violation_of_its_own_scope() {
    let env = gated(&gates(&[("fast", "true")], ""));
    edit(
        &env,
        "agents-pod.toml",
        &gates(&[("fast", "true")], "[scope]\nallow = [\"src/**\"]\n"),
    );
    env.podctl(&["gate", "reload", "p"]).code(0);
    env.podctl(&["gate", "run", "p"]).code(0);
    assert_eq!(freshness(&env, "fast"), "current");
    let shown = json(&env.podctl(&["gate", "status", "p", "--json"]).code(0));
    assert_eq!(shown["checkpointValidity"], "valid", "{shown:#}");
}

#[test]
fn a_gated_pod_that_makes_nothing_is_parked() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake(&format!("{NOTE} rotating"));
    let record = parked(&env);
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"noNewWork".into(), &3.into()),
        "{record:#}"
    );
}

#[test]
fn a_pin_that_makes_no_sense_parks_and_a_reload_mends_it() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake_wake(1, &format!("sh echo two > src/a\n{NOTE} rotating"));
    env.fake(&format!("sh echo three > src/a\n{NOTE} done"));
    pass_until(&env, "it was woken", |record| record["wakeUpCount"] == 1);
    env.edit_record("p", |record| {
        record["gates"]["toml"] = "[gates.fast]\nsteps = 7\n".into();
        record["gates"]["reconciled"] = Value::Null;
    });
    let record = parked(&env);
    let detail = record["parked"]["detail"].as_str().unwrap_or_default();
    assert!(
        record["parked"]["code"] == "gateError" && detail.contains("pinned gates"),
        "{record:#}"
    );
    let retry = env.podctl(&["retry", "p"]).code(1);
    assert!(retry.stderr.contains("pinned gates"), "{}", retry.stderr);
    env.podctl(&["gate", "reload", "p"]).code(0);
    env.podctl(&["resume", "p"]).code(0);
    pass_until(&env, "it is done", |record| record["state"] == "done");
}

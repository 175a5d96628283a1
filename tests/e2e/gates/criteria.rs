//! The acceptance criteria of recovery and reconciliation, each with its number.

use std::fs;

use pod_test_support::TestEnv;
use serde_json::Value;

use super::{
    NOTE, decisions, dispositions, edit, evidence, freshness, gated, gates, json, parked, pass_until,
};

#[test]
fn criterion_5_1_1_a_note_with_net_new_work_is_no_invalid_output() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake(&format!("sh echo two > src/a\n{NOTE} rotating"));
    let last = env.wake("p");
    assert_eq!(last["classification"], "progress_applied");
    let file: Value =
        serde_json::from_slice(&fs::read(env.wake_dir("p", 1).join("worktree.json")).expect("it is there"))
            .expect("JSON");
    assert_eq!(file["after"]["net_new_worktree_change"], true, "{file:#}");
    assert_eq!(file["after"]["validation_status"], "valid");
    assert_eq!(env.result("p", 1)["classification"], "progress_applied");
}

#[test]
fn criterion_5_1_2_an_invalid_worktree_is_blocked_by_name_and_its_violations_are_kept() {
    let scope = "[scope]\nallow = [\"src/**\"]\ndeny = [\"**/*.lock\"]\n";
    let env = gated(&gates(&[("fast", "true")], scope));
    env.fake(&format!(
        "sh echo x > outside && echo x > src/x.lock\n{NOTE} done"
    ));
    let last = env.wake("p");
    assert_eq!(last["classification"], "checkpoint_invalid");
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "checkpointInvalid");
    let paths: Vec<&str> = last["violations"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["path"].as_str())
        .collect();
    assert_eq!(paths, ["outside", "src/x.lock"]);
    assert!(
        !env.pod_dir("p").join("gates/latest-fast.json").exists(),
        "no gate runs on it"
    );
    let page = env.podctl(&["show", "p"]).ok();
    assert!(
        page.contains("outside") && page.contains("deny **/*.lock"),
        "{page}"
    );
    let entry = decisions(&env).pop().expect("one");
    assert_eq!(entry["execution_disposition"], "blocked_checkpoint_invalid");
    assert_eq!(
        (&entry["checkpoint_validity"], &entry["status"]),
        (&"invalid".into(), &"parked".into())
    );
}

#[test]
fn criterion_5_1_3_malformed_output_is_still_invalid_output() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake(&format!("sh echo two > src/a\n{NOTE} malformed"));
    env.podctl(&["edit", "p", "--set", "backoffFirst=1ms"]).ok();
    let last = env.wake("p");
    assert_eq!(
        (&last["classification"], &last["reason"]),
        (&"provider_output_invalid".into(), &"handoffMalformed".into())
    );
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "providerFailure", "{record:#}");
    assert_eq!(record["wakeUpCount"], 3);
}

/// A pod in this stage, parked by podd, whose evidence failed on another content than the one that is there now.
fn stale_failure(stage: &str, mode: &str, run: &str) -> TestEnv {
    let env = gated(&gates(&[(mode, run)], ""));
    env.edit_record("p", |record| record["stage"] = stage.into());
    edit(&env, "src/a", "broken\n");
    env.podctl(&["park", "p"]).ok();
    env.podctl(&["gate", "run", "p", mode]).code(3);
    env.edit_record("p", |record| {
        record["parked"]["by"] = "podd".into();
        record["parked"]["code"] = "gateFailed".into();
    });
    edit(&env, "src/a", "whole\n");
    assert_eq!(freshness(&env, mode), "stale");
    env
}

#[test]
fn criterion_5_2_1_resume_on_a_stale_failure_reruns_fast_without_another_edit() {
    let env = stale_failure("building", "fast", "grep -q whole src/a");
    env.podctl(&["resume", "p"]).code(0);
    let record = pass_until(&env, "it is done", |record| record["state"] == "done");
    assert_eq!(record["wakeUpCount"], 0, "nobody was woken");
    assert_eq!(evidence(&env, "fast")["overall"], "pass");
    assert!(dispositions(&env).contains(&"rerun_fast_gate".to_owned()));
}

#[test]
fn criterion_5_2_2_resume_on_a_stale_failure_reruns_full_without_another_edit() {
    let env = stale_failure("qa", "full", "grep -q whole src/a");
    env.podctl(&["resume", "p"]).code(0);
    let record = pass_until(&env, "it is done", |record| record["state"] == "done");
    assert_eq!(record["wakeUpCount"], 0, "nobody was woken");
    assert!(dispositions(&env).contains(&"rerun_full_gate".to_owned()));
}

#[test]
fn criterion_5_2_3_a_stale_pass_is_not_current_and_forces_a_rerun() {
    let env = gated(&gates(&[("fast", "! grep -q broken src/a")], ""));
    edit(&env, "src/a", "two\n");
    env.podctl(&["gate", "run", "p"]).code(0);
    assert_eq!(freshness(&env, "fast"), "current");
    edit(&env, "src/a", "broken\n");
    assert_eq!(freshness(&env, "fast"), "stale");
    env.fake(&format!("{NOTE} done"));
    env.podctl(&["edit", "p", "--set", "maxGateRepairs=0"]).ok();
    env.wake("p");
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "gateFailed");
    assert!(!dispositions(&env).contains(&"converged".to_owned()));
    assert_eq!(evidence(&env, "fast")["overall"], "fail");
}

#[test]
fn criterion_5_2_4_freshness_is_scoped_to_the_mode() {
    let env = gated(&gates(&[("fast", "true"), ("full", "true")], ""));
    env.podctl(&["park", "p"]).ok();
    env.podctl(&["gate", "run", "p", "full"]).code(0);
    assert_eq!(
        (freshness(&env, "fast"), freshness(&env, "full")),
        ("missing".into(), "current".into())
    );
}

#[test]
fn criterion_5_2_5_evidence_records_what_it_judged() {
    let env = gated(&gates(&[("fast", "echo hello; echo there >&2")], ""));
    edit(&env, "src/a", "two\n");
    let shown = json(&env.podctl(&["gate", "run", "p", "--json"]).code(0));
    let found = evidence(&env, "fast");
    assert_eq!(shown, found);
    for key in [
        "input_diff_hash",
        "output_diff_hash",
        "input_checkpoint_id",
        "gate_definition_hash",
        "head_before",
    ] {
        assert!(
            found[key].as_str().is_some_and(|text| text.len() >= 16),
            "{key}: {found:#}"
        );
    }
    assert_eq!(
        (&found["input_worktree_validity"], &found["schema_version"]),
        (&"valid".into(), &1.into())
    );
    assert_eq!(found["steps"][0]["exit_code"], 0);
    assert_eq!(
        fs::read_dir(env.pod_dir("p").join("gates/history"))
            .expect("it is there")
            .count(),
        1
    );
    let page = env.podctl(&["gate", "show", "p", "fast"]).ok();
    assert!(
        page.contains("gate fast: pass") && page.contains("hello") && page.contains("there"),
        "{page}"
    );
}

#[test]
fn criterion_5_3_1_every_decision_has_both_dimensions() {
    let env = gated(&gates(&[("fast", "test -f made")], ""));
    env.fake_wake(1, &format!("{NOTE} done"));
    env.fake_wake(2, &format!("sh echo x > made\n{NOTE} done"));
    pass_until(&env, "it is done", |record| record["state"] == "done");
    let all = decisions(&env);
    assert!(all.len() >= 3, "{all:#?}");
    for (at, entry) in all.iter().enumerate() {
        assert_eq!(entry["iteration"], at + 1);
        for key in [
            "plan_decision",
            "execution_disposition",
            "status",
            "stage",
            "checkpoint_validity",
            "reasons",
            "phase",
        ] {
            assert!(!entry[key].is_null(), "{key}: {entry:#}");
        }
    }
    let text = fs::read_to_string(env.pod_dir("p").join("decisions.md")).expect("it is there");
    assert!(
        text.starts_with("## 1. building: ") && !text.contains("no_update"),
        "{text}"
    );
}

#[test]
fn criterion_5_3_2_to_4_a_blocked_pod_says_unchanged_and_blocked_and_never_converged() {
    let env = gated(&gates(&[("fast", "exit 1")], ""));
    edit(&env, "src/a", "two\n");
    env.podctl(&["edit", "p", "--set", "maxGateRepairs=0"]).ok();
    env.fake(&format!("{NOTE} done"));
    env.wake("p");
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "gateFailed");
    let entry = decisions(&env).pop().expect("one");
    assert_eq!(
        (&entry["plan_decision"], &entry["execution_disposition"]),
        (&"unchanged".into(), &"blocked_other".into())
    );
    assert_eq!(
        (&entry["latest_gate_overall"], &entry["gate_evidence_freshness"]),
        (&"fail".into(), &"current".into())
    );
    // A pass that is stale, beside a park: still no convergence.
    edit(&env, "src/a", "three\n");
    env.podctl(&["gate", "run", "p"]).code(3);
    env.pass();
    assert!(!dispositions(&env).contains(&"converged".to_owned()));
}

#[test]
fn criterion_5_4_a_stale_failure_and_a_finished_worktree_end_without_a_loop() {
    // 1 to 3: the agent only writes notes; the gate is rerun and the pod advances.
    let env = stale_failure("building", "fast", "grep -q whole src/a");
    env.fake(&format!("{NOTE} done"));
    env.podctl(&["resume", "p"]).code(0);
    env.podctl(&["wake", "p", "--wait"]);
    let record = pass_until(&env, "it is done", |record| record["state"] == "done");
    assert!(record["wakeUpCount"].as_u64() <= Some(1), "{record:#}");
    assert!(
        decisions(&env)
            .iter()
            .all(|entry| entry["plan_decision"] == "unchanged")
    );
    // 4: retry reruns the gate and bounces nobody back into work.
    let env = stale_failure("building", "fast", "grep -q whole src/a");
    let answer = json(&env.podctl(&["retry", "p", "--json"]).code(0));
    assert_eq!(
        (&answer["outcome"], &answer["overall"]),
        (&"gate_rerun".into(), &"pass".into()),
        "{answer:#}"
    );
    assert_eq!(env.record("p")["wakeUpCount"], 0);
    assert_eq!(env.record("p")["state"], "done");
}

#[test]
fn retry_says_which_of_the_three_it_was() {
    let env = stale_failure("building", "fast", "grep -q perfect src/a");
    let answer = json(&env.podctl(&["retry", "p", "--json"]).code(3));
    assert_eq!(
        (&answer["outcome"], &answer["execution_disposition"]),
        (&"worker_retry".into(), &"retry_build".into())
    );
    let env = stale_failure("building", "fast", "true; exit 1");
    edit(
        &env,
        "agents-pod.toml",
        "[gates.fast]\nsteps = [{ name = \"check\", run = \"true\" }]\n",
    );
    let before = evidence(&env, "fast");
    let answer = json(&env.podctl(&["retry", "p", "--json"]).code(3));
    assert_eq!(answer["outcome"], "checkpoint_block");
    assert_eq!(before, evidence(&env, "fast"), "no gate was run");
    assert_eq!(env.record("p")["state"], "parked");
    // An operator's park stays.
    let env = stale_failure("building", "fast", "grep -q whole src/a");
    env.edit_record("p", |record| record["parked"]["by"] = "operator".into());
    env.podctl(&["retry", "p"]).code(0);
    assert_eq!(
        (&env.record("p")["state"], &env.record("p")["parked"]["by"]),
        (&"parked".into(), &"operator".into())
    );
    let entry = decisions(&env).pop().expect("one");
    assert!(
        entry["reasons"].to_string().contains("parked_by_operator"),
        "{entry:#}"
    );
}

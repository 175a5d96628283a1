//! Gates: `done` is a claim until the evidence agrees. The numbers are those of the acceptance criteria.

use std::fs;
use std::path::Path;

use pod_test_support::model::{Model, Reply, Script};
use pod_test_support::{Cli, Finished, LONG, RealAgent, TestEnv, wait_until};
use serde_json::Value;

use crate::builder;

/// A gated pod `p` in a repository with a commit.
fn gated(toml: &str) -> TestEnv {
    let env = builder().git().build();
    fs::write(env.project().join("agents-pod.toml"), toml).expect("it is written");
    fs::create_dir(env.project().join("src")).expect("it is made");
    fs::write(env.project().join("src/a"), "one\n").expect("it is written");
    env.git(&["add", "."]);
    env.git(&["commit", "-qm", "gates"]);
    env.fake("exit 1");
    env.spawn("p");
    env
}

fn gates(modes: &[(&str, &str)], more: &str) -> String {
    let gates: String = modes
        .iter()
        .map(|(mode, run)| {
            format!("[gates.{mode}]\nsteps = [{{ name = \"check\", run = {run:?}, timeout = \"20s\" }}]\n")
        })
        .collect();
    gates + more
}

const NOTE: &str = "pi run A note.\nhandoff";

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"))
}

fn status(env: &TestEnv) -> Value {
    json(&env.podctl(&["gate", "status", "p", "--json"]).code(0))
}

fn freshness(env: &TestEnv, mode: &str) -> String {
    status(env)["gates"][mode]["freshness"]
        .as_str()
        .expect("a word")
        .to_owned()
}

fn evidence(env: &TestEnv, mode: &str) -> Value {
    let text = fs::read(env.pod_dir("p").join(format!("gates/latest-{mode}.json"))).expect("there is one");
    serde_json::from_slice(&text).expect("it is JSON")
}

fn decisions(env: &TestEnv) -> Vec<Value> {
    let all = json(&env.podctl(&["decisions", "p", "--json"]).code(0));
    all.as_array().expect("a list").clone()
}

fn dispositions(env: &TestEnv) -> Vec<String> {
    let text = |entry: &Value| {
        entry["execution_disposition"]
            .as_str()
            .expect("a word")
            .to_owned()
    };
    decisions(env).iter().map(text).collect()
}

fn edit(env: &TestEnv, name: &str, text: &str) {
    fs::write(env.project().join(name), text).expect("it is written");
}

/// Makes passes until the record is as wanted.
fn pass_until(env: &TestEnv, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, LONG, || {
        env.pass();
        let record = env.record("p");
        record.get("current").is_none() && wanted(&record)
    });
    env.record("p")
}

fn parked(env: &TestEnv) -> Value {
    pass_until(env, "it is parked", |record| record["state"] == "parked")
}

#[test]
fn a_gated_pod_goes_through_all_stages_unattended() {
    let all = [
        ("fast", "test -f made"),
        ("full", "grep -q whole made"),
        ("merge", "true"),
    ];
    let env = gated(&gates(&all, ""));
    assert_eq!(env.record("p")["stage"], "building");
    env.fake_wake(1, "sh echo half > made\npi run Made.\nhandoff rotating");
    env.fake_wake(2, &format!("sh echo whole > made\n{NOTE} done"));
    let _podd = env.podd();
    let record = env.wait_for_state("p", "done");
    assert_eq!(
        (&record["stage"], &record["wakeUpCount"]),
        (&"ready_to_merge".into(), &2.into())
    );
    for mode in ["fast", "full", "merge"] {
        assert_eq!(evidence(&env, mode)["overall"], "pass");
    }
    let said = dispositions(&env);
    assert_eq!(said.last().map(String::as_str), Some("converged"), "{said:?}");
    for wanted in [
        "rerun_fast_gate",
        "rerun_full_gate",
        "rerun_merge_gate",
        "retry_build",
    ] {
        assert!(said.iter().any(|one| one == wanted), "{wanted}: {said:?}");
    }
    assert_eq!(record["wakeUps"][0]["classification"], "progress_applied");
    env.assert_nothing_lives("p");
}

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

#[test]
fn a_failing_gate_goes_back_to_the_worker_with_its_output_and_then_parks() {
    let env = gated(&gates(&[("fast", "echo THE-REASON; exit 1")], ""));
    env.podctl(&["edit", "p", "--set", "maxGateRepairs=2", "--set", "maxWakeUps=20"])
        .ok();
    env.fake(&format!("sh echo $AGENTS_POD_WAKEUP_N > src/a\n{NOTE} done"));
    let record = parked(&env);
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"gateFailed".into(), &3.into()),
        "{record:#}"
    );
    let prompt = fs::read_to_string(env.wake_dir("p", 2).join("prompt.md")).expect("it is there");
    assert!(
        prompt.contains("    THE-REASON") && prompt.contains("exit code 1"),
        "{prompt}"
    );
    let first = fs::read_to_string(env.wake_dir("p", 1).join("prompt.md")).expect("it is there");
    assert!(
        first.contains("stage `building`") && !first.contains("Its last run failed"),
        "{first}"
    );
}

#[test]
fn three_notes_that_change_nothing_park() {
    let env = gated(&gates(&[("fast", "true")], ""));
    edit(&env, "src/a", "two\n");
    env.fake(&format!("{NOTE} rotating"));
    let record = parked(&env);
    assert_eq!(
        (&record["parked"]["code"], &record["wakeUpCount"]),
        (&"noNewWork".into(), &3.into()),
        "{record:#}"
    );
}

#[test]
fn an_agent_that_weakens_its_gate_or_adds_a_hook_is_blocked() {
    let weaker = gates(&[("fast", "true")], "")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    for (edit, reason) in [
        (
            format!("sh printf \"{weaker}\" > agents-pod.toml"),
            "gate_definition_changed",
        ),
        ("sh rm agents-pod.toml".to_owned(), "gate_definition_changed"),
        (
            "sh echo x > .git/hooks/pre-commit".to_owned(),
            "git_hooks_changed",
        ),
        (
            "sh git config core.hooksPath /tmp".to_owned(),
            "git_hooks_changed",
        ),
    ] {
        let env = gated(&gates(&[("fast", "exit 1")], ""));
        fs::create_dir_all(env.project().join(".git/hooks")).expect("it is made");
        env.fake(&format!("{edit}\n{NOTE} done"));
        env.wake("p");
        let record = parked(&env);
        assert_eq!(record["parked"]["code"], "checkpointInvalid", "{edit}");
        let entry = decisions(&env).pop().expect("one");
        assert!(entry["reasons"].to_string().contains(reason), "{edit}: {entry:#}");
        if reason == "gate_definition_changed" {
            env.podctl(&["gate", "reload", "p"]);
        }
    }
}

#[test]
fn a_gate_that_moves_the_worktree_is_evidence_of_nothing() {
    let env = gated(&gates(&[("fast", "date +%N >> src/a")], ""));
    env.fake(&format!("sh echo two > src/a\n{NOTE} done"));
    env.wake("p");
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "staleEvidence", "{record:#}");
    assert_eq!(evidence(&env, "fast")["overall"], "pass");
    assert_eq!(freshness(&env, "fast"), "stale");
    assert_eq!(
        fs::read_dir(env.pod_dir("p").join("gates/history"))
            .expect("it is there")
            .count(),
        3
    );
}

#[test]
fn a_step_that_cannot_be_started_is_an_error_and_a_slow_one_a_failure() {
    let env = gated(&gates(
        &[("fast", "no-such-program"), ("full", "sleep 600 & sleep 600")],
        "",
    ));
    let text = fs::read_to_string(env.project().join("agents-pod.toml")).expect("it is there");
    edit(
        &env,
        "agents-pod.toml",
        &text.replace("sleep 600\", timeout = \"20s\"", "sleep 600\", timeout = \"1s\""),
    );
    env.git(&["commit", "-qam", "slower"]);
    env.podctl(&["gate", "reload", "p"]).code(0);
    env.podctl(&["park", "p"]).ok();
    env.podctl(&["gate", "run", "p", "fast"]).code(3);
    assert_eq!(
        (
            &evidence(&env, "fast")["overall"],
            &evidence(&env, "fast")["steps"][0]["exit_code"]
        ),
        (&"error".into(), &127.into())
    );
    env.podctl(&["gate", "run", "p", "full"]).code(3);
    assert_eq!(
        (
            &evidence(&env, "full")["overall"],
            &evidence(&env, "full")["steps"][0]["timed_out"]
        ),
        (&"fail".into(), &true.into())
    );
    env.assert_nothing_lives("p");
    env.podctl(&["resume", "p"]);
    let record = parked(&env);
    assert_eq!(record["parked"]["code"], "gateError", "{record:#}");
}

#[test]
fn a_daemon_that_a_gate_leaves_is_ended_and_its_output_is_bounded() {
    let line = "setsid sleep 600 >/dev/null 2>&1 & head -c 3000000 /dev/zero | tr '\\\\0' x";
    let env = gated(&gates(&[("fast", line)], ""));
    env.podctl(&["edit", "p", "--set", "maxGateOutput=1MiB"]).ok();
    env.podctl(&["gate", "run", "p"]).code(0);
    env.assert_nothing_lives("p");
    let log = env.pod_dir("p").join("gates").join(
        evidence(&env, "fast")["steps"][0]["log"]
            .as_str()
            .expect("a path"),
    );
    let size = fs::metadata(log).expect("it is there").len();
    assert!((1 << 20..(1 << 20) + 200).contains(&size), "{size}");
}

#[test]
fn gates_and_wake_ups_of_one_pod_never_overlap() {
    let env = gated(&gates(
        &[(
            "fast",
            "touch \"$OLDPWD\" 2>/dev/null; until [ -e go ]; do :; done",
        )],
        "",
    ));
    let waiting = env.start(&env.programs().podctl, &["gate", "run", "p"]);
    env.wait_for_record("p", "the gate runs", |record| record["current"]["kind"] == "gate");
    let second = env.podctl(&["gate", "run", "p"]).code(1);
    assert!(
        second.stderr.contains("gate") && second.stderr.contains("pid"),
        "{}",
        second.stderr
    );
    let wake = env.wrapper("p", &[]).finish().code(2);
    assert!(wake.stderr.contains("gate"), "{}", wake.stderr);
    assert_eq!(
        env.record("p")["state"],
        "idle",
        "a gate leaves the state as it is"
    );
    edit(&env, "go", "");
    waiting.finish();
    assert_eq!(env.record("p")["wakeUpCount"], 0, "a gate uses up no number");
    env.fake("pi header\ntouch awake\nawait done-now\nhandoff rotating");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("awake");
    env.podctl(&["gate", "run", "p"]).code(1);
    env.touch("done-now");
    wrapper.finish().code(0);
}

#[test]
fn a_gate_that_is_cancelled_or_killed_leaves_no_evidence_and_nothing_alive() {
    let env = gated(&gates(&[("fast", "sleep 600")], ""));
    let waiting = env.start(&env.programs().podctl, &["gate", "run", "p"]);
    let record = env.wait_for_record("p", "the gate runs", |record| record["current"]["kind"] == "gate");
    wait_until("its step runs", LONG, || {
        env.alive_in("p")
            .iter()
            .any(|seen| seen.command.contains("sleep 600"))
    });
    let runner = i32::try_from(record["current"]["pid"].as_i64().expect("a pid")).expect("it fits");
    pod_test_support::process::signal(runner, nix::sys::signal::Signal::SIGKILL);
    waiting.finish().code(1);
    pass_until(&env, "it is settled", |_| true);
    env.assert_nothing_lives("p");
    assert!(!env.pod_dir("p").join("gates/latest-fast.json").exists());
    env.podctl(&["park", "p"]);
    let waiting = env.start(&env.programs().podctl, &["gate", "run", "p"]);
    env.wait_for_record("p", "the gate runs", |record| record["current"]["kind"] == "gate");
    env.podctl(&["cancel", "p", "--wait"]).ok();
    waiting.finish();
    pass_until(&env, "it is settled", |record| record["state"] == "cancelled");
    env.assert_nothing_lives("p");
    assert!(!env.pod_dir("p").join("gates/latest-fast.json").exists());
}

#[test]
fn edit_and_undo_makes_evidence_current_again_and_a_new_definition_does_not() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.podctl(&["park", "p"]).ok();
    env.podctl(&["gate", "run", "p"]).code(0);
    for (text, fresh) in [("two\n", "stale"), ("one\n", "current")] {
        edit(&env, "src/a", text);
        assert_eq!(freshness(&env, "fast"), fresh);
    }
    env.git(&["commit", "-q", "--allow-empty", "-m", "nothing"]);
    assert_eq!(
        freshness(&env, "fast"),
        "current",
        "a commit of nothing changes nothing"
    );
    edit(&env, "agents-pod.toml", &gates(&[("fast", "true && true")], ""));
    env.git(&["commit", "-qam", "another gate"]);
    assert_eq!(status(&env)["checkpointValidity"], "invalid");
    env.podctl(&["gate", "reload", "p"]).code(0);
    assert_eq!(
        (
            freshness(&env, "fast"),
            status(&env)["checkpointValidity"].clone()
        ),
        ("stale".into(), "valid".into())
    );
}

#[test]
fn a_spawn_refuses_gates_that_make_no_sense() {
    let env = builder().build();
    let spawn = |env: &TestEnv| {
        let project = env.project().to_str().expect("it is UTF-8");
        env.podctl(&["spawn", "--project", project, "--id", "p", "A goal."])
            .code(1)
    };
    env.fake("exit 1");
    edit(&env, "agents-pod.toml", &gates(&[("fast", "true")], ""));
    let refused = spawn(&env);
    assert!(refused.stderr.contains("git init"), "{}", refused.stderr);
    edit(&env, "agents-pod.toml", "[gates.fats]\nsteps = []\n");
    let refused = spawn(&env);
    assert!(
        refused.stderr.contains("did you mean `fast`?"),
        "{}",
        refused.stderr
    );
    assert!(!env.pod_dir("p").exists());
    // Without a gate a pod is ungated, and says so where gates are asked for.
    edit(&env, "agents-pod.toml", "[scope]\nallow = []\n");
    env.spawn("p");
    for args in [
        &["gate", "run", "p"][..],
        &["gate", "status", "p"],
        &["retry", "p"],
    ] {
        let refused = env.podctl(args).code(1);
        assert!(refused.stderr.contains("ungated"), "{}", refused.stderr);
    }
    assert!(env.record("p").get("stage").is_none());
}

#[test]
fn a_stage_with_an_agent_of_its_own_is_woken_before_it_is_passed() {
    let more = "[stages]\nqa = \"reviewer\"\n";
    let env = gated(&gates(&[("fast", "true"), ("full", "test -f reviewed")], more));
    env.fake_wake(1, &format!("sh echo two > src/a\n{NOTE} done"));
    env.fake_wake(2, &format!("sh echo x > reviewed\n{NOTE} done"));
    env.fake("exit 1");
    env.define_also("reviewer", "");
    let record = pass_until(&env, "it is done", |record| record["state"] == "done");
    let agents: Vec<&str> = record["wakeUps"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["agent"].as_str())
        .collect();
    assert_eq!(agents, ["default", "reviewer"], "{record:#}");
}

#[test]
fn another_plan_is_asked_for_and_does_not_converge() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake_wake(1, "sh echo two > src/a\npi run x\nsh printf 'status: done\\nplan: update_required\\n' > \"$AGENTS_POD_DOCS_DIR/HANDOFF.md\"");
    env.fake_wake(2, &format!("sh echo three > src/a\n{NOTE} done"));
    pass_until(&env, "it is done", |record| record["state"] == "done");
    let all = decisions(&env);
    let asked = all
        .iter()
        .find(|entry| entry["plan_decision"] == "update_required")
        .expect("one asks");
    assert!(
        asked["reasons"].to_string().contains("plan_update_required"),
        "{asked:#}"
    );
    assert_eq!(env.record("p")["wakeUpCount"], 2);
}

#[test]
fn a_podd_that_is_killed_anywhere_between_gate_and_advance_loses_nothing() {
    let env = gated(&gates(&[("fast", "true"), ("full", "true")], ""));
    env.podctl(&["cancel", "p"]).ok();
    let mut traced = env.command(Path::new("sh"));
    traced.args(["-c", "strace -o /dev/null true"]);
    if env.start_command(traced).finish().code != Some(0) {
        pod_test_support::say_skipped("strace is missing or may not trace");
        return;
    }
    let killed = |call: &str, nth: usize| {
        let mut command = env.command(Path::new("strace"));
        let inject = format!("inject={call}:signal=SIGKILL:when={nth}");
        command.args([
            "-f",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
        ]);
        command.arg(&env.programs().podd).arg("--once");
        env.start_command(command).finish().code != Some(0)
    };
    for (at, (call, nth)) in [
        ("rename", 1),
        ("rename", 2),
        ("fsync", 1),
        ("fsync", 2),
        ("fsync", 3),
        ("write", 9),
        ("clone3", 5),
        ("renameat2", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("k{at}");
        env.fake_pod(&id, &format!("sh echo two > src/a\n{NOTE} done"));
        env.spawn(&id);
        env.wake(&id);
        killed(call, nth);
        wait_until("it is done", LONG, || {
            env.pass();
            env.record(&id)["state"] == "done"
        });
        let log = json(&env.podctl(&["decisions", &id, "--json"]).code(0));
        let entries = log.as_array().expect("a list");
        let converged = entries
            .iter()
            .filter(|entry| entry["execution_disposition"] == "converged")
            .count();
        assert_eq!(converged, 1, "{call} {nth}: {log:#}");
        assert_eq!(env.record(&id)["wakeUpCount"], 1, "{call} {nth}");
        env.assert_nothing_lives(&id);
    }
}

#[test]
fn real_pi_goes_through_all_stages_unattended() {
    let Some(pi) = RealAgent::find(Cli::Pi16) else {
        return;
    };
    let all = [
        ("fast", "test -f made"),
        ("full", "grep -q whole made"),
        ("merge", "true"),
    ];
    let env = gated(&gates(&all, "[scope]\nallow = [\"made\"]\n"));
    env.podctl(&["cancel", "p"]).ok();
    env.podctl(&["rm", "p", "--purge"]).ok();
    let model = Model::start(Script::of([
        Reply::text("I begin.").write("made", "half\n"),
        Reply::text("").handoff("done", "it is made"),
        // The full gate said no.
        Reply::text("I mend it.").write("made", "whole\n"),
        Reply::text("").handoff("done", "it is whole"),
    ]));
    pi.set_up(&env, &model);
    env.spawn("p");
    let _podd = env.podd();
    let record = env.wait_for_state("p", "done");
    assert_eq!(
        (&record["stage"], &record["wakeUpCount"]),
        (&"ready_to_merge".into(), &2.into()),
        "{record:#}"
    );
    let told = model.requests()[2].text();
    assert!(
        told.contains("Its last run failed: step `check` ended with exit code 1"),
        "{told}"
    );
    assert_eq!(dispositions(&env).last().map(String::as_str), Some("converged"));
    env.assert_nothing_lives("p");
}

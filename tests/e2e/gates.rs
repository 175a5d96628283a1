//! Gates: `done` is a claim until the evidence agrees.

mod criteria;
mod recovery;

use std::fs;
use std::path::Path;

use pod_test_support::model::{Model, Reply, Script};
use pod_test_support::{Cli, Finished, LONG, RealAgent, TestEnv, wait_until};
use serde_json::Value;

use crate::builder;

/// A gated pod `p` in a repository with a commit.
pub(super) fn gated(toml: &str) -> TestEnv {
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

pub(super) fn gates(modes: &[(&str, &str)], more: &str) -> String {
    let gates: String = modes
        .iter()
        .map(|(mode, run)| {
            format!("[gates.{mode}]\nsteps = [{{ name = \"check\", run = {run:?}, timeout = \"20s\" }}]\n")
        })
        .collect();
    gates + more
}

pub(super) const NOTE: &str = "pi run A note.\nhandoff";

pub(super) fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"))
}

pub(super) fn status(env: &TestEnv) -> Value {
    json(&env.podctl(&["gate", "status", "p", "--json"]).code(0))
}

pub(super) fn freshness(env: &TestEnv, mode: &str) -> String {
    status(env)["gates"][mode]["freshness"]
        .as_str()
        .expect("a word")
        .to_owned()
}

pub(super) fn evidence(env: &TestEnv, mode: &str) -> Value {
    let text = fs::read(env.pod_dir("p").join(format!("gates/latest-{mode}.json"))).expect("there is one");
    serde_json::from_slice(&text).expect("it is JSON")
}

pub(super) fn decisions(env: &TestEnv) -> Vec<Value> {
    let all = json(&env.podctl(&["decisions", "p", "--json"]).code(0));
    all.as_array().expect("a list").clone()
}

pub(super) fn dispositions(env: &TestEnv) -> Vec<String> {
    let text = |entry: &Value| {
        entry["execution_disposition"]
            .as_str()
            .expect("a word")
            .to_owned()
    };
    decisions(env).iter().map(text).collect()
}

pub(super) fn edit(env: &TestEnv, name: &str, text: &str) {
    fs::write(env.project().join(name), text).expect("it is written");
}

/// Makes passes until the record is as wanted.
pub(super) fn pass_until(env: &TestEnv, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, LONG, || {
        env.pass();
        let record = env.record("p");
        record.get("current").is_none() && wanted(&record)
    });
    env.record("p")
}

pub(super) fn parked(env: &TestEnv) -> Value {
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
        first.contains("stage `building`") && !first.contains("The last run of gate"),
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
        told.contains("The last run of gate `full` failed: step `check` ended with exit code 1"),
        "{told}"
    );
    assert_eq!(dispositions(&env).last().map(String::as_str), Some("converged"));
    env.assert_nothing_lives("p");
}

#[test]
fn a_claim_is_judged_although_the_budget_is_spent() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.podctl(&["edit", "p", "--set", "maxWakeUps=1"]).ok();
    env.fake(&format!("sh echo two > src/a\n{NOTE} done"));
    pass_until(&env, "it is done", |record| record["state"] == "done");
}

#[test]
fn a_project_that_is_gone_is_nothing_to_reconcile() {
    let env = gated(&gates(&[("fast", "true")], ""));
    env.fake(&format!("sh echo two > src/a\n{NOTE} done"));
    env.wake("p");
    env.podctl(&["park", "p"]).ok();
    fs::rename(env.project(), env.root().join("away")).expect("it is moved");
    let mut podd = env.command(&env.programs().podd);
    podd.arg("--once").current_dir(env.root());
    env.start_command(podd).finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["gates"]["reconciled"]["wakeUp"]),
        (&"parked".into(), &1.into()),
        "{record:#}"
    );
    fs::rename(env.root().join("away"), env.project()).expect("it is moved back");
}

//! What a subagent's report is worth.

use std::fs;

use pod_test_support::TestEnv;
use serde_json::{Value, json};

use super::{git_env, podctl, save};

fn judge(env: &TestEnv, report: &str, more: &[&str]) -> (Option<i32>, Value) {
    let place = env.scratch().join("report");
    fs::write(&place, report).expect("it is written");
    let place = place.to_str().expect("it is UTF-8");
    let args: Vec<&str> = ["wave", "judge", "7", "a", place, "--json"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let done = podctl(env, env.project(), &args);
    let value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    (done.code, value)
}

#[test]
fn no_status_line_is_a_truncated_report_and_blockers_ask_for_context() {
    let env = git_env();
    assert_eq!(
        judge(&env, "I was just about to\n", &[]).1["verdict"],
        "truncated"
    );
    save(&env, env.project(), "a", &json!({"blockers": "which key?"})).code(0);
    let (code, value) = judge(&env, "I was just about to\n", &[]);
    assert_eq!(
        (code, &value["verdict"], &value["reason"]),
        (Some(3), &"needs_context".into(), &"which key?".into())
    );
    assert_eq!(judge(&env, "Status: FINE\n", &[]).1["verdict"], "violation");
    assert_eq!(
        judge(&env, "Status: DONE\nStatus: BLOCKED\nReason: no network\n", &[]).1["verdict"],
        "blocked"
    );
    let asked = judge(&env, "Status: NEEDS_CONTEXT\nMissing: the schema\n", &[]).1;
    assert_eq!(
        (&asked["verdict"], &asked["missing"]),
        (&"needs_context".into(), &"the schema".into())
    );
}

#[test]
fn done_needs_a_commit_behind_the_dispatch_and_on_the_branch() {
    let env = git_env();
    let head = |env: &TestEnv| env.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let old = head(&env);
    env.git(&[
        "commit",
        "-q",
        "--amend",
        "--no-edit",
        "--date",
        "2020-01-01T00:00:00Z",
    ]);
    let lacks = |(code, value): (Option<i32>, Value)| {
        assert_eq!(code, Some(3));
        (value["verdict"].clone(), value["missing"].clone())
    };
    let before_report = ("needs_context".into(), "commit-before-report".into());
    assert_eq!(lacks(judge(&env, "Status: DONE\n", &[])), before_report);
    assert_eq!(
        lacks(judge(&env, "Status: DONE\nCommit: 0123456789\n", &[])),
        before_report
    );
    let stale = judge(
        &env,
        &format!("Status: DONE\nCommit: {old}\n"),
        &["--since", "2100-01-01T00:00:00Z"],
    );
    assert_eq!(lacks(stale), before_report);
    podctl(&env, env.project(), &["wave", "dispatch", "7", "a"]).code(0);
    fs::write(env.project().join("new.rs"), "x").expect("it is written");
    env.git(&["checkout", "-q", "-b", "work"]);
    env.git(&["add", "new.rs"]);
    env.git(&["commit", "-q", "-m", "Make it"]);
    let report = format!(
        "All is well.\n**Status:** DONE\nCommit: {}\nBranch: work\n",
        head(&env)
    );
    let (code, value) = judge(&env, &report, &[]);
    assert_eq!(
        (code, &value["verdict"], &value["commit"]),
        (Some(0), &"done".into(), &head(&env).into()),
        "{value}"
    );
    assert_eq!(value["warnings"], json!([]), "{value}");
    assert_eq!(
        lacks(judge(&env, &report, &["--branch", "no-such"])),
        before_report
    );
    let concerns = judge(
        &env,
        &report.replace("DONE", "DONE_WITH_CONCERNS"),
        &["--branch", "work"],
    );
    assert_eq!(concerns.0, Some(0));
    env.git(&["branch", "-q", "aside", "work^"]);
    assert_eq!(lacks(judge(&env, &report, &["--branch", "aside"])), before_report);
}

#[test]
fn a_commit_that_goes_another_way_than_the_checkpoint_is_warned_of() {
    let env = git_env();
    save(
        &env,
        env.project(),
        "a",
        &json!({"files_modified": ["src/meant.rs"]}),
    )
    .code(0);
    let commit = |message: &str| {
        env.git(&["commit", "-q", "--allow-empty", "-m", message]);
        format!(
            "Status: DONE\nCommit: {}\n",
            env.git(&["rev-parse", "HEAD"]).trim()
        )
    };
    let warned = |report: &str| {
        judge(&env, report, &[]).1["warnings"]
            .to_string()
            .contains("divergence")
    };
    assert!(warned(&commit("Do something else")));
    assert!(!warned(&commit("Do something else: src/meant.rs was right")));
}

//! What differs between the makers' CLIs, with stand-ins that print what the real ones print.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pod_test_support::TestEnv;

use crate::env;

/// Writes an executable script.
fn script(place: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(place.parent().expect("it lies somewhere")).expect("it is made");
    fs::write(place, text).expect("it is written");
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("it is ours");
    place.to_owned()
}

fn recording(case: &str) -> String {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/streams")
        .join(case);
    format!("cat '{}.jsonl'", place.display())
}

/// Loses a wake-up behind one recording and continues it with another one.
fn lost_and_continued(env: &TestEnv, kind: &str, first: &str, then: &str) -> serde_json::Value {
    let seen = env.scratch().join("seen");
    let agent = env.scratch().join("agent");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{args}'\nif [ $AGENTS_POD_WAKEUP_N = 1 ]; then {}; : > '{seen}'; sleep 600; fi\n{}\n",
        recording(first),
        recording(then),
        seen = seen.display(),
        args = env.scratch().join("args").display(),
    );
    script(&agent, &text);
    env.define("default", kind, &agent, "");
    env.spawn("p");
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("seen");
    // What was read is written down, before it can be lost.
    env.wait_for_record("p", "usage in wrapper.json", |_| {
        let file = fs::read_to_string(env.pod_dir("p").join("wrapper.json")).unwrap_or_default();
        file.contains("inputTokens")
    });
    wrapper.kill9();
    env.podctl(&["wake", "p", "--warm", "--wait"]);
    env.record("p")
}

fn args(env: &TestEnv) -> Vec<String> {
    let text = fs::read_to_string(env.scratch().join("args")).expect("they are written");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn what_codex_counts_by_thread_is_made_that_of_one_wake_up() {
    let env = env();
    let record = lost_and_continued(&env, "codex", "codex/g1_first", "codex/g2_resume");
    let used = |at: usize| record["wakeUps"][at]["usage"]["inputTokens"].clone();
    assert_eq!((used(0), used(1)), (100.into(), 100.into()), "{record:#}");
    let args = args(&env);
    assert!(args[1].starts_with("exec resume --json "), "{args:?}");
    assert!(
        args[1].contains(" 01a22e25-92ae-79a0-8e7c-eaf66ee8cc42 -"),
        "{args:?}"
    );
}

#[test]
fn what_claude_costs_by_session_is_made_that_of_one_wake_up() {
    let env = env();
    let record = lost_and_continued(
        &env,
        "claude",
        "claude-2.1.332/a_text",
        "claude-2.1.332/g5_resume_other_cwd",
    );
    let cost = record["wakeUps"][1]["usage"]["costUsd"]
        .as_f64()
        .expect("it has one");
    // 0.0018 for the session less 0.0010461 that the first one reported.
    assert!((cost - 0.000_753_9).abs() < 1e-9, "{record:#}");
    assert_eq!(record["wakeUps"][1]["usage"]["inputTokens"], 100);
    let args = args(&env);
    let id = args[0]
        .split("--session-id ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let id = id.expect("the first one names its session");
    assert!(args[1].contains(&format!("--resume {id}")), "{args:?}");
    assert!(!args[1].contains("--session-id"), "{args:?}");
}

#[test]
fn a_session_of_another_makers_agent_is_not_continued() {
    let env = env();
    let agent = script(&env.scratch().join("agent"), "#!/bin/sh\nexit 0\n");
    lost_and_continued(&env, "codex", "codex/g1_first", "codex/g3_none");
    env.edit_record("p", |record| {
        let entries = record["wakeUps"].as_array_mut().expect("there are some");
        entries.truncate(1);
        record["state"] = "idle".into();
    });
    env.define("default", "gemini", &agent, "");
    env.podctl(&["wake", "p", "--warm", "--wait"]);
    let last = fs::read_to_string(env.wake_dir("p", 3).join("agent.json")).expect("it is there");
    assert!(
        last.contains("cold start: the session of wake-up 1 is that of another agent, codex"),
        "{last}"
    );
}

#[test]
fn an_agent_that_needs_a_file_for_its_stdout_has_one() {
    let env = env();
    let agent = script(
        &env.scratch().join("agent"),
        "#!/bin/sh\n[ -f /dev/stdout ] || exit 9\nprintf '{\"type\":\"init\",\"session_id\":\"s\"}\\n'\nprintf '{\"type\":\"result\",\"status\":\"success\"}'\n",
    );
    env.define("default", "gemini", &agent, "");
    env.spawn("p");
    let last = env.wake("p");
    assert_eq!(last["reason"], "noHandoff", "{last:#}");
    let events = String::from_utf8(env.events("p", 1)).expect("it is UTF-8");
    assert!(
        events.ends_with("success\"}\n") && events.lines().count() == 2,
        "{events:?}"
    );
}

#[test]
fn a_file_is_read_to_its_end_however_much_is_in_it() {
    let env = env();
    let line = r#"{"type":"tool_result","tool_id":"t","status":"success","output":"'$x'"}"#;
    let agent = script(
        &env.scratch().join("agent"),
        &format!(
            "#!/bin/sh\nx=$(head -c 1000000 /dev/zero | tr '\\0' x)\ni=0\nwhile [ $i -lt 80 ]; do printf '%s\\n' '{line}'; i=$((i+1)); done\n\
             printf '{{\"type\":\"result\",\"status\":\"success\"}}\\n'\n"
        ),
    );
    env.define("default", "gemini", &agent, "");
    env.spawn("p");
    let last = env.wake("p");
    assert_eq!(last["reason"], "noHandoff", "{last:#}");
    assert!(env.events("p", 1).len() > 80_000_000);
}

#[test]
fn the_native_program_is_run_in_the_place_of_its_launcher() {
    let env = env();
    let modules = env.scratch().join("lib/node_modules/@openai");
    let native = "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";
    script(&modules.join(native), "#!/bin/sh\nexec fake-native\n");
    let launcher = script(&modules.join("codex/bin/codex.js"), "#!/bin/sh\nexit 7\n");
    env.define("default", "codex", &launcher, "");
    env.spawn("p");
    env.wake("p");
    let agent = fs::read_to_string(env.wake_dir("p", 1).join("agent.json")).expect("it is there");
    assert!(agent.contains(native), "{agent}");
}

#[test]
fn geminis_settings_of_one_wake_up_are_the_users_and_ours() {
    let env = env();
    let user = env.user_home().join(".gemini");
    fs::create_dir_all(&user).expect("it is made");
    let settings = r#"{"theme":"mine","mcpServers":{"own":{"command":"x"}}}"#;
    fs::write(user.join("settings.json"), settings).expect("it is written");
    fs::write(user.join("oauth_creds.json"), "{}").expect("it is written");
    let seen = env.scratch().join("seen");
    let text = format!(
        "#!/bin/sh\ncp -L \"$GEMINI_CLI_HOME\"/.gemini/* '{0}' 2>/dev/null\n: > \"$GEMINI_CLI_HOME/.gemini/tmp/kept\"\n",
        seen.display()
    );
    fs::create_dir_all(&seen).expect("it is made");
    let agent = script(&env.scratch().join("agent"), &text);
    env.define("default", "gemini", &agent, "");
    env.spawn("p");
    env.wake("p");
    let merged = fs::read_to_string(seen.join("settings.json")).expect("it is there");
    for part in [
        r#""theme":"mine""#,
        r#""own":{"#,
        r#""pod":{"#,
        r#""args":["mcp"]"#,
        "$AGENTS_POD_WAKE_TOKEN",
    ] {
        assert!(merged.contains(part), "{part} in {merged}");
    }
    assert!(seen.join("oauth_creds.json").exists(), "the login is there too");
    assert_eq!(
        fs::read_to_string(user.join("settings.json")).expect("it is there"),
        settings
    );
    assert!(user.join("tmp/kept").exists(), "what it keeps lies in the user's");
}

#[test]
fn doctor_names_what_an_agent_lacks_and_the_remedy() {
    let env = env();
    let agent = script(&env.scratch().join("agent"), "#!/bin/sh\nexit 0\n");
    env.define("default", "gemini", &agent, "");
    env.spawn("p");
    let checks = |env: &TestEnv| -> Vec<serde_json::Value> {
        let said = env.podctl(&["doctor", "--json"]);
        let all: Vec<serde_json::Value> = serde_json::from_str(&said.stdout).expect("it is JSON");
        all.into_iter()
            .filter(|check| check["check"] == "agent default")
            .collect()
    };
    let found = checks(&env);
    assert_eq!(found[0]["ok"], false, "{found:?}");
    assert!(
        found[0]["detail"]
            .as_str()
            .is_some_and(|what| what.contains("GEMINI_API_KEY")),
        "{found:?}"
    );
    assert!(
        found[0]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("log in")),
        "{found:?}"
    );
    fs::create_dir_all(env.user_home().join(".gemini")).expect("it is made");
    fs::write(env.user_home().join(".gemini/oauth_creds.json"), "{}").expect("it is written");
    let found = checks(&env);
    assert_eq!(found[0]["ok"], true, "{found:?}");
}

#[test]
fn a_missing_login_parks_geminis_pod_by_its_exit_code() {
    let env = env();
    let agent = script(
        &env.scratch().join("agent"),
        "#!/bin/sh\necho 'no GEMINI_API_KEY' >&2\nexit 41\n",
    );
    env.define("default", "gemini", &agent, "");
    env.spawn("p");
    let last = env.wake("p");
    assert_eq!(last["reason"], "authFailed", "{last:#}");
    env.pass();
    assert_eq!(env.record("p")["parked"]["code"], "authFailed");
}

#[test]
fn budgets_add_up_from_each_clis_own_figures() {
    // 161 tokens each: the second wake-up goes over 200; cost: 0.0010461 and 0.000206.
    for (kind, case, key, value) in [
        ("codex", "codex/a_text", "maxTokens", "200"),
        ("gemini", "gemini/a_text", "maxTokens", "200"),
        ("claude", "claude-2.1.332/a_text", "maxCostUsd", "0.0015"),
        ("opencode", "opencode/a_text", "maxCostUsd", "0.0003"),
    ] {
        let env = env();
        let text = format!(
            "#!/bin/sh\n{}\nprintf 'status: rotating\\n%s\\n' $AGENTS_POD_WAKEUP_N > \"$AGENTS_POD_DOCS_DIR/HANDOFF.md\"\n",
            recording(case)
        );
        let agent = script(&env.scratch().join("agent"), &text);
        env.define("default", kind, &agent, "");
        env.spawn("p");
        env.podctl(&["edit", "p", "--set", &format!("{key}={value}")])
            .ok();
        let _podd = env.podd();
        let record = env.wait_for_state("p", "parked");
        assert_eq!(record["parked"]["code"], "budgetExhausted", "{kind}: {record:#}");
        assert_eq!(record["wakeUpCount"], 2, "{kind}: {record:#}");
        let shown = env.podctl(&["show", "p", "--json"]).ok();
        assert!(shown.contains("usageTotal"), "{kind}: {shown}");
    }
}

#[test]
fn a_limit_of_the_account_shows_at_each_of_its_pods() {
    let env = env();
    let text = format!("#!/bin/sh\n{}\nexit 1\n", recording("codex/x_usage_limit"));
    let agent = script(&env.scratch().join("agent"), &text);
    env.define("default", "codex", &agent, "");
    env.spawn("p");
    env.spawn("q");
    env.wake("p");
    env.pass();
    let listed = env.podctl(&["ls"]).ok();
    assert_eq!(listed.matches("limit until ").count(), 2, "{listed}");
}

#[test]
fn what_is_tried_for_ever_is_ended_by_its_last_word() {
    let keys = "head -n 6";
    for (kind, case, reason) in [
        ("opencode", "opencode/h3_400_context", "contextExhausted"),
        ("claude", "claude-2.1.332/h_401", "authFailed"),
    ] {
        let env = env();
        let cut = recording(case).replacen("cat", keys, 1);
        let text = format!(
            "#!/bin/sh\n{}\nexec sleep 600\n",
            if kind == "claude" { cut } else { recording(case) }
        );
        let agent = script(&env.scratch().join("agent"), &text);
        env.define("default", kind, &agent, "");
        env.spawn("p");
        let last = env.wake("p");
        assert_eq!(last["reason"], reason, "{kind}: {last:#}");
        assert_eq!(last["exit"]["sentBy"], "wrapper", "{kind}: {last:#}");
    }
}

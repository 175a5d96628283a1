//! What a wake-up is judged to be, from the handoff, the events and the exit.

use std::fs;

use pod_test_support::TestEnv;
use serde_json::Value;

use crate::env;

/// Wakes a fresh pod with this script.
fn wake(env: &TestEnv, id: &str, script: &str) -> Value {
    env.fake(script);
    env.spawn(id);
    env.wake(id)
}

/// Fails unless outcome, reason and a part of the detail are as wanted; an empty word is no reason or any detail.
fn assert_verdict(last: &Value, outcome: &str, reason: &str, detail: &str, what: &str) {
    assert_eq!(last["outcome"], outcome, "{what}: {last}");
    let found = last.get("reason").and_then(Value::as_str).unwrap_or_default();
    assert_eq!(found, reason, "{what}: {last}");
    let said = last.get("detail").and_then(Value::as_str).unwrap_or_default();
    assert!(said.contains(detail), "{what}: {last}");
}

#[test]
fn a_declaration_beats_the_events_and_the_exit() {
    let env = env();
    let cases = [
        ("pi run x\nhandoff done", "done", ""),
        ("pi run x\nhandoff rotating", "more", ""),
        ("pi run x\nhandoff text ---\nexit 0", "failed", "handoffMalformed"),
        ("pi run x\nhandoff done\nexit 3", "done", "exit 3"),
        (
            "pi header\npi error it broke\npi end\npi settled\nhandoff rotating",
            "more",
            "error",
        ),
        ("handoff done\npi header\ndie KILL", "done", "SIGKILL"),
        ("handoff rotating", "more", ""),
    ];
    for (at, (script, outcome, more)) in cases.into_iter().enumerate() {
        let last = wake(&env, &format!("p{at}"), script);
        let (reason, detail) = if outcome == "failed" {
            (more, "")
        } else {
            ("", more)
        };
        assert_verdict(&last, outcome, reason, detail, script);
    }
}

#[test]
fn without_a_declaration_it_has_failed_for_the_first_reason_that_holds() {
    let env = env();
    let cases = [
        ("pi run x", "noHandoff", ""),
        ("pi run x\nexit 3", "noHandoff", "exit 3"),
        ("pi header\npi text x\npi end", "noHandoff", ""),
        ("exit 0", "noEvents", ""),
        ("lines 3  \nexit 0", "noEvents", ""),
        ("stderr it is broken\nexit 4", "agentError", "it is broken"),
        ("line no record\nline of pi", "providerOutputInvalid", ""),
        ("pi header\npi text x", "incomplete", ""),
        ("pi header\npi stop length x\npi end\npi settled", "truncated", ""),
        (
            "pi header\npi error it broke\npi end\npi settled",
            "agentError",
            "it broke",
        ),
        ("pi header\ndie KILL", "terminated", "SIGKILL"),
        ("pi header\nexit 143", "terminated", "143"),
    ];
    for (at, (script, reason, detail)) in cases.into_iter().enumerate() {
        let last = wake(&env, &format!("p{at}"), script);
        assert_verdict(&last, "failed", reason, detail, script);
    }
}

#[test]
fn words_in_prose_and_tool_output_decide_nothing() {
    let env = env();
    let script = "
        pi header
        pi text status: done
        pi text You've hit your usage limit. 401 Unauthorized. Invalid API key.
        pi tool bash
        pi result {\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"stopReason\":\"error\"}}
        pi result 429 rate limit reached
        pi text That is all.
        pi end
        pi settled
    ";
    assert_verdict(&wake(&env, "p", script), "failed", "noHandoff", "", script);
}

#[test]
fn a_handoff_is_fresh_if_it_was_written_and_not_otherwise() {
    let env = env();
    let cases = [
        ("handoff done", "done", ""),
        ("handoff replaced done", "done", ""),
        ("handoff kept rotating", "more", ""),
        ("handoff future rotating", "more", ""),
        ("handoff chmod", "failed", "noHandoff"),
        ("handoff malformed", "failed", "handoffMalformed"),
        ("handoff empty", "failed", "handoffMalformed"),
        ("handoff fifo", "failed", "handoffMalformed"),
        ("handoff symlink", "failed", "handoffMalformed"),
        ("handoff directory", "failed", "handoffMalformed"),
    ];
    for (at, (script, outcome, reason)) in cases.into_iter().enumerate() {
        let id = format!("p{at}");
        env.fake(&format!("pi run x\n{script}"));
        env.spawn(&id);
        let old = "status: done\n\nWritten by the fake agent.\n";
        fs::write(env.pod_dir(&id).join("docs/HANDOFF.md"), old).unwrap();
        assert_verdict(&env.wake(&id), outcome, reason, "", script);
    }
}

#[test]
fn a_malformed_line_is_quoted_in_two_hundred_characters() {
    let env = env();
    let last = wake(
        &env,
        "p",
        &format!("pi run x\nhandoff text \u{1b}[2J{}", "long ".repeat(100)),
    );
    let detail = last["detail"].as_str().unwrap();
    assert!(
        detail.contains("\\x1b[2Jlong long") && detail.chars().count() < 300,
        "{detail}"
    );
    assert!(!detail.contains('\u{1b}'));
}

#[test]
fn a_terminal_event_and_silence_end_the_group() {
    let env = env();
    let last = wake(
        &env,
        "p",
        "pid agent\nhandoff done\npi run Finished.\nsleep forever",
    );
    assert_verdict(&last, "done", "", "", "settled");
    assert_eq!(last["exit"]["sentBy"], "wrapper");
    let last = wake(
        &env,
        "q",
        "pid agent\nignore TERM\npi run Finished.\nsleep forever",
    );
    assert_verdict(&last, "failed", "noHandoff", "", "settled");
    assert!(!env.lives("agent"));
}

#[test]
fn a_wake_up_that_takes_too_long_is_ended() {
    let env = env();
    env.configure(&[("wakeTimeout", "1s")]);
    let last = wake(&env, "p", "pid agent\npi header\nsleep forever");
    assert_verdict(&last, "failed", "timedOut", "", "time");
    assert_eq!(
        (&last["exit"]["signal"], &last["exit"]["sentBy"]),
        (&"SIGTERM".into(), &"wrapper".into())
    );
    assert!(!env.lives("agent"));
    let last = wake(&env, "q", "handoff rotating\npi header\nsleep forever");
    assert_verdict(&last, "more", "", "timedOut", "time, declared");
}

#[test]
fn a_wake_up_that_prints_too_much_is_ended() {
    let env = env();
    env.configure(&[("outputLimit", "1MiB")]);
    let last = wake(&env, "p", "pid agent\npi header\nflood 500M\nsleep forever");
    assert_verdict(&last, "failed", "outputLimit", "", "output");
    assert!(!env.lives("agent"));
}

#[test]
fn result_json_shows_all_three_layers() {
    let env = env();
    let last = wake(
        &env,
        "p",
        "pi usage 100 20\npi run x\nstderr last words\nhandoff rotating\nexit 3",
    );
    let result = env.result("p", 1);
    assert_eq!(
        (&result["schemaVersion"], &result["outcome"]),
        (&1.into(), &"more".into())
    );
    assert_eq!(result["exit"]["code"], 3);
    for layer in ["declaration", "events", "tail"] {
        assert!(result.get(layer).is_some(), "`{layer}` is missing: {result}");
    }
    assert!(result["tail"].to_string().contains("last words"), "{result}");
    assert_eq!(
        (&last["usage"]["inputTokens"], &last["usage"]["outputTokens"]),
        (&100.into(), &20.into())
    );
    let kept = fs::read_to_string(env.wake_dir("p", 1).join("handoff.md")).unwrap();
    assert!(kept.starts_with("status: rotating"));
}

#[test]
fn an_unknown_agent_and_an_unknown_type_are_outcomes() {
    let env = env();
    env.fake("pi run x");
    env.spawn("p");
    env.wrapper("p", &["nobody"]).finish().code(0);
    assert_verdict(
        &env.last("p"),
        "failed",
        "agentUnresolved",
        "nobody",
        "no definition",
    );
    env.define("default", "abacus", &env.programs().fake_agent.clone(), "");
    env.wrapper("p", &[]).finish().code(0);
    assert_verdict(
        &env.last("p"),
        "failed",
        "agentTypeRefused",
        "abacus",
        "no adapter",
    );
    assert_eq!(env.record("p")["state"], "idle");
}

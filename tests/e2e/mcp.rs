//! `podctl mcp`, spoken to by hand.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::env;
use pod_test_support::TestEnv;

/// What the server answers to these requests, behind the handshake.
fn answers(env: &TestEnv, variables: &[(&str, &str)], requests: &[Value]) -> Vec<Value> {
    let mut command = env.command(&env.programs().podctl);
    let handshake = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let mut child = command
        .arg("mcp")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("podctl starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    for request in handshake.iter().chain(requests) {
        writeln!(stdin, "{request}").expect("it reads");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends when its stdin does");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .filter(|answer: &Value| answer["id"] != 0)
        .collect()
}

fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[test]
fn outside_a_wake_up_the_tools_are_there_and_refuse() {
    let env = env();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let handoff = call(2, "pod_handoff", &json!({"status": "done", "summary": "x"}));
    let answers = answers(&env, &[], &[list, handoff]);
    let by_id = |id: u32| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .expect("it answers")
    };
    let tools = by_id(1)["result"]["tools"].as_array().expect("it lists").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["pod_handoff", "pod_checkpoint", "pod_status"]);
    assert_eq!(by_id(2)["result"]["isError"], true);
    let said = by_id(2)["result"]["content"][0]["text"]
        .as_str()
        .expect("it says why");
    assert!(
        said.contains("AGENTS_POD_POD_ID is not set") && said.contains("hint: "),
        "{said}"
    );
}

#[test]
fn inside_a_wake_up_the_handoff_counts_and_a_wrong_one_changes_nothing() {
    let env = env();
    env.fake("touch awake\nawait go\n");
    env.spawn("p");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("awake");
    let record = env.wait_for_record("p", "a wake-up", |record| record["state"] == "active");
    let token = record["current"]["token"]
        .as_str()
        .expect("it has one")
        .to_owned();
    let docs = env.pod_dir("p").join("docs");
    let docs = docs.to_str().expect("it is UTF-8");
    let variables = [
        ("AGENTS_POD_POD_ID", "p"),
        ("AGENTS_POD_WAKE_TOKEN", token.as_str()),
        ("AGENTS_POD_DOCS_DIR", docs),
    ];
    let requests = [
        call(1, "pod_handoff", &json!({"status": "finished", "summary": "x"})),
        call(2, "pod_handoff", &json!({"status": "done"})),
        call(3, "pod_status", &json!({})),
        call(5, "pod_checkpoint", &json!({"text": " "})),
        call(6, "pod_checkpoint", &json!({"text": "half of it is made"})),
    ];
    let refused = answers(&env, &variables, &requests);
    let by_id = |id: u32| {
        refused
            .iter()
            .find(|answer| answer["id"] == id)
            .expect("it answers")
    };
    assert_eq!(by_id(1)["result"]["isError"], true, "{refused:?}");
    assert_eq!(by_id(2)["result"]["isError"], true, "{refused:?}");
    assert_eq!(by_id(5)["result"]["isError"], true, "{refused:?}");
    assert_ne!(by_id(6)["result"]["isError"], true, "{refused:?}");
    let saved = std::fs::read_to_string(env.pod_dir("p").join("checkpoints/latest.md")).expect("it is saved");
    assert!(
        saved.contains("\nhalf of it is made\n") && saved.contains("outcome: null\n"),
        "{saved}"
    );
    let status = by_id(3)["result"]["content"][0]["text"]
        .as_str()
        .expect("it says it");
    assert!(
        status.contains("Reach the goal.") && !status.contains(&token),
        "{status}"
    );
    let handoff = std::path::Path::new(docs).join("HANDOFF.md");
    let left = std::fs::read_to_string(handoff).unwrap_or_default();
    assert!(!left.contains("status: "), "{left}");
    let handoff = call(
        4,
        "pod_handoff",
        &json!({"status": "done", "summary": "it is made"}),
    );
    let handed = answers(&env, &variables, &[handoff]);
    assert_ne!(handed[0]["result"]["isError"], true, "{handed:?}");
    env.touch("go");
    wrapper.finish().code(0);
    assert_eq!(env.record("p")["state"], "done");
}

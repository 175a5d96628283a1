//! The support of these tests does what the tests rely on.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

use nix::sys::signal::Signal;
use pod_test_support::model::{Model, Moment, Reply, Script, Stall};
use pod_test_support::{LONG, Running, TestEnv, process, wait_until};
use serde_json::json;

use crate::env;

/// Runs the fake agent without a wrapper.
fn agent(env: &TestEnv, script: &str) -> Running {
    env.fake(script);
    let mut command = env.command(&env.programs().fake_agent);
    command
        .env("FAKE_AGENT_SCRIPT", env.scratch().join("script"))
        .env("AGENTS_POD_DOCS_DIR", env.project())
        .env("AGENTS_POD_POD_ID", "alone")
        .env("AGENTS_POD_WAKE_TOKEN", env.root());
    env.start_command(command)
}

#[test]
fn the_fake_agent_prints_and_writes_what_its_script_says() {
    let env = env();
    let script = "
        pi run Hello.
        lines 2 plain {i}
        hex 41 ff 0a
        fill 70K
        torn end
        stderr trouble
        handoff done
        dump ids ids
        exit 3
        line never
    ";
    let ended = agent(&env, script).finish().code(3);
    assert_eq!(ended.stderr, "trouble\n");
    let out = fs::read(env.root().join("out/00-fake-agent.stdout")).unwrap();
    let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
    let kinds: Vec<String> = lines[..7]
        .iter()
        .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap()["type"].to_string())
        .collect();
    assert_eq!(kinds.first().unwrap(), "\"session\"");
    assert_eq!(kinds.last().unwrap(), "\"agent_settled\"");
    assert_eq!(lines[7..10], [&b"plain 1"[..], b"plain 2", b"A\xff"]);
    assert_eq!(lines[10].len(), 70 * 1024 + "end".len());
    assert_eq!(lines.len(), 11);
    let handoff = fs::read_to_string(env.project().join("HANDOFF.md")).unwrap();
    assert!(handoff.starts_with("status: done\n"));
}

#[test]
fn the_fake_agents_children_are_where_its_script_puts_them() {
    let env = env();
    let script = "
        pid agent
        spawn group beside
        spawn setsid apart
        spawn double away bare
        await go
        [beside]
        pid beside
        sleep forever
        [apart]
        pid apart
        sleep forever
        [away]
        ignore TERM
        pid away
        sleep forever
    ";
    let running = agent(&env, script);
    let look = |name: &str| {
        let (pid, ticks) = env.wait_for_pid(name);
        let seen = process::look(pid).unwrap();
        assert_eq!(seen.start_ticks, ticks);
        seen
    };
    let (agent, beside, apart, away) = (look("agent"), look("beside"), look("apart"), look("away"));
    assert_eq!(agent.pid, running.pid());
    assert_eq!((beside.group, beside.session), (agent.group, agent.session));
    assert_eq!(
        (apart.group, apart.session, apart.parent),
        (apart.pid, apart.pid, agent.pid)
    );
    assert_eq!((away.group, away.session), (away.pid, away.pid));
    assert_ne!(away.parent, agent.pid);
    // What was spawned bare carries no mark at all, and is found by its pid alone.
    assert_eq!(env.alive_in("alone").len(), 3);
    assert_eq!(env.alive_with_token(env.root().to_str().unwrap()).len(), 3);
    process::signal(away.pid, Signal::SIGTERM);
    process::signal(apart.pid, Signal::SIGTERM);
    wait_until("the child that takes SIGTERM is gone", LONG, || {
        !env.lives("apart")
    });
    assert!(env.lives("away"));
    process::signal(away.pid, Signal::SIGKILL);
    env.touch("go");
    running.finish().code(0);
}

#[test]
fn the_fake_agent_dies_and_stops_as_its_script_says() {
    let env = env();
    assert_eq!(agent(&env, "die SEGV").finish().signal, Some(11));
    assert_eq!(agent(&env, "no-such-thing").finish().code, Some(97));
    let stopped = agent(&env, "pid stopped\nstop\nexit 5");
    let (pid, _) = env.wait_for_pid("stopped");
    wait_until("it has stopped", LONG, || {
        process::look(pid).is_some_and(|seen| seen.state == 'T')
    });
    stopped.signal(Signal::SIGCONT);
    stopped.finish().code(5);
    let told = agent(&env, "on TERM 143\npid told\nsleep forever");
    env.wait_for_pid("told");
    told.signal(Signal::SIGTERM);
    told.finish().code(143);
}

#[test]
fn what_escapes_goes_with_its_environment() {
    let env = env();
    let running = agent(
        &env,
        "spawn double away quiet\n[away]\nignore TERM INT HUP\npid away\nsleep forever",
    );
    let (pid, ticks) = env.wait_for_pid("away");
    running.finish().code(0);
    assert!(process::lives(pid, ticks));
    drop(env);
    assert!(!process::lives(pid, ticks));
}

/// Asks the model for a completion with a tool and returns everything that it answers.
fn ask(model: &Model, stream: bool) -> String {
    let tool = json!({"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}});
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Do it."}]}]);
    let body = json!({"model": "m", "stream": stream, "tools": [tool], "messages": messages}).to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", model.port())).expect("it listens");
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    // A reset connection is one of the answers, and may come as soon as the question is read.
    socket.shutdown(Shutdown::Write).ok();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok();
    answer
}

#[test]
fn the_model_answers_as_its_script_says() {
    let model = Model::start(Script::of([
        Reply::text("Hello you.").bash("true"),
        Reply::text("Again."),
        Reply::http(429, &json!({"error": {"message": "slow down"}})).header("retry-after", "7"),
        Reply::stall(Stall::Drop(Moment::Mid)),
    ]));
    let streamed = ask(&model, true);
    for part in [
        "200",
        r#""content":"Hello""#,
        r#""name":"bash""#,
        r#""finish_reason":"tool_calls""#,
        "[DONE]",
    ] {
        assert!(streamed.contains(part), "{part} is missing: {streamed}");
    }
    let whole = ask(&model, false);
    assert!(whole.contains(r#""content":"Again.""#), "{whole}");
    let refused = ask(&model, true);
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(
        refused.contains("retry-after: 7\r\n") && refused.ends_with(r#"{"error":{"message":"slow down"}}"#)
    );
    assert!(!ask(&model, true).contains("finish_reason\":\"stop"));
    assert!(ask(&model, true).contains("no reply for request 5"));
    let first = model.wait_for_request(1, LONG);
    assert_eq!(first.messages(), [("user".to_owned(), "Do it.".to_owned())]);
    assert_eq!(first.tools(), ["bash"]);
    assert_eq!(model.requests().len(), 5);
}

#[test]
fn a_model_that_hangs_notices_who_goes_away() {
    let model = Model::start(Script::always(Reply::stall(Stall::Hang(Moment::Headers))));
    let answer = ask(&model, true);
    model.wait_for_hang_up(1, LONG);
    assert!(answer.contains("200") && !answer.contains("data:"), "{answer}");
}

#[test]
fn a_program_runs_with_this_environment_and_no_other() {
    let env = env();
    let said = env.start(Path::new("env"), &[]).finish().ok();
    let home = format!("AGENTS_POD_HOME={}", env.home().display());
    assert!(said.lines().any(|line| line == home), "{said}");
    assert!(!said.contains("CARGO"), "{said}");
}

//! Every real CLI against a scripted model: one table of CLI and case.

use std::fs;

use pod_test_support::model::{Model, Moment, Refusal, Reply, Script, Stall};
use pod_test_support::{Cli, LONG, RealAgent, TestEnv, process, wait_until};
use serde_json::Value;

use crate::env;

/// An environment with a model and one idle pod `p` of this CLI.
fn pod(agent: &RealAgent, script: Script) -> (TestEnv, Model) {
    let env = env();
    let model = Model::start(script);
    agent.set_up(&env, &model);
    env.spawn("p");
    (env, model)
}

fn assert_ended(env: &TestEnv, cli: Cli, outcome: &str, reason: Option<&str>) -> Value {
    let last = env.last("p");
    assert_eq!(last["outcome"], outcome, "{cli:?}: {last:#}\n{}", env.output("p"));
    assert_eq!(
        last["reason"].as_str(),
        reason,
        "{cli:?}: {last:#}\n{}",
        env.output("p")
    );
    env.assert_nothing_lives("p");
    last
}

/// A refusal that no CLI waits for long before it tries again.
fn refused(refusal: Refusal) -> Reply {
    Reply::refused(refusal).header("retry-after-ms", "50")
}

fn plain_answer(agent: &RealAgent) {
    let (env, model) = pod(
        agent,
        Script::of([Reply::text("I am done, I think. status: done")]),
    );
    env.wake("p");
    let last = assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
    assert_eq!(
        (
            &last["exit"]["code"],
            &last["usage"]["inputTokens"],
            &last["usage"]["outputTokens"]
        ),
        (&0.into(), &100.into(), &20.into()),
        "{last:#}"
    );
    let asked = model.requests();
    assert!(asked[0].text().contains("Reach the goal."), "{:?}", agent.cli());
    assert!(env.output("p").contains("I am done, I think."));
}

fn tool_then_answer(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("I run.").bash("echo made > made.txt"),
        Reply::text("Finished."),
    ]);
    let (env, _model) = pod(agent, script);
    env.wake("p");
    assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
    let made = fs::read_to_string(env.project().join("made.txt")).expect("the tool ran");
    assert_eq!(made, "made\n");
}

fn handoff_by_tool(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("").handoff("done", "it is made"),
        Reply::text("Handed off."),
    ]);
    let (env, model) = pod(agent, script);
    env.wake("p");
    let last = assert_ended(&env, agent.cli(), "done", None);
    assert!(last["detail"].is_null(), "{:?}: {last:#}", agent.cli());
    let tools = model.requests()[0].tools();
    assert!(
        tools.iter().any(|tool| tool.ends_with("pod_handoff")),
        "{:?}: {tools:?}",
        agent.cli()
    );
    let kept = fs::read_to_string(env.wake_dir("p", 1).join("handoff.md")).expect("it is kept");
    assert!(kept.contains("it is made"), "{kept}");
}

fn wrong_key(agent: &RealAgent) {
    let (env, _model) = pod(agent, Script::always(refused(Refusal::Unauthorized)));
    env.wake("p");
    assert_ended(&env, agent.cli(), "failed", Some("authFailed"));
    env.pass();
    assert_eq!(
        env.record("p")["parked"]["code"],
        "authFailed",
        "{:?}",
        agent.cli()
    );
}

fn limited_once(agent: &RealAgent) {
    // Those that are told to try nothing again fail by the one refusal.
    let script = Script::of([refused(Refusal::rate_limited(Some(1))), Reply::text("Recovered.")]);
    let (env, model) = pod(agent, script);
    env.wake("p");
    if model.requests().len() > 1 {
        assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
    } else {
        assert_ended(&env, agent.cli(), "failed", Some("rateLimited"));
    }
}

fn limited_for_ever(agent: &RealAgent) {
    let (env, _model) = pod(agent, Script::always(refused(Refusal::rate_limited(Some(1)))));
    env.wake("p");
    let last = assert_ended(&env, agent.cli(), "failed", Some("rateLimited"));
    assert!(last["rateLimit"]["resetsAt"].is_string(), "{last:#}");
    env.pass();
    let record = env.record("p");
    assert_eq!((&record["state"], &record["streak"]), (&"idle".into(), &0.into()));
}

fn overloaded(agent: &RealAgent) {
    let (env, _model) = pod(agent, Script::always(refused(Refusal::Overloaded)));
    env.wake("p");
    assert_ended(&env, agent.cli(), "failed", Some("overloaded"));
}

fn hang_and_cancel(agent: &RealAgent) {
    let (env, model) = pod(agent, Script::always(Reply::stall(Stall::Hang(Moment::Mid))));
    let wrapper = env.wrapper("p", &[]);
    model.wait_for_request(1, LONG);
    env.podctl(&["cancel", "p", "--wait"]).ok();
    wrapper.finish().code(0);
    assert_ended(&env, agent.cli(), "cancelled", None);
    assert_eq!(env.record("p")["state"], "cancelled");
}

const ESCAPES: &str =
    "nohup sleep 600 >/dev/null 2>&1 & setsid nohup sleep 600 >/dev/null 2>&1 < /dev/null & echo started";

fn children_at_the_end(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("I start them.").bash(ESCAPES),
        Reply::text("Finished."),
    ]);
    let (env, _model) = pod(agent, script);
    env.wake("p");
    let last = assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
    assert!(last["swept"].as_u64() >= Some(1), "{:?}: {last:#}", agent.cli());
}

fn children_at_a_cancel(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("I start them.").bash(ESCAPES),
        Reply::stall(Stall::Hang(Moment::Mid)),
    ]);
    let (env, model) = pod(agent, script);
    let wrapper = env.wrapper("p", &[]);
    wait_until("a child sleeps", LONG, || {
        let sleeping = |seen: &process::Seen| seen.command == "sleep 600";
        env.alive_in("p").iter().any(sleeping)
    });
    model.wait_for_request(2, LONG);
    env.podctl(&["cancel", "p", "--wait"]).ok();
    wrapper.finish().code(0);
    assert_ended(&env, agent.cli(), "cancelled", None);
}

fn warm_resume(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("First thoughts.").bash("echo A-RESULT"),
        Reply::stall(Stall::Hang(Moment::Mid)),
    ]);
    let (env, model) = pod(agent, script);
    let mut wrapper = env.wrapper("p", &[]);
    model.wait_for_request(2, LONG);
    wrapper.kill9();
    let answered = model.requests().len();
    model.then([
        Reply::text("").handoff("done", "it is made"),
        Reply::text("Handed off."),
    ]);
    env.podctl(&["wake", "p", "--warm", "--wait"]).ok();
    let record = env.record("p");
    assert_eq!(record["wakeUps"][0]["outcome"], "lost", "{record:#}");
    assert_ended(&env, agent.cli(), "done", None);
    let told = model.wait_for_request(answered + 1, LONG).text();
    for earlier in ["Reach the goal.", "First thoughts.", "A-RESULT"] {
        assert!(
            told.contains(earlier),
            "{:?}: `{earlier}` is not in the session",
            agent.cli()
        );
    }
}

fn unknown_session(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("First thoughts.").bash("echo A-RESULT"),
        Reply::stall(Stall::Hang(Moment::Mid)),
    ]);
    let (env, model) = pod(agent, script);
    let mut wrapper = env.wrapper("p", &[]);
    model.wait_for_request(2, LONG);
    wrapper.kill9();
    // Whatever the CLI keeps of its sessions is gone.
    for kept in [
        ".claude/projects",
        ".codex/sessions",
        ".gemini/tmp",
        ".local/share/opencode",
    ] {
        fs::remove_dir_all(env.user_home().join(kept)).ok();
    }
    fs::remove_dir_all(env.root().join("xdg/data/opencode")).ok();
    fs::remove_file(env.wake_dir("p", 1).join("session.jsonl")).ok();
    model.then([
        Reply::text("").handoff("rotating", "again"),
        Reply::text("Handed off."),
    ]);
    env.podctl(&["wake", "p", "--warm", "--wait"]);
    let lost = env.last("p");
    model.then([
        Reply::text("").handoff("done", "it is made"),
        Reply::text("Handed off."),
    ]);
    env.podctl(&["wake", "p", "--wait"]).ok();
    let record = env.record("p");
    assert_eq!(record["state"], "done", "{:?}: {record:#}", agent.cli());
    assert!(
        lost["outcome"] == "failed" || lost["outcome"] == "more",
        "{:?}: {lost:#}",
        agent.cli()
    );
    env.assert_nothing_lives("p");
}

fn overflow_at_warm_resume(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("First thoughts.").bash("echo A-RESULT"),
        Reply::stall(Stall::Hang(Moment::Mid)),
    ]);
    let (env, model) = pod(agent, script);
    let mut wrapper = env.wrapper("p", &[]);
    model.wait_for_request(2, LONG);
    wrapper.kill9();
    let handoff = env.pod_dir("p").join("docs/HANDOFF.md");
    fs::write(&handoff, "status: rotating\n\nhalf of it is made\n").expect("it is written");
    let refusals = std::iter::repeat_with(|| refused(Refusal::ContextTooLong));
    model.then(refusals.take(12));
    env.podctl(&["wake", "p", "--warm", "--wait"]);
    assert_ended(&env, agent.cli(), "failed", Some("contextExhausted"));
    let asked = model.requests().len();
    model.then([
        Reply::text("").handoff("done", "it is made"),
        Reply::text("Handed off."),
    ]);
    env.podctl(&["wake", "p", "--wait"]).ok();
    assert_ended(&env, agent.cli(), "done", None);
    let told = model.requests()[asked].text();
    assert!(
        told.contains("Reach the goal.") && !told.contains("First thoughts."),
        "{:?}: the session that overflowed is opened again",
        agent.cli()
    );
    let kept = fs::read_to_string(env.wake_dir("p", 2).join("handoff.md")).expect("it is kept");
    assert!(kept.contains("half of it is made"), "{kept}");
}

fn big_tool_output(agent: &RealAgent) {
    let script = Script::of([
        Reply::text("Much.").bash("head -c 5000000 /dev/zero | tr '\\0' x; echo"),
        Reply::text("Finished."),
    ]);
    let (env, _model) = pod(agent, script);
    env.wake("p");
    assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
    assert!(env.output("p").contains("Finished."), "{:?}", agent.cli());
}

fn long_prompt(agent: &RealAgent) {
    let env = env();
    let model = Model::start(Script::of([Reply::text("Read.")]));
    agent.set_up(&env, &model);
    let goal = env.root().join("goal");
    fs::write(&goal, format!("{} END-OF-GOAL", "lorem ipsum ".repeat(250_000))).expect("it is written");
    let (project, goal) = (env.project(), goal.as_path());
    let [project, goal] = [project, goal].map(|path| path.to_str().expect("it is UTF-8"));
    env.podctl(&["spawn", "--id", "p", "--project", project, "--goal-file", goal])
        .ok();
    env.wake("p");
    if agent.cli() == Cli::Codex {
        let last = assert_ended(&env, agent.cli(), "failed", Some("spawnFailed"));
        assert!(
            last["detail"]
                .as_str()
                .is_some_and(|why| why.contains("characters")),
            "{last:#}"
        );
    } else {
        assert_ended(&env, agent.cli(), "failed", Some("noHandoff"));
        assert!(
            model.requests()[0].text().contains("END-OF-GOAL"),
            "{:?}",
            agent.cli()
        );
    }
}

/// A name, and what is done and seen.
type Case = (&'static str, fn(&RealAgent));

const CASES: [Case; 15] = [
    ("plain answer", plain_answer),
    ("tool then answer", tool_then_answer),
    ("handoff by tool", handoff_by_tool),
    ("wrong key", wrong_key),
    ("429 once", limited_once),
    ("429 for ever", limited_for_ever),
    ("overloaded", overloaded),
    ("hang and cancel", hang_and_cancel),
    ("children at the end", children_at_the_end),
    ("children at a cancel", children_at_a_cancel),
    ("warm resume", warm_resume),
    ("unknown session", unknown_session),
    ("overflow at warm resume", overflow_at_warm_resume),
    ("5 MB tool output", big_tool_output),
    ("3 MB prompt", long_prompt),
];

/// Runs all cases with one CLI, and names every one that fails.
fn table(cli: Cli) {
    let Some(agent) = RealAgent::find(cli) else { return };
    let failed: Vec<&str> = CASES
        .iter()
        .filter(|(_, case)| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&agent))).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "{cli:?}: {failed:?}");
}

#[test]
fn a_pod_goes_from_maker_to_maker_and_ends_done() {
    let installed: Vec<RealAgent> = [Cli::Pi16, Cli::Claude, Cli::Codex, Cli::Gemini, Cli::OpenCode]
        .into_iter()
        .filter_map(RealAgent::find)
        .collect();
    if installed.len() < 2 {
        return;
    }
    let env = env();
    let model = Model::start(Script::of([]));
    for agent in &installed {
        agent.define(&env, &model, agent.cli().kind());
    }
    env.spawn_with("p", &["--agent", installed[0].cli().kind()]);
    for (at, agent) in installed.iter().enumerate() {
        let last = at + 1 == installed.len();
        let status = if last { "done" } else { "rotating" };
        let line = format!("echo step-{at} >> steps.txt");
        let summary = format!("step {at} is made by {}", agent.cli().kind());
        model.then([
            Reply::text("I go on.").bash(&line),
            Reply::text("").handoff(status, &summary),
            Reply::text("Handed off."),
        ]);
        let asked = model.requests().len();
        if at % 2 == 0 {
            env.podctl(&["edit", "p", "--agent", agent.cli().kind()]).ok();
            env.podctl(&["wake", "p", "--wait"]).ok();
        } else {
            env.podctl(&["wake", "p", "--agent", agent.cli().kind(), "--wait"])
                .ok();
        }
        let docs = env.pod_dir("p").join("docs/HANDOFF.md");
        let told = model.requests()[asked].text();
        assert!(told.contains(docs.to_str().expect("it is UTF-8")), "{told}");
        let left = fs::read_to_string(&docs).expect("it is left");
        assert!(left.contains(&summary), "{left}");
    }
    let record = env.record("p");
    assert_eq!(record["state"], "done", "{record:#}");
    let ran: Vec<&str> = record["wakeUps"]
        .as_array()
        .expect("a record has wake-ups")
        .iter()
        .filter_map(|entry| entry["agent"].as_str())
        .collect();
    let wanted: Vec<&str> = installed.iter().map(|agent| agent.cli().kind()).collect();
    assert_eq!(ran, wanted);
    let steps = fs::read_to_string(env.project().join("steps.txt")).expect("they are made");
    assert_eq!(steps.lines().count(), installed.len());
    env.assert_nothing_lives("p");
}

#[test]
fn every_case_with_pi_1_6() {
    table(Cli::Pi16);
}

#[test]
fn every_case_with_pi_0_73() {
    table(Cli::Pi073);
}

#[test]
fn every_case_with_claude() {
    table(Cli::Claude);
}

#[test]
fn every_case_with_codex() {
    table(Cli::Codex);
}

#[test]
fn every_case_with_gemini() {
    table(Cli::Gemini);
}

#[test]
fn every_case_with_opencode() {
    table(Cli::OpenCode);
}

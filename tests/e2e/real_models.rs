//! The real agents understand the scripted model, each by itself and without agents-pod.

use std::fs;

use pod_test_support::model::{Model, Reply, Script};
use pod_test_support::{Cli, RealAgent};

use crate::env;

/// Lets an agent write a file and run a command, by whatever tools it has, and then say that it has finished.
fn understands_the_scripted_model(cli: Cli) {
    let Some(agent) = RealAgent::find(cli) else {
        return;
    };
    let env = env();
    let made = env.project().join("made.txt");
    let mut last = Reply::text("Finished.");
    last.pieces = 1;
    let model = Model::start(Script::of([
        Reply::text("I write.").write(&made.display().to_string(), "by a 'tool'\n"),
        Reply::text("I run.").bash("cat made.txt > copied.txt; echo A-RESULT"),
        last,
    ]));
    let command = agent.command(&env, &model, "Do the work.");
    let said = env.start_command(command).finish().ok();
    assert!(said.contains("Finished."), "{said}");
    let copied = fs::read_to_string(env.project().join("copied.txt")).unwrap();
    assert_eq!(copied, "by a 'tool'\n");
    let asked = model.requests();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].text().contains("Do the work."));
    assert!(asked[2].text().contains("A-RESULT"), "{}", asked[2].text());
}

#[test]
fn real_pi_understands_the_scripted_model() {
    understands_the_scripted_model(Cli::Pi16);
    understands_the_scripted_model(Cli::Pi073);
}

#[test]
fn real_claude_understands_the_scripted_model() {
    understands_the_scripted_model(Cli::Claude);
}

#[test]
fn real_codex_understands_the_scripted_model() {
    understands_the_scripted_model(Cli::Codex);
}

#[test]
fn real_gemini_understands_the_scripted_model() {
    understands_the_scripted_model(Cli::Gemini);
}

#[test]
fn real_opencode_understands_the_scripted_model() {
    understands_the_scripted_model(Cli::OpenCode);
}

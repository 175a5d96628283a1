//! Uncommitted work of a wake-up that was cut off, and what is forgotten.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use pod_test_support::model::{Model, Reply, Script};
use pod_test_support::{Cli, LONG, RealAgent, TestEnv, wait_until};
use serde_json::Value;

use crate::{builder, env};

fn git_env() -> TestEnv {
    let env = builder().git().build();
    fs::write(env.project().join("tracked"), "one\n").expect("it is written");
    env.git(&["add", "."]);
    env.git(&["commit", "-qm", "two"]);
    env
}

const EDITS: &str = "sh echo edited > tracked && echo new > untracked && head -c 11000000 /dev/zero > huge";

fn kept(env: &TestEnv, id: &str, n: u32, name: &str) -> String {
    env.git(&["cat-file", "blob", &format!("refs/agents-pod/{id}/{n}:{name}")])
}

fn refs(env: &TestEnv) -> Vec<String> {
    let said = env.git(&["for-each-ref", "--format=%(refname)", "refs/agents-pod/"]);
    said.lines().map(str::to_owned).collect()
}

fn show(env: &TestEnv, id: &str) -> Value {
    serde_json::from_str(&env.podctl(&["show", id, "--json"]).ok()).expect("it is JSON")
}

/// The user's side of the repository, which nothing of ours may touch.
fn theirs(env: &TestEnv) -> Vec<Vec<u8>> {
    let dir = env.project().join(".git");
    let files = ["index", "HEAD", "refs/heads/main", "refs/stash"];
    files
        .iter()
        .map(|name| fs::read(dir.join(name)).unwrap_or_default())
        .collect()
}

#[test]
fn what_was_cancelled_killed_or_lost_is_kept_and_said() {
    let env = git_env();
    env.fake("exit 1");
    env.git(&["config", "core.hooksPath", ".git/hooks"]);
    let hook = env.project().join(".git/hooks/reference-transaction");
    fs::create_dir_all(hook.parent().expect("it has one")).expect("it is made");
    fs::write(&hook, "#!/bin/sh\ntouch \"$GIT_DIR/hook-ran\"\n").expect("it is written");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is set");
    for (id, end) in [
        ("cancelled", "sleep forever"),
        ("terminated", "die KILL"),
        ("lost", "sleep forever"),
    ] {
        env.git(&["checkout", "-q", "."]);
        env.fake_pod(id, &format!("{EDITS}\npi header\ntouch {id}-awake\n{end}"));
        env.spawn(id);
        let before = theirs(&env);
        let mut wrapper = env.wrapper(id, &[]);
        env.wait_for_scratch(&format!("{id}-awake"));
        match id {
            "cancelled" => drop(env.podctl(&["cancel", id, "--wait"]).ok()),
            "lost" => wrapper.kill9(),
            _ => {}
        }
        wrapper.finish();
        env.podctl(&["park", id]);
        env.pass();
        let entry = env.last(id);
        let name = format!("refs/agents-pod/{id}/1");
        assert_eq!(entry["savedWork"]["ref"], name.as_str(), "{entry:#}");
        assert_eq!(
            entry["savedWork"]["leftOut"],
            serde_json::json!(["huge"]),
            "{entry:#}"
        );
        assert_eq!(show(&env, id)["savedWork"]["ref"], name.as_str());
        assert_eq!(
            (kept(&env, id, 1, "tracked"), kept(&env, id, 1, "untracked")),
            ("edited".into(), "new".into())
        );
        assert_eq!(before, theirs(&env), "{id}");
        assert_eq!(
            fs::read_to_string(env.project().join("tracked")).expect("it is there"),
            "edited\n"
        );
        let checkpoint =
            fs::read_to_string(env.pod_dir(id).join("checkpoints/latest.md")).expect("it is there");
        let page = env.podctl(&["show", id]).ok();
        for text in [&checkpoint, &page, &env.output(id)] {
            assert!(text.contains(&name) && text.contains("huge"), "{id}: {text}");
        }
    }
    assert!(!env.project().join(".git/hook-ran").exists(), "a hook ran");
    // The next prompt says where it is, as our own words and not as a quotation.
    env.fake_pod("lost", "pi run Done.\nhandoff done");
    env.podctl(&["resume", "lost"]).ok();
    env.wake("lost");
    let prompt = fs::read_to_string(env.wake_dir("lost", 2).join("prompt.md")).expect("it is there");
    let (_, behind) = prompt
        .split_once("--- end of checkpoint ---")
        .expect("it is quoted");
    assert!(behind.contains("refs/agents-pod/lost/1"), "{prompt}");
}

#[test]
fn real_pi_is_killed_in_a_tool_call_and_the_next_wake_up_is_told() {
    let Some(pi) = RealAgent::find(Cli::Pi16) else {
        return;
    };
    let env = git_env();
    let model = Model::start(Script::of([
        Reply::text("I work.").bash("echo half > half.txt; echo edited > tracked; sleep 600")
    ]));
    pi.set_up(&env, &model);
    env.spawn("p");
    let mut wrapper = env.wrapper("p", &[]);
    wait_until("the tool has written", LONG, || {
        env.project().join("half.txt").exists()
    });
    wait_until("the tool sleeps", LONG, || {
        env.alive_in("p").iter().any(|seen| seen.command == "sleep 600")
    });
    wrapper.kill9();
    let asked = model.requests().len();
    model.then([
        Reply::text("").handoff("done", "it is made"),
        Reply::text("Handed off."),
    ]);
    env.podctl(&["wake", "p", "--wait"]).ok();
    assert_eq!(
        (kept(&env, "p", 1, "half.txt"), kept(&env, "p", 1, "tracked")),
        ("half".into(), "edited".into())
    );
    assert!(model.requests()[asked].text().contains("refs/agents-pod/p/1"));
    assert_eq!(
        env.record("p")["wakeUps"][0]["savedWork"]["ref"],
        "refs/agents-pod/p/1"
    );
    env.assert_nothing_lives("p");
}

#[test]
fn what_ended_by_itself_and_what_was_clean_makes_no_ref() {
    let env = git_env();
    env.fake("exit 1");
    env.fake_wake(1, &format!("{EDITS}\npi run More.\nhandoff rotating"));
    env.fake_wake(
        2,
        "sh git checkout -q . && git clean -fdq\npi header\ntouch awake\nsleep forever",
    );
    env.spawn("p");
    env.wake("p");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("awake");
    env.podctl(&["cancel", "p", "--wait"]).ok();
    wrapper.finish().code(0);
    assert!(
        refs(&env).is_empty() && env.last("p").get("savedWork").is_none(),
        "{:?}",
        refs(&env)
    );
    assert_eq!(show(&env, "p")["savedWork"], Value::Null);
}

#[test]
fn a_project_without_git_works_without_it_and_says_so_once() {
    let env = env();
    env.fake("pi header\ndie KILL");
    env.spawn("p");
    for _ in 0..3 {
        env.wake("p");
    }
    assert_eq!(
        env.output("p").matches("no git repository").count(),
        1,
        "{}",
        env.output("p")
    );
    assert!(env.last("p").get("savedWork").is_none());
}

#[test]
fn a_lock_that_a_killed_git_left_is_reported() {
    let env = git_env();
    env.fake("sh echo x > tracked && touch .git/index.lock\npi header\ndie KILL");
    env.spawn("p");
    env.wake("p");
    assert_eq!(kept(&env, "p", 1, "tracked"), "x");
    let text = fs::read_to_string(env.pod_dir("p").join("checkpoints/latest.md")).expect("it is there");
    assert!(text.contains("index.lock'"), "{text}");
}

#[test]
fn a_work_that_cannot_be_kept_changes_no_outcome_and_is_said() {
    let env = git_env();
    env.fake("sh echo x > tracked && mv .git/objects .git/elsewhere\npi header\ndie KILL");
    env.spawn("p");
    let last = env.wake("p");
    assert_eq!(
        (&last["outcome"], &last["reason"]),
        (&"failed".into(), &"terminated".into())
    );
    assert!(
        env.output("p").contains("uncommitted work"),
        "{}",
        env.output("p")
    );
}

#[test]
fn old_wake_ups_are_forgotten_with_their_refs_and_the_last_three_stay() {
    let env = git_env();
    env.fake("sh echo $AGENTS_POD_WAKEUP_N > tracked\npi header\ndie KILL");
    env.spawn_with("p", &[]);
    env.podctl(&["edit", "p", "--set", "keepWakeUps=1", "--set", "maxFailures=50"])
        .ok();
    for _ in 0..5 {
        env.wake("p");
    }
    env.podctl(&["park", "p"]).ok();
    assert_eq!(refs(&env).len(), 5);
    env.pass();
    let dirs = |place: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(place)
            .expect("it is there")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(dirs(&env.pod_dir("p").join("wakeups")), ["3", "4", "5"]);
    assert_eq!(
        dirs(&env.pod_dir("p").join("checkpoints/runs")),
        ["3.md", "4.md", "5.md"]
    );
    assert_eq!(
        refs(&env),
        [
            "refs/agents-pod/p/3",
            "refs/agents-pod/p/4",
            "refs/agents-pod/p/5"
        ]
    );
    for (n, said) in [("1", true), ("5", false)] {
        let shown = env.podctl(&["logs", "p", "--events", "--wake", n]).code(0);
        assert_eq!(shown.stderr.contains("its log is gone"), said, "{}", shown.stderr);
    }
    // n is never used twice, whatever was forgotten.
    env.podctl(&["resume", "p"]).ok();
    assert_eq!(env.wake("p")["n"], 6);
    env.podctl(&["cancel", "p", "--wait"]).ok();
    env.podctl(&["rm", "p", "--purge"]).ok();
    assert!(refs(&env).is_empty() && !env.pod_dir("p").exists());
}

#[test]
fn what_is_older_than_the_policy_allows_is_forgotten() {
    let env = git_env();
    env.fake("pi run More.\nhandoff rotating");
    env.spawn("p");
    for _ in 0..5 {
        env.wake("p");
    }
    env.podctl(&["park", "p"]).ok();
    env.edit_record("p", |record| {
        for at in [0, 1] {
            record["wakeUps"][at]["endedAt"] = "2020-01-01T00:00:00.000Z".into();
        }
    });
    env.pass();
    assert!(!env.wake_dir("p", 1).exists() && !env.wake_dir("p", 2).exists());
    assert!((3..=5).all(|n| env.wake_dir("p", n).exists()));
}

#[test]
fn a_running_wake_up_keeps_what_it_uses() {
    let env = git_env();
    env.fake("pi run More.\nhandoff rotating");
    env.spawn("p");
    env.podctl(&["edit", "p", "--set", "keepWakeUps=1"]).ok();
    for _ in 0..4 {
        env.wake("p");
    }
    env.fake("pi header\ntouch awake\nawait go\nhandoff done");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("awake");
    env.pass();
    assert!(
        (1..=5).all(|n| env.wake_dir("p", n).exists()),
        "nothing goes beside a wake-up"
    );
    wrapper.signal(Signal::SIGCONT);
    env.touch("go");
    wrapper.finish().code(0);
    env.pass();
    assert!(!env.wake_dir("p", 1).exists() && env.wake_dir("p", 3).exists());
}

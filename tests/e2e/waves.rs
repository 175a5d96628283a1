//! Waves of subagents: every line of their contract, on the running program.

mod judged;
mod killed;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pod_test_support::{Finished, LONG, Running, TestEnv, wait_until};
use serde_json::{Value, json};

use crate::builder;

const ROOT: &str = "AGENTS_POD_PARENT_PROJECT_ROOT";

fn started(env: &TestEnv, dir: &Path, args: &[&str]) -> Running {
    let mut command = env.command(&env.programs().podctl);
    command.args(args).current_dir(dir);
    env.start_command(command)
}

pub(super) fn podctl(env: &TestEnv, dir: &Path, args: &[&str]) -> Finished {
    started(env, dir, args).finish()
}

pub(super) fn save(env: &TestEnv, dir: &Path, sub: &str, payload: &Value) -> Finished {
    podctl(env, dir, &["checkpoint", "7", sub, &payload.to_string()])
}

pub(super) fn file(root: &Path, sub: &str) -> PathBuf {
    root.join(format!(".agents-pod/waves/wave-7/subagent-{sub}.checkpoint.json"))
}

pub(super) fn read(root: &Path, sub: &str) -> Value {
    serde_json::from_slice(&fs::read(file(root, sub)).expect("there is one")).expect("it is JSON")
}

/// Makes a checkpoint look as if it were written so many seconds ago.
fn age(root: &Path, sub: &str, seconds: i64) {
    let mut value = read(root, sub);
    let text = value["ts"].as_str().expect("it has a time").to_owned();
    let at: pod_core::Timestamp = text.parse().expect("it is a time");
    value["ts"] = pod_core::Timestamp::from_millis(at.as_millis() - seconds * 1000)
        .to_string()
        .into();
    fs::write(file(root, sub), value.to_string()).expect("it is written");
}

fn status(env: &TestEnv) -> Vec<(String, String)> {
    let said = podctl(env, env.project(), &["wave", "status", "7", "--json"]).ok();
    let value: Value = serde_json::from_str(&said).expect("it is JSON");
    let subs = value["subs"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    subs.map(|one| (text(&one["sub"]), text(&one["state"]))).collect()
}

pub(super) fn orphans(env: &TestEnv, more: &[&str]) -> Vec<String> {
    let args: Vec<&str> = ["wave", "orphans", "7"].iter().chain(more).copied().collect();
    let said = podctl(env, env.project(), &args).ok();
    said.lines().map(str::to_owned).collect()
}

/// A real worktree of the project's repository.
pub(super) fn worktree(env: &TestEnv) -> PathBuf {
    let place = env.root().join("tree");
    env.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        place.to_str().expect("it is UTF-8"),
    ]);
    place
}

pub(super) fn git_env() -> TestEnv {
    builder().git().build()
}

#[test]
fn ids_that_could_leave_their_place_are_refused_as_wrong_usage() {
    let env = git_env();
    for (wave, sub) in [("../x", "a"), ("7", "a/b"), ("7", ""), ("7", "a.b"), ("é", "a")] {
        let refused = podctl(&env, env.project(), &["checkpoint", wave, sub, "{}"]).code(2);
        assert!(
            refused.stderr.contains("[A-Za-z0-9_-]{1,64}"),
            "{}",
            refused.stderr
        );
    }
    assert!(!env.project().join(".agents-pod/waves").exists());
}

#[test]
fn the_wrapping_keys_are_ours_and_every_other_key_is_kept() {
    let env = git_env();
    let payload = json!({"tool_use_count": 3, "next_step": "go on", "mine": {"é": [1, 2.5, null]}});
    let said = save(&env, env.project(), "a", &payload).code(0);
    let shown = file(env.project(), "a");
    assert_eq!(
        said.stderr,
        format!("checkpoint: writing to {}\n", shown.display())
    );
    assert_eq!(said.stdout, "");
    let kept = read(env.project(), "a");
    for (key, value) in payload.as_object().expect("it is an object") {
        assert_eq!(&kept[key], value);
    }
    assert_eq!(
        (&kept["schema_version"], &kept["wave_id"], &kept["sub_id"]),
        (&1.into(), &"7".into(), &"a".into())
    );
    for own in ["schema_version", "wave_id", "sub_id", "ts"] {
        let refused = save(&env, env.project(), "a", &json!({own: 1})).code(1);
        assert!(refused.stderr.contains(own), "{}", refused.stderr);
    }
    for wrong in ["[]", "{", "1", ""] {
        podctl(&env, env.project(), &["checkpoint", "7", "a", wrong]).code(1);
    }
    assert_eq!(read(env.project(), "a"), kept, "a refused one changes nothing");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn four_kilobytes_are_counted_in_bytes_and_both_figures_are_named() {
    let env = git_env();
    save(&env, env.project(), "a", &json!({"k": ""})).code(0);
    let empty = fs::metadata(file(env.project(), "a"))
        .expect("there is one")
        .len();
    let most = usize::try_from((4096 - empty) / 2).expect("it fits");
    save(&env, env.project(), "a", &json!({"k": "é".repeat(most)})).code(0);
    let full = read(env.project(), "a");
    let refused = save(&env, env.project(), "a", &json!({"k": "é".repeat(most + 1)})).code(1);
    let would = usize::try_from(empty).expect("it fits") + 2 * (most + 1);
    for figure in [would.to_string(), "4096".to_owned()] {
        assert!(refused.stderr.contains(&figure), "{figure}: {}", refused.stderr);
    }
    assert_eq!(read(env.project(), "a"), full, "the old one stands");
}

#[test]
fn two_hundred_writers_leave_two_hundred_whole_checkpoints() {
    let env = git_env();
    let payload = json!({"k": "x".repeat(2000)}).to_string();
    let names: Vec<String> = (0..200).map(|at| format!("s{}", at % 150)).collect();
    let writers: Vec<Running> = names
        .iter()
        .map(|sub| started(&env, env.project(), &["checkpoint", "7", sub, &payload]))
        .collect();
    for writer in writers {
        writer.finish().code(0);
    }
    let all = status(&env);
    assert_eq!(all.len(), 150);
    assert!(all.iter().all(|(_, state)| state == "running"), "{all:?}");
    let place = env.project().join(".agents-pod/waves/wave-7");
    let left = fs::read_dir(place).expect("it is there").flatten();
    let torn: Vec<_> = left
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.') && !name.ends_with(".lock"))
        .collect();
    assert!(torn.is_empty(), "{torn:?}");
}

#[test]
fn calls_of_one_subagent_wait_for_each_other_and_those_of_another_do_not() {
    let env = git_env();
    save(&env, env.project(), "a", &json!({"k": 1})).code(0);
    let lock = env.project().join(".agents-pod/waves/wave-7/.subagent-a.lock");
    let lock = fs::File::open(lock).expect("it is there");
    lock.lock().expect("it is free");
    let mut waiting = started(&env, env.project(), &["checkpoint", "7", "a", "{\"k\":2}"]);
    save(&env, env.project(), "b", &json!({"k": 1})).code(0);
    assert!(waiting.is_running());
    assert_eq!(read(env.project(), "a")["k"], 1);
    lock.unlock().expect("it is ours");
    waiting.finish().code(0);
    assert_eq!(read(env.project(), "a")["k"], 2);
}

#[test]
fn the_environment_root_beats_the_place_and_a_worktree_without_it_keeps_its_own() {
    let env = git_env();
    let tree = worktree(&env);
    fs::create_dir(tree.join("deep")).expect("it is made");
    let mut command = env.command(&env.programs().podctl);
    command
        .args(["checkpoint", "7", "parent", "{}"])
        .current_dir(tree.join("deep"))
        .env(ROOT, env.project());
    let said = env.start_command(command).finish().code(0);
    let written = file(env.project(), "parent");
    assert!(
        said.stderr.contains(written.to_str().expect("it is UTF-8")),
        "{}",
        said.stderr
    );
    save(&env, &tree.join("deep"), "own", &json!({})).code(0);
    assert!(written.exists() && file(&tree, "own").exists());
    assert!(!file(&tree, "parent").exists() && !file(env.project(), "own").exists());
    for wrong in ["relative", "/no/such/directory", "/etc/passwd"] {
        let mut command = env.command(&env.programs().podctl);
        command
            .args(["checkpoint", "7", "a", "{}"])
            .current_dir(&tree)
            .env(ROOT, wrong);
        let refused = env.start_command(command).finish().code(1);
        assert!(
            refused.stderr.contains(ROOT) && refused.stderr.contains("hint: "),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_worktree_is_drained_before_it_is_removed_and_draining_again_changes_nothing() {
    let env = git_env();
    let tree = worktree(&env);
    let text = tree.to_str().expect("it is UTF-8");
    let drain = || {
        let said = podctl(&env, env.project(), &["wave", "drain", "7", text, "--json"]);
        let value: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        (
            value["ok"].clone(),
            value["drained"].clone(),
            value["kept"].clone(),
            said.stderr,
        )
    };
    assert_eq!(drain().1, 0, "a worktree without checkpoints has none to drain");
    for sub in ["a", "b", "newer-here"] {
        save(&env, &tree, sub, &json!({"from": "tree"})).code(0);
    }
    save(&env, env.project(), "newer-here", &json!({"from": "parent"})).code(0);
    symlink(file(&tree, "a"), file(&tree, "link")).expect("it is made");
    fs::write(file(&tree, "torn"), "{").expect("it is written");
    fs::write(file(&tree, "x.y"), "{}").expect("it is written");
    let (ok, drained, kept, said) = drain();
    assert_eq!((ok, drained, kept), (true.into(), 2.into(), 1.into()));
    for named in ["newer-here", "subagent-link", "subagent-torn", "subagent-x.y"] {
        assert!(said.contains(named), "{named}: {said}");
    }
    assert_eq!(
        fs::read(file(&tree, "a")).ok(),
        fs::read(file(env.project(), "a")).ok()
    );
    assert_eq!(read(env.project(), "newer-here")["from"], "parent");
    env.git(&["worktree", "remove", "--force", text]);
    assert!(!tree.exists());
    assert_eq!(orphans(&env, &[]), ["a", "b", "newer-here"]);
    let refused = podctl(&env, env.project(), &["wave", "drain", "7", "."]).code(1);
    assert!(refused.stderr.contains("hint: "), "{}", refused.stderr);
    podctl(&env, env.project(), &["wave", "drain", "7", text]).code(1);
}

#[test]
fn a_drain_may_be_repeated_and_says_what_it_kept() {
    let env = git_env();
    let tree = worktree(&env);
    save(&env, &tree, "a", &json!({})).code(0);
    let drain = || {
        podctl(
            &env,
            env.project(),
            &["wave", "drain", "7", tree.to_str().expect("it is UTF-8")],
        )
        .ok()
    };
    assert_eq!(drain(), "1 drained, 0 kept");
    assert_eq!(drain(), "0 drained, 1 kept");
}

#[test]
fn orphans_have_a_checkpoint_and_no_completion_over_all_roots_and_once() {
    let env = git_env();
    let tree = worktree(&env);
    let root = ["--root", tree.to_str().expect("it is UTF-8")];
    assert!(orphans(&env, &[]).is_empty(), "a wave that nobody began has none");
    for sub in ["both", "here", "taken"] {
        save(&env, env.project(), sub, &json!({})).code(0);
    }
    for sub in ["both", "there"] {
        save(&env, &tree, sub, &json!({})).code(0);
    }
    // One that never wrote a checkpoint works as before, and is no orphan.
    podctl(&env, env.project(), &["wave", "dispatch", "7", "silent"]).code(0);
    podctl(&env, env.project(), &["wave", "complete", "7", "taken"]).code(0);
    podctl(&env, env.project(), &["wave", "complete", "7", "never-seen"]).code(0);
    assert_eq!(orphans(&env, &[]), ["both", "here"]);
    assert_eq!(orphans(&env, &root), ["both", "here", "there"]);
    assert_eq!(orphans(&env, &["--root", "."]), ["both", "here"]);
    let state =
        fs::read_to_string(env.project().join(".agents-pod/waves/wave-7/STATE.md")).expect("it is there");
    assert!(
        state.starts_with("---\n") && state.contains("completed_subs:\n  - never-seen\n  - taken\n"),
        "{state}"
    );
}

#[test]
fn the_state_of_a_wave_says_who_runs_who_waits_and_who_is_gone() {
    let env = git_env();
    podctl(&env, env.project(), &["wave", "status", "7"]).code(1);
    for sub in ["run", "gone", "stuck", "taken"] {
        let blockers = if sub == "stuck" { "which key?" } else { "" };
        save(
            &env,
            env.project(),
            sub,
            &json!({"blockers": blockers, "next_step": "n"}),
        )
        .code(0);
    }
    age(env.project(), "gone", 91);
    age(env.project(), "stuck", 3000);
    podctl(&env, env.project(), &["wave", "complete", "7", "taken"]).code(0);
    podctl(&env, env.project(), &["wave", "dispatch", "7", "sent"]).code(0);
    let wanted = [
        ("gone", "orphaned"),
        ("run", "running"),
        ("sent", "running"),
        ("stuck", "blocked"),
        ("taken", "complete"),
    ];
    assert_eq!(
        status(&env),
        wanted.map(|(sub, state)| (sub.to_owned(), state.to_owned()))
    );
    let page = podctl(&env, env.project(), &["wave", "status", "7"]).ok();
    assert!(
        page.contains("blocked by: which key?") && page.contains("50 minutes ago"),
        "{page}"
    );
}

#[test]
fn a_head_of_state_md_that_a_person_broke_keeps_its_completions() {
    let env = git_env();
    save(&env, env.project(), "a", &json!({})).code(0);
    let state = env.project().join(".agents-pod/waves/wave-7/STATE.md");
    for text in [
        "\u{feff}---\r\ntitle: it's \"a\": b: c\r\ncompleted_subs:\r\n- a\r\n---\r\nbody\r\n",
        "---\ncompleted_subs: [\"a\"]\nnote: no end\n",
    ] {
        fs::write(&state, text).expect("it is written");
        assert!(orphans(&env, &[]).is_empty(), "{text:?}");
        podctl(&env, env.project(), &["wave", "complete", "7", "b"]).code(0);
        let written = fs::read_to_string(&state).expect("it is there");
        assert!(
            orphans(&env, &[]).is_empty() && written.contains("  - b\n"),
            "{written}"
        );
    }
}

#[test]
fn a_brief_says_what_was_done_and_to_go_on_from_the_next_step() {
    let env = git_env();
    podctl(&env, env.project(), &["wave", "brief", "7", "a"]).code(1);
    let payload = json!({"tool_use_count": 14, "last_action": "wrote it", "files_created": ["a.rs"],
        "files_modified": ["b.rs"], "commits_made": ["abc123"], "next_step": "run the tests", "blockers": "none yet"});
    save(&env, env.project(), "a", &payload).code(0);
    let said = podctl(&env, env.project(), &["wave", "brief", "7", "a"]).ok();
    for part in [
        "14",
        "wrote it",
        "a.rs",
        "b.rs",
        "abc123",
        "run the tests",
        "none yet",
        "Do not start from scratch",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        said.find("Verify that the commits") < said.find("Go on from the next step"),
        "{said}"
    );
}

#[test]
fn a_wave_directory_that_is_a_symlink_is_neither_read_nor_written() {
    let env = git_env();
    let elsewhere = env.root().join("elsewhere");
    fs::create_dir(&elsewhere).expect("it is made");
    fs::create_dir_all(env.project().join(".agents-pod/waves")).expect("it is made");
    symlink(&elsewhere, env.project().join(".agents-pod/waves/wave-7")).expect("it is made");
    for args in [
        &["checkpoint", "7", "a", "{}"][..],
        &["wave", "status", "7"],
        &["wave", "orphans", "7"],
        &["wave", "complete", "7", "a"],
    ] {
        let refused = podctl(&env, env.project(), args).code(1);
        assert!(refused.stderr.contains("symlink"), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(fs::read_dir(&elsewhere).expect("it is there").count(), 0);
}

#[test]
fn a_subagent_of_a_pod_writes_to_its_project_from_a_worktree() {
    let env = git_env();
    let tree = worktree(&env);
    let line = format!(
        "sh cd '{}' && podctl checkpoint 7 a '{{\"next_step\":\"x\"}}'",
        tree.display()
    );
    env.fake(&format!("{line}\npi run Done.\nhandoff done"));
    env.spawn("p");
    env.wake("p");
    wait_until("it is there", LONG, || file(env.project(), "a").exists());
    assert!(!file(&tree, "a").exists());
    let prompt = fs::read_to_string(env.wake_dir("p", 1).join("prompt.md")).expect("it is there");
    for part in [
        "podctl checkpoint WAVE SUB",
        "every substantive tool use or every 30 seconds",
        "not after mere reads",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
}

//! kill -9 at every write.

use std::fs;
use std::path::Path;
use std::process::Command;

use pod_test_support::{TestEnv, say_skipped};
use serde_json::json;

use super::{file, git_env, orphans, podctl, read, save, worktree};

/// Runs a command under strace, killed at the `nth` call of this name; returns whether it was.
fn killed_at(env: &TestEnv, call: &str, nth: usize, args: &[&str]) -> bool {
    let mut command = env.command(Path::new("strace"));
    let inject = format!("inject={call}:signal=SIGKILL:when={nth}");
    command
        .args([
            "-f",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
        ])
        .arg(&env.programs().podctl)
        .args(args)
        .current_dir(env.project());
    env.start_command(command).finish().code != Some(0)
}

/// Kills a command at every call of every kind that changes something, one after the other.
fn kill_everywhere(env: &TestEnv, args: &[&str], check: impl Fn()) {
    let mut traced: Command = env.command(Path::new("sh"));
    traced.args(["-c", "strace -o /dev/null true"]);
    if env.start_command(traced).finish().code != Some(0) {
        say_skipped("strace is missing or may not trace");
        return;
    }
    let mut kills = 0;
    for call in [
        "openat",
        "mkdirat",
        "flock",
        "write",
        "fsync",
        "fdatasync",
        "rename",
        "renameat2",
        "unlink",
    ] {
        for nth in 1..200 {
            if !killed_at(env, call, nth, args) {
                break;
            }
            kills += 1;
            check();
        }
    }
    assert!(kills > 10, "only {kills} kills");
}

#[test]
fn a_checkpoint_that_is_killed_anywhere_leaves_the_old_one_or_the_new_one() {
    let env = git_env();
    save(&env, env.project(), "a", &json!({"k": "old"})).code(0);
    kill_everywhere(&env, &["checkpoint", "7", "a", r#"{"k":"new"}"#], || {
        let kept = read(env.project(), "a")["k"].clone();
        assert!(kept == "old" || kept == "new", "{kept}");
        assert_eq!(orphans(&env, &[]), ["a"]);
    });
    save(&env, env.project(), "a", &json!({"k": "after"})).code(0);
    assert_eq!(read(env.project(), "a")["k"], "after");
}

#[test]
fn a_drain_that_is_killed_anywhere_leaves_old_or_new_and_is_finished_by_the_next() {
    let env = git_env();
    let tree = worktree(&env);
    save(&env, env.project(), "a", &json!({"k": "old"})).code(0);
    save(&env, &tree, "a", &json!({"k": "new"})).code(0);
    save(&env, &tree, "b", &json!({"k": "new"})).code(0);
    let old = fs::read(file(env.project(), "a")).expect("there is one");
    let place = tree.to_str().expect("it is UTF-8");
    kill_everywhere(&env, &["wave", "drain", "7", place], || {
        let kept = read(env.project(), "a")["k"].clone();
        assert!(kept == "old" || kept == "new", "{kept}");
        fs::write(file(env.project(), "a"), &old).expect("it is written");
    });
    podctl(&env, env.project(), &["wave", "drain", "7", place]).code(0);
    assert_eq!(
        (&read(env.project(), "a")["k"], &read(env.project(), "b")["k"]),
        (&"new".into(), &"new".into())
    );
}

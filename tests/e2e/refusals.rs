//! When a wrapper refuses, it says why, exits with 2 and has changed nothing.

use std::fs;

use pod_test_support::{Finished, TestEnv};

use crate::env;

fn pod() -> TestEnv {
    let env = env();
    env.fake("append starts one\npi run Done.\nhandoff done");
    env.spawn("p");
    env
}

/// Runs a wrapper that must refuse, and looks whether it has changed anything.
fn refused(env: &TestEnv, id: &str, args: &[&str]) -> Finished {
    let before = fs::read(env.record_file(id)).ok();
    let starts = fs::read(env.scratch().join("starts")).ok();
    let ended = env.wrapper(id, args).finish().code(2);
    assert_eq!(fs::read(env.record_file(id)).ok(), before, "the record of `{id}`");
    assert_eq!(
        fs::read(env.scratch().join("starts")).ok(),
        starts,
        "an agent was started"
    );
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    ended
}

#[test]
fn pods_that_must_not_be_woken() {
    let env = pod();
    assert!(refused(&env, "nobody", &[]).stderr.contains("nobody"));
    refused(&env, "../p", &[]);
    refused(&env, "p", &["--warm"]);
    env.podctl(&["park", "p"]).ok();
    assert!(refused(&env, "p", &[]).stderr.contains("parked"));
    env.podctl(&["resume", "p"]).ok();
    assert_eq!(env.wake("p")["outcome"], "done");
    assert!(refused(&env, "p", &[]).stderr.contains("done"));
    env.spawn("q");
    env.podctl(&["cancel", "q"]).ok();
    assert!(refused(&env, "q", &[]).stderr.contains("cancelled"));
}

#[test]
fn records_that_cannot_be_read() {
    let env = pod();
    let file = env.record_file("p");
    let whole = fs::read_to_string(&file).unwrap();
    for (broken, part) in [
        (String::new(), "p.json"),
        (whole[..whole.len() / 2].to_owned(), "p.json"),
        (format!("{whole}trailing"), "p.json"),
        (
            whole.replacen("\"schemaVersion\":1", "\"schemaVersion\":2", 1),
            "version",
        ),
        (
            whole.replacen("\"schemaVersion\": 1", "\"schemaVersion\": 2", 1),
            "version",
        ),
    ] {
        if broken == whole {
            continue;
        }
        fs::write(&file, &broken).unwrap();
        let stderr = refused(&env, "p", &[]).stderr;
        assert!(stderr.contains(part), "{stderr}");
        // Broken records stop no other pod.
        let listed = env.podctl(&["ls"]).code(0);
        assert!(
            listed.stderr.contains("p.json") || part == "version",
            "{}",
            listed.stderr
        );
    }
}

#[test]
fn a_project_that_is_gone() {
    let env = pod();
    fs::rename(env.project(), env.root().join("elsewhere")).unwrap();
    let mut command = env.command(&env.programs().wrapper);
    command.arg("p").current_dir(env.root());
    let before = env.record("p");
    let ended = env.start_command(command).finish().code(2);
    assert!(
        ended.stderr.contains(env.project().to_str().unwrap()),
        "{}",
        ended.stderr
    );
    assert_eq!(env.record("p"), before);
    assert!(!env.project().exists(), "a project was made out of nothing");
}

#[test]
fn inside_a_wake_up() {
    let env = pod();
    let before = env.record("p");
    for program in [&env.programs().wrapper, &env.programs().podd] {
        let mut command = env.command(program);
        command.env("AGENTS_POD_WAKE_TOKEN", "0123456789abcdef0123456789abcdef");
        if *program == env.programs().wrapper {
            command.arg("p");
        }
        let ended = env.start_command(command).finish();
        assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
    assert_eq!(env.record("p"), before);
}

#[test]
fn a_pod_directory_that_leaves_its_project() {
    let env = pod();
    let (inside, outside) = (env.pod_dir("p"), env.root().join("outside"));
    fs::rename(&inside, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &inside).unwrap();
    refused(&env, "p", &[]);
    assert!(!outside.join("wakeups/1").exists());
}

#[test]
fn the_lock_of_a_wake_up_is_held_as_long_as_it_runs() {
    let env = env();
    env.fake("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    env.spawn("p");
    let lock = env.pod_dir("p").join("wake.lock");
    let is_free = || {
        let file = fs::File::options().read(true).write(true).open(&lock);
        file.expect("it stays for ever").try_lock().is_ok()
    };
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    assert!(!is_free(), "somebody could have settled a wake-up that runs");
    let shared = fs::File::open(&lock).unwrap().try_lock_shared();
    assert!(shared.is_err(), "it is held alone");
    env.touch("go");
    wrapper.finish().code(0);
    assert!(is_free());
}

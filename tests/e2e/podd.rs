//! podd as a process: how it starts, stops, dies and is followed by another one.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, Running, TestEnv, process, wait_for, wait_until};
use serde_json::Value;

use crate::env;

/// Spawns so many pods, named `p0`, `p1` and so on.
fn spawn_many(env: &TestEnv, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|at| format!("p{at}")).collect();
    for id in &ids {
        env.spawn(id);
    }
    ids
}

fn lines(env: &TestEnv, name: &str) -> usize {
    let text = fs::read_to_string(env.scratch().join(name)).unwrap_or_default();
    text.lines().count()
}

fn wrapper_lives(record: &Value) -> bool {
    let current = &record["current"];
    let pid = current["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let start = current["startTicks"].as_u64();
    pid.zip(start)
        .is_some_and(|(pid, start)| process::lives(pid, start))
}

#[test]
fn a_pod_is_rotated_until_it_is_done() {
    let env = env();
    env.fake("pi run More.\nhandoff rotating");
    env.fake_wake(3, "pi run Done.\nhandoff done");
    env.spawn("p");
    let podd = env.podd();
    let record = env.wait_for_state("p", "done");
    let outcomes: Vec<_> = record["wakeUps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["outcome"])
        .collect();
    assert_eq!(outcomes, ["more", "more", "done"]);
    podd.term().code(0);
}

#[test]
fn wake_ups_outlive_a_killed_podd_and_are_taken_up_again() {
    let env = env();
    env.configure(&[("maxConcurrent", "20")]);
    env.fake("append starts one\npi header\nawait go\npi run Done.\nhandoff done");
    let ids = spawn_many(&env, 20);
    let mut podd = env.podd();
    // The first death comes while wrappers are on their way, the second while all agents work.
    wait_until("an agent has started", LONG, || lines(&env, "starts") > 0);
    podd.kill9();
    podd.restart();
    wait_until("all agents have started", LONG, || lines(&env, "starts") == 20);
    podd.kill9();
    let before: Vec<Value> = ids.iter().map(|id| env.record(id)).collect();
    assert!(before.iter().all(wrapper_lives), "a wrapper died with podd");
    podd.restart();
    env.touch("go");
    for (id, before) in ids.iter().zip(&before) {
        let record = env.wait_for_state(id, "done");
        assert_eq!(
            (&before["current"]["n"], &record["wakeUpCount"]),
            (&1.into(), &1.into())
        );
        assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1), "{record:#}");
        env.assert_nothing_lives(id);
    }
    assert_eq!(lines(&env, "starts"), 20, "an agent was started twice");
}

#[test]
fn a_terminated_podd_leaves_wake_ups_running() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let env = env();
        env.fake("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
        env.spawn("p");
        let podd = env.podd();
        env.wait_for_scratch("up");
        let podd = if signal == Signal::SIGTERM {
            podd.term()
        } else {
            podd.signal(signal);
            podd.finish()
        };
        podd.code(0);
        assert!(!env.home().join("podd.json").exists());
        assert!(wrapper_lives(&env.record("p")), "the wrapper died with podd");
        env.touch("go");
        env.wait_for_state("p", "done");
    }
}

#[test]
fn a_second_podd_names_the_first() {
    let env = env();
    let podd = env.podd();
    for args in [&[][..], &["--once"]] {
        let second = env.start(&env.programs().podd, args).finish().code(1);
        assert!(second.stderr.starts_with("error: "), "{}", second.stderr);
        assert!(second.stderr.contains("hint: "), "{}", second.stderr);
        assert!(
            second.stderr.contains(&podd.pid().to_string()),
            "{}",
            second.stderr
        );
    }
    let identity = fs::read(env.home().join("podd.json")).unwrap();
    let identity: Value = serde_json::from_slice(&identity).unwrap();
    assert_eq!(
        identity["pid"],
        podd.pid(),
        "the second one took the first one's place"
    );
}

#[test]
fn a_hang_up_makes_podd_read_its_configuration_again() {
    let env = env();
    env.configure(&[("minFreeDisk", "1000TiB")]);
    env.fake("pi run Done.\nhandoff done");
    env.spawn("p");
    let podd = env.podd();
    let reads = |podd: &pod_test_support::Podd<'_>, what: &str| podd.log().matches(what).count();
    // A configuration that cannot be read changes nothing and stops nothing.
    fs::write(env.home().join("config.toml"), "[podd]\nminFreeDisc = \"0B\"\n").unwrap();
    podd.signal(Signal::SIGHUP);
    wait_until("podd has refused it", LONG, || reads(&podd, "minFreeDisc") > 0);
    assert_eq!(env.record("p")["wakeUpCount"], 0);
    env.configure(&[]);
    podd.signal(Signal::SIGHUP);
    env.wait_for_state("p", "done");
}

/// Receives what podd tells systemd, until one message holds the word.
fn told(socket: &UnixDatagram, word: &str) -> String {
    let mut buffer = [0; 4096];
    wait_for(&format!("podd says {word}"), LONG, || {
        let read = socket.recv(&mut buffer).ok()?;
        let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
        text.contains(word).then_some(text)
    })
}

#[test]
fn systemd_is_told_how_podd_gets_on() {
    let env = env();
    env.fake("dump env env\npi run Done.\nhandoff done");
    env.spawn_with("parked", &["--park"]);
    let address = env.root().join("notify");
    let socket = UnixDatagram::bind(&address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut command = env.command(&env.programs().podd);
    command
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "200000");
    let podd = env.start_command(command);
    assert!(told(&socket, "STATUS=").contains("1 pods: 0 active, 1 parked"));
    told(&socket, "READY=1");
    for _ in 0..3 {
        told(&socket, "WATCHDOG=1");
    }
    // What systemd says to podd is for podd alone.
    env.spawn("p");
    let given = String::from_utf8_lossy(&env.wait_for_scratch("env")).into_owned();
    assert!(
        !given.contains("NOTIFY_SOCKET") && !given.contains("WATCHDOG_USEC"),
        "{given}"
    );
    podd.signal(Signal::SIGTERM);
    told(&socket, "STOPPING=1");
    podd.finish().code(0);
}

fn ends_done(env: &TestEnv, podd: Running) {
    env.wait_for_state("p", "done");
    podd.signal(Signal::SIGTERM);
    podd.finish().code(0);
}

#[test]
fn an_empty_environment_is_enough() {
    let env = env();
    env.fake("pi run Done.\nhandoff done");
    env.spawn("p");
    let mut command = env.bare_command(&env.programs().podd);
    command.arg("--home").arg(env.home()).current_dir("/");
    let podd = env.start_command(command);
    ends_done(&env, podd);
}

#[test]
fn a_start_directory_that_is_gone_does_no_harm() {
    let env = env();
    env.fake("pi run Done.\nhandoff done");
    env.spawn("p");
    let gone = env.root().join("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = env.command(Path::new("/bin/sh"));
    command
        .args(["-c", "rmdir ../gone && exec \"$0\""])
        .arg(&env.programs().podd)
        .current_dir(&gone);
    let podd = env.start_command(command);
    ends_done(&env, podd);
    assert!(!gone.exists());
}

#[test]
fn a_podd_that_is_stopped_at_its_first_moment_ends_well() {
    let env = env();
    let identity = env.home().join("podd.json");
    for _ in 0..20 {
        let podd = env.start(&env.programs().podd, &[]);
        // Looked for without a pause: the moment is short.
        let since = std::time::Instant::now();
        while !identity.exists() && since.elapsed() < LONG {
            std::thread::yield_now();
        }
        podd.signal(Signal::SIGTERM);
        podd.finish().code(0);
        assert!(!identity.exists(), "its identity stays behind");
    }
}

#[test]
fn a_wrapper_that_cannot_run_is_not_started_again_and_again() {
    let env = env();
    env.fake("handoff done");
    env.spawn("p");
    let bin = env.scratch().join("broken");
    fs::create_dir(&bin).unwrap();
    fs::copy(&env.programs().podd, bin.join("podd")).unwrap();
    let starts = env.scratch().join("starts");
    let script = format!("#!/bin/sh\necho one >>'{}'\nexit 127\n", starts.display());
    fs::write(bin.join("pod-wrapper"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("pod-wrapper"), mode).unwrap();
    let podd = env.start(&bin.join("podd"), &[]);
    // The second rest is longer than the first: what is said of it is in the log.
    wait_until("a second warning", LONG, || {
        podd.stderr().matches("wrapper claimed nothing").count() == 2
    });
    assert!(
        podd.stderr().contains("retry_in_s=1") && podd.stderr().contains("retry_in_s=2"),
        "{}",
        podd.stderr()
    );
    assert_eq!(lines(&env, "starts"), 2);
}

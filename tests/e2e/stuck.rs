//! Wrappers that do not answer and agents that do not get on.

use std::fs;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, TestEnv, process, wait_until};

use crate::env;

fn wrapper_pid(env: &TestEnv, id: &str) -> i32 {
    let pid = env.record(id)["current"]["pid"].as_i64().expect("it is awake");
    i32::try_from(pid).expect("a pid fits")
}

#[test]
fn a_wedged_wrapper_is_ended_with_its_tree() {
    let env = env();
    env.configure(&[("wedgeAfter", "10"), ("maxFailures", "1")]);
    env.fake(
        "spawn group beside quiet\nspawn setsid apart quiet\nspawn double bare bare quiet\n\
         await beside\nawait apart\nawait bare\npi header\npid agent\nsleep forever\n\
         [beside]\nignore TERM\npid beside\nsleep forever\n\
         [apart]\nignore TERM\npid apart\nsleep forever\n\
         [bare]\nignore TERM\npid bare\nsleep forever",
    );
    env.spawn("p");
    let _podd = env.podd();
    env.wait_for_pid("agent");
    process::signal(wrapper_pid(&env, "p"), Signal::SIGSTOP);
    let record = env.wait_for_state("p", "parked");
    assert_eq!(
        (&record["wakeUps"][0]["outcome"], &record["wakeUps"][0]["reason"]),
        (&"failed".into(), &"wedged".into())
    );
    assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1));
    for name in ["agent", "beside", "apart", "bare"] {
        assert!(!env.lives(name), "`{name}` outlived the wake-up");
    }
    env.assert_nothing_lives("p");
}

#[test]
fn a_wrapper_that_was_stopped_for_a_moment_goes_on() {
    let env = env();
    env.fake("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    env.spawn("p");
    let _podd = env.podd();
    env.wait_for_scratch("up");
    let pid = wrapper_pid(&env, "p");
    process::signal(pid, Signal::SIGSTOP);
    wait_until("it has stopped", LONG, || {
        process::look(pid).is_some_and(|seen| seen.state == 'T')
    });
    env.touch("go");
    process::signal(pid, Signal::SIGCONT);
    assert_eq!(env.wait_for_state("p", "done")["wakeUpCount"], 1);
}

/// The quiet pod is started when the others are up, and waited for until it was ended twice: by then each of
/// the others has had the same silence, and more.
#[test]
fn a_quiet_tree_is_stalled_and_a_busy_one_is_not() {
    let env = env();
    env.configure(&[
        ("stallTimeout", "1s"),
        ("maxFailures", "2"),
        ("backoffFirst", "10ms"),
    ]);
    env.fake("pi header\nappend ups one\nsleep forever");
    // One works, in a process of its own; one only writes files in the project.
    env.fake_pod("busy", "pi header\ntouch busy\nsh while :; do :; done");
    env.fake_pod(
        "writing",
        "pi header\ntouch writing\nsh while :; do date +%N > written; sleep 0.2; done",
    );
    // Each in a project of its own, since a change of the project is a sign of life of every pod in it.
    let spawn = |id: &str| {
        let project = env.root().join(id);
        fs::create_dir(&project).unwrap();
        let project = project.to_str().unwrap();
        env.podctl(&["spawn", "--project", project, "--id", id, "Do."])
            .ok();
    };
    spawn("busy");
    spawn("writing");
    let _podd = env.podd();
    env.wait_for_scratch("busy");
    env.wait_for_scratch("writing");
    spawn("p");
    let record = env.wait_for_state("p", "parked");
    for entry in record["wakeUps"].as_array().unwrap() {
        assert_eq!(
            (&entry["outcome"], &entry["reason"]),
            (&"failed".into(), &"progressless".into())
        );
        assert_eq!(entry["exit"]["sentBy"], "podd");
    }
    assert_eq!(record["wakeUpCount"], 2);
    for id in ["busy", "writing"] {
        let other = env.record(id);
        assert_eq!(
            (&other["state"], &other["wakeUpCount"]),
            (&"active".into(), &1.into()),
            "{id}"
        );
    }
    env.assert_nothing_lives("p");
    env.podctl(&["cancel", "busy", "writing", "--wait"]).ok();
}

/// podd and one wrapper stand still together, as on a machine that sleeps, for longer than a wrapper may be
/// silent; another one shows that the time passes.
#[test]
fn a_suspended_machine_kills_nothing() {
    let env = env();
    env.configure(&[("wedgeAfter", "15"), ("stallTimeout", "3s")]);
    env.fake("pi header\nappend ups one\nawait go\npi run Done.\nhandoff done");
    env.spawn("p");
    env.spawn("clock");
    let podd = env.podd();
    wait_until("both run", LONG, || {
        fs::read(env.scratch().join("ups")).is_ok_and(|ups| ups.len() == 8)
    });
    let passes = |further: usize| {
        let before = podd.log().matches("read again").count();
        for read in before + 1..=before + further {
            podd.signal(Signal::SIGHUP);
            wait_until("podd passes", LONG, || {
                podd.log().matches("read again").count() >= read
            });
        }
    };
    // podd has seen the last beat before it stands still, and passes before the wrapper beats again.
    let wrapper = wrapper_pid(&env, "p");
    process::signal(wrapper, Signal::SIGSTOP);
    passes(2);
    process::signal(podd.pid(), Signal::SIGSTOP);
    let beat = || {
        fs::metadata(env.pod_dir("clock").join("heartbeat"))
            .and_then(|found| found.modified())
            .ok()
    };
    for _ in 0..20 {
        let before = beat();
        wait_until("the other one's heart beats", LONG, || beat() > before);
    }
    process::signal(podd.pid(), Signal::SIGCONT);
    passes(2);
    process::signal(wrapper, Signal::SIGCONT);
    env.touch("go");
    for id in ["p", "clock"] {
        let record = env.wait_for_state(id, "done");
        assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1), "{record:#}");
    }
}

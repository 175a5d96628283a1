//! No process of a wake-up outlives its outcome, however it ends and however it hid.

use std::fs;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, TestEnv, process, wait_until};

use crate::env;

/// Children of every kind, which ignore SIGTERM, three levels deep and one without an environment.
const TREE: &str = "
    spawn group beside
    spawn setsid apart quiet
    spawn double away quiet
    spawn double bare bare quiet
    await beside
    await apart
    await away
    await bare
    await deep
    pid agent
    [beside]
    ignore TERM
    pid beside
    sleep forever
    [apart]
    ignore TERM
    pid apart
    spawn setsid middle quiet
    sleep forever
    [middle]
    ignore TERM
    spawn double deep quiet
    sleep forever
    [deep]
    ignore TERM HUP INT
    pid deep
    sleep forever
    [away]
    pid away
    sleep forever
    [bare]
    ignore TERM
    pid bare
    sleep forever
";
const NAMES: [&str; 5] = ["beside", "apart", "away", "bare", "deep"];

/// A pod whose agent starts that tree and goes on with these lines.
fn pod(agent: &str) -> TestEnv {
    let env = env();
    let (head, sections) = TREE.split_once("    [beside]").expect("it has sections");
    env.fake(&format!("pi header\n{head}{agent}\n[beside]{sections}"));
    env.spawn("p");
    env
}

fn assert_gone(env: &TestEnv, names: &[&str]) {
    let left: Vec<_> = names.iter().filter(|name| env.lives(name)).collect();
    assert!(left.is_empty(), "{left:?} outlived the wake-up");
    env.assert_nothing_lives("p");
}

#[test]
fn a_clean_exit_sweeps_the_whole_tree() {
    let env = pod("pi text Done.\npi end\npi settled\nhandoff done");
    let last = env.wake("p");
    assert_eq!(last["outcome"], "done");
    // The five that are named, and the one between.
    assert_eq!(last["swept"], 6);
    assert_gone(&env, &NAMES);
}

#[test]
fn a_crash_sweeps_the_whole_tree() {
    let env = pod("die SEGV");
    assert_eq!(env.wake("p")["reason"], "terminated");
    assert_gone(&env, &NAMES);
}

#[test]
fn a_cancel_ends_the_whole_tree() {
    let env = pod("sleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    env.podctl(&["cancel", "p"]).ok();
    wrapper.finish().code(0);
    assert_eq!(env.record("p")["state"], "cancelled");
    assert_gone(&env, &NAMES);
}

#[test]
fn a_stranger_who_kills_the_agent_leaves_no_tree() {
    let env = pod("sleep forever");
    let wrapper = env.wrapper("p", &[]);
    let (agent, _) = env.wait_for_pid("agent");
    process::signal(agent, Signal::SIGKILL);
    wrapper.finish().code(0);
    let last = env.last("p");
    assert_eq!(
        (&last["reason"], &last["exit"]["signal"]),
        (&"terminated".into(), &"SIGKILL".into())
    );
    assert_eq!(last["exit"].get("sentBy"), None);
    assert_gone(&env, &NAMES);
}

#[test]
fn whoever_settles_a_dead_wrapper_ends_its_whole_tree() {
    let env = pod("sleep forever");
    env.fake_wake(2, "pi run Done.\nhandoff done");
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("agent");
    wrapper.kill9();
    env.wrapper("p", &[]).finish().code(0);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["wakeUps"][0]["outcome"]),
        (&"done".into(), &"lost".into())
    );
    // What carries neither token nor ancestry, group nor session is beyond what anybody can find.
    assert_gone(&env, &["agent", "beside", "apart", "away", "deep"]);
}

#[test]
fn adopted_children_are_reaped() {
    let spawns = "spawn double quick quiet\n".repeat(40);
    let env = env();
    env.fake(&format!(
        "pi header\n{spawns}touch spawned\nawait go\npi run Done.\nhandoff done\n[quick]\nexit 0"
    ));
    env.spawn("p");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("spawned");
    let children = format!("/proc/{0}/task/{0}/children", wrapper.pid());
    wait_until("only the agent is left of the wrapper's children", LONG, || {
        fs::read_to_string(&children).is_ok_and(|text| text.split_whitespace().count() == 1)
    });
    env.touch("go");
    wrapper.finish().code(0);
    let last = env.last("p");
    assert_eq!((&last["outcome"], last.get("swept")), (&"done".into(), None));
}

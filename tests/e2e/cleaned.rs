//! An agent that removes what git ignores takes our files along, and is judged all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pod_test_support::{LONG, wait_until};

use crate::builder;

#[test]
fn an_agent_that_cleans_its_project_is_judged_and_not_killed() {
    let env = builder().git().build();
    env.configure(&[("heartbeatInterval", "100ms"), ("wedgeAfter", "20")]);
    let agent = env.scratch().join("cleaner");
    let go = env.scratch().join("go");
    let script = format!(
        "#!/bin/sh\necho before\ngit clean -fdxq\nuntil [ -e '{}' ]; do :; done\n\
         podctl handoff --status done --summary '- cleaned up'\n",
        go.display()
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    env.define("default", "command", &agent, "");
    env.spawn("p");
    let events = env.wake_dir("p", 1).join("events.jsonl");
    let heartbeat = env.pod_dir("p").join("heartbeat");
    let _podd = env.podd();
    // Gone with the cleaning, and back with the next beat.
    wait_until("a heartbeat without a raw log", LONG, || {
        env.record("p")["current"]["n"] == 1 && !events.exists() && heartbeat.exists()
    });
    let before = fs::metadata(&heartbeat).and_then(|meta| meta.modified()).unwrap();
    wait_until("a further beat", LONG, || {
        fs::metadata(&heartbeat)
            .and_then(|meta| meta.modified())
            .is_ok_and(|now| now > before)
    });
    env.touch("go");
    let record = env.wait_for_state("p", "done");
    let missing = record["wakeUps"][0]["missing"]
        .as_array()
        .expect("it says what is lost");
    let lost = missing
        .iter()
        .find(|one| one["log"] == "events.jsonl")
        .expect("the raw log is");
    assert_eq!(lost["bytes"], "before\n".len());
    assert_eq!(env.result("p", 1)["outcome"], "done");
    assert!(env.project().join(".agents-pod/.gitignore").exists());
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

//! Records that podd did not write as it finds them: of strangers, of another boot, broken ones.

use std::fs;
use std::path::Path;

use pod_test_support::{LONG, Running, TestEnv, process, wait_for};
use serde_json::{Value, json};

use crate::env;

/// A process that has nothing to do with any pod.
fn stranger(env: &TestEnv) -> Running {
    let mut command = env.command(Path::new("sleep"));
    command.arg("600");
    env.start_command(command)
}

/// A pod whose record says that its wake-up 1 runs in the stranger, whose identity is whole but for `wrong`.
fn forged(wrong: &Value) -> (TestEnv, Running) {
    let env = env();
    env.fake("append starts one\npi run Done.\nhandoff done");
    env.spawn("p");
    let stranger = stranger(&env);
    let seen = process::look(stranger.pid()).expect("it runs");
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace.to_string_lossy();
    let namespace: u64 = namespace
        .trim_start_matches("pid:[")
        .trim_end_matches(']')
        .parse()
        .unwrap();
    let mut current = json!({
        "n": 1, "kind": "wake", "pid": seen.pid, "pgid": seen.group, "startTicks": seen.start_ticks,
        "bootId": fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim(), "pidNs": namespace,
        "token": "0123456789abcdef0123456789abcdef", "agent": "default", "warm": false,
    });
    for (key, value) in wrong.as_object().expect("it is an object") {
        current[key] = value.clone();
    }
    env.edit_record("p", |record| {
        current["claimedAt"] = record["createdAt"].clone();
        record["state"] = "active".into();
        record["wakeUpCount"] = 1.into();
        record["current"] = current.clone();
        record
            .as_object_mut()
            .expect("a record is an object")
            .remove("nextWakeAt");
    });
    // What a wrapper writes of itself names the stranger as its agent.
    let mut file = current;
    file["schemaVersion"] = 1.into();
    file["podId"] = "p".into();
    file["agentPid"] = seen.pid.into();
    file["agentStartTicks"] = file["startTicks"].clone();
    fs::write(env.pod_dir("p").join("wrapper.json"), file.to_string()).unwrap();
    (env, stranger)
}

#[test]
fn a_pid_that_belongs_to_somebody_else_by_now_is_left_alone() {
    let (env, mut stranger) = forged(&json!({"startTicks": 1}));
    env.pass();
    let record = env.record("p");
    assert_eq!(
        (&record["wakeUps"][0]["outcome"], &record["wakeUps"][0]["reason"]),
        (&"lost".into(), &"wrapperDied".into())
    );
    assert_eq!(record["state"], "idle");
    assert!(stranger.is_running(), "a stranger was killed");
    env.pass();
    assert_eq!(env.wait_for_state("p", "done")["wakeUpCount"], 2);
}

#[test]
fn what_ran_before_a_reboot_is_lost_and_nobody_is_signalled() {
    let (env, mut stranger) = forged(&json!({"bootId": "11111111-2222-3333-4444-555555555555"}));
    env.pass();
    let entry = env.last("p");
    assert_eq!(
        (&entry["outcome"], &entry["reason"]),
        (&"lost".into(), &"rebooted".into())
    );
    assert!(stranger.is_running(), "a stranger was killed");
}

#[test]
fn what_runs_in_another_pid_namespace_is_left_alone() {
    let (env, mut stranger) = forged(&json!({"pidNs": 1}));
    let before = env.record("p");
    for _ in 0..3 {
        env.pass();
    }
    let refused = env.wrapper("p", &[]).finish().code(2);
    assert!(refused.stderr.contains("namespace"), "{}", refused.stderr);
    env.podctl(&["cancel", "p"]);
    env.pass();
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["current"]),
        (&"active".into(), &before["current"])
    );
    assert_eq!(record["wakeUps"], before["wakeUps"]);
    assert!(stranger.is_running(), "a stranger was killed");
    assert!(!env.scratch().join("starts").exists(), "an agent was started");
}

#[test]
fn a_wake_up_of_this_boot_is_proven_to_run_and_left_running() {
    let (env, mut stranger) = forged(&json!({}));
    let before = env.record("p");
    env.pass();
    assert_eq!(env.record("p"), before);
    assert!(stranger.is_running());
}

#[test]
fn a_broken_record_is_set_aside_and_stops_no_other_pod() {
    let env = env();
    env.fake("pi run Done.\nhandoff done");
    let ids = ["garbage", "empty", "trailing", "torn"];
    for id in ids {
        env.spawn_with(id, &["--park"]);
        let whole = fs::read(env.record_file(id)).unwrap();
        let broken = match id {
            "garbage" => b"\x00\xff no record".to_vec(),
            "empty" => Vec::new(),
            "trailing" => [&whole[..], b"}"].concat(),
            _ => whole[..whole.len() / 2].to_vec(),
        };
        fs::write(env.record_file(id), broken).unwrap();
    }
    env.spawn("p");
    let podd = env.podd();
    env.wait_for_state("p", "done");
    for id in ids {
        let aside = wait_for("it is set aside", LONG, || {
            let files = fs::read_dir(env.home().join("registry/quarantine"))
                .ok()?
                .flatten();
            files
                .map(|file| file.file_name().to_string_lossy().into_owned())
                .find(|name| name.starts_with(id))
        });
        assert!(!env.record_file(id).exists(), "{aside} is a copy");
        assert!(podd.log().contains(&format!("{id}.json")), "{}", podd.log());
    }
    let listed: Value = serde_json::from_str(&env.podctl(&["ls", "--json"]).code(0).stdout).unwrap();
    let unreadable: Vec<_> = listed["unreadable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str())
        .collect();
    for id in ids {
        assert!(unreadable.contains(&Some(id)), "{id} is not told: {listed}");
    }
    // Its id stays taken: what is set aside may be put back.
    let project = env.project().to_str().unwrap();
    env.podctl(&["spawn", "--project", project, "--id", "torn", "Again."])
        .code(1);
}

#[test]
fn a_broken_record_stays_while_its_wake_up_runs() {
    let env = env();
    env.fake("pi run Done.\nhandoff done");
    env.fake_pod("p", "pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    env.spawn("p");
    env.spawn("q");
    let podd = env.podd();
    env.wait_for_scratch("up");
    let whole = fs::read(env.record_file("p")).unwrap();
    fs::write(env.record_file("p"), &whole[..whole.len() / 2]).unwrap();
    // One that does not run is set aside meanwhile, so the time for it has come.
    env.wait_for_state("q", "done");
    fs::write(env.record_file("q"), "").unwrap();
    wait_for("the other one is set aside", LONG, || {
        (!env.record_file("q").exists()).then_some(())
    });
    assert!(env.record_file("p").exists(), "{}", podd.log());
    fs::write(env.record_file("p"), whole).unwrap();
    env.touch("go");
    assert_eq!(env.wait_for_state("p", "done")["wakeUpCount"], 1);
}

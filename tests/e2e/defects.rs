//! Defects that an earlier program of this kind had when it was run and measured. Each has a test here.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use pod_test_support::{LONG, TestEnv, Tmpfs, process, wait_until};
use serde_json::Value;

use crate::{builder, env};

/// What a wrapper may have resident, whatever its agent prints.
const MEMORY_KIB: u64 = 16 * 1024;

/// An environment with one idle pod `p`, whose wake-ups run the script.
fn pod(script: &str) -> TestEnv {
    let env = env();
    env.fake(script);
    env.spawn("p");
    env
}

/// Runs a wake-up whose script touches `written` and then awaits `go`, and looks at the wrapper's memory between.
fn wake_within_memory(env: &TestEnv) -> Value {
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("written");
    let peak = process::high_water_kib(wrapper.pid()).expect("the wrapper runs");
    assert!(peak < MEMORY_KIB, "the wrapper took {peak} KiB");
    env.touch("go");
    wrapper.finish().code(0);
    env.last("p")
}

fn count(haystack: &[u8], needle: u8) -> usize {
    haystack.iter().filter(|byte| **byte == needle).count()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn defect_01_a_line_of_thirty_megabytes_takes_no_memory() {
    let env = pod("pi header\npi big 30M\ntouch written\nawait go\nhandoff done\npi end\npi settled");
    assert_eq!(wake_within_memory(&env)["outcome"], "done");
    let events = env.events("p", 1);
    assert!(
        count(&events, b'x') >= 30 << 20,
        "only {} bytes were kept",
        events.len()
    );
    assert_eq!(count(&events, b'\n'), 3 + 1 + 2 + 1);
    assert!(env.output("p").len() < 64 * 1024);
}

#[test]
fn defect_02_behind_many_events_a_disagreement_is_still_seen() {
    let big = "pi big 1M\n".repeat(64);
    let end = "handoff done\npi error it broke\npi end\npi aborted\ntouch written\nawait go\nexit 3";
    let env = pod(&format!("pi header\n{big}{end}"));
    let last = wake_within_memory(&env);
    assert_eq!(last["outcome"], "done");
    let wanted = "declared done but agent settled aborted; last stop reason error; exit 3";
    assert_eq!(last["detail"], wanted);
}

#[test]
fn defect_03_small_events_at_full_speed_take_no_memory_and_lose_nothing() {
    let env = pod("pi header\nflood 12M\ntouch written\nawait go\nhandoff done\npi end\npi settled");
    assert_eq!(wake_within_memory(&env)["outcome"], "done");
    let events = env.events("p", 1);
    let mut next = 1;
    for line in events
        .split(|byte| *byte == b'\n')
        .filter(|line| contains(line, b"\"i\":"))
    {
        let read: Value = serde_json::from_slice(line).expect("the line is whole");
        assert_eq!(read["i"], next, "a line is missing or out of its order");
        next += 1;
    }
    assert!(next > 80_000, "only {next} lines");
}

#[test]
fn defect_04_bytes_that_are_no_utf_8_stay_what_they_are() {
    let env = pod(
        "pi header\nhex 7b2261223a22 fffec328 227d 0a\nhex fffec328 0a\npi end\npi settled\nhandoff done",
    );
    assert_eq!(env.wake("p")["outcome"], "done");
    let events = env.events("p", 1);
    assert!(contains(
        &events,
        b"\n{\"a\":\"\xff\xfe\xc3\x28\"}\n\xff\xfe\xc3\x28\n"
    ));
}

#[test]
fn defect_05_a_child_that_holds_stdout_open_holds_nothing_up() {
    let env = pod(
        "pi run Done.\nhandoff done\nspawn group holder\nawait holder\n[holder]\npid holder\nsleep forever",
    );
    let last = env.wake("p");
    assert_eq!(last["outcome"], "done");
    assert_eq!(last["swept"], 1);
    assert!(!env.lives("holder"));
}

#[test]
fn defect_06_a_cancel_ends_a_child_that_ignores_sigterm_and_holds_stdout() {
    let child = "[holder]\nignore TERM\npid holder\nevery 20 100000 still here {i}";
    for agent in ["sleep forever", "exit 0"] {
        let script = format!("pid agent\npi header\nspawn group holder\nawait holder\n{agent}\n{child}");
        let env = pod(&script);
        let wrapper = env.wrapper("p", &[]);
        env.wait_for_pid("holder");
        if agent == "exit 0" {
            wait_until("the agent is gone", LONG, || !env.lives("agent"));
        }
        env.podctl(&["cancel", "p"]).ok();
        wrapper.finish().code(0);
        assert_eq!(env.record("p")["state"], "cancelled");
        assert!(!env.lives("agent") && !env.lives("holder"), "after `{agent}`");
        env.assert_nothing_lives("p");
    }
}

#[test]
fn defect_07_a_cancel_ends_a_grandchild_in_a_session_of_its_own() {
    let env =
        pod("pi header\nspawn setsid away quiet\nawait away\nsleep forever\n[away]\npid away\nsleep forever");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("away");
    env.podctl(&["cancel", "p"]).ok();
    wrapper.finish().code(0);
    assert_eq!(env.last("p")["outcome"], "cancelled");
    assert!(!env.lives("away"));
}

#[test]
fn defect_08_a_clean_exit_ends_what_runs_in_the_background() {
    let env = pod(
        "pi run Done.\nspawn group behind quiet\nawait behind\nhandoff done\n[behind]\npid behind\nsleep forever",
    );
    let last = env.wake("p");
    assert_eq!((&last["outcome"], &last["swept"]), (&"done".into(), &1.into()));
    assert!(!env.lives("behind"));
}

#[test]
fn defect_09_a_missing_binary_leaves_no_active_pod() {
    let env = env();
    let plain = env.scratch().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&plain, Permissions::from_mode(0o644)).unwrap();
    for (id, binary) in [("missing", Path::new("/nowhere/pi")), ("plain", &plain)] {
        env.define("default", "pi", binary, "");
        env.spawn(id);
        let last = env.wake(id);
        assert_eq!(
            (&last["outcome"], &last["reason"]),
            (&"failed".into(), &"agentMissing".into())
        );
        let record = env.record(id);
        assert_eq!(record["state"], "idle");
        assert_eq!(record.get("current"), None);
        assert!(!env.pod_dir(id).join("wrapper.json").exists());
        let named = binary.to_str().unwrap();
        assert!(last["detail"].as_str().unwrap().contains(named), "{last}");
    }
}

#[test]
fn defect_10_a_goal_of_two_hundred_kilobytes_reaches_the_agent() {
    for kind in ["pi", "command"] {
        let env = env();
        env.fake_as(
            kind,
            "dump argv argv\nstdin stdin\ndump env env\npi run Read.\nhandoff done",
        );
        let goal = env.scratch().join("goal");
        fs::write(&goal, format!("{}\nthe end of the goal", "word ".repeat(40_000))).unwrap();
        let (project, goal) = (env.project().to_str().unwrap(), goal.to_str().unwrap());
        env.podctl(&["spawn", "--project", project, "--id", "p", "--goal-file", goal])
            .ok();
        assert_eq!(env.wake("p")["outcome"], "done");
        let end = b"the end of the goal";
        assert!(contains(
            &fs::read(env.wake_dir("p", 1).join("prompt.md")).unwrap(),
            end
        ));
        let environment = env.wait_for_scratch("env");
        let mut routes = vec![env.wait_for_scratch("argv"), env.wait_for_scratch("stdin")];
        for text in [&routes[0], &environment].map(|bytes| String::from_utf8_lossy(bytes).into_owned()) {
            let words = text.split('\0');
            let files = words.map(|word| {
                word.trim_start_matches('@')
                    .trim_start_matches("AGENTS_POD_PROMPT_FILE=")
            });
            routes.extend(files.filter_map(|file| fs::read(file).ok()));
        }
        assert!(
            routes.iter().any(|route| contains(route, end)),
            "no route of `{kind}` holds the goal"
        );
    }
}

#[test]
fn defect_11_a_full_disk_stops_no_agent() {
    let env = builder().project("small/project").build();
    let Some(_mounted) = Tmpfs::mount(&env.root().join("small"), 3 << 20) else {
        pod_test_support::say_skipped("this user may not mount a file system");
        return;
    };
    fs::create_dir(env.project()).unwrap();
    env.fake("pi header\nhandoff done\nflood 8M\ntouch streamed\npi end\npi settled");
    env.spawn("p");
    let last = env.wake("p");
    assert!(
        env.scratch().join("streamed").exists(),
        "the agent did not get on"
    );
    assert_eq!(last["outcome"], "done");
    assert_eq!(env.record("p")["state"], "done");
    let missing = last["missing"]
        .as_array()
        .expect("the record says what is missing");
    let events = missing
        .iter()
        .find(|one| one["log"] == "events.jsonl")
        .expect("of the raw log");
    let kept = fs::metadata(env.wake_dir("p", 1).join("events.jsonl"))
        .unwrap()
        .len();
    assert!(
        events["bytes"].as_u64().unwrap() + kept > 8 << 20,
        "{kept} kept of 8 MiB, {events}"
    );
}

#[test]
fn defect_12_the_next_wrapper_ends_the_tree_of_a_dead_one_first() {
    let env = pod("pid first\npi header\nsleep forever");
    env.fake_wake(2, "pid second\nawait go\npi run Done.\nhandoff done");
    let mut wrapper = env.wrapper("p", &[]);
    env.wait_for_pid("first");
    wrapper.kill9();
    assert!(env.lives("first"), "nobody has ended it yet");
    let next = env.wrapper("p", &[]);
    env.wait_for_pid("second");
    assert!(!env.lives("first"), "two agents run at once");
    env.touch("go");
    next.finish().code(0);
    let record = env.record("p");
    assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(2));
    let first = &record["wakeUps"][0];
    assert_eq!(
        (&first["outcome"], &first["reason"]),
        (&"lost".into(), &"wrapperDied".into())
    );
    assert_eq!(record["wakeUps"][1]["outcome"], "done");
}

#[test]
fn defect_13_signals_of_a_terminal_leave_no_agent_behind() {
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
        let env = pod("pid agent\npi header\nawait go\npi run Done.\nhandoff done");
        let wrapper = env.wrapper("p", &[]);
        env.wait_for_pid("agent");
        wrapper.signal(signal);
        if signal == Signal::SIGHUP {
            env.touch("go");
        }
        wrapper.finish().code(0);
        assert!(!env.lives("agent"), "after {signal}");
        let last = env.last("p");
        if signal == Signal::SIGHUP {
            assert_eq!(last["outcome"], "done", "it is ignored");
        } else {
            assert_eq!(
                (&last["outcome"], &last["reason"]),
                (&"lost".into(), &"interrupted".into())
            );
            assert_eq!(env.record("p")["state"], "idle");
        }
    }
}

#[test]
fn defect_14_an_early_sigterm_leaves_nothing_half_done() {
    let env = env();
    env.fake("pid agent\npi header\nsleep forever");
    for moment in ["start", "wake.lock", "active", "wrapper.json", "prompt.md"] {
        let id = moment.replace('.', "-");
        env.spawn(&id);
        let wrapper = env.wrapper(&id, &[]);
        wait_until(moment, LONG, || match moment {
            "start" => true,
            "active" => env.record(&id)["state"] == "active",
            "prompt.md" => env.wake_dir(&id, 1).join("prompt.md").exists(),
            file => env.pod_dir(&id).join(file).exists(),
        });
        wrapper.signal(Signal::SIGTERM);
        let ended = wrapper.finish();
        let record = env.record(&id);
        assert_eq!(record["state"], "idle", "at {moment}");
        assert_eq!(record.get("current"), None, "at {moment}");
        env.assert_nothing_lives(&id);
        let claimed = record["wakeUpCount"] == 1;
        assert!(
            claimed || matches!(moment, "start" | "wake.lock"),
            "a claim was undone at {moment}"
        );
        assert_eq!(
            record["wakeUps"].as_array().map(Vec::len),
            Some(usize::from(claimed))
        );
        if claimed {
            ended.code(0);
            assert_eq!(record["wakeUps"][0]["reason"], "interrupted", "at {moment}");
        } else {
            assert_ne!(ended.code, Some(0), "nothing is recorded");
        }
    }
}

#[test]
fn defect_15_of_three_wrappers_at_once_one_wins() {
    let env = pod("append starts one\npi header\nawait go\npi run Done.\nhandoff rotating");
    let mut wrappers: Vec<_> = (0..3).map(|_| env.wrapper("p", &[])).collect();
    wait_until("two have given up", LONG, || {
        wrappers
            .iter_mut()
            .filter_map(|one| (!one.is_running()).then_some(()))
            .count()
            == 2
    });
    env.touch("go");
    let mut codes: Vec<_> = wrappers.into_iter().map(|one| one.finish().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(2), Some(2)]);
    assert_eq!(env.wait_for_scratch("starts"), b"one\n");
    let record = env.record("p");
    assert_eq!(
        (&record["wakeUpCount"], &record["wakeUps"][0]["outcome"]),
        (&1.into(), &"more".into())
    );
}

#[test]
fn defect_16_a_record_that_went_away_is_said() {
    let env = pod("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    fs::remove_file(env.record_file("p")).unwrap();
    env.touch("go");
    wrapper.finish().code(1);
    assert!(!env.record_file("p").exists(), "a record was made out of nothing");
    assert_eq!(env.result("p", 1)["outcome"], "done");
    assert!(env.pod_dir("p").join("wrapper.json").exists());
    let output = env.output("p");
    assert!(output.contains("record"), "the log says nothing: {output}");
}

#[test]
fn defect_17_a_record_that_was_torn_is_left_alone_and_the_outcome_kept() {
    let env = pod("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    let whole = fs::read(env.record_file("p")).unwrap();
    let torn = &whole[..whole.len() / 2];
    fs::write(env.record_file("p"), torn).unwrap();
    env.touch("go");
    wrapper.finish().code(1);
    assert_eq!(fs::read(env.record_file("p")).unwrap(), torn);
    let listed = env.podctl(&["ls"]).code(0);
    assert!(listed.stderr.contains("p.json"), "{}", listed.stderr);
    // Once the record is there again, whoever comes next takes up what result.json says.
    fs::write(env.record_file("p"), whole).unwrap();
    env.wrapper("p", &[]).finish().code(2);
    let record = env.record("p");
    assert_eq!(
        (&record["state"], &record["wakeUpCount"]),
        (&"done".into(), &1.into())
    );
    assert_eq!(record["wakeUps"].as_array().map(Vec::len), Some(1));
}

#[test]
fn defect_18_an_old_handoff_from_the_future_declares_nothing() {
    let env = pod("pi run I am done.");
    let handoff = env.pod_dir("p").join("docs/HANDOFF.md");
    fs::write(&handoff, "status: done\n").unwrap();
    let file = File::options().write(true).open(&handoff).unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    file.set_times(FileTimes::new().set_modified(tomorrow)).unwrap();
    let last = env.wake("p");
    assert_eq!(
        (&last["outcome"], &last["reason"]),
        (&"failed".into(), &"noHandoff".into())
    );
}

#[test]
fn defect_19_lines_behind_the_last_event_hide_it_not() {
    let env = pod("pi run Said.\nlines 9 {\"type\":\"entry_appended\",\"i\":{i}}");
    assert_eq!(env.wake("p")["reason"], "noHandoff");
}

#[test]
fn defect_20_a_signal_is_named() {
    let env = pod("pi header\ndie SEGV");
    let last = env.wake("p");
    assert_eq!(
        (&last["outcome"], &last["reason"]),
        (&"failed".into(), &"terminated".into())
    );
    assert_eq!(last["exit"]["signal"], "SIGSEGV");
    assert!(last["detail"].as_str().unwrap().contains("SIGSEGV"), "{last}");
}

#[test]
fn defect_21_a_directory_that_is_no_wake_up_counts_for_none() {
    let env = pod("pi run Said.\nhandoff rotating");
    fs::create_dir_all(env.wake_dir("p", 1).with_file_name("7-old-copy")).unwrap();
    assert_eq!(env.wake("p")["n"], 1);
    // One that is a wake-up's is never used again, though the record knows nothing of it.
    fs::create_dir(env.wake_dir("p", 5)).unwrap();
    assert_eq!(env.wake("p")["n"], 6);
    assert!(!env.wake_dir("p", 5).join("result.json").exists());
}

#[test]
fn defect_22_an_idle_wrapper_is_small() {
    let env = pod("pi header\ntouch up\nawait go\nhandoff done\npi end\npi settled");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    let pid = wrapper.pid();
    let (peak, threads) = (
        process::high_water_kib(pid).unwrap(),
        process::threads(pid).unwrap(),
    );
    assert!(peak < MEMORY_KIB && threads <= 4, "{peak} KiB, {threads} threads");
    env.touch("go");
    wrapper.finish().code(0);
}

#[test]
fn defect_23_a_handoff_of_the_first_moment_is_fresh() {
    let env = pod("handoff rotating\npi run Said.");
    for n in 1..=8 {
        let last = env.wake("p");
        assert_eq!(
            (&last["n"], &last["outcome"]),
            (&n.into(), &"more".into()),
            "{last}"
        );
    }
}

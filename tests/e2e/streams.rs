//! What the agent gets, and what becomes of what it prints.

use std::fs;
use std::time::SystemTime;

use pod_test_support::{LONG, TestEnv, process, wait_until};

use crate::{builder, env};

fn pod(script: &str) -> TestEnv {
    let env = env();
    env.fake(script);
    env.spawn("p");
    env
}

fn strings(bytes: &[u8]) -> Vec<String> {
    let parts = bytes.split(|byte| *byte == 0);
    parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

#[test]
fn every_line_is_kept_byte_for_byte() {
    let script = "
        hex 7b7d 0a
        hex 0a 2020 0a 09 0d 0a
        hex 61 0d 0a
        hex 00 01 0a
        hex 22 e280a8 22 0a
        hex 20 62 20 0a
        torn an unfinished end
    ";
    let env = pod(script);
    env.wake("p");
    let wanted: &[u8] = b"{}\na\r\n\x00\x01\n\"\xe2\x80\xa8\"\n b \nan unfinished end\n";
    assert_eq!(env.events("p", 1), wanted);
}

#[test]
fn the_human_log_shows_each_thing_once_and_harmless() {
    let script = "
        pi header
        pi delta Once
        pi delta  upon
        pi text Once upon a time
        hex 706c61696e 1b5b324a c29b e280ae 0a
        hex 737464 0d 0a
        stderr to stderr
        pi end
        pi settled
        handoff rotating
    ";
    let env = pod(script);
    env.wake("p");
    env.wake("p");
    let output = env.output("p");
    assert!(output.starts_with("--- wake-up 1 "), "{output}");
    let second = output
        .find("--- wake-up 2 ")
        .expect("the second wake-up is appended");
    let (first, head) = (&output[..second], output.lines().next().unwrap());
    assert!(head.ends_with("Z pi ---"), "{head}");
    assert_eq!(first.matches("Once upon a time").count(), 1, "{first}");
    assert_eq!(first.matches("Once").count(), 1, "{first}");
    assert_eq!(first.matches("to stderr").count(), 1, "{first}");
    assert!(first.contains("plain\\x1b[2J\\x9b\\u{202e}"), "{first}");
    assert!(
        first.trim_end().lines().last().unwrap().contains("more"),
        "{first}"
    );
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!output.contains(harmful), "{output:?}");
}

#[test]
fn text_that_a_cut_stream_left_unfinished_is_in_the_human_log() {
    let env = pod("pi header\npi delta I was about\npi delta  to say\nexit 1");
    env.wake("p");
    assert!(env.output("p").contains("I was about to say"));
}

#[test]
fn a_child_that_writes_on_is_read_to_its_end() {
    let env = pod("pi run Done.\nhandoff done\nspawn setsid writer\n[writer]\nevery 60 20 late {i}");
    assert_eq!(env.wake("p")["outcome"], "done");
    let events = String::from_utf8(env.events("p", 1)).unwrap();
    let late = events.lines().filter(|line| line.starts_with("late ")).count();
    assert_eq!(late, 20, "{events}");
    assert!(events.ends_with("late 20\n"));
}

#[test]
fn a_writer_that_never_falls_quiet_is_cut_off() {
    let env = env();
    env.configure(&[("drainLimit", "1s")]);
    env.fake(
        "pi run Done.\nhandoff done\nspawn group writer\n[writer]\npid writer\nevery 20 1000000 late {i}",
    );
    env.spawn("p");
    assert_eq!(env.wake("p")["outcome"], "done");
    assert!(!env.lives("writer"));
}

#[test]
fn the_agent_gets_what_the_contract_says_and_nothing_else() {
    let env = builder().project("a b é").build();
    let script = "
        dump env env
        dump ids ids
        dump cwd cwd
        dump fds fds
        stdin stdin
        touch asked
        await go
        pi run Done.
        handoff done
    ";
    env.fake_as("command", script);
    env.spawn("p");
    let mut command = env.command(&env.programs().wrapper);
    command
        .arg("p")
        .envs([("CLAUDECODE", "1"), ("GIT_DIR", "/elsewhere"), ("MY_KEY", "kept")]);
    let wrapper = env.start_command(command);
    env.wait_for_scratch("asked");
    let record = env.record("p");
    let variables = strings(&env.wait_for_scratch("env"));
    let token = record["current"]["token"].as_str().unwrap();
    for (name, value) in [
        ("AGENTS_POD_POD_ID", "p"),
        ("AGENTS_POD_WAKEUP_N", "1"),
        (
            "AGENTS_POD_DOCS_DIR",
            env.pod_dir("p").join("docs").to_str().unwrap(),
        ),
        ("AGENTS_POD_HOME", env.home().to_str().unwrap()),
        ("AGENTS_POD_WAKE_TOKEN", token),
        (
            "AGENTS_POD_PROMPT_FILE",
            env.wake_dir("p", 1).join("prompt.md").to_str().unwrap(),
        ),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("MY_KEY", "kept"),
    ] {
        let wanted = format!("{name}={value}");
        assert!(variables.contains(&wanted), "{wanted} is missing: {variables:#?}");
    }
    let gone = |name: &str| variables.iter().all(|one| !one.starts_with(&format!("{name}=")));
    assert!(gone("CLAUDECODE") && gone("GIT_DIR"), "{variables:#?}");
    let ids = strings(&env.wait_for_scratch("ids"));
    assert_eq!(
        (&ids[0], &ids[0]),
        (&ids[2], &ids[3]),
        "it leads its group and session"
    );
    assert_eq!(ids[1], wrapper.pid().to_string());
    assert_eq!(
        strings(&env.wait_for_scratch("cwd")),
        [env.project().to_str().unwrap()]
    );
    assert_eq!(env.wait_for_scratch("stdin"), b"");
    for open in strings(&env.wait_for_scratch("fds")) {
        let target = open.split_once(' ').map(|(_, target)| target).unwrap();
        let harmless = target == "/dev/null" || target.starts_with("pipe:") || target.starts_with("/proc/");
        assert!(harmless, "a descriptor leaked: {open}");
    }
    env.touch("go");
    wrapper.finish().code(0);
}

#[test]
fn pi_finds_its_prompt_on_stdin_and_then_its_end() {
    let env = pod("stdin stdin\npi run Done.\nhandoff done");
    assert_eq!(env.wake("p")["outcome"], "done");
    let prompt = fs::read(env.wake_dir("p", 1).join("prompt.md")).unwrap();
    assert_eq!(env.wait_for_scratch("stdin"), prompt);
}

#[test]
fn the_wrapper_says_who_it_is_and_what_it_runs() {
    let env = pod("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    let current = env.record("p")["current"].clone();
    let file = env.pod_dir("p").join("wrapper.json");
    let identity: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for key in ["n", "pid", "pgid", "startTicks", "bootId", "pidNs", "token"] {
        assert_eq!(identity[key], current[key], "`{key}`");
    }
    let seen = process::look(wrapper.pid()).unwrap();
    assert_eq!(
        (&current["pid"], &current["startTicks"]),
        (&seen.pid.into(), &seen.start_ticks.into())
    );
    let agent = fs::read(env.wake_dir("p", 1).join("agent.json")).unwrap();
    let agent: serde_json::Value = serde_json::from_slice(&agent).unwrap();
    assert_eq!((&agent["id"], &agent["type"]), (&"default".into(), &"pi".into()));
    assert_eq!(agent["binary"], env.programs().fake_agent.to_str().unwrap());
    assert_eq!(agent["instructionsHash"].as_str().map(str::len), Some(12));
    env.touch("go");
    wrapper.finish().code(0);
    assert!(!file.exists(), "wrapper.json outlives the wake-up");
}

#[test]
fn the_heartbeat_moves_while_the_agent_is_silent() {
    let env = pod("pi header\ntouch up\nawait go\npi run Done.\nhandoff done");
    let wrapper = env.wrapper("p", &[]);
    env.wait_for_scratch("up");
    let beat = || -> Option<SystemTime> {
        fs::metadata(env.pod_dir("p").join("heartbeat"))
            .ok()?
            .modified()
            .ok()
    };
    for _ in 0..3 {
        let before = beat();
        wait_until("the heartbeat moves", LONG, || beat() > before);
    }
    env.touch("go");
    wrapper.finish().code(0);
}

#[test]
fn the_prompt_has_its_parts_in_their_order() {
    let env = env();
    env.fake("pi run Said.");
    let binary = env.programs().fake_agent.clone();
    env.define(
        "default",
        "pi",
        &binary,
        "instructions = \"You are a careful builder.\"",
    );
    env.spawn("p");
    env.podctl(&["send", "p", "Mind the gap."]).ok();
    env.wake("p");
    let prompt = |n: u32| fs::read_to_string(env.wake_dir("p", n).join("prompt.md")).unwrap();
    let first = prompt(1);
    let handoff = env.pod_dir("p").join("docs/HANDOFF.md");
    let parts = [
        handoff.to_str().unwrap(),
        "You are a careful builder.",
        "Mind the gap.",
        "Reach the goal.",
    ];
    let places: Vec<_> = parts
        .iter()
        .map(|part| first.find(part).unwrap_or_else(|| panic!("{part}: {first}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    // That wake-up failed, so the message is given again, until one declares something.
    env.fake("pi run Said.\nhandoff rotating");
    env.wake("p");
    assert!(prompt(2).contains("Mind the gap."));
    env.wake("p");
    assert!(!prompt(3).contains("Mind the gap."));
    assert_eq!(
        fs::read_dir(env.wake_dir("p", 1).join("inbox")).unwrap().count(),
        1
    );
}

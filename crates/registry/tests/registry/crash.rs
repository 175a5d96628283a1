//! A process that is killed, or whose system call fails, at every single step of a change.
//!
//! One run under strace lists the calls of the change; then there is one run for each of them in which it
//! ends the process or fails.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pod_registry::Registry;

use crate::roles::{MARKER, in_role};
use crate::support::{LONG, Place, create, face};

/// Calls that open, change or lock something.
const CALLS: &str = "trace=/^(openat|write|fsync|ftruncate|rename.*|link.*|unlink.*|mkdir.*|flock|statx)$";

/// The call `nth` of its name in the process.
#[derive(Debug, Clone)]
struct Step {
    call: String,
    nth: usize,
}

fn trace(registry: &Registry, how: &str, inject: Option<&str>, log: &Path) -> Output {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-e", CALLS, "-e", "signal=none", "-o"])
        .arg(log);
    if let Some(inject) = inject {
        strace.args(["-e", &format!("inject={inject}")]);
    }
    in_role(strace, registry.home().root(), "change", how)
        .output()
        .unwrap()
}

/// The steps behind the marker, in the thread that looked at it.
fn steps(log: &str) -> Vec<Step> {
    let thread = log
        .lines()
        .find(|line| line.contains(MARKER))
        .and_then(|line| line.split(' ').next());
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let (mut steps, mut begun) = (Vec::new(), false);
    for line in log.lines().filter(|line| line.split(' ').next() == thread) {
        let Some((call, _)) = line
            .split_whitespace()
            .nth(1)
            .and_then(|rest| rest.split_once('('))
        else {
            continue;
        };
        let nth = counts.entry(call).or_default();
        *nth += 1;
        if begun && call != "statx" && !line.contains("write(1,") {
            steps.push(Step {
                call: call.to_owned(),
                nth: *nth,
            });
        }
        begun |= line.contains(MARKER);
    }
    steps
}

fn strace_works() -> bool {
    let works = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        println!("skipped: strace is missing or may not trace");
    }
    works
}

fn prepare(how: &str) -> Place {
    let place = Place::new();
    create(&place.registry, "beside", "untouched");
    match how {
        "edit" | "remove" => create(&place.registry, "pod", &"old".repeat(1000)),
        "quarantine" => drop(place.plant("pod", b"{\"torn\":")),
        _ => {}
    }
    place
}

/// Runs a change once for every step, and returns how often the old and the new version stood behind it.
fn at_every_step(
    how: &str,
    inject: impl Fn(&Step) -> String,
    check: impl Fn(&Step, &Place, &Output),
) -> [usize; 2] {
    let place = prepare(how);
    let log = tempfile::NamedTempFile::new().unwrap();
    let before = face(&place.registry);
    let output = trace(&place.registry, how, None, log.path());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let after = face(&place.registry);
    assert_ne!(before, after);
    let steps = steps(&fs::read_to_string(log.path()).unwrap());
    assert!(steps.iter().any(|step| step.call == "fsync"), "{steps:?}");
    let mut seen = [0, 0];
    for step in &steps {
        let place = prepare(how);
        let output = trace(&place.registry, how, Some(&inject(step)), log.path());
        let trace = fs::read_to_string(log.path()).unwrap();
        assert!(trace.contains(MARKER), "{step:?} came too early:\n{trace}");
        let now = face(&place.registry);
        assert!(
            now == before || now == after,
            "{step:?} left neither version:\n{now}"
        );
        seen[usize::from(now == after)] += 1;
        check(step, &place, &output);
    }
    seen
}

fn leftovers(registry: &Registry) -> usize {
    let entries = fs::read_dir(registry.home().pods()).unwrap();
    entries
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with('.')
        })
        .count()
}

#[test]
fn a_change_is_written_synced_renamed_and_its_directory_synced() {
    if !strace_works() {
        return;
    }
    let place = prepare("edit");
    let log = tempfile::NamedTempFile::new().unwrap();
    trace(&place.registry, "edit", None, log.path());
    let steps = steps(&fs::read_to_string(log.path()).unwrap());
    let lasting = |step: &&Step| !matches!(step.call.as_str(), "openat" | "flock");
    let calls: Vec<&str> = steps
        .iter()
        .filter(lasting)
        .map(|step| step.call.as_str())
        .collect();
    let expected = ["write", "fsync", "rename", "fsync"];
    assert!(
        calls.len() == 4
            && calls
                .iter()
                .zip(expected)
                .all(|(call, name)| call.starts_with(name)),
        "{calls:?}"
    );
}

#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_new_version() {
    if !strace_works() {
        return;
    }
    for how in ["edit", "create", "remove", "quarantine"] {
        let inject = |step: &Step| format!("{}:signal=KILL:when={}", step.call, step.nth);
        let seen = at_every_step(how, inject, |step, place, output| {
            assert!(!output.status.success(), "{step:?} killed nothing");
            // Its locks are free again and what it left behind is known as such.
            let all = place.registry.lock_all(LONG).unwrap();
            let left = leftovers(&place.registry);
            assert_eq!(all.clear_leftovers().unwrap(), left);
            assert_eq!(leftovers(&place.registry), 0);
        });
        println!(
            "{how}: the old version {} times, the new one {} times",
            seen[0], seen[1]
        );
        assert!(seen[0] > 0 && seen[1] > 0, "{how}: {seen:?}");
    }
}

#[test]
fn a_call_that_fails_is_reported_and_leaves_one_version_and_nothing_beside_it() {
    if !strace_works() {
        return;
    }
    let changes =
        |step: &Step| matches!(step.call.as_str(), "write" | "fsync") || step.call.starts_with("rename");
    let inject = |step: &Step| {
        if changes(step) {
            format!("{}:error=ENOSPC:when={}", step.call, step.nth)
        } else {
            format!("{}:delay_enter=1:when={}", step.call, step.nth)
        }
    };
    at_every_step("edit", inject, |step, place, output| {
        assert_eq!(output.status.success(), !changes(step), "{step:?}");
        assert_eq!(leftovers(&place.registry), 0, "{step:?}");
    });
}

//! The wrapper is killed at each system call that changes state, one after the other, and whatever it leaves
//! is taken up by the next pass of podd.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, Running, TestEnv, say_skipped, wait_until};
use serde_json::Value;

use crate::{builder, env};

/// What changes a file, a lock or a process.
const CALLS: &str = "openat,mkdir,mkdirat,write,pwrite64,ftruncate,copy_file_range,rename,renameat,renameat2,fsync,\
                     fdatasync,flock,unlink,unlinkat,pidfd_send_signal,kill,clone,clone3,vfork";

/// More places than this are thinned out evenly.
const MOST: usize = 90;

/// So many wrappers are traced at the same time.
const AT_ONCE: usize = 6;

/// The `nth` system call of this name.
#[derive(Debug, Clone)]
struct Place {
    call: String,
    nth: usize,
}

fn can_trace(env: &TestEnv) -> bool {
    let mut command = env.command(Path::new("/bin/sh"));
    command.args(["-c", "strace -o /dev/null true"]);
    let able = env.start_command(command).finish().code == Some(0);
    if !able {
        say_skipped("strace is missing or may not trace");
    }
    able
}

/// A traced wrapper of this pod, with strace's own arguments in front.
fn traced(env: &TestEnv, args: &[&str], id: &str) -> Running {
    let mut command = env.command(Path::new("strace"));
    command.args(args).arg(&env.programs().wrapper).arg(id);
    env.start_command(command)
}

/// Runs a wrapper and returns where it changed something, up to the line that holds `end`.
fn places(env: &TestEnv, id: &str, end: &str) -> Vec<Place> {
    let trace = env.scratch().join(format!("trace.{id}"));
    let filter = format!("trace={CALLS}");
    traced(
        env,
        &["-o", trace.to_str().expect("it is UTF-8"), "-e", &filter],
        id,
    )
    .finish()
    .code(0);
    let text = fs::read_to_string(&trace).expect("strace has written it");
    let mut counts = HashMap::new();
    let mut places = Vec::new();
    for line in text.lines() {
        let Some((call, rest)) = line.split_once('(') else {
            continue;
        };
        if call == "execve" {
            continue;
        }
        let nth = counts
            .entry(call.to_owned())
            .and_modify(|nth| *nth += 1)
            .or_insert(1_usize);
        let reads = call == "openat" && !rest.contains("O_CREAT");
        // The loop wakes itself by writing to an eventfd.
        let wakes = rest.contains(r#", "\1\0\0\0\0\0\0\0", 8)"#);
        if !reads && !wakes && !rest.contains("EEXIST") {
            places.push(Place {
                call: call.to_owned(),
                nth: *nth,
            });
        }
        if rest.contains(end) {
            break;
        }
    }
    let every = places.len().div_ceil(MOST).max(1);
    places.into_iter().step_by(every).collect()
}

/// Spawns a pod for each place, all at the same time.
fn spawn_for(env: &TestEnv, prefix: &str, places: &[Place]) -> Vec<String> {
    let project = env.project().to_str().expect("it is UTF-8");
    let ids: Vec<String> = (0..places.len()).map(|at| format!("{prefix}{at}")).collect();
    let spawning: Vec<_> = ids
        .iter()
        .map(|id| {
            env.start(
                &env.programs().podctl,
                &["spawn", "--project", project, "--id", id, "Do."],
            )
        })
        .collect();
    for one in spawning {
        one.finish().code(0);
    }
    ids
}

/// Wakes each pod and kills its wrapper at its place.
fn crash(env: &TestEnv, ids: &[String], places: &[Place]) {
    let all: Vec<_> = ids.iter().zip(places).collect();
    let mut killed = 0;
    for some in all.chunks(AT_ONCE) {
        let running: Vec<_> = some
            .iter()
            .map(|(id, Place { call, nth })| {
                let (only, inject) = (
                    format!("trace={call}"),
                    format!("inject={call}:signal=SIGKILL:when={nth}"),
                );
                traced(env, &["-o", "/dev/null", "-e", &only, "-e", &inject], id)
            })
            .collect();
        // strace dies as the wrapper does. A run that made fewer calls than the first one ended well.
        killed += running
            .into_iter()
            .map(|one| one.finish())
            .filter(|end| end.signal == Some(9))
            .count();
    }
    assert!(
        killed > places.len() * 3 / 4,
        "only {killed} of {} were killed",
        places.len()
    );
}

/// The control groups that the wrapper of this claim may have made.
fn groups(id: &str, claim: &Value) -> Vec<std::path::PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("it can be read");
    let own = fs::read_to_string("/proc/self/cgroup").expect("it can be read");
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default();
    let name = format!("agents-pod-{id}-{}-{}", claim["n"], claim["pid"]);
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points
        .map(|point| Path::new(point).join(own).join(&name))
        .filter(|place| place.exists())
        .collect()
}

/// Makes passes until all pods are done, and checks what must hold behind each of them.
fn recover(env: &TestEnv, ids: &[String], places: &[Place]) {
    let claims: Vec<Value> = ids.iter().map(|id| env.record(id)["current"].clone()).collect();
    wait_until("all pods are done", LONG, || {
        env.pass();
        for (id, (claim, place)) in ids.iter().zip(claims.iter().zip(places)) {
            let (record, Some(n)) = (env.record(id), claim["n"].as_u64()) else {
                continue;
            };
            let settled = record["wakeUps"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["n"] == n));
            assert_eq!(
                settled,
                record["current"]["token"] != claim["token"],
                "{id} at {place:?}"
            );
            let token = claim["token"].as_str().expect("a claim has a token");
            if settled {
                let alive = env.alive_with_token(token);
                assert!(alive.is_empty(), "{id} at {place:?} outlived: {alive:#?}");
                let left = groups(id, claim);
                assert!(left.is_empty(), "{id} at {place:?} left {left:?}");
            }
        }
        ids.iter().all(|id| env.record(id)["state"] == "done")
    });
    for (id, place) in ids.iter().zip(places) {
        let record = env.record(id);
        let entries = record["wakeUps"].as_array().expect("a record has wake-ups");
        let numbers: Vec<_> = entries.iter().map(|one| one["n"].as_u64()).collect();
        let claimed = record["wakeUpCount"].as_u64().expect("a record counts");
        assert_eq!(
            numbers,
            (1..=claimed).map(Some).collect::<Vec<_>>(),
            "{id} at {place:?}: {record:#}"
        );
        for entry in entries {
            let n = u32::try_from(entry["n"].as_u64().expect("a number")).expect("it fits");
            let checkpoint = env.pod_dir(id).join(format!("checkpoints/runs/{n}.md"));
            let checkpoint = fs::read_to_string(checkpoint).unwrap_or_default();
            let outcome = format!("\noutcome: {}\n", entry["outcome"].as_str().unwrap_or_default());
            assert!(
                checkpoint.contains(&outcome),
                "{id}/{n} at {place:?}: {checkpoint}"
            );
            let left = env.wake_dir(id, n).join("result.json");
            if left.exists() {
                assert_eq!(
                    env.result(id, n)["outcome"],
                    entry["outcome"],
                    "{id} at {place:?}"
                );
            } else {
                assert_eq!(entry["outcome"], "lost", "{id} at {place:?}");
            }
        }
        assert_eq!(record.get("current"), None, "{id} at {place:?}");
        env.assert_nothing_lives(id);
    }
    let listed: Value =
        serde_json::from_str(&env.podctl(&["ls", "--json"]).code(0).stdout).expect("it is JSON");
    assert_eq!(listed["unreadable"].as_array().map(Vec::len), Some(0), "{listed}");
}

#[test]
fn a_wrapper_that_is_killed_anywhere_leaves_one_outcome_and_nobody_alive() {
    let env = env();
    if !can_trace(&env) {
        return;
    }
    env.configure(&[("maxConcurrent", "100")]);
    env.fake("pi run Done.\nhandoff done");
    env.fake_wake(
        1,
        "sh setsid sleep 600 >/dev/null 2>&1 &\npi run More.\nhandoff rotating",
    );
    env.spawn("first");
    let places = places(&env, "first", "no such line");
    assert!(places.len() > 40, "{places:?}");
    let ids = spawn_for(&env, "p", &places);
    crash(&env, &ids, &places);
    recover(&env, &ids, &places);
}

#[test]
fn whoever_settles_a_dead_wrapper_may_be_killed_anywhere_too() {
    let env = builder().git().build();
    if !can_trace(&env) {
        return;
    }
    env.configure(&[("maxConcurrent", "100")]);
    env.fake("pi run Done.\nhandoff done");
    env.fake_wake(
        1,
        "sh setsid sleep 600 >/dev/null 2>&1 &\nsh echo $AGENTS_POD_POD_ID > loose.$AGENTS_POD_POD_ID\npi header\n\
         sleep forever",
    );
    let dead = |id: &str| {
        let mut wrapper = env.wrapper(id, &[]);
        wait_until("its agent has said something", LONG, || {
            fs::metadata(env.wake_dir(id, 1).join("events.jsonl")).is_ok_and(|found| found.len() > 0)
        });
        wrapper.signal(Signal::SIGKILL);
        wait_until("it is dead", LONG, || !wrapper.is_running());
    };
    env.spawn("first");
    dead("first");
    // The wrapper that comes next settles first; behind its own claim nothing is new.
    let places = places(&env, "first", "/.wrapper.json.");
    assert!(places.len() > 10, "{places:?}");
    let ids = spawn_for(&env, "p", &places);
    ids.iter().for_each(|id| dead(id));
    crash(&env, &ids, &places);
    recover(&env, &ids, &places);
    for (id, place) in ids.iter().zip(&places) {
        let kept = env.git(&["cat-file", "blob", &format!("refs/agents-pod/{id}/1:loose.{id}")]);
        assert_eq!(kept, *id, "at {place:?}");
        let name = &env.record(id)["wakeUps"][0]["savedWork"]["ref"];
        assert_eq!(*name, format!("refs/agents-pod/{id}/1"), "at {place:?}");
    }
}

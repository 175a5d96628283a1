//! Real processes: how they are started, found and ended.
//!
//! Every test of this file runs in a process of its own (a copy of the test binary), so that each is a
//! subreaper of nothing but its own tree.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pod_core::{ExitStatus, Liveness};
use pod_process::{Handle, Identity, Mark, ProcStat, Recipe, Sig};

const LONG: Duration = Duration::from_secs(20);

/// Runs `body` in a copy of this binary, of which it is the only test.
fn apart(name: &str, body: impl FnOnce()) {
    if std::env::var_os("POD_PROCESS_TEST").is_some() {
        pod_process::become_subreaper().unwrap();
        body();
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env("POD_PROCESS_TEST", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    let (_keep, wait) = std::sync::mpsc::channel::<()>();
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        assert!(wait.recv_timeout(Duration::from_millis(5)).is_err());
    }
}

fn null() -> OwnedFd {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap()
        .into()
}

fn shell(script: &str, dir: &Path, env: &[(&str, &str)]) -> Handle {
    let path: (OsString, OsString) = ("PATH".into(), std::env::var_os("PATH").unwrap());
    let recipe = Recipe {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .chain([path])
            .collect(),
        dir: dir.to_owned(),
        stdin: None,
        stdout: null(),
        stderr: null(),
    };
    pod_process::launch(recipe, None).unwrap().handle
}

fn pid_in(file: &Path) -> i32 {
    let mut pid = None;
    until("a pid file", || {
        pid = fs::read_to_string(file)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

fn me() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

fn below_me() -> std::io::Result<Vec<Handle>> {
    let mut found = Vec::new();
    for process in pod_process::descendants(me())?
        .iter()
        .filter(|process| process.is_live())
    {
        found.extend(Handle::of(process.pid, process.start_ticks)?);
    }
    Ok(found)
}

fn lives(pid: i32) -> bool {
    pod_process::stat(pid)
        .unwrap()
        .is_some_and(|found| found.is_live())
}

#[test]
fn an_agent_leads_its_session_with_signals_as_at_first_and_no_descriptor_of_ours() {
    apart(
        "an_agent_leads_its_session_with_signals_as_at_first_and_no_descriptor_of_ours",
        || {
            let dir = tempfile::tempdir().unwrap();
            let (out, leaked) = (dir.path().join("out"), fs::File::open("/etc/passwd").unwrap());
            nix_leak(&leaked);
            let script = format!(
                "{{ cat /proc/self/stat; grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd; pwd; }} >{0}.new; mv {0}.new {0}",
                out.display()
            );
            let agent = shell(&script, dir.path(), &[]);
            until("the output", || out.exists());
            let text = fs::read_to_string(&out).unwrap();
            let stat: Vec<&str> = text
                .lines()
                .next()
                .unwrap()
                .rsplit(") ")
                .next()
                .unwrap()
                .split(' ')
                .collect();
            assert_eq!(
                (stat[2], stat[3]),
                (agent.pid().to_string().as_str(), agent.pid().to_string().as_str())
            );
            assert!(text.contains("SigBlk:\t0000000000000000"), "{text}");
            let ignored = text
                .lines()
                .find_map(|line| line.strip_prefix("SigIgn:"))
                .unwrap();
            // glibc keeps signals 32 and 33 to itself and lets nobody change them.
            assert_eq!(
                u64::from_str_radix(ignored.trim(), 16).unwrap() & !(3 << 31),
                0,
                "{text}"
            );
            let fds: Vec<&str> = text.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
            assert!(fds.len() <= 4, "three and the one of `ls`: {fds:?}");
            assert!(
                text.contains(dir.path().canonicalize().unwrap().to_str().unwrap()),
                "{text}"
            );
        },
    );
}

/// Leaves a descriptor open over exec, as a careless ancestor would, and a signal ignored, as `nohup` does.
fn nix_leak(file: &fs::File) {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
}

#[test]
fn descendants_are_found_in_whatever_session_and_swept() {
    apart("descendants_are_found_in_whatever_session_and_swept", || {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let child = |name: &str, trap: &str| {
            format!(
                "sh -c '{trap} echo $$ >{}; while :; do sleep 1; done'",
                file(name).display()
            )
        };
        let script = format!(
            "{} & setsid {} & (setsid {} &) ; (setsid env -i PATH=$PATH {} &); exit 0",
            child("group", ""),
            child("session", "trap \"\" TERM;"),
            child("double", "trap \"\" TERM INT HUP;"),
            child("bare", ""),
        );
        let agent = shell(&script, dir.path(), &[]);
        let pids: Vec<i32> = ["group", "session", "double", "bare"]
            .iter()
            .map(|name| pid_in(&file(name)))
            .collect();
        until("the agent's end", || {
            pod_process::exit_status(agent.pid()).unwrap().is_some()
        });
        assert_eq!(
            pod_process::exit_status(agent.pid()).unwrap(),
            Some(ExitStatus::Code(0)),
            "it stays to be asked"
        );
        let mut beats = 0;
        let report = pod_process::sweep(below_me, Duration::from_millis(300), || {
            beats += 1;
            pod_process::reap_adopted(Some(agent.pid()));
        })
        .unwrap();
        assert!(
            report.ended >= 4 && report.survivors.is_empty() && beats > 0,
            "{report:?}"
        );
        assert!(pids.iter().all(|pid| !lives(*pid)));
        assert!(matches!(
            pod_process::reap(agent.pid()),
            pod_process::Reaped::Ended(ExitStatus::Code(0))
        ));
        pod_process::reap_adopted(None);
        until("that all are reaped", || {
            pod_process::reap_adopted(None);
            pod_process::descendants(me()).unwrap().is_empty()
        });
    });
}

#[test]
fn a_stopped_process_is_swept() {
    apart("a_stopped_process_is_swept", || {
        let dir = tempfile::tempdir().unwrap();
        let agent = shell("kill -STOP $$; exit 0", dir.path(), &[]);
        until("the stop", || {
            pod_process::stat(agent.pid())
                .unwrap()
                .is_some_and(|found| found.state == 'T')
        });
        let report = pod_process::sweep(below_me, Duration::from_secs(5), || ()).unwrap();
        assert_eq!((report.ended, report.survivors.len()), (1, 0));
        assert!(!lives(agent.pid()));
    });
}

#[test]
fn a_mark_finds_what_ancestry_cannot_and_nobody_else() {
    apart("a_mark_finds_what_ancestry_cannot_and_nobody_else", || {
        let dir = tempfile::tempdir().unwrap();
        let marked = shell(
            "(setsid sh -c 'echo $$ >away; sleep 600' &) ; sleep 600",
            dir.path(),
            &[("MARK", "a")],
        );
        let other = shell("sleep 600", dir.path(), &[("MARK", "ab")]);
        let cleared = shell(
            "(env -i PATH=$PATH sh -c 'echo $$ >bare; sleep 600' &) ; sleep 600",
            dir.path(),
            &[],
        );
        let (away, bare) = (pid_in(&dir.path().join("away")), pid_in(&dir.path().join("bare")));
        let found = |session| {
            let mark = Mark {
                variable: "MARK=a".to_owned(),
                session,
            };
            let mut pids: Vec<i32> = pod_process::marked(&mark)
                .unwrap()
                .iter()
                .map(Handle::pid)
                .collect();
            pids.sort_unstable();
            pids
        };
        let pids = found(None);
        assert!(pids.contains(&marked.pid()) && pids.contains(&away), "{pids:?}");
        assert!(
            !pids.contains(&other.pid()) && !pids.contains(&bare) && !pids.contains(&me()),
            "{pids:?}"
        );
        let pids = found(Some(cleared.pid()));
        assert!(
            pids.contains(&bare) && pids.contains(&cleared.pid()),
            "by its session: {pids:?}"
        );
        let _report = pod_process::sweep(below_me, Duration::ZERO, || ()).unwrap();
    });
}

#[test]
fn a_handle_meets_the_process_that_it_was_opened_for_or_nobody() {
    apart(
        "a_handle_meets_the_process_that_it_was_opened_for_or_nobody",
        || {
            let dir = tempfile::tempdir().unwrap();
            let agent = shell("sleep 600", dir.path(), &[]);
            assert!(Handle::of(agent.pid(), agent.start_ticks()).unwrap().is_some());
            assert!(
                Handle::of(agent.pid(), agent.start_ticks() + 1)
                    .unwrap()
                    .is_none(),
                "a reused pid is a stranger"
            );
            assert!(
                Handle::open(agent.pid(), |found: &ProcStat| found.sid == 1)
                    .unwrap()
                    .is_none()
            );
            let identity = Identity {
                pid: agent.pid(),
                start_ticks: agent.start_ticks(),
                ..Identity::of_self().unwrap()
            };
            assert_eq!(identity.liveness(), Liveness::Alive);
            assert!(agent.signal(Sig::KILL).unwrap());
            until("its death", || !agent.is_live());
            assert_eq!(
                identity.liveness(),
                Liveness::Dead { rebooted: false },
                "a zombie is dead"
            );
            assert!(
                agent.signal_group(Sig::TERM).is_ok(),
                "a zombie's group is still its own"
            );
            let _reaped = pod_process::reap(agent.pid());
            assert!(!agent.signal(Sig::TERM).unwrap(), "nobody is met any more");
        },
    );
}

#[test]
fn what_cannot_be_started_is_named_for_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let launch = |program: &str, cwd: PathBuf, args: Vec<OsString>| {
        let recipe = Recipe {
            program: program.into(),
            args,
            env: Vec::new(),
            dir: cwd,
            stdin: None,
            stdout: null(),
            stderr: null(),
        };
        pod_process::launch(recipe, None).unwrap_err().to_string()
    };
    let here = || dir.path().to_owned();
    assert!(launch("/no/such", here(), vec![]).contains("`/no/such` cannot be executed"));
    assert!(launch("/etc/passwd", here(), vec![]).contains("cannot be executed"));
    assert!(launch("/bin/true", "/no/such".into(), vec![]).contains("directory `/no/such`"));
    assert!(launch("/bin/true", here(), vec!["x".repeat(200_000).into()]).contains("too long"));
}

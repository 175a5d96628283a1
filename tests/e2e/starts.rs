//! Which wake-ups podd starts, how many at once, and where.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use pod_test_support::{LONG, Tmpfs, wait_until};

use crate::{builder, env};

#[test]
fn many_due_pods_are_woken_a_few_at_a_time() {
    let env = env();
    env.configure(&[("maxConcurrent", "3")]);
    env.fake("append log begin\npi run Done.\nhandoff done\nappend log end");
    // Fifty commands at once spoil no record of each other's.
    let project = env.project().to_str().unwrap();
    let ids: Vec<String> = (0..50).map(|at| format!("p{at}")).collect();
    let spawning: Vec<_> = ids
        .iter()
        .map(|id| {
            env.start(
                &env.programs().podctl,
                &["spawn", "--project", project, "--id", id, "Do."],
            )
        })
        .collect();
    for (one, id) in spawning.into_iter().zip(&ids) {
        assert_eq!(one.finish().ok(), *id);
    }
    let _podd = env.podd();
    for id in &ids {
        let record = env.wait_for_state(id, "done");
        assert_eq!(record["wakeUpCount"], 1, "{id}");
    }
    let log = String::from_utf8(env.wait_for_scratch("log")).unwrap();
    let (mut running, mut most) = (0, 0);
    for line in log.lines() {
        running += if line == "begin" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!(log.lines().count(), 100);
    assert!((1..=3).contains(&most), "{most} agents at once");
}

#[test]
fn whoever_comes_at_the_same_instant_starts_one_wake_up() {
    let env = env();
    env.fake("append starts one\npi header\nawait go\npi run Done.\nhandoff done");
    env.spawn("p");
    let podds = [(); 2].map(|()| env.start(&env.programs().podd, &["--once"]));
    let mut wrappers: Vec<_> = (0..4).map(|_| env.wrapper("p", &[])).collect();
    let codes = podds.map(|podd| podd.finish().code);
    assert!(
        codes.contains(&Some(0)) && codes.iter().all(|code| matches!(code, Some(0 | 1))),
        "{codes:?}"
    );
    wait_until("all but one at most have given up", LONG, || {
        wrappers
            .iter_mut()
            .map(|one| usize::from(one.is_running()))
            .sum::<usize>()
            <= 1
    });
    env.wait_for_scratch("starts");
    env.touch("go");
    let record = env.wait_for_state("p", "done");
    assert_eq!(
        (&record["wakeUpCount"], record["wakeUps"].as_array().map(Vec::len)),
        (&1.into(), Some(1))
    );
    assert_eq!(env.wait_for_scratch("starts"), b"one\n");
    let codes: Vec<_> = wrappers.into_iter().map(|one| one.finish().code).collect();
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 2))), "{codes:?}");
}

#[test]
fn nothing_is_started_on_a_full_disk_until_there_is_space() {
    let env = env();
    let Some(_mounted) = Tmpfs::mount(&env.home(), 4 << 20) else {
        pod_test_support::say_skipped("this user may not mount a file system");
        return;
    };
    env.configure(&[("minFreeDisk", "2MiB")]);
    env.fake("pi run Done.\nhandoff done");
    env.spawn("p");
    let filler = env.home().join("filler");
    fs::write(&filler, vec![0; 3 << 20]).unwrap();
    let before = env.record("p");
    env.pass();
    assert_eq!(env.record("p"), before);
    // Now to the last byte: what cannot be written is not started, and no record is harmed.
    env.configure(&[]);
    fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    env.wrapper("p", &[]).finish().code(2);
    assert_eq!(env.record("p"), before);
    fs::remove_file(&filler).unwrap();
    env.configure(&[("minFreeDisk", "2MiB")]);
    env.pass();
    env.wait_for_state("p", "done");
}

#[test]
fn a_podd_that_waits_for_space_starts_when_it_is_there() {
    let env = env();
    let Some(_mounted) = Tmpfs::mount(&env.home(), 4 << 20) else {
        pod_test_support::say_skipped("this user may not mount a file system");
        return;
    };
    env.configure(&[("minFreeDisk", "2MiB")]);
    env.fake("pi run Done.\nhandoff done");
    env.spawn("p");
    let filler = env.home().join("filler");
    fs::write(&filler, vec![0; 3 << 20]).unwrap();
    let podd = env.podd();
    podd.signal(Signal::SIGHUP);
    wait_until("it has passed and listens", LONG, || {
        podd.log().contains("read again")
    });
    assert_eq!(env.record("p")["wakeUpCount"], 0);
    fs::remove_file(&filler).unwrap();
    // A person who has made room need not wait for the next regular pass.
    podd.signal(Signal::SIGHUP);
    env.wait_for_state("p", "done");
}

#[test]
fn projects_with_odd_names_are_found() {
    for name in ["a b", "a\nb", "é", "-x", "\"q' $HOME"] {
        let env = builder().project(format!("place/{name}")).build();
        env.fake("dump cwd cwd\npi run Done.\nhandoff done");
        let way = env.root().join("way");
        symlink(env.project(), &way).unwrap();
        env.podctl(&["spawn", "--project", way.to_str().unwrap(), "--id", "p", "Do."])
            .ok();
        assert_eq!(
            env.record("p")["project"],
            env.project().to_str().unwrap(),
            "{name:?}"
        );
        let podd = env.podd();
        env.wait_for_state("p", "done");
        podd.term().code(0);
        let cwd = env.wait_for_scratch("cwd");
        assert_eq!(
            String::from_utf8(cwd).unwrap().trim_end_matches('\0'),
            env.project().to_str().unwrap()
        );
    }
}

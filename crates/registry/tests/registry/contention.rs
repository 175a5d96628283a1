//! Many at once: no update is lost, every wait is bounded, nobody starves.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use pod_core::PodId;
use pod_disk::LockError;
use pod_registry::{Registry, RegistryError};
use rustix::process::{Pid, Signal, kill_process};

use crate::roles::{COUNTS, start, start_holder};
use crate::support::{LONG, Place, SHORT, create, id};

#[test]
fn eight_processes_at_one_counter_lose_no_update() {
    let place = Place::new();
    create(&place.registry, "counter", "count");
    let children: Vec<_> = (0..8)
        .map(|_| start(&place.registry, "count", "counter"))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(
        place.registry.read(&id("counter")).unwrap().wake_up_count,
        8 * COUNTS
    );
}

#[test]
fn fifty_creates_at_once_all_stand_and_one_name_goes_to_one() {
    let place = Place::new();
    let children: Vec<_> = (0..50)
        .map(|n| start(&place.registry, "create", &format!("pod-{n}")))
        .collect();
    let mut winners = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        winners += usize::from(String::from_utf8_lossy(&output.stdout).contains("won: true"));
    }
    let listing = place.registry.list().unwrap();
    assert_eq!(
        (listing.records.len(), listing.unreadable.len(), winners),
        (51, 0, 1)
    );
}

#[test]
fn a_stopped_holder_is_named_and_the_wait_ends() {
    let place = Place::new();
    create(&place.registry, "pod", "goal");
    let mut holder = start_holder(&place.registry, "pod");
    let pid = i32::try_from(holder.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    let error = place.registry.lock(&id("pod"), SHORT).unwrap_err();
    assert!(error.to_string().contains(&format!("(pid {pid})")), "{error}");
    let RegistryError::Lock(LockError::Busy { holders, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(holders.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [pid]);
    let error = place.registry.lock_all(SHORT).unwrap_err();
    assert!(matches!(error, RegistryError::Lock(LockError::Busy { holders, .. }) if holders[0].pid == pid));
    // Others read, and write where the stopped one has no lock.
    assert_eq!(place.registry.read(&id("pod")).unwrap().goal, "goal");
    create(&place.registry, "other", "goal");
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(place.registry.lock(&id("pod"), LONG).unwrap());
}

#[test]
fn whoever_waits_for_the_whole_registry_is_not_starved() {
    let place = Place::new();
    let home = place.registry.home();
    assert_ne!(
        home.shard(&id("a")),
        home.shard(&id("b")),
        "both have to hold their locks at once"
    );
    let relay = Relay::default();
    thread::scope(|scope| {
        let runners = [(0, "a"), (1, "b")].map(|(own, name)| {
            let (registry, relay) = (&place.registry, &relay);
            scope.spawn(move || relay.run(registry, &id(name), own))
        });
        relay.await_both();
        let had = place.registry.lock_all(Duration::from_secs(20)).map(drop);
        relay.finish();
        for runner in runners {
            runner.join().unwrap();
        }
        had.unwrap();
    });
}

/// Two that hold the shared lock in turn, each until the other has it too, so that it is never free.
#[derive(Default)]
struct Relay {
    state: Mutex<([u64; 2], bool)>,
    changed: Condvar,
}

impl Relay {
    fn run(&self, registry: &Registry, pod: &PodId, own: usize) {
        while !self.state.lock().unwrap().1 {
            let locked = registry.lock(pod, LONG).unwrap();
            let mut state = self.state.lock().unwrap();
            state.0[own] += 1;
            let seen = state.0[1 - own];
            self.changed.notify_all();
            // The other may be held up behind the turnstile; then it is time to let go.
            let patience = Duration::from_millis(500);
            let same = |state: &mut ([u64; 2], bool)| state.0[1 - own] == seen && !state.1;
            drop(self.changed.wait_timeout_while(state, patience, same).unwrap());
            drop(locked);
        }
    }

    fn await_both(&self) {
        let state = self.state.lock().unwrap();
        let early = |state: &mut ([u64; 2], bool)| state.0.iter().any(|turns| *turns < 3);
        let (state, waited) = self.changed.wait_timeout_while(state, LONG, early).unwrap();
        drop(state);
        assert!(!waited.timed_out(), "the two never held the lock in turn");
    }

    fn finish(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

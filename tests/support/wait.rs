//! Waiting for a condition, with a deadline: the one place where a test lets time pass.

use std::thread;
use std::time::{Duration, Instant};

/// A deadline for what takes moments on an idle machine. It is long because machines are busy, and costs
/// nothing where the condition holds.
pub const LONG: Duration = Duration::from_secs(30);

const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until the condition holds, and fails the test where that takes longer than the deadline.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, deadline, || condition().then_some(()));
}

/// Waits until the probe finds something, and fails the test where that takes longer than the deadline.
#[track_caller]
pub fn wait_for<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            start.elapsed() < deadline,
            "gave up after {deadline:?}, waiting until {what}"
        );
        thread::park_timeout(INTERVAL);
    }
}

/// Says on stderr what a test leaves out, past the capture of passing tests: whoever reads the run has to know
/// what it did not do.
pub fn say_skipped(why: &str) {
    let _said = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}

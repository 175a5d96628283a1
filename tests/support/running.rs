//! Programs that a test has started, and what came of them.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::wait::{LONG, wait_for, wait_until};
use crate::{TestEnv, process};

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What was run, for messages.
    pub what: String,
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Finished {
    /// Fails the test unless the exit code is the wanted one; returns itself for more checks.
    #[track_caller]
    pub fn code(self, wanted: i32) -> Self {
        assert_eq!(
            self.code,
            Some(wanted),
            "{} (signal {:?})\nstdout: {}\nstderr: {}",
            self.what,
            self.signal,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Fails the test unless the exit code is 0; returns stdout without blanks around it.
    #[track_caller]
    pub fn ok(self) -> String {
        self.code(0).stdout.trim().to_owned()
    }
}

/// A program that runs. It is killed where the test ends before it does.
#[derive(Debug)]
pub struct Running {
    pub(crate) what: String,
    pub(crate) child: Child,
    pub(crate) stdout: PathBuf,
    pub(crate) stderr: PathBuf,
}

impl Running {
    /// Its pid.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid fits")
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.poll().is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Kills it and waits for its end.
    pub fn kill9(&mut self) {
        self.signal(Signal::SIGKILL);
        wait_until("the killed program is gone", LONG, || !self.is_running());
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// Waits for its end, and fails the test where it takes longer than half a minute.
    #[track_caller]
    pub fn finish(self) -> Finished {
        self.finish_within(LONG)
    }

    /// Waits for its end, and fails the test where it takes longer than that.
    #[track_caller]
    pub fn finish_within(mut self, deadline: Duration) -> Finished {
        let what = format!("`{}` ends", self.what);
        let status = wait_for(&what, deadline, || self.poll());
        Finished {
            what: self.what.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended, which is what they are for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn read_lossy(file: &PathBuf) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The reconciler of a test's home.
#[derive(Debug)]
pub struct Podd<'e> {
    env: &'e TestEnv,
    running: Running,
}

impl<'e> Podd<'e> {
    pub(crate) fn start(env: &'e TestEnv) -> Self {
        let mut running = env.start(&env.programs().podd, &[]);
        let identity = env.home().join("podd.json");
        let pid = running.pid();
        wait_until("podd has written its identity", LONG, || {
            let stderr = running.stderr();
            assert!(running.is_running(), "podd has ended: {stderr}");
            let read = fs::read(&identity).unwrap_or_default();
            serde_json::from_slice::<serde_json::Value>(&read).is_ok_and(|podd| podd["pid"] == pid)
        });
        Self { env, running }
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.running.stderr()
    }

    /// Kills it at once.
    pub fn kill9(&mut self) {
        self.running.kill9();
    }

    /// Ends it by SIGTERM and waits for its end.
    #[track_caller]
    pub fn term(self) -> Finished {
        self.running.signal(Signal::SIGTERM);
        self.finish()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(self) -> Finished {
        self.running.finish()
    }

    /// Starts another one in its place. The old one must have ended.
    pub fn restart(&mut self) {
        assert!(!self.running.is_running(), "podd is still there");
        *self = Self::start(self.env);
    }
}

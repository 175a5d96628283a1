//! A hermetic environment for one test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{self, Seen};
use crate::wait::{LONG, wait_for};
use crate::{Config, Finished, Podd, Programs, Running};

/// The variable that marks every process of a test.
const MARK: &str = "AGENTS_POD_TEST_MARK";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes a [`TestEnv`].
#[derive(Debug)]
pub struct Builder {
    programs: Programs,
    project: PathBuf,
    git: bool,
}

impl Builder {
    /// Makes the project a git repository with one commit.
    #[must_use]
    pub fn git(mut self) -> Self {
        self.git = true;
        self
    }

    /// Puts the project at this path below the environment's directory.
    #[must_use]
    pub fn project(mut self, below: impl Into<PathBuf>) -> Self {
        self.project = below.into();
        self
    }

    /// Makes the environment.
    pub fn build(self) -> TestEnv {
        let root = tempfile::Builder::new()
            .prefix("agents-pod-test-")
            .tempdir()
            .expect("a temporary directory can be made");
        // The programs resolve symlinks in the paths that they record.
        let real = root.path().canonicalize().expect("it was just made");
        let name = real.file_name().expect("it has a name");
        let env = TestEnv {
            mark: name.to_string_lossy().into_owned(),
            project: real.join(self.project),
            programs: self.programs,
            count: AtomicU32::new(0),
            root: Some(root),
            real,
        };
        for place in ["home", "pods", "xdg", "tmp", "bin", "scratch", "out"] {
            fs::create_dir(env.real.join(place)).expect("a fresh directory takes a new one");
        }
        fs::create_dir_all(&env.project).expect("the project can be made");
        env.configure(&[]);
        if self.git {
            env.git(&["init", "--quiet", "--initial-branch=main"]);
            fs::write(env.project.join("README"), "A project.\n").expect("the project takes a file");
            env.git(&["add", "README"]);
            env.git(&["commit", "--quiet", "--message=Begin"]);
        }
        env
    }
}

/// A home, a project and an environment of their own, in a temporary directory.
///
/// What was started in it is killed at the end, however it escaped. The directory stays where the test
/// fails, and its path is printed.
#[derive(Debug)]
pub struct TestEnv {
    programs: Programs,
    root: Option<TempDir>,
    real: PathBuf,
    project: PathBuf,
    mark: String,
    count: AtomicU32,
}

impl TestEnv {
    /// Begins an environment.
    pub fn builder(programs: Programs) -> Builder {
        Builder {
            programs,
            project: "project".into(),
            git: false,
        }
    }

    /// The programs under test.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The directory that holds everything.
    pub fn root(&self) -> &Path {
        &self.real
    }

    /// `$AGENTS_POD_HOME`.
    pub fn home(&self) -> PathBuf {
        self.real.join("pods")
    }

    /// `$HOME`.
    pub fn user_home(&self) -> PathBuf {
        self.real.join("home")
    }

    /// The project.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// A directory for what tests and fake agents tell each other.
    pub fn scratch(&self) -> PathBuf {
        self.real.join("scratch")
    }

    /// Writes the home's config.toml: the pace of tests, and on top of it these keys.
    pub fn configure(&self, keys: &[(&str, &str)]) {
        let mut config = Config::default();
        for (key, value) in keys {
            config.set(key, value);
        }
        fs::write(self.home().join("config.toml"), config.to_toml())
            .expect("the home takes its configuration");
    }

    /// Makes the fake agent, as a pi, the default agent, and gives it this script for every wake-up.
    pub fn fake(&self, script: &str) {
        self.fake_as("pi", script);
    }

    /// Makes the fake agent the default agent of this type, and gives it this script for every wake-up.
    pub fn fake_as(&self, kind: &str, script: &str) {
        fs::write(self.scratch().join("script"), script).expect("scratch takes a script");
        self.define("default", kind, &self.programs.fake_agent.clone(), "");
    }

    /// Gives the fake agent another script for wake-up `n`.
    pub fn fake_wake(&self, n: u32, script: &str) {
        fs::write(self.scratch().join(format!("script.{n}")), script).expect("scratch takes a script");
    }

    /// Gives the fake agent another script for the wake-ups of one pod.
    pub fn fake_pod(&self, id: &str, script: &str) {
        fs::write(self.scratch().join(format!("script.{id}")), script).expect("scratch takes a script");
    }

    /// Writes agents.toml with one definition; `more` is further lines of it.
    pub fn define(&self, name: &str, kind: &str, binary: &Path, more: &str) {
        let text = self.definition(name, kind, binary, more);
        fs::write(self.home().join("agents.toml"), text).expect("the home takes its definitions");
    }

    /// Adds a definition of the fake agent, as a pi, to agents.toml.
    pub fn define_also(&self, name: &str, more: &str) {
        let file = self.home().join("agents.toml");
        let before = fs::read_to_string(&file).unwrap_or_default();
        let text = self.definition(name, "pi", &self.programs.fake_agent, more);
        fs::write(file, before + &text).expect("the home takes its definitions");
    }

    /// Adds a definition with these variables to agents.toml; `more` is further lines of it.
    pub(crate) fn add_definition(
        &self,
        name: &str,
        kind: &str,
        binary: &Path,
        more: &str,
        variables: &[(&str, String)],
    ) {
        let file = self.home().join("agents.toml");
        let mut text = fs::read_to_string(&file).unwrap_or_default();
        text += &format!(
            "[agents.{name}]\ntype = \"{kind}\"\nbinary = {binary:?}\n{more}\n[agents.{name}.env]\n"
        );
        for (variable, value) in variables {
            text += &format!("{variable} = {value:?}\n");
        }
        fs::write(file, text).expect("the home takes its definitions");
    }

    fn definition(&self, name: &str, kind: &str, binary: &Path, more: &str) -> String {
        let script = self.scratch().join("script");
        format!(
            "[agents.{name}]\ntype = \"{kind}\"\nbinary = {binary:?}\n{more}\n\
             [agents.{name}.env]\nFAKE_AGENT_SCRIPT = {script:?}\nPI_OFFLINE = \"1\"\n"
        )
    }

    /// A command in the project with this environment's variables and no others.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{PATH}", self.real.join("bin").display()))
            .env("HOME", self.user_home())
            .env("AGENTS_POD_HOME", self.home())
            .env("TMPDIR", self.real.join("tmp"))
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .current_dir(&self.project);
        for kind in ["CONFIG", "STATE", "DATA", "CACHE"] {
            let place = self.real.join("xdg").join(kind.to_ascii_lowercase());
            command.env(format!("XDG_{kind}_HOME"), place);
        }
        command
    }

    /// Starts a program.
    pub fn start(&self, program: &Path, args: &[&str]) -> Running {
        let mut command = self.command(program);
        command.args(args);
        self.start_command(command)
    }

    /// Starts a command that [`command`](Self::command) made. Its stdout and stderr become files, so that
    /// nobody who inherits them can hold a test up.
    pub fn start_command(&self, mut command: Command) -> Running {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let program = Path::new(command.get_program());
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let place = |kind: &str| self.real.join("out").join(format!("{number:02}-{name}.{kind}"));
        let (stdout, stderr) = (place("stdout"), place("stderr"));
        let what = std::iter::once(name.as_str().into())
            .chain(command.get_args().map(|arg| arg.to_string_lossy().into_owned()))
            .map(|word| word.chars().take(60).collect::<String>())
            .collect::<Vec<_>>()
            .join(" ");
        command.stdout(File::create(&stdout).expect("the directory takes a file"));
        command.stderr(File::create(&stderr).expect("the directory takes a file"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{what}`: {error}"));
        Running {
            what,
            child,
            stdout,
            stderr,
        }
    }

    /// Runs podctl to its end.
    #[track_caller]
    pub fn podctl(&self, args: &[&str]) -> Finished {
        self.start(&self.programs.podctl, args).finish()
    }

    /// Starts podd and waits until it is up.
    pub fn podd(&self) -> Podd<'_> {
        Podd::start(self)
    }

    /// Makes one pass of podd.
    #[track_caller]
    pub fn pass(&self) {
        self.start(&self.programs.podd, &["--once"]).finish().code(0);
    }

    /// A command with no variable but the one that marks what belongs to this environment.
    pub fn bare_command(&self, program: &Path) -> Command {
        let mut command = self.command(program);
        command.env_clear().env(MARK, &self.mark);
        command
    }

    /// Starts a wrapper.
    pub fn wrapper(&self, id: &str, args: &[&str]) -> Running {
        let all: Vec<&str> = std::iter::once(id).chain(args.iter().copied()).collect();
        self.start(&self.programs.wrapper, &all)
    }

    /// Runs one wake-up to its end, which must be recorded.
    #[track_caller]
    pub fn wake(&self, id: &str) -> Value {
        self.wrapper(id, &[]).finish().code(0);
        self.last(id)
    }

    /// Spawns a pod of this project with a goal of no interest.
    #[track_caller]
    pub fn spawn(&self, id: &str) {
        self.spawn_with(id, &[]);
    }

    /// Spawns a pod of this project with further flags.
    #[track_caller]
    pub fn spawn_with(&self, id: &str, flags: &[&str]) {
        let project = self.project.to_str().expect("the project's path is UTF-8");
        let mut args = vec!["spawn", "--project", project, "--id", id];
        args.extend(flags);
        args.push("Reach the goal.");
        assert_eq!(self.podctl(&args).ok(), id);
    }

    /// The file of a pod's record.
    pub fn record_file(&self, id: &str) -> PathBuf {
        self.home().join("registry/pods").join(format!("{id}.json"))
    }

    /// A pod's record.
    #[track_caller]
    pub fn record(&self, id: &str) -> Value {
        read_json(&self.record_file(id))
    }

    /// Edits a pod's record by hand, under no lock: nothing else may be writing it.
    #[track_caller]
    pub fn edit_record(&self, id: &str, edit: impl FnOnce(&mut Value)) {
        let mut record = self.record(id);
        edit(&mut record);
        let new = self.record_file(id).with_extension("edited");
        fs::write(&new, record.to_string()).expect("the registry takes a file");
        fs::rename(&new, self.record_file(id)).expect("the registry takes a record");
    }

    /// The entry of a pod's newest wake-up that has an outcome.
    #[track_caller]
    pub fn last(&self, id: &str) -> Value {
        let record = self.record(id);
        let entries = record["wakeUps"].as_array().expect("a record has wake-ups");
        entries.last().expect("the pod has a wake-up").clone()
    }

    /// Waits until a pod's record is as wanted.
    #[track_caller]
    pub fn wait_for_record(&self, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, LONG, || Some(self.record(id)).filter(&wanted))
    }

    /// Waits until a pod is in this state.
    #[track_caller]
    pub fn wait_for_state(&self, id: &str, state: &str) -> Value {
        let what = format!("`{id}` is {state}");
        self.wait_for_record(id, &what, |record| record["state"] == state)
    }

    /// A pod's directory.
    pub fn pod_dir(&self, id: &str) -> PathBuf {
        self.project.join(".agents-pod").join(id)
    }

    /// A wake-up's directory.
    pub fn wake_dir(&self, id: &str, n: u32) -> PathBuf {
        self.pod_dir(id).join("wakeups").join(n.to_string())
    }

    /// A wake-up's verdict.
    #[track_caller]
    pub fn result(&self, id: &str, n: u32) -> Value {
        read_json(&self.wake_dir(id, n).join("result.json"))
    }

    /// A wake-up's raw log.
    #[track_caller]
    pub fn events(&self, id: &str, n: u32) -> Vec<u8> {
        fs::read(self.wake_dir(id, n).join("events.jsonl")).expect("a wake-up has a raw log")
    }

    /// A pod's human log.
    #[track_caller]
    pub fn output(&self, id: &str) -> String {
        let bytes = fs::read(self.pod_dir(id).join("output.log")).expect("a pod has a human log");
        String::from_utf8(bytes).expect("the human log is UTF-8")
    }

    /// A file in scratch, once it is there.
    #[track_caller]
    pub fn wait_for_scratch(&self, name: &str) -> Vec<u8> {
        let file = self.scratch().join(name);
        wait_for(&format!("`{name}` is in scratch"), LONG, || fs::read(&file).ok())
    }

    /// Puts an empty file into scratch, which the fake agent's `await` waits for.
    pub fn touch(&self, name: &str) {
        fs::write(self.scratch().join(name), "").expect("scratch takes a file");
    }

    /// The process whose identity the fake agent's `pid` command wrote, once it has.
    #[track_caller]
    pub fn wait_for_pid(&self, name: &str) -> (i32, u64) {
        let file = self.scratch().join(name);
        wait_for(&format!("`{name}` names a process"), LONG, || {
            process::read_identity(&file)
        })
    }

    /// Whether the process lives whose identity the fake agent's `pid` command wrote.
    #[track_caller]
    pub fn lives(&self, name: &str) -> bool {
        let identity = process::read_identity(&self.scratch().join(name));
        let (pid, ticks) = identity.unwrap_or_else(|| panic!("`{name}` names no process"));
        process::lives(pid, ticks)
    }

    /// The living processes of one wake-up.
    pub fn alive_with_token(&self, token: &str) -> Vec<Seen> {
        process::with_variable("AGENTS_POD_WAKE_TOKEN", token)
    }

    /// The living processes of all wake-ups of a pod of this environment, its wrappers apart.
    pub fn alive_in(&self, id: &str) -> Vec<Seen> {
        let mut of_pod = process::with_variable("AGENTS_POD_POD_ID", id);
        let ours = process::with_variable(MARK, &self.mark);
        of_pod.retain(|seen| ours.iter().any(|one| one.pid == seen.pid));
        of_pod
    }

    /// Fails the test where a process of a wake-up of this pod outlives its outcome.
    #[track_caller]
    pub fn assert_nothing_lives(&self, id: &str) {
        let alive = self.alive_in(id);
        assert!(alive.is_empty(), "still alive: {alive:#?}");
    }

    /// Runs git in the project.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let mut command = self.command(Path::new("git"));
        command.args(["-c", "user.name=Test", "-c", "user.email=test@localhost"]);
        command.args(args);
        self.start_command(command).finish().ok()
    }

    /// Filters that take paths, times and numbers of processes out of a snapshot.
    pub fn filters(&self) -> Vec<(String, &'static str)> {
        let literal = |path: &Path| path.display().to_string().replace('.', "\\.");
        vec![
            (literal(&self.real), "[ROOT]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "[TIME]"),
            (r"\bpid \d+".to_owned(), "pid [PID]"),
            (r"\b[0-9a-f]{32,64}\b".to_owned(), "[HASH]"),
        ]
    }
}

impl TestEnv {
    /// The living processes of this environment: those that carry its mark, and those that shed it but left
    /// their identity in scratch.
    fn alive(&self) -> Vec<Seen> {
        let mut alive = process::with_variable(MARK, &self.mark);
        let files = fs::read_dir(self.scratch()).into_iter().flatten().flatten();
        let named = files.filter_map(|file| process::read_identity(&file.path()));
        alive.extend(
            named.filter_map(|(pid, ticks)| process::look(pid).filter(|seen| seen.start_ticks == ticks)),
        );
        alive
    }
}

impl Drop for TestEnv {
    #[expect(
        clippy::print_stderr,
        reason = "whoever sees a test fail wants to know where its files are"
    )]
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let mut alive = Vec::new();
        // What is killed may have forked meanwhile, so it is looked again until nothing is found.
        for _ in 0..50 {
            alive = self.alive();
            if alive.is_empty() {
                break;
            }
            for seen in &alive {
                process::signal(seen.pid, Signal::SIGKILL);
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        if failed && let Some(root) = self.root.take() {
            eprintln!(
                "the environment of the failed test is kept in {}",
                root.keep().display()
            );
        } else if !alive.is_empty() {
            eprintln!("these processes could not be killed: {alive:#?}");
        }
    }
}

/// Reads a JSON file that must be there.
#[track_caller]
fn read_json(file: &Path) -> Value {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{} is no JSON: {error}", file.display()))
}

//! The figures that the project promises, measured beside what the machine itself takes.
//!
//! `cargo bench` prints them; nothing here fails on a slow machine. Each row names its bound, and what it
//! is made of is measured in the same run.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its table"
)]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WRAPPER: &str = env!("CARGO_BIN_EXE_pod-wrapper");
const PODD: &str = env!("CARGO_BIN_EXE_podd");
const PODCTL: &str = env!("CARGO_BIN_EXE_podctl");
const ROUNDS: usize = 25;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        let bench = Self { dir };
        let mut spawn = bench.command(PODCTL);
        spawn
            .args(["spawn", "--id", "p", "--park", "--project"])
            .arg(bench.project())
            .arg("a goal");
        assert!(Self::run(&mut spawn).success(), "podctl spawn");
        bench.unpark("p");
        bench
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("AGENTS_POD_HOME", self.home())
            .env("AGENTS_POD_PI_BIN", self.dir.path().join("agent"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn run(command: &mut Command) -> std::process::ExitStatus {
        command.status().unwrap()
    }

    fn agent(&self, script: &str) {
        let file = self.dir.path().join("agent");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn record_file(&self, id: &str) -> PathBuf {
        self.home().join("registry/pods").join(format!("{id}.json"))
    }

    fn record(&self, id: &str) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.record_file(id)).unwrap()).unwrap()
    }

    fn store(&self, id: &str, record: &serde_json::Value) {
        let temporary = self.dir.path().join("record");
        fs::write(&temporary, record.to_string()).unwrap();
        fs::rename(temporary, self.record_file(id)).unwrap();
    }

    fn unpark(&self, id: &str) {
        let mut record = self.record(id);
        record["state"] = "idle".into();
        record.as_object_mut().unwrap().remove("parked");
        self.store(id, &record);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn timed(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn status_kib(pid: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap_or(0)
}

fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "it took too long");
        pause(Duration::from_millis(1));
    }
}

fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

/// Runs to the end; returns the time it took and the most memory that it had, in KiB.
fn watched(mut child: Child) -> (Duration, u64) {
    let (start, mut most) = (Instant::now(), 0);
    loop {
        most = most.max(status_kib(child.id(), "VmHWM"));
        if child.try_wait().unwrap().is_some() {
            return (start.elapsed(), most);
        }
        pause(Duration::from_millis(2));
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn mib(kib: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mib = kib as f64 / 1024.0;
    format!("{mib:.1} MiB")
}

fn row(what: &str, measured: &str, bound: &str) {
    println!("| {what} | {measured} | {bound} |");
}

fn replace_durably(dir: &Path) {
    let (temporary, place) = (dir.join("new"), dir.join("file"));
    let mut file = File::create(&temporary).unwrap();
    file.write_all(&[b'x'; 1500]).unwrap();
    file.sync_all().unwrap();
    fs::rename(temporary, place).unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
}

fn empty_wake_up() {
    let bench = Bench::new();
    bench.agent("printf 'status: rotating\\n' >\"$AGENTS_POD_DOCS_DIR/HANDOFF.md\"");
    let (mut whole, mut agent, mut replace) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        whole.push(timed(|| {
            assert!(Bench::run(bench.command(WRAPPER).arg("p")).success())
        }));
        let mut alone = bench.command(bench.dir.path().join("agent").to_str().unwrap());
        let alone = alone.env("AGENTS_POD_DOCS_DIR", bench.dir.path());
        agent.push(timed(|| assert!(Bench::run(alone).success())));
        replace.push(timed(|| replace_durably(bench.dir.path())));
    }
    let (whole, agent, replace) = (median(whole), median(agent), median(replace));
    let own = whole.saturating_sub(agent);
    let bound = replace * 3 + Duration::from_millis(5);
    let parts = format!("3 durable replacements of {} + 5 ms = {}", ms(replace), ms(bound));
    row(
        "an empty wake-up, less its agent",
        &format!("{} (whole {}, agent {})", ms(own), ms(whole), ms(agent)),
        &parts,
    );
}

fn stream(name: &str, file: &Path, bench: &Bench) {
    let size = fs::metadata(file).unwrap().len();
    let copy = bench.dir.path().join("copy");
    let out = || Stdio::from(File::create(&copy).unwrap());
    let (cat, _) = watched(Command::new("cat").arg(file).stdout(out()).spawn().unwrap());
    bench.agent(&format!("cat '{}'", file.display()));
    let (time, most) = watched(bench.command(WRAPPER).arg("p").spawn().unwrap());
    let measured = format!("{} of memory, {} (cat: {})", mib(most), ms(time), ms(cat));
    row(&format!("{name}, {} MB", size / 1_000_000), &measured, "16 MiB");
}

fn streams() {
    let bench = Bench::new();
    let small = bench.dir.path().join("small");
    let mut file = BufWriter::new(File::create(&small).unwrap());
    let delta = "x".repeat(150);
    for n in 0..1_000_000 {
        let text = format!(r#"{{"type":"text_delta","contentIndex":0,"delta":"{delta}{n}"}}"#);
        writeln!(
            file,
            r#"{{"type":"message_update","assistantMessageEvent":{text}}}"#
        )
        .unwrap();
    }
    drop(file);
    stream("small records", &small, &bench);
    fs::remove_file(&small).unwrap();
    let long = bench.dir.path().join("long");
    let mut file = BufWriter::new(File::create(&long).unwrap());
    write!(
        file,
        r#"{{"type":"tool_execution_end","toolName":"bash","result":{{"content":[{{"type":"text","text":""#
    )
    .unwrap();
    for _ in 0..300_000 {
        file.write_all(&[b'y'; 1000]).unwrap();
    }
    writeln!(file, r#""}}]}}}}"#).unwrap();
    drop(file);
    stream("one line", &long, &bench);
}

fn idle_wrapper() {
    let bench = Bench::new();
    bench.agent("sleep 600");
    let mut wrapper = bench.command(WRAPPER).arg("p").spawn().unwrap();
    let beat = bench.project().join(".agents-pod/p/wrapper.json");
    until(|| {
        fs::read_to_string(&beat).is_ok_and(|text| text.contains("agentPid\": ") && !text.contains("null"))
    });
    pause(Duration::from_millis(300));
    let resident = status_kib(wrapper.id(), "VmRSS");
    Command::new("kill")
        .arg(wrapper.id().to_string())
        .status()
        .unwrap();
    wrapper.wait().unwrap();
    row("an idle wrapper", &mib(resident), "6 MiB");
}

fn cpu_ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn idle_podd() {
    let bench = Bench::new();
    let mut record = bench.record("p");
    record["nextWakeAt"] = "2099-01-01T00:00:00.000Z".into();
    for n in 0..1000 {
        let id = format!("p{n}");
        record["id"] = id.as_str().into();
        bench.store(&id, &record);
    }
    bench.agent("sleep 600");
    let mut podd = bench.command(PODD).spawn().unwrap();
    until(|| bench.home().join("podd.json").exists());
    pause(Duration::from_secs(3));
    let (before, window) = (cpu_ticks(podd.id()), Duration::from_secs(30));
    pause(window);
    let ticks = cpu_ticks(podd.id()) - before;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let share = ticks as f64 / window.as_secs_f64();
    row(
        "podd with 1,000 idle pods",
        &mib(status_kib(podd.id(), "VmRSS")),
        "20 MiB",
    );
    row("the same, of one core", &format!("{share:.2} %"), "0.5 %");
    let mut reactions = Vec::new();
    for n in 0..7 {
        let id = format!("p{n}");
        let mut record = bench.record(&id);
        record["nextWakeAt"] = "2020-01-01T00:00:00.000Z".into();
        reactions.push(timed(|| {
            bench.store(&id, &record);
            until(|| bench.record(&id)["state"] == "active");
        }));
    }
    row(
        "a changed record until its wake-up is claimed",
        &ms(median(reactions)),
        "100 ms",
    );
    podd.kill().unwrap();
    podd.wait().unwrap();
    let ids: Vec<String> = (0..7).map(|n| format!("p{n}")).chain(["p".to_owned()]).collect();
    Bench::run(bench.command(PODCTL).args(["cancel", "--wait"]).args(ids));
}

fn subagent_checkpoints() {
    let bench = Bench::new();
    let save = |sub: &str| {
        let mut command = bench.command(PODCTL);
        command
            .args(["checkpoint", "1", sub, r#"{"next_step":"go on"}"#])
            .current_dir(bench.project());
        command
    };
    let (mut one, mut replace) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(timed(|| assert!(Bench::run(&mut save("a")).success())));
        replace.push(timed(|| replace_durably(bench.dir.path())));
    }
    let bound = median(replace.clone()) * 2 + Duration::from_millis(5);
    row(
        "podctl checkpoint",
        &ms(median(one)),
        &format!(
            "2 durable replacements of {} + 5 ms = {}",
            ms(median(replace)),
            ms(bound)
        ),
    );
    let all = timed(|| {
        let children: Vec<Child> = (0..200)
            .map(|n| save(&format!("s{n}")).spawn().unwrap())
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    });
    row("200 at the same time", &ms(all), "2 s");
}

fn git(dir: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
    let mut command = Command::new("git");
    command.args(identity).args(args).current_dir(dir);
    assert!(Bench::run(command.stdout(Stdio::null()).stderr(Stdio::null())).success());
}

fn large_worktree() {
    let bench = Bench::new();
    let project = bench.project();
    for dir in 0..500 {
        let dir = project.join(format!("d{}/e{dir}", dir % 20));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..100 {
            fs::write(dir.join(file.to_string()), format!("{}{file}\n", dir.display())).unwrap();
        }
    }
    git(&project, &["init", "-q"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "one"]);
    fs::write(project.join("edited"), "x").unwrap();
    let index = project.join(".agents-pod/p/git-index");
    let look = pod_checkpoints::Look {
        limit: Duration::from_secs(60),
        mark: None,
    };
    let take = || {
        timed(|| {
            let repository = pod_checkpoints::Repository::find(&project, &look)
                .unwrap()
                .unwrap();
            let id = "p".parse().unwrap();
            let saved = repository
                .save_work(&id, 1, &index, pod_core::ByteSize::mib(10))
                .unwrap();
            assert!(matches!(saved, pod_checkpoints::Saving::Saved(_)));
        })
    };
    row("50,000 files kept, the first time", &ms(take()), "6 s");
    row(
        "the same, later",
        &ms(median((0..7).map(|_| take()).collect())),
        "300 ms",
    );
    let gates = "[gates.fast]\nsteps = [{ name = \"t\", run = \"true\" }]\n";
    fs::write(project.join("agents-pod.toml"), gates).unwrap();
    let run = |args: &[&str]| assert!(Bench::run(bench.command(PODCTL).args(args)).success(), "{args:?}");
    run(&["gate", "reload", "p"]);
    let status = || timed(|| run(&["gate", "status", "p"]));
    row(
        "podctl gate status of the same, the first time",
        &ms(status()),
        "-",
    );
    row(
        "the same, later",
        &ms(median((0..7).map(|_| status()).collect())),
        "300 ms",
    );
}

fn main() {
    println!("| what | measured | bound |\n|---|---|---|");
    empty_wake_up();
    subagent_checkpoints();
    large_worktree();
    idle_wrapper();
    streams();
    idle_podd();
}

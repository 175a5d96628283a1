//! `podctl demo`: a whole rotation, from a goal to `done`, in a home and a project of its own.

pub(crate) mod agent;
mod live;
mod podd;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pod_core::{HomeLayout, PodId, PodRecord, PodState, PolicyOverrides};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::Demo;
use crate::context::{self, Context};
use crate::fault::{Ended, Exit, Fault, Stop};
use crate::{spawn, ui};

use live::Live;
use podd::Podd;

const GOAL: &str = "Greet the world in three languages, one line each, in hello.txt.";

/// It takes a few seconds; a machine that needs longer than this is in trouble.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a look at the log may be old.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Plays the demo.
pub(crate) fn run(args: &Demo) -> Ended {
    if context::inside_wake_up() {
        let hint = "run it in a shell of your own";
        return Err(Fault::new("the demo starts a podd, which a wake-up must not", hint).into());
    }
    let interrupted = interruptions()?;
    let stage = Stage::build(args)?;
    let ended = play(&stage, &interrupted);
    match &ended {
        // Nobody reads on; the directory goes with the stage.
        Err(Stop::PipeClosed) => {}
        Ok(_) | Err(Stop::Fault(_)) => stage.close(args.keep)?,
    }
    ended
}

/// A flag that is raised when somebody wants us to end, so that podd and its wake-ups end with us.
fn interruptions() -> Result<Arc<AtomicBool>, Fault> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Fault::new("cannot trap signals", "try again").because(&error))?;
    }
    Ok(flag)
}

/// Where the demo plays.
struct Stage {
    root: tempfile::TempDir,
    context: Context,
    project: String,
    id: PodId,
}

impl Stage {
    fn build(args: &Demo) -> Result<Self, Fault> {
        let cannot = "cannot set up the demo";
        let hint = "set TMPDIR to a directory with some room";
        let failed = |error: std::io::Error| Fault::new(cannot, hint).because(&error);
        let root = tempfile::Builder::new()
            .prefix("agents-pod-demo-")
            .tempdir()
            .map_err(failed)?;
        let real = root.path().canonicalize().map_err(failed)?;
        let (home, project) = (real.join("home"), real.join("project"));
        for directory in [&home, &project] {
            pod_disk::create_dirs(directory).map_err(|error| Fault::of(cannot, &error))?;
        }
        let home = HomeLayout::new(home);
        let pace = args
            .pace
            .map(|pace| format!("args = [\"--pace\", \"{pace}\"]\n"))
            .unwrap_or_default();
        std::fs::write(
            home.agents(),
            format!("[agents.default]\ntype = \"demo\"\n{pace}"),
        )
        .map_err(failed)?;
        // It needs next to nothing, so it plays on a machine that is nearly full as well.
        let config = "[podd]\nminFreeDisk = \"1MiB\"\nminFreeMemory = \"1MiB\"\n\n\
                      [policy]\nheartbeatInterval = \"1s\"\nwakeTimeout = \"1m\"\n";
        std::fs::write(home.config(), config).map_err(failed)?;
        init_git(&project);
        let project = project.into_os_string().into_string().map_err(|_| {
            Fault::new(cannot, hint).caused_by("the path of the temporary directory is not UTF-8")
        })?;
        let id: PodId = "demo"
            .parse()
            .map_err(|_| Fault::new(cannot, "please report this as a bug"))?;
        let context = Context::at(home);
        Ok(Self {
            root,
            context,
            project,
            id,
        })
    }

    fn record(&self) -> Result<PodRecord, Fault> {
        self.context.read(&self.id)
    }

    fn close(self, keep: bool) -> Result<(), Stop> {
        if keep {
            let path = pod_disk::shown(&self.root.keep());
            return ui::answer(&format!(
                "It is kept: AGENTS_POD_HOME={path}/home podctl show {}\n",
                self.id
            ));
        }
        ui::answer("All of it is removed again; `podctl demo --keep` leaves it for you to look at.\n")
    }
}

/// The project is a repository where there is git: most are.
fn init_git(project: &Path) {
    let mut git = Command::new("git");
    git.args(["init", "--quiet"]).current_dir(project);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    // Without git the demo is the same but for the repository.
    let _made = git
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn play(stage: &Stage, interrupted: &AtomicBool) -> Ended {
    let heading = |text: &str| ui::answer(&format!("{text}\n"));
    heading("A pod is work that lasts: a project, a goal, three documents. podd wakes its agent until the")?;
    heading("goal is reached, and judges every wake-up by what it left behind. Here is a whole one, played")?;
    heading("by a built-in agent that needs no key.\n")?;
    heading(&format!("goal: {GOAL}"))?;
    let podd = Podd::start(&stage.context, &stage.id)?;
    let policy = PolicyOverrides::default();
    let record = PodRecord::new(
        stage.id.clone(),
        stage.project.clone(),
        GOAL.to_owned(),
        policy,
        context::now(),
    );
    spawn::create(&stage.context.registry()?, &record)?;
    let record = follow(stage, &podd, interrupted)?;
    drop(podd);
    report::print(&record, stage.root.path())?;
    if record.state == PodState::Done {
        heading(&format!(
            "\nThe pod is done, after {} wake-ups.",
            record.wake_up_count
        ))?;
        return Ok(Exit::Done);
    }
    let why = format!("the demo's pod is {} and not done", record.state);
    Err(Fault::new(why, "run `podctl demo --keep` and look at its output.log").into())
}

/// Shows what the agent says until the pod is over.
fn follow(stage: &Stage, podd: &Podd, interrupted: &AtomicBool) -> Result<PodRecord, Stop> {
    let deadline = Instant::now() + PATIENCE;
    let mut live = Live::new(&stage.project, &stage.id);
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(
                Fault::new("the demo was interrupted", "run it again: it takes a few seconds").into(),
            );
        }
        podd.is_well()?;
        let record = stage.record()?;
        live.show()?;
        if crate::wait::is_over(&record) && record.current.is_none() && live.is_quiet() {
            live.show()?;
            return Ok(record);
        }
        if Instant::now() >= deadline {
            let hint = "run `podctl demo --keep` and look at its output.log, and run `podctl doctor`";
            return Err(Fault::new("the demo did not end in time", hint).into());
        }
        live.wait(LOOK_AGAIN);
    }
}

/// The name of a directory below the stage, for people.
fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

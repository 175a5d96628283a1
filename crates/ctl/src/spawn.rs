//! `podctl spawn`: a new pod.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pod_core::{By, GateState, ParkCode, PodId, PodLayout, PodRecord, PolicyOverrides, Stage};
use pod_disk::{DiskError, Durability};
use pod_reconcile::{Pinned, PodFiles};
use pod_registry::{ReadError, Registry, RegistryError};

use crate::args::Spawn;
use crate::context::{self, Context, LOCK_WAIT, Source};
use crate::fault::{Ended, Exit, Fault};
use crate::{gate, ui, wait};

const HANDOFF: &str = "Nobody has handed off yet: this pod has not been worked on.\n";

const TASKS: &str = "# Tasks\n\n\
    The plan of this pod. Each task is a line with a box in front, `- [ ]`, which becomes `- [x]` once it is done\n\
    and checked. Whoever wakes first writes the plan.\n";

const DECISIONS: &str = "# Decisions\n\n\
    What was decided and why, the newest last. Entries are added and not rewritten.\n";

/// How often an id that was made up may meet one that exists.
const TRIES: usize = 20;

/// Spawns a pod and prints its id.
pub(crate) fn run(context: &Context, args: &Spawn) -> Ended {
    let goal = match (&args.goal_file, &args.goal) {
        (Some(file), _) => Source::of_file(file),
        (None, goal) => Source::of_argument(goal.as_deref().unwrap_or_default()),
    };
    let goal = goal.read("the goal")?.trim().to_owned();
    let project = project(args.project.as_deref())?;
    let policy = policy(args)?;
    known_agent(context, &policy)?;
    let registry = context.registry()?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => free_id(&registry, &project, &goal)?,
    };
    let gates = gate::pin(Path::new(&project), &format!("cannot spawn pod `{id}`"))?;
    let mut record = record(id.clone(), project, goal, policy, args.park)?;
    name_unknown_stage_agents(context, gates.as_ref());
    record.stage = gates.as_ref().map(|_| Stage::Building);
    record.gates = gates;
    create(&registry, &record)?;
    ui::answer(&format!("{id}\n"))?;
    if args.wait {
        wait::until_done(context, &id)
    } else {
        Ok(Exit::Done)
    }
}

fn project(given: Option<&Path>) -> Result<String, Fault> {
    let given = given.unwrap_or(Path::new("."));
    let shown = pod_disk::shown(given);
    let real = given.canonicalize().map_err(|error| {
        Fault::new(
            format!("cannot use `{shown}` as the project"),
            "name a directory that exists",
        )
        .because(&error)
    })?;
    if !real.is_dir() {
        return Err(Fault::new(
            format!("`{shown}` is not a directory"),
            "name the project's directory",
        ));
    }
    real.into_os_string().into_string().map_err(|real| {
        Fault::new(
            format!("the path `{}` is not UTF-8", pod_disk::shown(Path::new(&real))),
            "rename the directory: its path has to stand in JSON",
        )
    })
}

fn policy(args: &Spawn) -> Result<PolicyOverrides, Fault> {
    let mut policy = PolicyOverrides::default();
    policy.agent.clone_from(&args.agent);
    policy.model.clone_from(&args.model);
    let asked = [
        ("maxWakeUps", "--max-wakeups", &args.max_wakeups),
        ("wakeTimeout", "--wake-timeout", &args.wake_timeout),
    ];
    for (key, flag, text) in asked {
        if let Some(text) = text {
            let refused = |error| Fault::of(format!("`{flag}` is not accepted"), &error).into_usage();
            policy.set(key, text).map_err(refused)?;
        }
    }
    Ok(policy)
}

/// Refuses an agent that nobody defined. A definition of an unknown type is refused by the wrapper.
fn known_agent(context: &Context, policy: &PolicyOverrides) -> Result<(), Fault> {
    let name = context.config()?.policy_for(policy).agent;
    context::defined(context, &name).map(drop)
}

/// Says which stage's agent nobody has defined yet.
fn name_unknown_stage_agents(context: &Context, gates: Option<&GateState>) {
    let pinned = gates.and_then(|state| Pinned::of(state).ok());
    let stages = pinned.map(|pinned| pinned.definitions.stages).unwrap_or_default();
    for (stage, name) in stages {
        if context::defined(context, &name).is_err() {
            ui::note(&format!(
                "stage {stage} names agent `{name}`, which is not defined: its wake-ups will fail until \
                 `podctl agent add {name} --type …`"
            ));
        }
    }
}

fn free_id(registry: &Registry, project: &str, goal: &str) -> Result<PodId, Fault> {
    for _ in 0..TRIES {
        let text = format!("{}{}", first_words(goal), context::random_letters(4)?);
        let Ok(id) = text.parse::<PodId>() else { continue };
        let free = matches!(registry.read(&id), Err(ReadError::Missing { .. }));
        if free && PodLayout::new(project, &id).root().symlink_metadata().is_err() {
            return Ok(id);
        }
    }
    Err(Fault::new("no free id was found", "name one with `--id`"))
}

/// The goal's first words as the beginning of an id, which ends in `-` unless it is empty.
fn first_words(goal: &str) -> String {
    const LONGEST: usize = 24;
    let mut text = String::new();
    let words = goal
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    for word in words.take(4) {
        let word = word.to_ascii_lowercase();
        if text.len() + word.len() > LONGEST {
            if text.is_empty() {
                text.push_str(&word[..LONGEST]);
                text.push('-');
            }
            break;
        }
        text.push_str(&word);
        text.push('-');
    }
    text
}

fn record(
    id: PodId,
    project: String,
    goal: String,
    policy: PolicyOverrides,
    park: bool,
) -> Result<PodRecord, Fault> {
    let now = context::now();
    let mut record = PodRecord::new(id, project, goal, policy, now);
    if park {
        let parked = record.park(ParkCode::Operator, None, By::Operator, now);
        parked.map_err(|error| Fault::of("cannot park the pod", &error))?;
    }
    Ok(record)
}

/// Makes the pod's files and its record, under its lock. The record is what makes it a pod.
pub(crate) fn create(registry: &Registry, record: &PodRecord) -> Result<(), Fault> {
    let id = &record.id;
    let cannot = || format!("cannot spawn pod `{id}`");
    let locked = registry
        .lock(id, LOCK_WAIT)
        .map_err(|error| Fault::of(cannot(), &error))?;
    match locked.read() {
        Err(ReadError::Missing { .. }) => {}
        Ok(_) => return Err(Fault::of(cannot(), &RegistryError::Exists { id: id.clone() })),
        Err(error) => return Err(Fault::of(cannot(), &error)),
    }
    let files = PodFiles::new(&record.project, id);
    claim_directory(&files).map_err(|refused| refused.fault(cannot()))?;
    let made = fill(&files).map_err(|error| Fault::of(cannot(), &error));
    let made = made.and_then(|()| locked.create(record).map_err(|error| Fault::of(cannot(), &error)));
    if made.is_err() {
        // It is ours: nobody but us made it, and without a record nobody uses it.
        let _removed = std::fs::remove_dir_all(files.layout().root());
    }
    made
}

enum Refused {
    Stands(PathBuf),
    Disk(DiskError),
}

impl Refused {
    fn fault(self, cannot: String) -> Fault {
        match self {
            Self::Stands(root) => {
                let root = pod_disk::shown(&root);
                Fault::new(cannot, format!("choose another id, or remove `{root}`"))
                    .caused_by(format!("`{root}` is there already"))
            }
            Self::Disk(error) => Fault::of(cannot, &error),
        }
    }
}

impl From<DiskError> for Refused {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Makes the pod's directory. Of two that try, one makes it: also two homes may share a project.
fn claim_directory(files: &PodFiles) -> Result<(), Refused> {
    let layout = files.layout();
    files.ensure_base()?;
    match DirBuilder::new().mode(0o700).create(layout.root()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Refused::Stands(layout.root().to_owned()))
        }
        Err(error) => Err(DiskError::new("create the directory", layout.root(), error).into()),
    }
}

fn fill(files: &PodFiles) -> Result<(), DiskError> {
    let layout = files.layout();
    for directory in [layout.docs(), layout.inbox(), layout.wakeups()] {
        files.create_dirs(&directory)?;
    }
    let documents = [
        (layout.handoff(), HANDOFF),
        (layout.tasks(), TASKS),
        (layout.decisions(), DECISIONS),
    ];
    for (place, text) in documents {
        files.write(&place, text.as_bytes(), Durability::Durable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pod_core::{HandoffHead, HomeLayout, parse_handoff};

    use super::*;

    struct Place {
        directory: tempfile::TempDir,
        registry: Registry,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let registry = Registry::open(HomeLayout::new(directory.path().join("home"))).unwrap();
            std::fs::create_dir(directory.path().join("project")).unwrap();
            Self { directory, registry }
        }

        fn project(&self) -> PathBuf {
            self.directory.path().join("project")
        }

        fn spawn(&self, id: &str) -> Result<(), Fault> {
            let project = self.project().to_str().unwrap().to_owned();
            let record = record(
                id.parse().unwrap(),
                project,
                "goal".into(),
                PolicyOverrides::default(),
                false,
            );
            create(&self.registry, &record?)
        }
    }

    #[test]
    fn ids_begin_with_the_goals_first_words() {
        for (goal, want) in [
            ("Fix the login page, please now", "fix-the-login-page-"),
            ("Überprüfe die Tests", "berpr-fe-die-tests-"),
            ("日本語", ""),
            ("x", "x-"),
            ("../../etc/passwd", "etc-passwd-"),
            ("Antidisestablishmentarianism", "antidisestablishmentaria-"),
        ] {
            assert_eq!(first_words(goal), want, "{goal}");
            assert!(
                format!("{}7k2m", first_words(goal)).parse::<PodId>().is_ok(),
                "{goal}"
            );
        }
    }

    #[test]
    fn a_pod_has_its_files_and_nobody_else_sees_them() {
        let place = Place::new();
        place.spawn("p").unwrap();
        let base = place.project().join(".agents-pod");
        assert_eq!(std::fs::read_to_string(base.join(".gitignore")).unwrap(), "*\n");
        for (path, mode) in [
            ("p", 0o700),
            ("p/docs", 0o700),
            ("p/inbox", 0o700),
            ("p/docs/HANDOFF.md", 0o600),
        ] {
            let found = std::fs::metadata(base.join(path)).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{path}");
        }
        assert!(matches!(
            parse_handoff(HANDOFF.as_bytes()),
            HandoffHead::Malformed(_)
        ));
        assert!(
            !TASKS.lines().any(|line| line.trim_start().starts_with("- [")),
            "no box is a task yet"
        );
    }

    #[test]
    fn an_id_is_taken_while_its_record_or_its_directory_stands() {
        let place = Place::new();
        place.spawn("p").unwrap();
        assert!(
            place
                .spawn("p")
                .unwrap_err()
                .text()
                .contains("pod `p` exists already")
        );
        place
            .registry
            .lock(&"p".parse().unwrap(), LOCK_WAIT)
            .unwrap()
            .remove()
            .unwrap();
        let text = place.spawn("p").unwrap_err().text();
        assert!(
            text.contains("is there already") && text.contains("hint: choose another id"),
            "{text}"
        );
        assert!(
            place.project().join(".agents-pod/p/docs/TASKS.md").exists(),
            "what stood there stays"
        );
    }

    #[test]
    fn no_symlink_is_followed() {
        let place = Place::new();
        let elsewhere = place.directory.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, place.project().join(".agents-pod")).unwrap();
        assert!(place.spawn("p").is_err());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_spawn_leaves_nothing_behind() {
        let place = Place::new();
        // A record that is set aside keeps its id: the files are made and the record is refused.
        std::fs::write(place.registry.home().quarantine().join("p.json"), "{").unwrap();
        place.spawn("p").unwrap_err();
        assert!(!place.project().join(".agents-pod/p").exists());
    }
}

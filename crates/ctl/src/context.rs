//! What every command starts from: the home, its registry and configuration, the time, and where we run.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pod_config::{AgentStore, Config, ConfigError};
use pod_core::{AgentDefinition, AgentName, HomeLayout, Liveness, PodId, PodRecord, Policy};
use pod_process::Identity;
use pod_registry::Registry;

pub(crate) use pod_reconcile::now;

use crate::fault::Fault;

/// How long a command waits for a lock of the registry.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(10);

/// No text that a person hands over is longer.
const LONGEST_TEXT: u64 = 64 << 20;

/// The home that a command works on.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    home: HomeLayout,
}

impl Context {
    /// Finds the home; nothing is created.
    pub(crate) fn find(flag: Option<&Path>) -> Result<Self, Fault> {
        let home = pod_config::home_layout(flag, &variable);
        let home = home.map_err(|error| Fault::of("cannot tell where the home is", &error))?;
        Ok(Self { home })
    }

    /// One that lies elsewhere.
    pub(crate) fn at(home: HomeLayout) -> Self {
        Self { home }
    }

    /// The places of the home.
    pub(crate) fn home(&self) -> &HomeLayout {
        &self.home
    }

    /// Opens the registry, creating its directories where they are missing.
    pub(crate) fn registry(&self) -> Result<Registry, Fault> {
        Registry::open(self.home.clone()).map_err(|error| Fault::of("cannot open the registry", &error))
    }

    /// Reads the configuration.
    pub(crate) fn config(&self) -> Result<Config, Fault> {
        let config = Config::load(&self.home, None, &variable);
        config.map_err(|error| Fault::of("cannot read the configuration", &error))
    }

    /// Reads the agent definitions.
    pub(crate) fn agents(&self) -> Result<AgentStore, Fault> {
        AgentStore::load(&self.home).map_err(|error| Fault::of("cannot read the agents", &error))
    }

    /// Reads a pod's record.
    pub(crate) fn read(&self, id: &PodId) -> Result<PodRecord, Fault> {
        let record = self.registry()?.read(id);
        record.map_err(|error| Fault::of(format!("cannot read pod `{id}`"), &error))
    }

    /// The policy that holds for a pod.
    pub(crate) fn policy(&self, record: &PodRecord) -> Result<Policy, Fault> {
        Ok(self.config()?.policy_for(&record.policy))
    }

    /// Whether a podd watches over this home.
    pub(crate) fn podd(&self) -> Podd {
        match podd_identity(&self.home) {
            Some(identity) if identity.liveness() == Liveness::Alive => Podd::Running { pid: identity.pid },
            // It holds the lock before its identity is written. The lock is looked at and not tried: a try
            // could make a podd that starts at this moment give up.
            Some(_) | None if lock_is_held(&self.home.podd_lock()) => Podd::Starting,
            Some(_) | None => Podd::Absent,
        }
    }
}

/// The definition of an agent; one that nobody wrote is refused.
pub(crate) fn defined(context: &Context, name: &AgentName) -> Result<AgentDefinition, Fault> {
    let agents = context.agents()?;
    let cannot = format!("cannot use agent `{name}`");
    match agents.get(name) {
        Ok(Some(definition)) => Ok(definition),
        Ok(None) => Err(Fault::of(
            cannot,
            &ConfigError::NoSuchAgent { name: name.clone() },
        )),
        Err(error) => Err(Fault::of(cannot, &error)),
    }
}

/// Whether a podd is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Podd {
    /// It is, with this pid.
    Running {
        /// Its process.
        pid: i32,
    },
    /// One holds the lock and has not said who it is.
    Starting,
    /// None is.
    Absent,
}

fn podd_identity(home: &HomeLayout) -> Option<Identity> {
    let text = fs::read(home.podd_identity()).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(Identity {
        pid: i32::try_from(value.get("pid")?.as_i64()?).ok()?,
        start_ticks: value.get("startTicks")?.as_u64()?,
        boot_id: value.get("bootId")?.as_str()?.to_owned(),
        pid_ns: value.get("pidNs")?.as_u64()?,
    })
}

fn lock_is_held(lock: &Path) -> bool {
    let (Ok(metadata), Ok(table)) = (fs::metadata(lock), fs::read_to_string("/proc/locks")) else {
        return false;
    };
    let suffix = format!(":{}", metadata.ino());
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1) == Some(&"FLOCK") && fields.get(5).is_some_and(|place| place.ends_with(&suffix))
    })
}

/// Reads one variable of the environment.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether this runs inside a wake-up.
pub(crate) fn inside_wake_up() -> bool {
    variable("AGENTS_POD_WAKE_TOKEN").is_some()
}

/// Draws characters for names that must not meet.
pub(crate) fn random_letters(count: usize) -> Result<String, Fault> {
    // Without `l`, `o`, `0` and `1`, which people mistake for one another.
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|error| {
        Fault::new("the system has no random bytes", "look at /dev/urandom").caused_by(error.to_string())
    })?;
    Ok(bytes
        .into_iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect())
}

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Argument(String),
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// A text, or `-` for standard input.
    pub(crate) fn of_argument(text: &str) -> Self {
        match text {
            "-" => Self::Stdin,
            _ => Self::Argument(text.to_owned()),
        }
    }

    /// A file, or `-` for standard input.
    pub(crate) fn of_file(path: &Path) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }

    /// Reads a text that must say something; `what` names it: `the goal`.
    pub(crate) fn read(&self, what: &str) -> Result<String, Fault> {
        let text = self.read_any(what)?;
        if text.trim().is_empty() {
            return Err(Fault::new(
                format!("{what} is empty"),
                "say in a sentence what you want",
            ));
        }
        Ok(text)
    }

    /// Reads a text, and takes one that was cut in the middle of a character.
    pub(crate) fn read_lossily(&self, what: &str) -> Result<String, Fault> {
        let (bytes, _) = self.bytes(what)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a text.
    pub(crate) fn read_any(&self, what: &str) -> Result<String, Fault> {
        let (bytes, place) = self.bytes(what)?;
        String::from_utf8(bytes).map_err(|error| {
            Fault::new(format!("{what} from {place} is not UTF-8"), "convert it first")
                .because(&error.utf8_error())
        })
    }

    fn bytes(&self, what: &str) -> Result<(Vec<u8>, String), Fault> {
        let mut bytes = Vec::new();
        let (read, place) = match self {
            Self::Argument(text) => return Ok((text.clone().into_bytes(), "the command line".to_owned())),
            Self::Stdin => {
                let read = std::io::stdin().lock().take(LONGEST_TEXT).read_to_end(&mut bytes);
                (read, "stdin".to_owned())
            }
            Self::File(path) => {
                let file = fs::File::open(path);
                let read = file.and_then(|file| file.take(LONGEST_TEXT).read_to_end(&mut bytes));
                (read, format!("`{}`", pod_disk::shown(path)))
            }
        };
        read.map_err(|error| {
            Fault::new(
                format!("cannot read {what} from {place}"),
                format!("look at {place}"),
            )
            .because(&error)
        })?;
        Ok((bytes, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_seen_without_being_tried() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::at(HomeLayout::new(directory.path()));
        assert_eq!(context.podd(), Podd::Absent);
        let lock = pod_disk::FileLock::try_take(&context.home().podd_lock(), pod_disk::LockMode::Exclusive);
        let lock = lock.unwrap().unwrap();
        assert_eq!(context.podd(), Podd::Starting);
        lock.unlock();
        assert_eq!(context.podd(), Podd::Absent);
    }

    #[test]
    fn a_dead_podd_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::at(HomeLayout::new(directory.path()));
        let me = Identity::of_self().unwrap();
        let write = |ticks: u64| {
            let value = serde_json::json!({
                "pid": me.pid, "startTicks": ticks, "bootId": me.boot_id, "pidNs": me.pid_ns,
            });
            fs::write(context.home().podd_identity(), value.to_string()).unwrap();
        };
        write(me.start_ticks);
        assert_eq!(context.podd(), Podd::Running { pid: me.pid });
        write(me.start_ticks + 1);
        assert_eq!(context.podd(), Podd::Absent);
    }

    #[test]
    fn an_empty_text_is_refused_and_a_dash_is_stdin() {
        let fault = Source::of_argument(" \n").read("the goal").unwrap_err();
        assert!(
            fault.text().starts_with("error: the goal is empty\n"),
            "{}",
            fault.text()
        );
        assert_eq!(Source::of_argument("-"), Source::Stdin);
        assert_eq!(Source::of_file(Path::new("-")), Source::Stdin);
    }
}

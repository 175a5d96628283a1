//! What can be wrong with a home or a file, and the way out of each.

use std::io;
use std::path::PathBuf;

use pod_core::{AgentName, PolicyError};
use pod_disk::{DiskError, LockError, shown};

/// Why no home was found.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No variable says where it could be.
    #[error("no home directory: neither AGENTS_POD_HOME, XDG_STATE_HOME nor HOME is an absolute path")]
    Nowhere,
    /// A path that was named cannot be made absolute.
    #[error("`{}` cannot be the home", shown(path))]
    Unusable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl HomeError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> String {
        "set AGENTS_POD_HOME, or pass `--home DIR`, with an absolute path".to_owned()
    }
}

/// Why one agent definition cannot be used. The others can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent `{name}` in `{}` {why}", shown(file))]
pub struct AgentError {
    /// The file.
    pub file: PathBuf,
    /// The entry's name, with control characters escaped.
    pub name: String,
    /// What is wrong, as the end of a sentence that begins with the agent.
    pub why: String,
    /// The key that was most likely meant, if one was misspelt.
    pub nearest: Option<&'static str>,
}

/// Why a configuration was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody else is changing the file.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file is not TOML.
    #[error("`{}` is not valid TOML in line {line}: {why}", shown(file))]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A table or key at the top that means nothing.
    #[error("`{}` has no place for `{key}`", shown(file))]
    UnknownTable {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// Something that ought to be a table is none, or the other way round.
    #[error("`{key}` in `{}` must be {expected}", shown(file))]
    Shape {
        /// The file.
        file: PathBuf,
        /// The key, with its table.
        key: String,
        /// What it ought to be.
        expected: &'static str,
    },
    /// A setting that was refused.
    #[error("cannot use table `{table}` of `{}`", shown(file))]
    Setting {
        /// The file.
        file: PathBuf,
        /// The table.
        table: &'static str,
        /// Another table that has a key of this name.
        elsewhere: Option<&'static str>,
        /// What is wrong with it.
        source: PolicyError,
    },
    /// An agent definition that cannot be used.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// An agent of this name exists.
    #[error("agent `{name}` exists already")]
    AgentExists {
        /// The agent.
        name: AgentName,
    },
    /// There is no agent of this name.
    #[error("there is no agent `{name}`")]
    NoSuchAgent {
        /// The agent.
        name: AgentName,
    },
}

impl ConfigError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(error) | Self::Lock(LockError::Disk(error)) => {
                format!(
                    "check `{}`: the file, its permissions and the room on its disk",
                    shown(&error.path)
                )
            }
            Self::Lock(LockError::Busy { .. }) => "try again".to_owned(),
            Self::Syntax { file, .. } | Self::Shape { file, .. } => {
                format!("correct `{}` by hand", shown(file))
            }
            Self::UnknownTable {
                nearest: Some(nearest),
                ..
            } => format!("did you mean `{nearest}`?"),
            Self::UnknownTable { file, .. } => format!("remove it from `{}`", shown(file)),
            Self::Setting {
                elsewhere: Some(table),
                ..
            } => format!("it belongs under `[{table}]`"),
            Self::Setting {
                source:
                    PolicyError::UnknownKey {
                        nearest: Some(nearest),
                        ..
                    },
                ..
            } => {
                format!("did you mean `{nearest}`?")
            }
            Self::Setting {
                source: PolicyError::UnknownKey { .. },
                ..
            } => "`podctl config show` lists every setting".to_owned(),
            Self::Setting { file, .. } => format!("correct it in `{}`", shown(file)),
            Self::Agent(AgentError {
                nearest: Some(nearest),
                ..
            }) => format!("did you mean `{nearest}`?"),
            Self::Agent(error) => format!("correct the entry in `{}`", shown(&error.file)),
            Self::AgentExists { name } => {
                format!("choose another name, or remove it first with `podctl agent rm {name}`")
            }
            Self::NoSuchAgent { .. } => "`podctl agent ls` shows the agents that exist".to_owned(),
        }
    }
}

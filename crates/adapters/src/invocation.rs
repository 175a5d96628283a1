//! How an agent is started, as data.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use pod_core::AgentType;

use crate::EventReader;

/// What a wake-up asks of an adapter.
#[derive(Debug, Clone, Copy)]
pub struct WakeSpec<'a> {
    /// The prompt, whole.
    pub prompt: &'a str,
    /// The file that holds the same prompt.
    pub prompt_file: &'a Path,
    /// The wake-up's own directory, where an adapter may ask for files.
    pub wakeup_dir: &'a Path,
    /// The directory of the pod's three documents.
    pub docs_dir: &'a Path,
    /// The session that the agent opens.
    pub session: &'a SessionPlan,
    /// The model, if the CLI's own default is not wanted.
    pub model: Option<&'a str>,
    /// The definition's arguments, which stand behind the adapter's own.
    pub extra_args: &'a [String],
}

/// The session that the agent opens, for a CLI that takes a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionPlan {
    /// A new one, at this path.
    Fresh {
        /// Where it is written.
        path: PathBuf,
    },
    /// The one that a lost wake-up left at this path.
    Continue {
        /// Where it lies.
        path: PathBuf,
    },
}

impl SessionPlan {
    /// Where the session lies, or will.
    pub fn path(&self) -> &Path {
        match self {
            Self::Fresh { path } | Self::Continue { path } => path,
        }
    }
}

/// Which program an adapter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramPlan {
    /// The CLI of this name, unless the definition or the environment names another.
    Named(&'static str),
    /// The one that the definition names. A definition that names none cannot be started.
    FromDefinition,
    /// podctl itself.
    Podctl,
}

/// What an agent finds on its stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinPlan {
    /// Nothing: it ends at once.
    Null,
    /// This file from its beginning, behind which it ends.
    ///
    /// A file and not bytes: nothing has to be written to an agent that may never read, and a prompt of
    /// megabytes is not held in memory.
    File(PathBuf),
}

/// What an agent's stdout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdoutPlan {
    /// A pipe.
    Pipe,
    /// A regular file, for a CLI that loses output on a pipe.
    File,
}

/// How an agent is started: everything but its program, its cwd and what every agent gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// Variables that its CLI needs to run unattended. What the definition sets wins over them, but never
    /// over one that begins with `AGENTS_POD_`.
    pub env_set: Vec<(String, OsString)>,
    /// Variables that its CLI must not see, beside [`scrubbed_variables`](crate::scrubbed_variables).
    pub env_remove: Vec<String>,
    /// Its stdin.
    pub stdin: StdinPlan,
    /// Its stdout.
    pub stdout: StdoutPlan,
    /// Files to be written with mode 0600 before the start.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

impl AgentCommand {
    /// A command of nothing but arguments: no stdin, stdout a pipe.
    pub(crate) fn of_args(args: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            args: args.into_iter().collect(),
            env_set: Vec::new(),
            env_remove: Vec::new(),
            stdin: StdinPlan::Null,
            stdout: StdoutPlan::Pipe,
            files: Vec::new(),
        }
    }

    /// The same with the prompt's file named in the environment.
    pub(crate) fn with_prompt_variable(mut self, spec: &WakeSpec<'_>) -> Self {
        let variable = "AGENTS_POD_PROMPT_FILE".to_owned();
        self.env_set.push((variable, spec.prompt_file.into()));
        self
    }
}

/// Why a wake-up cannot be put into a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The CLI takes the prompt as an argument only, and the kernel takes none of that length.
    #[error("the prompt of {bytes} bytes does not fit into an argument, which holds {limit} at most")]
    PromptTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
}

/// Finds a time zone when one is needed: few streams say a time of day, and looking for the system's zone
/// takes longer than the rest of a short wake-up.
pub type ZoneSource = fn() -> TimeZone;

/// What is known about one agent CLI.
pub trait Adapter: Sync {
    /// The type that agents.toml names.
    fn agent_type(&self) -> AgentType;

    /// Which program it runs.
    fn program(&self) -> ProgramPlan;

    /// The name that is looked for in `$PATH`, where the CLI has one.
    fn default_binary(&self) -> Option<&'static str> {
        match self.program() {
            ProgramPlan::Named(name) => Some(name),
            ProgramPlan::FromDefinition | ProgramPlan::Podctl => None,
        }
    }

    /// Describes the command of a wake-up.
    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError>;

    /// Makes a reader for the lines of one wake-up; `zone` finds the one in which the CLI says times of day.
    fn reader(&self, zone: ZoneSource) -> Box<dyn EventReader + Send>;

    /// Returns the piece of an unfinished message that a raw line holds.
    ///
    /// For whoever kept no pieces and wants to print at the end what a cut stream left unfinished.
    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>>;
}

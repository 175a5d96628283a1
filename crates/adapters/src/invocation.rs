//! How an agent is started, as data.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use pod_core::{AgentType, FinalError, Usage};

use crate::EventReader;
use crate::preflight::{Finding, Machine};

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
    /// The MCP server that is attached, for a CLI that has no extension of ours.
    pub server: Option<Server<'a>>,
}

impl WakeSpec<'_> {
    /// Whether the definition's arguments have one of these flags: ours, which excludes it, is left out then.
    pub(crate) fn has_flag(&self, flags: &[&str]) -> bool {
        self.extra_args.iter().any(|arg| {
            let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
            flags.contains(&name)
        })
    }

    /// Refuses a prompt that is longer than the CLI takes, which `what` names.
    pub(crate) fn refuse_longer(
        &self,
        what: &'static str,
        length: usize,
        limit: usize,
    ) -> Result<(), CommandError> {
        if length > limit {
            return Err(CommandError::PromptRefused { what, length, limit });
        }
        Ok(())
    }
}

/// The session that the agent opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionPlan {
    /// A new one.
    Fresh {
        /// Where it is written, by a CLI that takes a path.
        path: PathBuf,
        /// Its id, for a CLI that takes one: a version 4 UUID.
        id: String,
    },
    /// The one that a lost wake-up left.
    Continue {
        /// Where it lies, for a CLI that took a path.
        path: PathBuf,
        /// Its id, where the CLI knows its sessions by one.
        id: String,
    },
}

impl SessionPlan {
    /// Where the session lies, or will.
    pub fn path(&self) -> &Path {
        match self {
            Self::Fresh { path, .. } | Self::Continue { path, .. } => path,
        }
    }
}

/// How a CLI knows its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// There are none that could be continued.
    None,
    /// By a path that we give.
    Path,
    /// By an id that we give.
    GivenId,
    /// By an id that it prints.
    PrintedId,
}

/// Our own program, by which an agent hands over.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// podctl.
    pub podctl: &'a str,
    /// The variables that it needs, all of which the agent gets.
    pub variables: &'a [&'a str],
}

/// A directory of the user's configuration as one wake-up sees it: everything in it linked, one file changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// The user's directory, below the home.
    pub of: &'static str,
    /// The directory that is made.
    pub at: PathBuf,
    /// Directories below it in which the CLI keeps what outlives a wake-up; they are made if they are not there.
    pub kept: &'static [&'static str],
    /// The JSON file in it that is changed.
    pub file: &'static str,
    /// What is merged into that file's object, key by key, two levels deep.
    pub merge: serde_json::Value,
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
#[derive(Debug, Clone, PartialEq)]
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
    /// A directory of the user's configuration that the CLI sees in another shape.
    pub overlay: Option<Overlay>,
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
            overlay: None,
        }
    }

    /// The same with the prompt on stdin, where it has no limit of length and shows in no process list.
    pub(crate) fn with_prompt_on_stdin(mut self, spec: &WakeSpec<'_>) -> Self {
        self.stdin = StdinPlan::File(spec.prompt_file.to_owned());
        self
    }

    /// The same with these variables.
    pub(crate) fn with_env(mut self, variables: &[(&str, &str)]) -> Self {
        let set = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()));
        self.env_set.extend(set);
        self
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
    /// The CLI itself refuses a prompt of that length, or cuts it.
    #[error("the prompt of {length} {what} is longer than this CLI takes, which is {limit} at most")]
    PromptRefused {
        /// What is counted.
        what: &'static str,
        /// How long it is.
        length: usize,
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

    /// How it knows its sessions.
    fn sessions(&self) -> SessionKind;

    /// Where the native program lies as seen from the directory of a launcher that would orphan it when it is
    /// killed. The first that exists is run in the launcher's place.
    fn native_programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Makes a reader for the lines of one wake-up; `zone` finds the one in which the CLI says times of day.
    ///
    /// `recorded` is what earlier wake-ups of the same session are known to have used: a CLI that counts by
    /// session has that in its figures.
    fn reader(&self, zone: ZoneSource, recorded: Usage) -> Box<dyn EventReader + Send>;

    /// Judges an exit before the first line, by what the CLI's documentation says of the code, or by stderr.
    fn start_error(&self, _code: i32, _stderr: &str) -> Option<FinalError> {
        None
    }

    /// What a machine lacks for this CLI to run, as far as it can be told without running it.
    fn preflight(&self, _machine: &Machine<'_>) -> Vec<Finding> {
        Vec::new()
    }

    /// Returns the piece of an unfinished message that a raw line holds.
    ///
    /// For whoever kept no pieces and wants to print at the end what a cut stream left unfinished.
    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>>;
}

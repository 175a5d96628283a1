//! The command line, as types. The doc comments are the help.

mod gates;
mod waves;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pod_core::{AgentName, PodId, PodState, Span};

pub(crate) use gates::{Decisions, GateCommand, Retry};
pub(crate) use waves::{Checkpoint, Judge, OneSub, WaveCommand};

/// Keep AI coding agents at work while nobody watches
///
/// A pod is a lasting piece of work: a project, a goal and three documents. podd wakes its agent again and
/// again until the goal is reached, and podctl is how a person or an agent steers it.
#[derive(Debug, Parser)]
#[command(
    name = "podctl",
    version,
    arg_required_else_help = false,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Use this home instead of $AGENTS_POD_HOME
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a new pod and print its id
    Spawn(Spawn),
    /// Wake a pod now, with or without podd
    ///
    /// A parked pod is unparked first. Backoff and maxConcurrent are ignored; minFreeDisk and minFreeMemory
    /// are not. Inside a wake-up it only makes the pod due, for podd to start.
    Wake(Wake),
    /// End pods for good, whatever they are doing
    ///
    /// The wish is written down first, so that it survives whatever dies in between. A running agent gets
    /// SIGTERM, and SIGKILL after `cancelGrace`.
    Cancel(Cancel),
    /// Stop waking pods; a wake-up that runs goes on
    Park(Park),
    /// List pods
    Ls(Ls),
    /// Show one pod: where it stands, why, and what to do next
    Show(Show),
    /// Print what the agents said
    ///
    /// Prints output.log, whose lines are harmless in every terminal. With `--json` each line is
    /// {"wakeUp":N,"line":"…"}, or {"wakeUp":N,"event":{…}} for `--events`.
    Logs(Logs),
    /// Wait until pods are terminal or parked
    ///
    /// Exits 0 if all end done, 3 if one ends cancelled or parked, and 124 if the time is up before.
    Wait(Wait),
    /// Unpark pods and forgive their failures
    Resume(Ids),
    /// Leave a message for a pod's next wake-up
    Send(Send),
    /// Change a pod's goal or policy
    Edit(Edit),
    /// Say what podd would do now, and why, without doing it
    Plan(Format),
    /// Remove terminal pods
    ///
    /// Without `--purge` the pod's directory in its project stays, and its id stays taken.
    Rm(Rm),
    /// Define agents
    Agent {
        /// What to do.
        #[command(subcommand)]
        command: AgentCommand,
    },
    /// Look at the configuration
    Config {
        /// What to do.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Hand off to the next wake-up (for agents)
    ///
    /// Writes HANDOFF.md of the wake-up that this runs in. Anywhere else it is an error.
    Handoff(Handoff),
    /// Save what a subagent or a wake-up knows (for agents)
    ///
    /// `podctl checkpoint WAVE SUB JSON` keeps up to 4096 bytes for a subagent, in the project that
    /// $AGENTS_POD_PARENT_PROJECT_ROOT names, else the one around the current directory. Look for `last_action`,
    /// `next_step`, `files_created`, `files_modified`, `commits_made`, `tool_use_count` and `blockers`.
    /// `podctl checkpoint --save FILE` keeps a text for the wake-up that this runs in.
    Checkpoint(Checkpoint),
    /// Look after waves of subagents
    Wave {
        /// What to do.
        #[command(subcommand)]
        command: WaveCommand,
    },
    /// Run the gates of a pod, and see what they came to
    Gate {
        /// What to do.
        #[command(subcommand)]
        command: GateCommand,
    },
    /// Rerun a gate of a pod and go on from there
    ///
    /// Exits 0 if it passes, else 3. It is the operator's word that the work of the stage is done. A pod that podd parked is unparked; a worktree
    /// that breaks its rules stays parked, and no gate is run.
    Retry(Retry),
    /// Print what was decided about a gated pod, and why
    Decisions(Decisions),
    /// Serve handoff and checkpoint to an agent, as an MCP server on stdio
    ///
    /// pod-wrapper attaches it to the agents that it starts. It offers `pod_handoff`, `pod_checkpoint` and
    /// `pod_status`, which work inside a wake-up alone.
    Mcp,
    /// Check home, podd, agents, disk and cgroup, and say what to do
    Doctor(Format),
    /// Play a whole rotation to `done` with a built-in agent, no API key
    Demo(Demo),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory
    Man {
        /// Where to write them; it is created if it is missing
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Be the agent of `podctl demo`
    #[command(hide = true)]
    DemoAgent {
        /// How long it thinks between two messages
        #[arg(long, value_name = "DUR")]
        pace: Option<Span>,
    },
}

/// Pods by name.
#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// The pods
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<PodId>,
}

/// How to answer.
#[derive(Debug, Args, Clone, Copy)]
pub(crate) struct Format {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Spawn {
    /// The project directory; the current one if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// The pod's id; made of the goal's first words if not given
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<PodId>,
    /// The agent that works on it
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<AgentName>,
    /// The model that the agent asks for
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Do not wake it until it is resumed
    #[arg(long)]
    pub(crate) park: bool,
    /// Park it after so many wake-ups
    #[arg(long, value_name = "N")]
    pub(crate) max_wakeups: Option<String>,
    /// End a wake-up that runs longer
    #[arg(long, value_name = "DUR")]
    pub(crate) wake_timeout: Option<String>,
    /// Wait until it is terminal or parked; exit 0 only if it ends done
    #[arg(long)]
    pub(crate) wait: bool,
    /// Read the goal from a file
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub(crate) goal_file: Option<PathBuf>,
    /// What is to be reached; `-` reads it from stdin
    #[arg(value_name = "GOAL", required_unless_present = "goal_file")]
    pub(crate) goal: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Wake {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    /// Continue the session of a wake-up that was lost
    #[arg(long)]
    pub(crate) warm: bool,
    /// Run this agent, this time
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<AgentName>,
    /// Wake it although a limit holds its account back
    #[arg(long)]
    pub(crate) force: bool,
    /// Wait until the wake-up has ended; exit 3 if it failed
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) pods: Ids,
    /// Wait until nothing of them runs any more
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Park {
    #[command(flatten)]
    pub(crate) pods: Ids,
    /// Why, for whoever looks
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only pods in this state; may be given again
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<PodState>,
    /// Only pods of this project
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// How many lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    All,
    Last(usize),
}

fn lines(text: &str) -> Result<Lines, String> {
    match text {
        "all" => Ok(Lines::All),
        _ => text
            .parse()
            .map(Lines::Last)
            .map_err(|_| "give a number of lines, or `all`".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    /// Go on until the pod, or the wake-up, has ended
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only this wake-up
    #[arg(long = "wake", value_name = "N")]
    pub(crate) wake_up: Option<u32>,
    /// The agent's own records (events.jsonl) of the last wake-up, or of `--wake N`
    #[arg(long)]
    pub(crate) events: bool,
    /// The last so many lines, or `all`; 100 if not given, `all` beside --wake or --events
    #[arg(short = 'n', long, value_name = "LINES", value_parser = lines)]
    pub(crate) lines: Option<Lines>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) pods: Ids,
    /// Give up after so long, such as 90s or 2h
    #[arg(long, value_name = "DUR")]
    pub(crate) timeout: Option<Span>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    /// The message; `-` reads it from stdin
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: String,
}

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The pod
    #[arg(value_name = "ID")]
    pub(crate) id: PodId,
    /// What is to be reached
    #[arg(long, value_name = "GOAL", allow_hyphen_values = true)]
    pub(crate) goal: Option<String>,
    /// The agent that works on it
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<AgentName>,
    /// The model that the agent asks for
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Set a key of its policy; `podctl config show` lists them
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) sets: Vec<(String, String)>,
    /// Let a key of its policy follow the configuration again
    #[arg(long = "unset", value_name = "KEY")]
    pub(crate) unsets: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// As [`pair`], without the text in any message: the value may be a secret.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    pub(crate) pods: Ids,
    /// Remove their directories too: documents, logs and sessions
    #[arg(long)]
    pub(crate) purge: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Add a definition to agents.toml
    Add(AgentAdd),
    /// List the agents
    Ls(Format),
    /// Show one agent
    Show {
        /// The agent
        #[arg(value_name = "NAME")]
        name: AgentName,
        #[command(flatten)]
        format: Format,
    },
    /// Remove a definition from agents.toml
    Rm {
        /// The agent
        #[arg(value_name = "NAME")]
        name: AgentName,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AgentAdd {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: AgentName,
    /// Its type: pi, claude, codex, gemini, opencode, command or demo
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: String,
    /// The model that it asks for
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Its program: an absolute path, or a name for $PATH
    #[arg(long, value_name = "BINARY")]
    pub(crate) binary: Option<String>,
    /// An argument behind the type's own; may be given again
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
    /// A variable for it; may be given again. Its value is never shown
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Role text for its prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) instructions: Option<String>,
    /// A file with role text for its prompt
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub(crate) instructions_file: Option<String>,
    /// Whose limits it shares; its type's if not given
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) account: Option<String>,
    /// Put it in the place of one of the same name
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what holds
    Show {
        /// Say who said so
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        format: Format,
    },
}

/// What a handoff declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    /// Another session has to go on
    Rotating,
    /// The whole goal is reached and checked
    Done,
}

#[derive(Debug, Args)]
pub(crate) struct Handoff {
    /// What it declares
    #[arg(long, value_enum)]
    pub(crate) status: Status,
    /// What is done, what is not, and what to do next
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "file"
    )]
    pub(crate) summary: Option<String>,
    /// A file with that text; `-` reads it from stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep its home and project, to look around
    #[arg(long)]
    pub(crate) keep: bool,
    /// How long its agent thinks between two messages
    #[arg(long, value_name = "DUR", hide = true)]
    pub(crate) pace: Option<Span>,
}

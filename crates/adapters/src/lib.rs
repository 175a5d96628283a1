//! What is known about each agent CLI: how it is started, and what its lines mean.
//!
//! One module a CLI, all of one shape; a new one is its file and a row in [`adapter`]. Nothing here starts
//! a process or touches a file: a command is described and lines are read, whoever runs them.

mod command;
mod demo;
mod invocation;
mod pi;
mod question;
mod reader;
mod scrub;

use pod_core::AgentType;

pub use invocation::{
    Adapter, AgentCommand, CommandError, ProgramPlan, SessionPlan, StdinPlan, StdoutPlan, WakeSpec,
    ZoneSource,
};
pub use question::question_in;
pub use reader::{EventReader, Line, LineKind, TextSink};
pub use scrub::scrubbed_variables;

/// Returns the adapter of a type.
pub fn adapter(kind: AgentType) -> &'static dyn Adapter {
    match kind {
        AgentType::Pi => &pi::Pi,
        AgentType::Command => &command::Command,
        AgentType::Demo => &demo::Demo,
    }
}

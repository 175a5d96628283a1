//! Any program.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use pod_core::AgentType;

use crate::pi::{Pi, PiReader};
use crate::{Adapter, AgentCommand, CommandError, EventReader, ProgramPlan, WakeSpec};

/// Any program, which the definition names.
pub(crate) struct Command;

impl Adapter for Command {
    fn agent_type(&self) -> AgentType {
        AgentType::Command
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::FromDefinition
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        let args = spec.extra_args.iter().map(Into::into).collect();
        let mut command = AgentCommand::of_args(args);
        command
            .env_set
            .push(("AGENTS_POD_PROMPT_FILE".to_owned(), spec.prompt_file.into()));
        Ok(command)
    }

    fn reader(&self, _zone: TimeZone) -> Box<dyn EventReader + Send> {
        Box::new(PiReader::default())
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        Pi.delta_text(line)
    }
}

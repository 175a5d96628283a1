//! The built-in agent of `podctl demo`, which needs no key.

use std::borrow::Cow;

use pod_core::{AgentType, Usage};

use crate::pi::Pi;
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, ProgramPlan, SessionKind, WakeSpec, ZoneSource,
};

/// The built-in agent; its stream has pi's shape.
pub(crate) struct Demo;

impl Adapter for Demo {
    fn agent_type(&self) -> AgentType {
        AgentType::Demo
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Podctl
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        let own = std::iter::once("demo-agent".into());
        let args = own.chain(spec.extra_args.iter().map(Into::into));
        Ok(AgentCommand::of_args(args).with_prompt_variable(spec))
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::None
    }

    fn reader(&self, zone: ZoneSource, recorded: Usage) -> Box<dyn EventReader + Send> {
        Pi.reader(zone, recorded)
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        Pi.delta_text(line)
    }
}

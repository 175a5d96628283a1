//! The pi coding agent, from 0.73 on.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use pod_core::{AgentType, EventFacts, Usage};

use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Line, LineKind, ProgramPlan, TextSink, WakeSpec,
};

/// The pi coding agent.
pub(crate) struct Pi;

impl Adapter for Pi {
    fn agent_type(&self) -> AgentType {
        AgentType::Pi
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Named("pi")
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        Ok(AgentCommand::of_args(vec![spec.prompt.into()]))
    }

    fn reader(&self, _zone: TimeZone) -> Box<dyn EventReader + Send> {
        Box::new(PiReader::default())
    }

    fn delta_text<'a>(&self, _line: &'a [u8]) -> Option<Cow<'a, str>> {
        None
    }
}

/// Reads pi's stream.
#[derive(Default)]
pub(crate) struct PiReader {
    facts: EventFacts,
}

impl EventReader for PiReader {
    fn line(&mut self, _line: &Line<'_>, _text: &mut dyn TextSink) -> LineKind {
        self.facts.lines += 1;
        LineKind::NotJson
    }

    fn facts(&self) -> EventFacts {
        self.facts.clone()
    }

    fn settled(&self) -> bool {
        false
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn tool_running(&self) -> bool {
        false
    }
}

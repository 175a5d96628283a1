//! Any program.
//!
//! Its stdout may be pi's, and then it is judged as pi is; otherwise it is plain text, of which nothing is
//! expected and a question in its last line is all that counts.

use std::borrow::Cow;

use pod_core::{AgentType, EventFacts, Terminal, Usage};

use crate::pi::{Pi, PiReader};
use crate::question::{LOOKED_AT, question_of};
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Line, LineKind, ProgramPlan, SessionKind, TextSink,
    WakeSpec, ZoneSource,
};

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
        let args = spec.extra_args.iter().map(Into::into);
        Ok(AgentCommand::of_args(args).with_prompt_variable(spec))
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::None
    }

    fn reader(&self, zone: ZoneSource, _recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(CommandReader {
            pi: PiReader::new(zone),
            records: false,
            last: Vec::new(),
        })
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        Pi.delta_text(line)
    }
}

/// Reads a program's stdout as pi's, and remembers its last line in case that it is not.
struct CommandReader {
    pi: PiReader,
    records: bool,
    /// The end of the last line that is not blank.
    last: Vec<u8>,
}

impl EventReader for CommandReader {
    fn line(&mut self, line: &Line<'_>, text: &mut dyn TextSink) -> LineKind {
        let kind = self.pi.line(line, text);
        self.records |= kind == LineKind::Record;
        let shown = line.bytes.trim_ascii();
        if !self.records && !shown.is_empty() {
            // More than is looked at, for the colours in it.
            self.last.clear();
            self.last
                .extend_from_slice(&shown[shown.len().saturating_sub(4 * LOOKED_AT)..]);
        }
        kind
    }

    fn facts(&self) -> EventFacts {
        let facts = self.pi.facts();
        if self.records {
            return facts;
        }
        EventFacts {
            noise: 0,
            plain_text: true,
            terminal: Terminal::NotSpoken,
            question: question_of(&String::from_utf8_lossy(&self.last)),
            ..facts
        }
    }

    fn settled(&self) -> bool {
        self.pi.settled()
    }

    fn usage(&self) -> Usage {
        self.pi.usage()
    }

    fn tool_running(&self) -> bool {
        self.pi.tool_running()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::SessionPlan;

    struct Nowhere;

    impl TextSink for Nowhere {
        fn finished(&mut self, _text: &str) {}
        fn delta(&mut self, _text: &str) {}
        fn discarded(&mut self) {}
    }

    fn facts_of(lines: &[&str]) -> EventFacts {
        let mut reader = Command.reader(|| jiff::tz::TimeZone::UTC, Usage::default());
        for line in lines {
            let line = Line {
                bytes: line.as_bytes(),
                size: line.len() as u64,
                pruned: false,
                read_at: "2026-11-30T20:00:00Z".parse().unwrap(),
            };
            reader.line(&line, &mut Nowhere);
        }
        reader.facts()
    }

    #[test]
    fn plain_text_owes_nothing() {
        let facts = facts_of(&["working", r#"{"level":"info"}"#, " "]);
        assert_eq!((facts.lines, facts.records, facts.noise), (2, 0, 0));
        assert_eq!((facts.plain_text, facts.terminal), (true, Terminal::NotSpoken));
        assert_eq!(facts.question, None);
    }

    #[test]
    fn a_question_counts_in_the_last_line_of_plain_text_only() {
        let asked = facts_of(&["working", "approve? [y/N] ", ""]);
        assert_eq!(asked.question.as_deref(), Some("approve? [y/N]"));
        assert_eq!(facts_of(&["approve? [y/N] ", "going on"]).question, None);
        assert_eq!(
            facts_of(&[r#"{"type":"agent_start"}"#, "approve? [y/N]"]).question,
            None
        );
        let long = format!("{} approve? [y/N]", "é".repeat(100_000));
        assert!(facts_of(&[&long]).question.is_some());
    }

    #[test]
    fn what_speaks_pi_is_judged_as_pi() {
        let cut = facts_of(&["noise", r#"{"type":"agent_start"}"#]);
        assert_eq!(
            (cut.plain_text, cut.terminal, cut.noise),
            (false, Terminal::Missing, 1)
        );
        let whole = facts_of(&[r#"{"type":"agent_start"}"#, r#"{"type":"agent_end"}"#]);
        assert_eq!(whole.terminal, Terminal::Settled);
    }

    #[test]
    fn the_prompt_is_a_file_that_the_environment_names() {
        let session = SessionPlan::Fresh {
            path: "/w/session.jsonl".into(),
            id: String::new(),
        };
        let spec = WakeSpec {
            prompt: "x",
            prompt_file: Path::new("/w/prompt.md"),
            wakeup_dir: Path::new("/w"),
            docs_dir: Path::new("/docs"),
            session: &session,
            model: None,
            extra_args: &["-c".to_owned(), "two words".to_owned()],
            server: None,
        };
        for (adapter, args) in [
            (&Command as &dyn Adapter, &["-c", "two words"][..]),
            (&crate::demo::Demo, &["demo-agent", "-c", "two words"]),
        ] {
            let command = adapter.command(&spec).unwrap();
            assert_eq!(command.args, args);
            let variable = ("AGENTS_POD_PROMPT_FILE".to_owned(), "/w/prompt.md".into());
            assert_eq!(command.env_set, [variable]);
        }
    }
}

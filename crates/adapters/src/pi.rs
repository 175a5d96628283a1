//! The pi coding agent, from 0.73 on.
//!
//! pi exits 0 whatever its provider said, so its last assistant message is what counts. It reads its prompt
//! from stdin to the end of it, which has no limit of length, shows in no process list, and cannot be taken
//! for an option or a file.

mod reader;
mod record;

use crate::ZoneSource;
use std::borrow::Cow;
use std::ffi::OsString;

use pod_core::{AgentType, Usage};

use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Finding, Machine, ProgramPlan, SessionKind, WakeSpec,
};

pub(crate) use reader::PiReader;

/// The tool by which the agent hands over.
const EXTENSION: &str = include_str!("../../../extensions/pi/pod_handoff.ts");

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
        let extension = spec.wakeup_dir.join("pod_handoff.ts");
        let mut args: Vec<OsString> = ["--print", "--mode", "json", "--session"].map(Into::into).into();
        args.push(spec.session.path().into());
        if let Some(model) = spec.model {
            args.extend(["--model".into(), model.into()]);
        }
        args.extend(["-e".into(), extension.clone().into()]);
        args.extend(spec.extra_args.iter().map(Into::into));
        let mut command = AgentCommand::of_args(args).with_prompt_on_stdin(spec);
        command.files.push((extension, EXTENSION.into()));
        Ok(command)
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::Path
    }

    fn reader(&self, zone: ZoneSource, _recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(PiReader::new(zone))
    }

    fn preflight(&self, machine: &Machine<'_>) -> Vec<Finding> {
        // From 1.x on it needs a newer node (its package: `engines`).
        let major = machine.version.and_then(|version| version.split('.').next());
        let newer = major.is_some_and(|major| major != "0");
        let mut findings = machine.old_node(if newer { 22 } else { 20 });
        findings.extend(machine.without_login(
            "pi",
            &[
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
                "PI_CODING_AGENT_DIR",
            ],
            &[".pi/agent/auth.json", ".pi/agent/models.json"],
            "run `pi` and log in as the user that podd runs as, or set the key of its provider for podd",
        ));
        findings
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        record::parse(line)?.text_delta()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{SessionPlan, StdinPlan};

    #[test]
    fn the_prompt_travels_by_stdin_and_the_tool_by_a_file() {
        let session = SessionPlan::Fresh {
            path: "/w/3/session.jsonl".into(),
            id: String::new(),
        };
        let spec = WakeSpec {
            prompt: "do it",
            prompt_file: Path::new("/w/3/prompt.md"),
            wakeup_dir: Path::new("/w/3"),
            docs_dir: Path::new("/docs"),
            session: &session,
            model: Some("anthropic/some-model"),
            extra_args: &["--thinking".to_owned(), "high".to_owned()],
            server: None,
        };
        let command = Pi.command(&spec).unwrap();
        let args: Vec<_> = command.args.iter().map(|arg| arg.to_str().unwrap()).collect();
        let line = "--print --mode json --session /w/3/session.jsonl --model anthropic/some-model \
                    -e /w/3/pod_handoff.ts --thinking high";
        assert_eq!(args.join(" "), line);
        assert_eq!(command.stdin, StdinPlan::File("/w/3/prompt.md".into()));
        assert_eq!(command.files[0].0, Path::new("/w/3/pod_handoff.ts"));
        assert!(String::from_utf8_lossy(&command.files[0].1).contains("pod_handoff"));
    }

    #[test]
    fn the_delta_of_a_raw_line_is_found_in_both_dialects() {
        let short = br#"{"type":"message_update","usage":{},"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"Hel\n"}}"#;
        let long = br#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"lo","partial":{"role":"assistant","content":[]}},"message":{"role":"assistant"}}"#;
        let thought =
            br#"{"type":"message_update","assistantMessageEvent":{"type":"thinking_delta","delta":"hm"}}"#;
        assert_eq!(Pi.delta_text(short).as_deref(), Some("Hel\n"));
        assert_eq!(Pi.delta_text(long).as_deref(), Some("lo"));
        assert_eq!(Pi.delta_text(thought), None);
        assert_eq!(Pi.delta_text(b"not JSON"), None);
    }
}

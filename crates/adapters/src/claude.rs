//! Claude Code, from 2.1 on.
//!
//! Its `result` record says `subtype: "success"` of every API failure, so its error flag is what counts, and it
//! does not end the process: a task in the background may be followed by another turn. Such tasks are switched
//! off. As root it refuses to skip permissions unless it is told that it runs in a sandbox.

mod reader;
mod record;

use std::borrow::Cow;
use std::ffi::OsString;

use pod_core::{AgentType, Usage};
use serde_json::json;

use crate::seen::Reader;
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Finding, Machine, ProgramPlan, SessionKind,
    SessionPlan, WakeSpec, ZoneSource,
};

/// Claude Code.
pub(crate) struct Claude;

impl Adapter for Claude {
    fn agent_type(&self) -> AgentType {
        AgentType::Claude
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Named("claude")
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        let fixed = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
        ];
        let mut args: Vec<OsString> = fixed.map(Into::into).into();
        if let Some(model) = spec.model {
            args.extend(["--model".into(), model.into()]);
        }
        if !spec.has_flag(&["--session-id", "--resume", "-r", "--continue", "-c"]) {
            args.extend(match spec.session {
                SessionPlan::Fresh { id, .. } => ["--session-id".into(), id.into()],
                SessionPlan::Continue { id, .. } => ["--resume".into(), id.into()],
            });
        }
        let mut files = Vec::new();
        if let Some(server) = spec.server {
            let file = spec.wakeup_dir.join("mcp.json");
            // Else its tools are hidden behind a search. It gives its servers its own environment.
            let servers = json!({"mcpServers": {"pod": {
                "command": server.podctl, "args": ["mcp"], "alwaysLoad": true,
            }}});
            files.push((file.clone(), servers.to_string().into_bytes()));
            args.extend(["--mcp-config".into(), file.into()]);
        }
        args.extend(spec.extra_args.iter().map(Into::into));
        let mut command = AgentCommand::of_args(args).with_prompt_on_stdin(spec).with_env(&[
            ("IS_SANDBOX", "1"),
            ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
        ]);
        command.files = files;
        Ok(command)
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::GivenId
    }

    fn reader(&self, zone: ZoneSource, recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(Reader::new(reader::ClaudeRecords::new(zone, recorded)))
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        record::parse(line)?.text_delta()
    }

    fn preflight(&self, machine: &Machine<'_>) -> Vec<Finding> {
        let mut findings = machine.without_login(
            "Claude Code",
            &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
            ],
            &[".claude/.credentials.json"],
            "run `claude` and log in as the user that podd runs as, or set ANTHROPIC_API_KEY for podd",
        );
        if machine.root && !(machine.is_set)("IS_SANDBOX".as_ref()) {
            findings.push(Finding {
                what: "it refuses to run unattended as root where IS_SANDBOX is empty".to_owned(),
                remedy: "take IS_SANDBOX out of the agent's `env`, or run podd as another user".to_owned(),
            });
        }
        findings
    }
}

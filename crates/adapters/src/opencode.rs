//! OpenCode, from 1.18 on.
//!
//! It prints nothing before the model's first byte and nothing of what it tries again, and has no terminal
//! event: its last step's reason is what counts. Its errors are the best of all CLIs, with status and headers.

mod reader;

use std::borrow::Cow;
use std::ffi::OsString;

use pod_core::{AgentType, Usage};
use serde_json::json;

use crate::seen::Reader;
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Finding, Machine, ProgramPlan, SessionKind,
    SessionPlan, WakeSpec, ZoneSource,
};

/// OpenCode.
pub(crate) struct OpenCode;

impl Adapter for OpenCode {
    fn agent_type(&self) -> AgentType {
        AgentType::OpenCode
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Named("opencode")
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        let mut args: Vec<OsString> = ["run", "--format", "json"].map(Into::into).into();
        if let Some(model) = spec.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let SessionPlan::Continue { id, .. } = spec.session
            && !spec.has_flag(&["--session", "-s", "--continue", "-c"])
        {
            args.extend(["--session".into(), id.into()]);
        }
        args.extend(spec.extra_args.iter().map(Into::into));
        let mut command = AgentCommand::of_args(args)
            .with_prompt_on_stdin(spec)
            .with_env(&[("OPENCODE_DISABLE_AUTOUPDATE", "1")]);
        if let Some(server) = spec.server {
            // Merged over the user's files. It gives its servers its own environment.
            let config = json!({"mcp": {"pod": {
                "type": "local", "command": [server.podctl, "mcp"], "enabled": true,
            }}});
            command
                .env_set
                .push(("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string().into()));
        }
        Ok(command)
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::PrintedId
    }

    fn native_programs(&self) -> &'static [&'static str] {
        // As npm lays them out, below the launcher's package or beside it.
        &[
            "../node_modules/opencode-linux-x64/bin/opencode",
            "../../opencode-linux-x64/bin/opencode",
            "../node_modules/opencode-linux-arm64/bin/opencode",
            "../../opencode-linux-arm64/bin/opencode",
        ]
    }

    fn reader(&self, zone: ZoneSource, _recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(Reader::new(reader::OpenCodeRecords::new(zone)))
    }

    fn delta_text<'a>(&self, _line: &'a [u8]) -> Option<Cow<'a, str>> {
        None
    }

    fn preflight(&self, machine: &Machine<'_>) -> Vec<Finding> {
        machine.without_login(
            "OpenCode",
            &[
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_CONTENT",
            ],
            &[
                ".local/share/opencode/auth.json",
                ".config/opencode/opencode.json",
                ".config/opencode/opencode.jsonc",
            ],
            "run `opencode auth login` as the user that podd runs as",
        )
    }
}

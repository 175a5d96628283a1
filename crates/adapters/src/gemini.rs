//! The Gemini CLI, from 0.61 on.
//!
//! On a pipe it loses what it prints behind 64 KiB that nobody has read, its result included, so its stdout is
//! a file. It exits 0 when it is ended by a signal: without its result it was cut off. Its own restart as a
//! child, which would hear no signal, is switched off.

mod reader;

use std::borrow::Cow;
use std::ffi::OsString;

use pod_core::{AgentType, ErrorClass, FinalError, Usage};
use serde_json::json;

use crate::seen::Reader;
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Finding, Machine, Overlay, ProgramPlan, SessionKind,
    SessionPlan, StdoutPlan, WakeSpec, ZoneSource,
};

/// How many bytes of stdin it reads; more is cut (0.61: `readStdin`).
const LIMIT: usize = 8 << 20;

/// Its exit code where it has no way to log in (0.61: `FatalAuthenticationError`).
const NO_LOGIN: i32 = 41;

/// The Gemini CLI.
pub(crate) struct Gemini;

impl Adapter for Gemini {
    fn agent_type(&self) -> AgentType {
        AgentType::Gemini
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Named("gemini")
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        spec.refuse_longer("bytes", spec.prompt.len(), LIMIT)?;
        let fixed = ["--skip-trust", "--approval-mode", "yolo", "-o", "stream-json"];
        let mut args: Vec<OsString> = fixed.map(Into::into).into();
        if let Some(model) = spec.model {
            args.extend(["-m".into(), model.into()]);
        }
        if !spec.has_flag(&["--session-id", "--resume", "-r"]) {
            args.extend(match spec.session {
                SessionPlan::Fresh { id, .. } => ["--session-id".into(), id.into()],
                SessionPlan::Continue { id, .. } => ["--resume".into(), id.into()],
            });
        }
        args.extend(spec.extra_args.iter().map(Into::into));
        let mut command = AgentCommand::of_args(args)
            .with_prompt_on_stdin(spec)
            .with_env(&[("GEMINI_CLI_NO_RELAUNCH", "true")]);
        command.stdout = StdoutPlan::File;
        if let Some(server) = spec.server {
            // Servers are read from settings alone, and those of the system have to be root's: so it gets a home
            // whose settings are the user's and the server.
            let home = spec.wakeup_dir.join("gemini-home");
            let variables: serde_json::Map<String, serde_json::Value> = server
                .variables
                .iter()
                .map(|name| ((*name).to_owned(), format!("${name}").into()))
                .collect();
            let pod = json!({"command": server.podctl, "args": ["mcp"], "trust": true, "env": variables});
            command.overlay = Some(Overlay {
                of: ".gemini",
                kept: &["tmp", "history"],
                at: home.join(".gemini"),
                file: "settings.json",
                merge: json!({"mcpServers": {"pod": pod}}),
            });
            command.env_set.push(("GEMINI_CLI_HOME".to_owned(), home.into()));
        }
        Ok(command)
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::GivenId
    }

    fn reader(&self, zone: ZoneSource, _recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(Reader::new(reader::GeminiRecords::new(zone)))
    }

    fn start_error(&self, code: i32, stderr: &str) -> Option<FinalError> {
        (code == NO_LOGIN).then(|| FinalError {
            class: ErrorClass::Auth,
            message: stderr.trim().lines().next_back().unwrap_or_default().to_owned(),
            rule: "gemini-exit-41".to_owned(),
            resets: None,
        })
    }

    fn delta_text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        reader::delta_text(line)
    }

    fn preflight(&self, machine: &Machine<'_>) -> Vec<Finding> {
        let mut findings = machine.old_node(20);
        findings.extend(machine.without_login(
            "Gemini",
            &[
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_GENAI_USE_VERTEXAI",
                "GOOGLE_GENAI_USE_GCA",
            ],
            &[".gemini/oauth_creds.json"],
            "run `gemini` and log in as the user that podd runs as, or set GEMINI_API_KEY for podd",
        ));
        findings
    }
}

//! The Codex CLI, from 0.171 on.
//!
//! It prints an item of type `error` on healthy runs, and `error` records for what it tries again: the end of
//! the turn is what counts. Its figures are those of the whole thread. Its launcher of JavaScript leaves the
//! real program running when it is killed, so that one is run itself.

mod reader;

use std::borrow::Cow;
use std::ffi::OsString;

use pod_core::{AgentType, Usage};

use crate::seen::Reader;
use crate::{
    Adapter, AgentCommand, CommandError, EventReader, Finding, Machine, ProgramPlan, SessionKind,
    SessionPlan, WakeSpec, ZoneSource,
};

/// How many characters it takes (0.171: `input_too_large`).
const LIMIT: usize = 1 << 20;

/// The Codex CLI.
pub(crate) struct Codex;

impl Adapter for Codex {
    fn agent_type(&self) -> AgentType {
        AgentType::Codex
    }

    fn program(&self) -> ProgramPlan {
        ProgramPlan::Named("codex")
    }

    fn command(&self, spec: &WakeSpec<'_>) -> Result<AgentCommand, CommandError> {
        spec.refuse_longer("characters", spec.prompt.chars().count(), LIMIT)?;
        let mut args: Vec<OsString> = vec!["exec".into()];
        if let SessionPlan::Continue { .. } = spec.session {
            args.push("resume".into());
        }
        let fixed = [
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
        ];
        args.extend(fixed.map(Into::into));
        if let Some(model) = spec.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let Some(server) = spec.server {
            // It scrubs its servers' environment, but for what is named; the values stay out of the argument list.
            let settings = [
                format!(
                    "mcp_servers.pod.command={}",
                    serde_json::Value::from(server.podctl)
                ),
                r#"mcp_servers.pod.args=["mcp"]"#.to_owned(),
                format!(
                    "mcp_servers.pod.env_vars={}",
                    serde_json::Value::from(server.variables)
                ),
            ];
            args.extend(settings.into_iter().flat_map(|one| ["-c".into(), one.into()]));
        }
        args.extend(spec.extra_args.iter().map(Into::into));
        if let SessionPlan::Continue { id, .. } = spec.session {
            args.push(id.into());
        }
        // The prompt is on stdin.
        args.push("-".into());
        Ok(AgentCommand::of_args(args).with_prompt_on_stdin(spec))
    }

    fn sessions(&self) -> SessionKind {
        SessionKind::PrintedId
    }

    fn native_programs(&self) -> &'static [&'static str] {
        // As npm lays them out, below the launcher's package or beside it.
        &[
            "../node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            "../../codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            "../node_modules/@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
            "../../codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        ]
    }

    fn reader(&self, zone: ZoneSource, recorded: Usage) -> Box<dyn EventReader + Send> {
        Box::new(Reader::new(reader::CodexRecords::new(zone, recorded)))
    }

    fn delta_text<'a>(&self, _line: &'a [u8]) -> Option<Cow<'a, str>> {
        None
    }

    fn preflight(&self, machine: &Machine<'_>) -> Vec<Finding> {
        // A configuration of the user's may name another provider and another key.
        machine.without_login(
            "Codex",
            &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"],
            &[".codex/auth.json", ".codex/config.toml"],
            "run `codex login` as the user that podd runs as, or set OPENAI_API_KEY for podd",
        )
    }
}

//! What is known about each agent CLI: how it is started, and what its lines mean.
//!
//! One module a CLI, all of one shape; a new one is its file and a row in [`adapter`]. Nothing here starts
//! a process or touches a file: a command is described and lines are read, whoever runs them.

mod catalogue;
mod claude;
mod codex;
mod command;
mod demo;
mod gemini;
mod invocation;
mod json;
mod opencode;
mod pi;
mod preflight;
mod question;
mod reader;
mod scrub;
mod seen;
mod text;

use pod_core::AgentType;

pub use invocation::{
    Adapter, AgentCommand, CommandError, Overlay, ProgramPlan, Server, SessionKind, SessionPlan, StdinPlan,
    StdoutPlan, WakeSpec, ZoneSource,
};
pub use preflight::{Finding, Machine};
pub use question::question_in;
pub use reader::{EventReader, Line, LineKind, TextSink};
pub use scrub::scrubbed_variables;

/// Returns the adapter of a type.
pub fn adapter(kind: AgentType) -> &'static dyn Adapter {
    match kind {
        AgentType::Pi => &pi::Pi,
        AgentType::Claude => &claude::Claude,
        AgentType::Codex => &codex::Codex,
        AgentType::Gemini => &gemini::Gemini,
        AgentType::OpenCode => &opencode::OpenCode,
        AgentType::Command => &command::Command,
        AgentType::Demo => &demo::Demo,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(kind: AgentType, session: &SessionPlan, extra: &[&str]) -> AgentCommand {
        let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
        let spec = WakeSpec {
            prompt: "the prompt",
            prompt_file: Path::new("/w/prompt.md"),
            wakeup_dir: Path::new("/w"),
            docs_dir: Path::new("/docs"),
            session,
            model: Some("m"),
            extra_args: &extra,
            server: Some(Server {
                podctl: "/bin/podctl",
                variables: &["AGENTS_POD_WAKE_TOKEN"],
            }),
        };
        adapter(kind).command(&spec).unwrap()
    }

    fn line(command: &AgentCommand) -> String {
        let words: Vec<&str> = command.args.iter().map(|arg| arg.to_str().unwrap()).collect();
        words.join(" ")
    }

    fn fresh() -> SessionPlan {
        SessionPlan::Fresh {
            path: "/w/session.jsonl".into(),
            id: "our-id".into(),
        }
    }

    fn lost() -> SessionPlan {
        SessionPlan::Continue {
            path: "/w/session.jsonl".into(),
            id: "its-id".into(),
        }
    }

    #[test]
    fn a_session_is_named_the_first_time_and_continued_by_what_each_cli_takes() {
        for (kind, first, later) in [
            (AgentType::Claude, " --session-id our-id ", " --resume its-id "),
            (AgentType::Codex, "exec --json ", "exec resume --json "),
            (AgentType::Gemini, " --session-id our-id ", " --resume its-id "),
            (
                AgentType::OpenCode,
                "run --format json -m m ",
                " --session its-id ",
            ),
        ] {
            let said = |session| format!("{} ", line(&args(kind, session, &[])));
            let (cold, warm) = (said(&fresh()), said(&lost()));
            assert!(cold.contains(first) && !cold.contains("its-id"), "{kind}: {cold}");
            assert!(warm.contains(later) && !warm.contains("our-id"), "{kind}: {warm}");
        }
        assert!(line(&args(AgentType::Codex, &lost(), &[])).ends_with(" its-id -"));
    }

    #[test]
    fn flags_that_exclude_one_another_never_meet() {
        for (kind, theirs, ours) in [
            (AgentType::Claude, "--resume=x", "--session-id"),
            (AgentType::Claude, "--continue", "--session-id"),
            (AgentType::Gemini, "--resume", "--session-id"),
        ] {
            let said = line(&args(kind, &fresh(), &[theirs]));
            assert!(said.contains(theirs) && !said.contains(ours), "{kind}: {said}");
        }
        let said = line(&args(AgentType::OpenCode, &lost(), &["--continue"]));
        assert!(!said.contains("--session"), "{said}");
    }

    #[test]
    fn neither_the_prompt_nor_a_value_stands_in_an_argument() {
        for kind in [
            AgentType::Claude,
            AgentType::Codex,
            AgentType::Gemini,
            AgentType::OpenCode,
        ] {
            let command = args(kind, &fresh(), &[]);
            assert!(!line(&command).contains("the prompt"), "{kind}");
            assert_eq!(command.stdin, StdinPlan::File("/w/prompt.md".into()), "{kind}");
            let files = command
                .files
                .iter()
                .map(|(_, bytes)| String::from_utf8_lossy(bytes));
            let said = format!("{command:?} {}", files.collect::<String>());
            assert!(
                said.contains("/bin/podctl"),
                "{kind}: its server is attached: {said}"
            );
        }
    }

    #[test]
    fn a_prompt_that_a_cli_would_refuse_or_cut_is_refused_by_name() {
        let long = "é".repeat(5 << 20);
        for (kind, what) in [(AgentType::Codex, "characters"), (AgentType::Gemini, "bytes")] {
            let session = fresh();
            let spec = WakeSpec {
                prompt: &long,
                prompt_file: Path::new("/w/prompt.md"),
                wakeup_dir: Path::new("/w"),
                docs_dir: Path::new("/docs"),
                session: &session,
                model: None,
                extra_args: &[],
                server: None,
            };
            let refused = adapter(kind).command(&spec).unwrap_err().to_string();
            assert!(refused.contains(what), "{refused}");
        }
    }
}

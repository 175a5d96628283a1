//! Tool calls, put into the words of the agent that asks.

use serde_json::{Value, json};

use super::api::Api;
use super::script::ToolCall;

/// Names under which agents offer a shell, and a way to write files.
const SHELL: [&str; 6] = [
    "bash",
    "Bash",
    "exec_command",
    "run_shell_command",
    "shell_command",
    "shell",
];
const WRITE: [&str; 4] = ["write", "Write", "write_file", "create_file"];

/// A tool that a request offers.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    /// What its name is relative to, where the API has such a thing.
    pub(super) namespace: Option<String>,
    /// The schema of its arguments.
    pub(super) parameters: Value,
}

impl Tool {
    /// A tool without a namespace, if it has a name.
    pub(super) fn new(name: &Value, parameters: &Value) -> Option<Self> {
        Some(Self {
            name: name.as_str()?.to_owned(),
            namespace: None,
            parameters: parameters.clone(),
        })
    }

    /// Its name with its namespace in front.
    pub(super) fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}__{}", self.name),
            None => self.name.clone(),
        }
    }

    fn takes(&self, key: &str) -> bool {
        self.parameters["properties"][key].is_object()
    }

    fn call(&self, args: Value) -> Call {
        Call {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            args,
        }
    }
}

/// A tool call in an agent's words.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) args: Value,
}

impl Call {
    fn unlisted(name: impl Into<String>, args: Value) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            args,
        }
    }
}

/// Puts a reply's tool calls into the words of the agent that asked.
pub(super) fn resolve(calls: &[ToolCall], api: &dyn Api, body: &Value) -> Vec<Call> {
    let offered = api.tools(body);
    let one = |call: &ToolCall| match call {
        ToolCall::Bash(command) => shell(command, &offered),
        ToolCall::Write { path, content } => write(path, content, &offered),
        ToolCall::Named { suffix, args } => {
            let found = offered
                .iter()
                .find(|tool| tool.full_name().ends_with(suffix.as_str()));
            found.map_or_else(
                || Call::unlisted(api.unlisted(suffix), args.clone()),
                |tool| tool.call(args.clone()),
            )
        }
    };
    calls.iter().map(one).collect()
}

fn pick<'a>(offered: &'a [Tool], known: &[&str]) -> Option<&'a Tool> {
    known
        .iter()
        .find_map(|name| offered.iter().find(|tool| tool.name == *name))
}

fn shell(command: &str, offered: &[Tool]) -> Call {
    let Some(tool) = pick(offered, &SHELL) else {
        return Call::unlisted(SHELL[0], json!({"command": command}));
    };
    let mut args = if tool.takes("cmd") {
        json!({"cmd": command})
    } else if tool.parameters["properties"]["command"]["type"] == "array" {
        json!({"command": ["bash", "-c", command]})
    } else {
        json!({"command": command})
    };
    if tool.takes("description") {
        args["description"] = "scripted".into();
    }
    // Codex asks the model again while a command still runs, and at the most after this time.
    if tool.takes("yield_time_ms") {
        args["yield_time_ms"] = 30_000.into();
    }
    tool.call(args)
}

/// Writes a file by a tool of that kind, or else by a shell.
fn write(path: &str, content: &str, offered: &[Tool]) -> Call {
    let Some(tool) = pick(offered, &WRITE) else {
        return shell(
            &format!("printf %s {} > {}", quoted(content), quoted(path)),
            offered,
        );
    };
    let keys = ["file_path", "filePath", "path"];
    let key = keys.iter().find(|key| tool.takes(key)).unwrap_or(&"path");
    tool.call(json!({*key: path, "content": content}))
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

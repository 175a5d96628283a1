//! Whether an agent could be started: the same definition, environment and program as in a wake-up, and
//! nothing started of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pod_adapters::{Finding, Machine, SessionPlan, WakeSpec, adapter};
use pod_config::AgentStore;
use pod_core::{AgentName, HomeLayout, StartFailure, error_chain};
use serde_json::{Value, json};

use crate::prepare::{native, outer_environment, packaged_version, program};

/// Describes an agent as JSON: `program`, `version`, `findings` of `what` and `remedy`, or `error`.
pub(crate) fn check(home: &HomeLayout, name: &AgentName) -> Value {
    look(home, name).unwrap_or_else(|error| json!({"error": error}))
}

fn look(home: &HomeLayout, name: &AgentName) -> Result<Value, String> {
    let store = AgentStore::load(home).map_err(|error| error_chain(&error))?;
    let definition = store.get(name).map_err(|error| error_chain(&error))?;
    let definition = definition.ok_or_else(|| format!("there is no agent `{name}`"))?;
    let kind = definition.agent_type().map_err(|error| error.to_string())?;
    let adapter = adapter(kind);
    let nowhere = Path::new("/");
    let command = adapter.command(&WakeSpec {
        prompt: "",
        prompt_file: nowhere,
        wakeup_dir: nowhere,
        docs_dir: nowhere,
        session: &SessionPlan::Fresh {
            path: nowhere.to_owned(),
            id: String::new(),
        },
        model: None,
        extra_args: &definition.args,
        server: None,
    });
    let command = command.map_err(|error| error_chain(&error))?;
    let env = outer_environment(&definition, &command);
    let found = program(adapter, &definition, &env, nowhere).map_err(|failure| match failure {
        StartFailure::Unresolved(why)
        | StartFailure::TypeRefused(why)
        | StartFailure::Missing(why)
        | StartFailure::Spawn(why) => why,
    })?;
    let program = native(adapter, found);
    let version = packaged_version(&program);
    let user_home = env.get(OsStr::new("HOME")).map(Path::new);
    let findings = adapter.preflight(&Machine {
        root: nix::unistd::geteuid().is_root(),
        version: version.as_deref(),
        node: runs_on_node(&program).then(|| node_version(&env)).flatten(),
        is_set: &|name| env.get(name).is_some_and(|value| !value.is_empty()),
        has_file: &|file| user_home.is_some_and(|home| home.join(file).is_file()),
    });
    let findings: Vec<Value> = findings
        .into_iter()
        .map(|Finding { what, remedy }| json!({"what": what, "remedy": remedy}))
        .collect();
    Ok(json!({"type": kind.word(), "program": program, "version": version, "findings": findings}))
}

/// Whether a program is a script that asks for `node`, whichever that is.
fn runs_on_node(program: &Path) -> bool {
    let mut first = Vec::new();
    let read = std::fs::File::open(program).and_then(|file| file.take(128).read_to_end(&mut first));
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.is_ok() && line.starts_with(b"#!") && line.ends_with(b"node")
}

/// The major version of the node on the agent's path.
fn node_version(env: &BTreeMap<OsString, OsString>) -> Option<u32> {
    let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let node = pod_process::find_binary(OsStr::new("node"), path, Path::new("/")).ok()?;
    let said = Command::new(node)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

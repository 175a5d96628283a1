//! Resolves the agent and puts everything that it starts with together.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use pod_adapters::{Adapter, AgentCommand, ProgramPlan, Server, WakeSpec, adapter, scrubbed_variables};
use pod_config::AgentStore;
use pod_core::{AgentDefinition, AgentFile, HomeLayout, SCHEMA_VERSION, StartFailure, Usage, error_chain};
use pod_disk::Durability;
use pod_reconcile::{ensure_checkpoint, latest_checkpoint};
use sha2::{Digest as _, Sha256};

use crate::claim::Claimed;
use crate::session::{recorded_usage, session};
use crate::{gate_words, overlay, prompt};

/// Variables of a wake-up, which an inner one must not inherit.
pub(crate) const WAKE_UP_VARIABLES: &[&str] = &[
    "AGENTS_POD_POD_ID",
    "AGENTS_POD_WAKEUP_N",
    "AGENTS_POD_DOCS_DIR",
    "AGENTS_POD_HOME",
    "AGENTS_POD_WAKE_TOKEN",
    "AGENTS_POD_PARENT_PROJECT_ROOT",
    "AGENTS_POD_PROMPT_FILE",
];

/// What our tools need to know of the wake-up that they run in.
const SERVER_VARIABLES: &[&str] = &[
    "AGENTS_POD_POD_ID",
    "AGENTS_POD_WAKEUP_N",
    "AGENTS_POD_DOCS_DIR",
    "AGENTS_POD_HOME",
    "AGENTS_POD_WAKE_TOKEN",
];

/// An agent that can be started.
pub(crate) struct Prepared {
    pub(crate) adapter: &'static dyn Adapter,
    pub(crate) program: PathBuf,
    pub(crate) command: AgentCommand,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What earlier wake-ups of the same session used.
    pub(crate) recorded: Usage,
}

/// What was found out about the agent, and whether it can be started.
pub(crate) struct Preparation {
    /// For agent.json and the record, as far as it is known.
    pub(crate) agent: AgentFile,
    pub(crate) start: Result<Prepared, StartFailure>,
}

/// Prepares the agent of a claimed wake-up. Always the newest definition counts: nothing is pinned.
pub(crate) fn prepare(claimed: &Claimed, home: &HomeLayout) -> Preparation {
    let mut agent = blank(claimed);
    let start = resolve(claimed, home, &mut agent);
    let written = claimed.files.write_json(
        &claimed.files.layout().agent(claimed.current.n),
        &agent,
        Durability::Atomic,
    );
    let start = match (start, written) {
        (Ok(_), Err(error)) => Err(StartFailure::Spawn(format!("{error}: {}", error.source))),
        (start, _) => start,
    };
    Preparation { agent, start }
}

fn blank(claimed: &Claimed) -> AgentFile {
    AgentFile {
        schema_version: SCHEMA_VERSION,
        id: claimed.current.agent.clone(),
        kind: String::new(),
        model: None,
        instructions_hash: hash_of(""),
        warm: claimed.current.warm,
        binary: None,
        binary_version: None,
        session: None,
        account: None,
        note: None,
    }
}

/// The first 12 hex digits of the SHA-256: enough to tell whose words a wake-up followed.
fn hash_of(instructions: &str) -> String {
    let digest = Sha256::digest(instructions);
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn resolve(claimed: &Claimed, home: &HomeLayout, agent: &mut AgentFile) -> Result<Prepared, StartFailure> {
    let name = &claimed.current.agent;
    let unresolved = |why: String| StartFailure::Unresolved(why);
    let store = AgentStore::load(home).map_err(|error| unresolved(error_chain(&error)))?;
    let definition = store
        .get(name)
        .map_err(|error| unresolved(error_chain(&error)))?
        .ok_or_else(|| unresolved(format!("there is no agent `{name}` in agents.toml")))?;
    agent.kind.clone_from(&definition.kind);
    agent.account = Some(definition.account().0);
    agent.model = claimed.policy.model.clone().or_else(|| definition.model.clone());
    let kind = definition
        .agent_type()
        .map_err(|error| StartFailure::TypeRefused(error.to_string()))?;
    let role =
        pod_config::instructions(&definition, home).map_err(|error| unresolved(error_chain(&error)))?;
    agent.instructions_hash = hash_of(&role);
    let adapter = adapter(kind);
    let session = session(claimed, adapter, agent);
    let (prompt, unread) = write_prompt(claimed, &role)?;
    unread.into_iter().for_each(|note| agent.add_note(note));
    let layout = claimed.files.layout();
    let podctl = server_program();
    let command = adapter.command(&WakeSpec {
        prompt: &prompt,
        prompt_file: &layout.prompt(claimed.current.n),
        wakeup_dir: &layout.wakeup(claimed.current.n),
        docs_dir: &layout.docs(),
        session: &session,
        model: agent.model.as_deref(),
        extra_args: &definition.args,
        server: podctl.as_deref().map(|podctl| Server {
            podctl,
            variables: SERVER_VARIABLES,
        }),
    });
    let command = command.map_err(|error| StartFailure::Spawn(error_chain(&error)))?;
    let env = environment(claimed, home, &definition, &command);
    let program = native(adapter, program(adapter, &definition, &env, layout.project())?);
    agent.binary_version = packaged_version(&program);
    agent.binary = Some(program.clone());
    for (path, bytes) in &command.files {
        let written = claimed.files.write(path, bytes, Durability::Atomic);
        written.map_err(|error| StartFailure::Spawn(format!("{error}: {}", error.source)))?;
    }
    if let Some(overlay) = &command.overlay {
        let home = env.get(OsStr::new("HOME")).map(PathBuf::from);
        if let Err(why) = overlay::make(&claimed.files, overlay, home.as_deref()) {
            agent.add_note(format!("the agent has no tool for its handoff: {why}"));
        }
    }
    Ok(Prepared {
        recorded: recorded_usage(claimed, agent),
        adapter,
        program,
        command,
        env: env.into_iter().collect(),
    })
}

/// Writes the prompt. Returns it, and what a person should know of how it came about.
fn write_prompt(claimed: &Claimed, role: &str) -> Result<(String, Option<String>), StartFailure> {
    let (n, layout) = (claimed.current.n, claimed.files.layout());
    let messages = prompt::take_messages(&claimed.files, &claimed.record, n);
    // Whoever recorded the last outcome may have died before its checkpoint. One that cannot be had costs nothing
    // but what it would have said.
    let ensured = ensure_checkpoint(&claimed.files, &claimed.record);
    let latest = latest_checkpoint(&claimed.files).map_err(|error| ensured.err().unwrap_or(error));
    let (checkpoint, unread) = match latest {
        Ok(checkpoint) => (checkpoint, None),
        Err(error) => (
            None,
            Some(format!(
                "the last checkpoint is not quoted: {}",
                error_chain(&error)
            )),
        ),
    };
    let gates = gate_words::of(&claimed.files, &claimed.record);
    let parts = prompt::Parts {
        role,
        checkpoint: checkpoint.as_deref(),
        gates: gates.as_deref(),
        messages: &messages,
    };
    let prompt = prompt::compose(&claimed.record, n, layout, &parts);
    let written = claimed
        .files
        .write(&layout.prompt(n), prompt.as_bytes(), Durability::Atomic);
    written.map_err(|error| StartFailure::Spawn(format!("{error}: {}", error.source)))?;
    Ok((prompt, unread))
}

fn environment(
    claimed: &Claimed,
    home: &HomeLayout,
    definition: &AgentDefinition,
    command: &AgentCommand,
) -> BTreeMap<OsString, OsString> {
    let mut env = outer_environment(definition, command);
    reach_podctl(&mut env);
    // What the adapter says of the wake-up itself is ours as well.
    let own = command
        .env_set
        .iter()
        .filter(|(name, _)| WAKE_UP_VARIABLES.contains(&name.as_str()));
    env.extend(own.map(|(name, value)| (name.into(), value.clone())));
    let layout = claimed.files.layout();
    let mut ours = |name: &str, value: &OsStr| env.insert(name.into(), value.to_owned());
    ours("AGENTS_POD_POD_ID", OsStr::new(claimed.record.id.as_str()));
    ours("AGENTS_POD_WAKEUP_N", OsStr::new(&claimed.current.n.to_string()));
    ours("AGENTS_POD_DOCS_DIR", layout.docs().as_os_str());
    ours("AGENTS_POD_HOME", home.root().as_os_str());
    ours(
        "AGENTS_POD_WAKE_TOKEN",
        OsStr::new(claimed.current.token.reveal()),
    );
    ours("AGENTS_POD_PARENT_PROJECT_ROOT", layout.project().as_os_str());
    ours("GIT_OPTIONAL_LOCKS", OsStr::new("0"));
    env
}

/// What the agent inherits, and what its adapter and its definition say; nothing of the wake-up.
pub(crate) fn outer_environment(
    definition: &AgentDefinition,
    command: &AgentCommand,
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let removed = command.env_remove.iter().map(String::as_str);
    for name in scrubbed_variables()
        .iter()
        .chain(WAKE_UP_VARIABLES)
        .copied()
        .chain(removed)
    {
        env.remove(OsStr::new(name));
    }
    env.extend(
        command
            .env_set
            .iter()
            .map(|(name, value)| (name.into(), value.clone())),
    );
    env.extend(
        definition
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    env
}

/// The prompt tells the agent to call podctl, so a podctl that is not on its path is put at the path's end.
fn reach_podctl(env: &mut BTreeMap<OsString, OsString>) {
    let path = env.get(OsStr::new("PATH")).cloned();
    if pod_process::find_binary(OsStr::new("podctl"), path.as_deref(), Path::new("/")).is_ok() {
        return;
    }
    let Ok(podctl) = pod_process::sibling("podctl") else {
        return;
    };
    let (true, Some(dir)) = (podctl.arg0.is_none(), podctl.path.parent()) else {
        return;
    };
    let mut path = path
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    path.push(":");
    path.push(dir);
    env.insert("PATH".into(), path);
}

/// The program: the definition's, else the environment's, else the adapter's own on `$PATH`.
pub(crate) fn program(
    adapter: &dyn Adapter,
    definition: &AgentDefinition,
    env: &BTreeMap<OsString, OsString>,
    cwd: &Path,
) -> Result<PathBuf, StartFailure> {
    let variable = adapter.agent_type().binary_variable();
    let from_env = std::env::var_os(&variable).filter(|value| !value.is_empty());
    let named = definition.binary.clone().map(OsString::from).or(from_env);
    let name = match (named, adapter.program()) {
        (Some(name), _) => name,
        (None, ProgramPlan::Named(name)) => name.into(),
        (None, ProgramPlan::Podctl) => match pod_process::sibling("podctl") {
            Ok(podctl) if podctl.arg0.is_none() => podctl.path.into(),
            Ok(_) => {
                return Err(StartFailure::Missing(
                    "there is no podctl beside pod-wrapper".to_owned(),
                ));
            }
            Err(error) => return Err(StartFailure::Missing(error.to_string())),
        },
        (None, ProgramPlan::FromDefinition) => {
            let why = format!("its definition names no `binary`, and {variable} is not set");
            return Err(StartFailure::Missing(why));
        }
    };
    let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    pod_process::find_binary(&name, path, cwd).map_err(StartFailure::Missing)
}

/// The native program in the place of a launcher that would leave it running.
pub(crate) fn native(adapter: &dyn Adapter, program: PathBuf) -> PathBuf {
    let real = program.canonicalize().ok();
    let dir = real.as_deref().and_then(Path::parent);
    let found = dir.and_then(|dir| {
        let places = adapter.native_programs().iter().map(|place| dir.join(place));
        places
            .filter_map(|place| place.canonicalize().ok())
            .find(|place| place.is_file())
    });
    found.unwrap_or(program)
}

/// podctl, as the CLI starts it for our tools. A CLI is not told of a path that its configuration cannot say.
fn server_program() -> Option<String> {
    let podctl = pod_process::sibling("podctl")
        .ok()
        .filter(|podctl| podctl.arg0.is_none())?;
    podctl.path.into_os_string().into_string().ok()
}

/// The version in the package that a program belongs to, where it belongs to one: nothing is run for it.
pub(crate) fn packaged_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    let package = real
        .ancestors()
        .skip(1)
        .take(4)
        .map(|dir| dir.join("package.json"))
        .find(|file| file.is_file())?;
    let text = std::fs::read_to_string(package).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(value.get("version")?.as_str()?.to_owned())
}

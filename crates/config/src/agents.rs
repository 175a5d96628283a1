//! The agent definitions of agents.toml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pod_core::{AgentDefinition, AgentName, AgentType, HomeLayout, nearest_key};
use toml::{Table, Value};

use crate::source::{read, read_named, syntax};
use crate::{AgentError, ConfigError, edit};

/// The keys of a definition.
pub(crate) const KEYS: &[&str] = &[
    "type",
    "model",
    "binary",
    "args",
    "env",
    "instructions",
    "instructionsFile",
    "account",
];

/// What to do where an agent of the same name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfPresent {
    /// Leave it as it is and report an error.
    Refuse,
    /// Put the new definition in its place.
    Replace,
}

/// All agent definitions of a home, as they stood when they were read.
///
/// An entry that makes no sense is an error for whoever asks for it, and for nobody else.
#[derive(Debug, Clone, Default)]
pub struct AgentStore {
    entries: BTreeMap<String, Result<AgentDefinition, AgentError>>,
}

impl AgentStore {
    /// Reads agents.toml. A missing file defines nothing.
    pub fn load(home: &HomeLayout) -> Result<Self, ConfigError> {
        let file = home.agents();
        match read(&file)? {
            Some(text) => Self::parse(&file, &text),
            None => Ok(Self::default()),
        }
    }

    fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let tables: Table =
            toml::from_str(text).map_err(|error| syntax(file, text, error.span(), error.message()))?;
        let mut store = Self::default();
        for (key, content) in tables {
            if key != "agents" {
                let nearest = nearest_key(&key, &["agents"]);
                let key = pod_core::quoted(&key, 60);
                return Err(ConfigError::UnknownTable {
                    file: file.to_owned(),
                    key,
                    nearest,
                });
            }
            let Value::Table(agents) = content else {
                return Err(ConfigError::Shape {
                    file: file.to_owned(),
                    key,
                    expected: "a table",
                });
            };
            for (name, value) in agents {
                let entry = definition(value).map_err(|flaw| flaw.of(file, &name));
                let entry = entry.and_then(|definition| match name.parse::<AgentName>() {
                    Ok(_) => Ok(definition),
                    Err(_) => Err(Flaw::new("has a name that no agent can have").of(file, &name)),
                });
                store.entries.insert(name, entry);
            }
        }
        Ok(store)
    }

    /// The definition of a name; `None` if there is none. A `default` that nobody defined is pi.
    pub fn get(&self, name: &AgentName) -> Result<Option<AgentDefinition>, AgentError> {
        match self.entries.get(name.as_str()) {
            Some(entry) => entry.clone().map(Some),
            None => Ok((*name == AgentName::default_agent()).then(fallback)),
        }
    }

    /// The names that can be asked for, `default` included.
    pub fn names(&self) -> Vec<AgentName> {
        let mut names: Vec<AgentName> = self.entries.keys().filter_map(|name| name.parse().ok()).collect();
        if !self.entries.contains_key(AgentName::default_agent().as_str()) {
            names.push(AgentName::default_agent());
            names.sort();
        }
        names
    }

    /// Every entry by name, `default` included, with what is wrong with those that cannot be used.
    pub fn all(&self) -> BTreeMap<String, Result<AgentDefinition, AgentError>> {
        let mut all = self.entries.clone();
        all.entry(AgentName::default_agent().into())
            .or_insert_with(|| Ok(fallback()));
        all
    }

    /// Adds a definition to agents.toml; comments and other entries stay as they are.
    pub fn add(
        home: &HomeLayout,
        name: &AgentName,
        definition: &AgentDefinition,
        if_present: IfPresent,
    ) -> Result<(), ConfigError> {
        edit::add(home, name, definition, if_present)
    }

    /// Removes a definition from agents.toml; comments and other entries stay as they are.
    pub fn remove(home: &HomeLayout, name: &AgentName) -> Result<(), ConfigError> {
        edit::remove(home, name)
    }
}

/// Returns the role text of a definition: its own, or that of its file, which may be relative to the home.
///
/// It is empty where the definition has neither.
pub fn instructions(definition: &AgentDefinition, home: &HomeLayout) -> Result<String, ConfigError> {
    match &definition.instructions_file {
        Some(file) => {
            let path: PathBuf = home.root().join(file);
            // A missing file is an error here: an agent without its role does something else.
            read(&path)?.map_or_else(|| read_named(&path), Ok)
        }
        None => Ok(definition.instructions.clone().unwrap_or_default()),
    }
}

fn fallback() -> AgentDefinition {
    AgentDefinition::of_type(AgentType::Pi)
}

/// What is wrong with an entry whose name the caller knows.
struct Flaw {
    why: String,
    nearest: Option<&'static str>,
}

impl Flaw {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            nearest: None,
        }
    }

    fn of(self, file: &Path, name: &str) -> AgentError {
        let name = pod_core::quoted(name, 80);
        AgentError {
            file: file.to_owned(),
            name,
            why: self.why,
            nearest: self.nearest,
        }
    }
}

fn definition(value: Value) -> Result<AgentDefinition, Flaw> {
    let Value::Table(table) = value else {
        return Err(Flaw::new("must be a table"));
    };
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let why = format!("has no key `{}`", pod_core::quoted(key, 60));
        return Err(Flaw {
            why,
            nearest: nearest_key(key, KEYS),
        });
    }
    if let Some(env) = table.get("env") {
        check_env(env)?;
    }
    if table.contains_key("instructions") && table.contains_key("instructionsFile") {
        return Err(Flaw::new("has both `instructions` and `instructionsFile`"));
    }
    table.try_into().map_err(|error: toml::de::Error| {
        Flaw::new(format!(
            "cannot be read: {}",
            pod_core::quoted(error.message(), 200)
        ))
    })
}

/// Checked by hand, since a message of the parser would show a value, which may be a secret.
fn check_env(env: &Value) -> Result<(), Flaw> {
    let Value::Table(env) = env else {
        return Err(Flaw::new("has an `env` that is no table"));
    };
    for (key, value) in env {
        let shown = pod_core::quoted(key, 60);
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(Flaw::new(format!("sets `{shown}`, which can be no variable")));
        }
        match value {
            Value::String(text) if !text.contains('\0') => {}
            _ => return Err(Flaw::new(format!("sets `{shown}` to what is no text"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(text: &str) -> Result<AgentStore, ConfigError> {
        AgentStore::parse(Path::new("/h/agents.toml"), text)
    }

    fn name(text: &str) -> AgentName {
        text.parse().unwrap()
    }

    #[test]
    fn a_definition_is_read_whole() {
        let text = "[agents.dev]\ntype = 'command'\nmodel = 'm'\nbinary = '/b'\nargs = ['a', 'b']\n\
                    env = { KEY = 'v' }\ninstructions = 'role'\naccount = 'mine'\n";
        let dev = parse(text).unwrap().get(&name("dev")).unwrap().unwrap();
        assert_eq!((dev.kind.as_str(), dev.model.as_deref()), ("command", Some("m")));
        assert_eq!((dev.args.len(), dev.env["KEY"].as_str()), (2, "v"));
        assert_eq!(dev.account().0, "mine");
    }

    #[test]
    fn a_default_that_nobody_defined_is_pi() {
        let store = parse("[agents.dev]\ntype = 'demo'\n").unwrap();
        assert_eq!(store.get(&AgentName::default_agent()).unwrap(), Some(fallback()));
        assert_eq!(store.get(&name("none")).unwrap(), None);
        assert_eq!(store.names(), [AgentName::default_agent(), name("dev")]);
        assert_eq!(store.all().len(), 2);
        let store = parse("[agents.default]\ntype = 'demo'\n").unwrap();
        assert_eq!(
            store.get(&AgentName::default_agent()).unwrap().unwrap().kind,
            "demo"
        );
        assert_eq!(store.names().len(), 1);
    }

    #[test]
    fn one_odd_entry_disturbs_no_other() {
        let text = "[agents.good]\ntype = 'from-another-build'\n[agents.typo]\ntype = 'pi'\nmodle = 'x'\n\
                    [agents.bare]\n[agents.'Big Name']\ntype = 'pi'\n[agents]\nflat = 3\n\
                    both = { type = 'pi', instructions = 'a', instructionsFile = 'b' }\n";
        let store = parse(text).unwrap();
        assert_eq!(
            store.get(&name("good")).unwrap().unwrap().kind,
            "from-another-build"
        );
        let error = store.get(&name("typo")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "agent `typo` in `/h/agents.toml` has no key `modle`"
        );
        assert_eq!(ConfigError::from(error).hint(), "did you mean `model`?");
        for bad in ["bare", "flat", "both"] {
            assert!(store.get(&name(bad)).is_err(), "{bad}");
        }
        assert!(store.all()["Big Name"].is_err());
    }

    #[test]
    fn an_error_shows_no_value_of_env() {
        for env in [
            "{ KEY = 73736372 }",
            "{ KEY = ['73736372'] }",
            "{ 'A=B' = '73736372' }",
            "'73736372'",
        ] {
            let store = parse(&format!("[agents.a]\ntype = 'pi'\nenv = {env}\n")).unwrap();
            let error = store.get(&name("a")).unwrap_err();
            assert!(!error.to_string().contains("73736372"), "{error}");
        }
        let error = parse("[agents.a]\nenv = { KEY = '73736372\n").unwrap_err();
        assert!(!error.to_string().contains("73736372"), "{error}");
    }

    #[test]
    fn what_stands_beside_the_agents_is_an_error() {
        assert_eq!(
            parse("[agent.dev]\ntype = 'pi'\n").unwrap_err().hint(),
            "did you mean `agents`?"
        );
        assert!(parse("agents = 3\n").is_err());
        assert!(matches!(
            parse("\n[agents\n"),
            Err(ConfigError::Syntax { line: 2, .. })
        ));
    }

    #[test]
    fn instructions_come_from_the_definition_or_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let home = HomeLayout::new(directory.path());
        let mut agent = fallback();
        assert_eq!(instructions(&agent, &home).unwrap(), "");
        agent.instructions = Some("own".into());
        assert_eq!(instructions(&agent, &home).unwrap(), "own");
        agent.instructions_file = Some("role.md".into());
        assert!(matches!(instructions(&agent, &home), Err(ConfigError::Disk(error)) if error.is_missing()));
        fs::write(directory.path().join("role.md"), "filed").unwrap();
        assert_eq!(instructions(&agent, &home).unwrap(), "filed");
    }
}

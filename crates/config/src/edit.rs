//! Changing agents.toml without disturbing what a person wrote there.

use std::time::Duration;

use pod_core::{AgentDefinition, AgentName, HomeLayout};
use pod_disk::{FileLock, LockMode};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::agents::KEYS;
use crate::source::{read, resolved, syntax};
use crate::{ConfigError, IfPresent};

const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Adds or replaces an entry.
pub(crate) fn add(
    home: &HomeLayout,
    name: &AgentName,
    definition: &AgentDefinition,
    if_present: IfPresent,
) -> Result<(), ConfigError> {
    edit(home, |document| {
        let agents = agents(document, home)?;
        if agents.contains_key(name.as_str()) && if_present == IfPresent::Refuse {
            return Err(ConfigError::AgentExists { name: name.clone() });
        }
        let entry = agents
            .entry(name.as_str())
            .or_insert_with(|| Item::Table(Table::new()));
        if !entry.is_table_like() {
            *entry = Item::Table(Table::new());
        }
        if let Some(entry) = entry.as_table_like_mut() {
            fill(entry, definition);
        }
        Ok(())
    })
}

/// Removes an entry.
pub(crate) fn remove(home: &HomeLayout, name: &AgentName) -> Result<(), ConfigError> {
    edit(home, |document| {
        let Some(removed) = agents(document, home)?.remove(name.as_str()) else {
            return Err(ConfigError::NoSuchAgent { name: name.clone() });
        };
        keep_heading(document, &removed);
        Ok(())
    })
}

/// Reads, changes and writes the file, all under its lock.
fn edit(
    home: &HomeLayout,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    pod_disk::create_dirs(home.root())?;
    let lock = FileLock::take(&home.root().join("agents.lock"), LockMode::Exclusive, LOCK_WAIT)?;
    let file = home.agents();
    let text = read(&file)?.unwrap_or_default();
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| syntax(&file, &text, error.span(), error.message()))?;
    change(&mut document)?;
    // Behind a symlink it is the target that is replaced: the link is the person's.
    let target = resolved(&file)?.unwrap_or(file);
    pod_disk::replace_durably(&target, document.to_string().as_bytes())?;
    lock.unlock();
    Ok(())
}

fn agents<'a>(
    document: &'a mut DocumentMut,
    home: &HomeLayout,
) -> Result<&'a mut dyn TableLike, ConfigError> {
    let item = document.entry("agents").or_insert_with(|| {
        let mut table = Table::new();
        // It has no header of its own: its entries have.
        table.set_implicit(true);
        Item::Table(table)
    });
    let shape = || ConfigError::Shape {
        file: home.agents(),
        key: "agents".to_owned(),
        expected: "a table",
    };
    item.as_table_like_mut().ok_or_else(shape)
}

fn fill(entry: &mut dyn TableLike, definition: &AgentDefinition) {
    for key in KEYS {
        match value_of(definition, key) {
            None => {
                entry.remove(key);
            }
            Some(mut value) => {
                if let Some(old) = entry.get(key).and_then(Item::as_value) {
                    *value.decor_mut() = old.decor().clone();
                }
                entry.insert(key, Item::Value(value));
            }
        }
    }
}

fn value_of(definition: &AgentDefinition, key: &str) -> Option<Value> {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    match key {
        "type" => Some(Value::from(definition.kind.as_str())),
        "model" => text(&definition.model),
        "binary" => text(&definition.binary),
        "args" => (!definition.args.is_empty())
            .then(|| Value::Array(definition.args.iter().map(String::as_str).collect::<Array>())),
        "env" => (!definition.env.is_empty()).then(|| {
            let pairs = definition
                .env
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()));
            Value::InlineTable(pairs.collect::<InlineTable>())
        }),
        "instructions" => text(&definition.instructions),
        "instructionsFile" => text(&definition.instructions_file),
        "account" => text(&definition.account),
        _ => None,
    }
}

/// Keeps the comment at the head of the file, which the parser counts to the first entry.
///
/// A blank line ends it; what stands behind that belongs to the entry, and goes with it.
fn keep_heading(document: &mut DocumentMut, removed: &Item) {
    let prefix = removed
        .as_table()
        .and_then(|table| table.decor().prefix()?.as_str());
    let Some((heading, _)) = prefix.and_then(|prefix| prefix.rsplit_once("\n\n")) else {
        return;
    };
    if heading.trim().is_empty() {
        return;
    }
    let heading = format!("{heading}\n\n");
    let next = document
        .get_mut("agents")
        .and_then(Item::as_table_mut)
        .and_then(|agents| {
            agents
                .iter_mut()
                .find_map(|(_, item)| item.as_table_mut().map(Table::decor_mut))
        });
    match next {
        Some(decor) => {
            let old = decor
                .prefix()
                .and_then(|prefix| prefix.as_str())
                .unwrap_or_default();
            let joined = format!("{heading}{}", old.trim_start_matches('\n'));
            decor.set_prefix(joined);
        }
        None => {
            let old = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{heading}{old}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pod_core::AgentType;

    use super::*;
    use crate::AgentStore;

    fn place(text: &str) -> (tempfile::TempDir, HomeLayout) {
        let directory = tempfile::tempdir().unwrap();
        let home = HomeLayout::new(directory.path().join("home"));
        fs::create_dir(home.root()).unwrap();
        if !text.is_empty() {
            fs::write(home.agents(), text).unwrap();
        }
        (directory, home)
    }

    fn text(home: &HomeLayout) -> String {
        fs::read_to_string(home.agents()).unwrap()
    }

    fn name(text: &str) -> AgentName {
        text.parse().unwrap()
    }

    fn demo() -> AgentDefinition {
        AgentDefinition::of_type(AgentType::Demo)
    }

    #[test]
    fn what_was_added_reads_back_and_is_private() {
        let (_directory, home) = place("");
        let mut agent = demo();
        agent.model = Some("a \"b\"\nc".into());
        agent.args = vec!["--x".into(), "y z".into()];
        agent.env.insert("K.1".into(), "v".into());
        agent.instructions_file = Some("role.md".into());
        agent.account = Some("mine".into());
        AgentStore::add(&home, &name("dev"), &agent, IfPresent::Refuse).unwrap();
        AgentStore::add(&home, &name("two"), &demo(), IfPresent::Refuse).unwrap();
        let store = AgentStore::load(&home).unwrap();
        assert_eq!(store.get(&name("dev")).unwrap(), Some(agent));
        assert!(
            text(&home).starts_with("[agents.dev]\ntype = \"demo\"\n"),
            "{}",
            text(&home)
        );
        assert_eq!(
            fs::metadata(home.agents()).unwrap().permissions().mode() & 0o777,
            0o600
        );
        AgentStore::remove(&home, &name("dev")).unwrap();
        assert_eq!(AgentStore::load(&home).unwrap().get(&name("dev")).unwrap(), None);
        assert!(
            AgentStore::load(&home)
                .unwrap()
                .get(&name("two"))
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn an_entry_is_replaced_only_on_demand() {
        let (_directory, home) = place("[agents.a]\ntype = 'pi' # why\nmodel = 'm'\n");
        let refused = AgentStore::add(&home, &name("a"), &demo(), IfPresent::Refuse);
        assert!(matches!(refused, Err(ConfigError::AgentExists { .. })));
        AgentStore::add(&home, &name("a"), &demo(), IfPresent::Replace).unwrap();
        assert_eq!(text(&home), "[agents.a]\ntype = \"demo\" # why\n");
        let refused = AgentStore::remove(&home, &name("b"));
        assert!(matches!(refused, Err(ConfigError::NoSuchAgent { .. })));
    }

    #[test]
    fn comments_and_other_entries_survive() {
        let before = "# All agents.\n\n# The first.\n[agents.a]\ntype = 'pi'\n\n# The second.\n[agents.b]\n\
                      type = 'odd' # kept\nunknown = 1\n";
        let (_directory, home) = place(before);
        AgentStore::add(&home, &name("c"), &demo(), IfPresent::Refuse).unwrap();
        assert_eq!(text(&home), format!("{before}\n[agents.c]\ntype = \"demo\"\n"));
        AgentStore::remove(&home, &name("c")).unwrap();
        assert_eq!(text(&home), before);
        AgentStore::remove(&home, &name("a")).unwrap();
        let rest = "# All agents.\n\n# The second.\n[agents.b]\ntype = 'odd' # kept\nunknown = 1\n";
        assert_eq!(text(&home), rest);
        AgentStore::remove(&home, &name("b")).unwrap();
        assert_eq!(text(&home), "# All agents.\n\n");
    }

    #[test]
    fn a_file_that_is_no_toml_is_left_alone() {
        let (_directory, home) = place("[agents.a\n");
        assert!(AgentStore::add(&home, &name("b"), &demo(), IfPresent::Replace).is_err());
        assert_eq!(text(&home), "[agents.a\n");
    }

    #[test]
    fn a_symlink_stays_one() {
        let (directory, home) = place("");
        let real = directory.path().join("dotfiles.toml");
        fs::write(&real, "").unwrap();
        symlink(&real, home.agents()).unwrap();
        AgentStore::add(&home, &name("a"), &demo(), IfPresent::Refuse).unwrap();
        assert!(fs::symlink_metadata(home.agents()).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("[agents.a]"));
    }
}

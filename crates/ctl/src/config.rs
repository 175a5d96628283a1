//! `podctl config show`: what holds, and who said so.

use pod_config::{Config, Origin};
use pod_core::{KEYS, PoddLimits, PolicyOverrides};
use serde_json::{Map, Value, json};

use crate::args::ConfigCommand;
use crate::context::Context;
use crate::fault::{Ended, Exit};
use crate::table::Table;
use crate::ui;

/// One setting.
struct Setting {
    table: &'static str,
    key: &'static str,
    value: Value,
    origin: Origin,
}

/// Looks at the configuration.
pub(crate) fn run(context: &Context, command: &ConfigCommand) -> Ended {
    let ConfigCommand::Show { origin, format } = command;
    let settings = settings(&context.config()?);
    if format.json {
        ui::json(&as_json(&settings))?;
    } else {
        ui::answer(&table(&settings, *origin).draw(None))?;
    }
    Ok(Exit::Done)
}

fn settings(config: &Config) -> Vec<Setting> {
    let none = PolicyOverrides::default();
    let policy = serde_json::to_value(config.policy_for(&none)).unwrap_or_default();
    let podd = serde_json::to_value(&config.podd).unwrap_or_default();
    let of = |values: &Value, key: &str| values.get(key).cloned().unwrap_or(Value::Null);
    let limits = PoddLimits::KEYS.iter().map(|key| Setting {
        table: "podd",
        key,
        value: of(&podd, key),
        origin: config.podd_origin(key),
    });
    let policies = KEYS.iter().map(|known| Setting {
        table: "policy",
        key: known.name,
        value: of(&policy, known.name),
        origin: config.origin(known.name, &none),
    });
    limits.chain(policies).collect()
}

fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File(file) => pod_disk::shown(file),
        Origin::Pod => "pod".to_owned(),
    }
}

fn as_json(settings: &[Setting]) -> Value {
    let part = |table: &str, value: &dyn Fn(&Setting) -> Value| {
        let of_table = settings.iter().filter(|setting| setting.table == table);
        of_table
            .map(|setting| (setting.key.to_owned(), value(setting)))
            .collect::<Map<String, Value>>()
    };
    let value = |setting: &Setting| setting.value.clone();
    let origin = |setting: &Setting| Value::String(origin_text(&setting.origin));
    json!({
        "podd": part("podd", &value),
        "policy": part("policy", &value),
        "origin": { "podd": part("podd", &origin), "policy": part("policy", &origin) },
    })
}

fn table(settings: &[Setting], with_origin: bool) -> Table {
    let heading: &[&str] = if with_origin {
        &["KEY", "VALUE", "ORIGIN"]
    } else {
        &["KEY", "VALUE"]
    };
    let mut table = Table::new(heading);
    for setting in settings {
        let value = match &setting.value {
            Value::Null => "none".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut cells = vec![format!("{}.{}", setting.table, setting.key), value];
        cells.extend(with_origin.then(|| origin_text(&setting.origin)));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use pod_core::HomeLayout;

    use super::*;

    #[test]
    fn every_setting_is_shown_with_who_said_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = HomeLayout::new(directory.path());
        std::fs::write(home.config(), "[policy]\ncancelGrace = '1s'\n").unwrap();
        let config = Config::load(&home, None, &|_| None).unwrap();
        let settings = settings(&config);
        assert_eq!(settings.len(), KEYS.len() + PoddLimits::KEYS.len());
        let text = table(&settings, true).draw(None);
        let cells = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace()
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let file = home.config().display().to_string();
        assert_eq!(cells("policy.cancelGrace"), ["1s", &file]);
        assert_eq!(cells("podd.maxConcurrent"), ["8", "default"]);
        assert_eq!(cells("policy.maxCostUsd"), ["none", "default"]);
        let json = as_json(&settings);
        assert_eq!(json["policy"]["cancelGrace"], "1s");
        assert_eq!(json["origin"]["podd"]["startRate"], "default");
    }
}

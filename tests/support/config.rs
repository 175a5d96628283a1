//! The configuration of a test's home: the contract's policy at the pace of tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const PODD_KEYS: [&str; 4] = ["maxConcurrent", "minFreeDisk", "minFreeMemory", "startRate"];

const PACE: [(&str, &str); 12] = [
    ("heartbeatInterval", "200ms"),
    // Generous, since a busy machine must not make a live wrapper look wedged.
    ("wedgeAfter", "50"),
    ("cancelGrace", "1s"),
    ("settleGrace", "1s"),
    ("drainLimit", "5s"),
    ("sweepGrace", "500ms"),
    ("backoffFirst", "100ms"),
    ("backoffCap", "1s"),
    ("backoffJitter", "0"),
    ("startRate", "1000"),
    ("minFreeDisk", "0B"),
    ("minFreeMemory", "0B"),
];

/// What config.toml says.
#[derive(Debug, Clone)]
pub struct Config {
    values: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        let values = PACE.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            values: values.into(),
        }
    }
}

impl Config {
    /// Sets a key of `[policy]` or `[podd]`.
    pub fn set(&mut self, key: &str, value: &str) -> &mut Self {
        self.values.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (table, is_podd) in [("podd", true), ("policy", false)] {
            writeln!(text, "[{table}]").expect("a String takes every write");
            for (key, value) in &self.values {
                if PODD_KEYS.contains(&key.as_str()) == is_podd {
                    let bare = value.parse::<f64>().is_ok();
                    let quote = if bare { "" } else { "\"" };
                    writeln!(text, "{key} = {quote}{value}{quote}").expect("a String takes every write");
                }
            }
        }
        text
    }
}

//! What a pod's keeper may set, with the defaults of contract section 8.
//!
//! One table makes the effective policy, what a record or a configuration file overrides, the names for
//! help and completion, and the reading of text.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::outcome::words;
use crate::{AgentName, ByteSize, Span};

words! {
    /// What follows a lost wake-up.
    OnLost {
        /// Once warm, then cold.
        WarmOnce = "warmOnce",
        /// Always cold.
        Cold = "cold",
        /// Nothing: the pod is parked.
        Park = "park",
    }
}

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No such key.
    #[error("there is no setting `{key}`")]
    UnknownKey {
        /// The key.
        key: String,
        /// The nearest key that exists.
        nearest: Option<&'static str>,
    },
    /// The key exists and the value does not fit it.
    #[error("`{key}` cannot be `{value}`: {why}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What would fit.
        why: String,
    },
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct PolicyKey {
    /// Its name in files and flags.
    pub name: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

macro_rules! policy {
    ({$($(#[doc = $doc:literal])* $field:ident $name:literal: $kind:ty = $default:literal, $check:expr;)+}
     optional {$($(#[doc = $odoc:literal])* $ofield:ident $oname:literal: $okind:ty, $ocheck:expr;)+}) => {
        /// The policy that holds for a pod.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct Policy {
            $($(#[doc = $doc])* pub $field: $kind,)+
            $($(#[doc = $odoc])* pub $ofield: Option<$okind>,)+
        }

        /// What one layer (a pod, a file) says; `None` where it says nothing.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct PolicyOverrides {
            $($(#[doc = $doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$kind>,)+
            $($(#[doc = $odoc])* #[serde(skip_serializing_if = "Option::is_none")] pub $ofield: Option<$okind>,)+
            /// Keys of another version.
            #[serde(flatten)]
            pub extra: Map<String, Value>,
        }

        /// Every setting, in the order of the contract.
        pub const KEYS: &[PolicyKey] = &[
            $(PolicyKey { name: $name, default: $default, doc: concat!($($doc),*) },)+
            $(PolicyKey { name: $oname, default: "none", doc: concat!($($odoc),*) },)+
        ];

        impl Policy {
            /// The policy that several layers make together; an earlier one beats a later one.
            pub fn of_layers(layers: &[&PolicyOverrides]) -> Self {
                Self {
                    $($field: layers.iter().find_map(|layer| layer.$field.clone())
                        .unwrap_or_else(|| $default.parse().expect("the table's defaults are sound")),)+
                    $($ofield: layers.iter().find_map(|layer| layer.$ofield.clone()),)+
                }
            }

            /// This policy with what one more layer says.
            #[must_use]
            pub fn overlaid(&self, layer: &PolicyOverrides) -> Self {
                Self {
                    $($field: layer.$field.clone().unwrap_or_else(|| self.$field.clone()),)+
                    $($ofield: layer.$ofield.clone().or_else(|| self.$ofield.clone()),)+
                }
            }

            /// One setting as text; `none` where it is not set.
            pub fn text_of(&self, key: &str) -> Option<String> {
                match key {
                    $($name => Some(self.$field.to_string()),)+
                    $($oname => Some(self.$ofield.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)),)+
                    _ => None,
                }
            }
        }

        impl PolicyOverrides {
            /// Sets a key from text.
            pub fn set(&mut self, key: &str, text: &str) -> Result<(), PolicyError> {
                match key {
                    $($name => self.$field = Some(read($name, text, $check)?),)+
                    $($oname if text == "none" => self.$ofield = None,)+
                    $($oname => self.$ofield = Some(read($oname, text, $ocheck)?),)+
                    _ => return Err(unknown(key)),
                }
                Ok(())
            }

            /// Removes what this layer says of a key.
            pub fn unset(&mut self, key: &str) -> Result<(), PolicyError> {
                match key {
                    $($name => self.$field = None,)+
                    $($oname => self.$ofield = None,)+
                    _ => return Err(unknown(key)),
                }
                Ok(())
            }

            /// Whether this layer says anything of a key.
            pub fn says(&self, key: &str) -> bool {
                match key {
                    $($name => self.$field.is_some(),)+
                    $($oname => self.$ofield.is_some(),)+
                    _ => false,
                }
            }
        }
    };
}

fn any<T>(_: &T) -> Result<(), &'static str> {
    Ok(())
}

fn positive(span: &Span) -> Result<(), &'static str> {
    if span.0.is_zero() {
        Err("it must be longer than nothing")
    } else {
        Ok(())
    }
}

fn at_least_one(count: &u32) -> Result<(), &'static str> {
    if *count == 0 {
        Err("it must be at least 1")
    } else {
        Ok(())
    }
}

fn within_record(count: &u32) -> Result<(), &'static str> {
    // The streak is counted over the wake-ups that the record keeps.
    if (1..=50).contains(count) {
        Ok(())
    } else {
        Err("it must be from 1 to 50")
    }
}

fn factor(factor: &f64) -> Result<(), &'static str> {
    if (1.0..=1000.0).contains(factor) {
        Ok(())
    } else {
        Err("it must be from 1 to 1000")
    }
}

fn fraction(fraction: &f64) -> Result<(), &'static str> {
    if (0.0..=1.0).contains(fraction) {
        Ok(())
    } else {
        Err("it must be from 0 to 1")
    }
}

fn money(money: &f64) -> Result<(), &'static str> {
    if money.is_finite() && *money >= 0.0 {
        Ok(())
    } else {
        Err("it must be an amount of US dollars")
    }
}

policy! {{
    /// The agent definition that wake-ups follow
    agent "agent": AgentName = "default", any;
    /// How often the wrapper proves that it lives
    heartbeat_interval "heartbeatInterval": Span = "30s", positive;
    /// How many intervals without a heartbeat make a wrapper wedged
    wedge_after "wedgeAfter": u32 = "3", at_least_one;
    /// From SIGTERM to SIGKILL
    cancel_grace "cancelGrace": Span = "10s", any;
    /// Silence after the agent's last event, until its group is ended
    settle_grace "settleGrace": Span = "30s", any;
    /// How long output is read at most once the agent has exited
    drain_limit "drainLimit": Span = "30s", any;
    /// From SIGTERM to SIGKILL for what an agent left behind
    sweep_grace "sweepGrace": Span = "2s", any;
    /// How long a wake-up may run
    wake_timeout "wakeTimeout": Span = "4h", positive;
    /// How long nothing at all may move
    stall_timeout "stallTimeout": Span = "45m", positive;
    /// Failed and lost wake-ups in a row until the pod is parked
    max_failures "maxFailures": u32 = "3", within_record;
    /// The first delay after a failure
    backoff_first "backoffFirst": Span = "30s", any;
    /// What each further failure multiplies it by
    backoff_factor "backoffFactor": f64 = "2", factor;
    /// The longest delay
    backoff_cap "backoffCap": Span = "30m", any;
    /// How far a delay may vary, as a fraction of itself
    backoff_jitter "backoffJitter": f64 = "0.1", fraction;
    /// Wake-ups until the pod is parked
    max_wake_ups "maxWakeUps": u32 = "100", at_least_one;
    /// What follows a lost wake-up: warmOnce, cold or park
    on_lost "onLost": OnLost = "warmOnce", any;
    /// Bytes of output until a wake-up is ended
    output_limit "outputLimit": ByteSize = "2GiB", any;
    /// Wake-up directories that are kept
    keep_wake_ups "keepWakeUps": u32 = "100", at_least_one;
    /// How long wake-up directories are kept
    keep_for "keepFor": Span = "90d", positive;
    /// Files above it are left out where unsaved work is kept
    save_file_limit "saveFileLimit": ByteSize = "10MiB", any;
    /// Gate runs in a row without a stable worktree until the pod is parked
    max_gate_reruns "maxGateReruns": u32 = "3", at_least_one;
    /// Wake-ups in a row that repair a failing gate until the pod is parked
    max_gate_repairs "maxGateRepairs": u32 = "3", any;
    /// What is kept of what a gate's step prints
    max_gate_output "maxGateOutput": ByteSize = "16MiB", any;
    /// The wait for a limit whose end is unknown
    limit_default "limitDefault": Span = "15m", positive;
}
optional {
    /// The model that wake-ups ask for
    model "model": String, any;
    /// Money, in US dollars, until the pod is parked
    max_cost_usd "maxCostUsd": f64, money;
    /// Input and output tokens until the pod is parked
    max_tokens "maxTokens": u64, any;
}}

/// Limits of one podd, under `[podd]` in config.toml.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoddLimits {
    /// Wake-ups at once.
    pub max_concurrent: u32,
    /// Free disk at home and project below which nothing starts.
    pub min_free_disk: ByteSize,
    /// Free memory below which nothing starts.
    pub min_free_memory: ByteSize,
    /// Starts a second.
    pub start_rate: u32,
}

impl Default for PoddLimits {
    fn default() -> Self {
        Self {
            max_concurrent: 8,
            min_free_disk: ByteSize::mib(1024),
            min_free_memory: ByteSize::mib(512),
            start_rate: 20,
        }
    }
}

impl PoddLimits {
    /// The names of its keys.
    pub const KEYS: &'static [&'static str] = &["maxConcurrent", "minFreeDisk", "minFreeMemory", "startRate"];

    /// Sets a key from text.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), PolicyError> {
        match key {
            "maxConcurrent" => self.max_concurrent = read("maxConcurrent", text, at_least_one)?,
            "minFreeDisk" => self.min_free_disk = read("minFreeDisk", text, any)?,
            "minFreeMemory" => self.min_free_memory = read("minFreeMemory", text, any)?,
            "startRate" => self.start_rate = read("startRate", text, at_least_one)?,
            _ => {
                return Err(PolicyError::UnknownKey {
                    key: crate::quoted(key, 60),
                    nearest: nearest_key(key, Self::KEYS),
                });
            }
        }
        Ok(())
    }
}

fn read<T>(
    key: &'static str,
    text: &str,
    check: impl Fn(&T) -> Result<(), &'static str>,
) -> Result<T, PolicyError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let bad = |why: String| PolicyError::BadValue {
        key,
        value: crate::quoted(text, 60),
        why,
    };
    let value = text.parse::<T>().map_err(|error| bad(error.to_string()))?;
    check(&value).map_err(|why| bad(why.to_owned()))?;
    Ok(value)
}

fn unknown(key: &str) -> PolicyError {
    let names: Vec<&'static str> = KEYS.iter().map(|known| known.name).collect();
    PolicyError::UnknownKey {
        key: crate::quoted(key, 60),
        nearest: nearest_key(key, &names),
    }
}

/// The name that a misspelt one most likely meant.
pub fn nearest_key(wrong: &str, names: &[&'static str]) -> Option<&'static str> {
    let flat = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wrong = flat(wrong);
    names
        .iter()
        .map(|name| (strsim::jaro_winkler(&wrong, &flat(name)), *name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound_and_layers_stack() {
        let none = PolicyOverrides::default();
        let defaults = Policy::of_layers(&[]);
        for key in KEYS {
            assert_eq!(
                defaults.text_of(key.name).as_deref(),
                Some(key.default),
                "{}",
                key.name
            );
        }
        let (mut pod, mut file) = (none.clone(), none.clone());
        pod.set("cancelGrace", "1s").unwrap();
        file.set("cancelGrace", "9s").unwrap();
        file.set("maxCostUsd", "2.5").unwrap();
        let policy = Policy::of_layers(&[&pod, &file]);
        assert_eq!(policy.cancel_grace, Span::secs(1));
        assert_eq!(policy.max_cost_usd, Some(2.5));
        pod.unset("cancelGrace").unwrap();
        assert_eq!(pod, none);
    }

    #[test]
    fn a_refusal_helps() {
        let mut layer = PolicyOverrides::default();
        let error = layer.set("max-wakeups", "3").unwrap_err();
        assert_eq!(
            error,
            PolicyError::UnknownKey {
                key: "max-wakeups".into(),
                nearest: Some("maxWakeUps")
            }
        );
        assert!(layer.set("maxFailures", "51").is_err());
        assert!(layer.set("maxFailures", "0").is_err());
        assert!(layer.set("backoffFactor", "NaN").is_err());
        assert!(layer.set("wakeTimeout", "0s").is_err());
        assert_eq!(layer, PolicyOverrides::default());
    }

    #[test]
    fn keys_of_another_version_survive() {
        let text = r#"{"cancelGrace":"1s","newThing":7}"#;
        let layer: PolicyOverrides = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&layer).unwrap(), text);
    }
}

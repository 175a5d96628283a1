//! `agents-pod.toml` of a project: gates, scope and stages.

use std::collections::BTreeMap;

use pod_core::{
    AgentName, GateDefinitions, GateMode, Scope, ScopeDefinition, Stage, StepDefinition, nearest_key,
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The file's name, in the project.
pub const GATES_FILE: &str = "agents-pod.toml";

/// Why the file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct GatesError {
    why: String,
    hint: String,
}

impl GatesError {
    fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            hint: hint.into(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    gates: BTreeMap<String, GateTable>,
    #[serde(default)]
    scope: ScopeDefinition,
    #[serde(default)]
    stages: BTreeMap<String, AgentName>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GateTable {
    steps: Vec<StepDefinition>,
}

/// Reads the file. An unknown key is an error with the nearest that exists.
pub fn parse_gates(text: &str) -> Result<GateDefinitions, GatesError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let why = error.to_string();
        GatesError::new(
            why.trim_end().replace('\n', " "),
            "gates are `[gates.fast]`, `[gates.full]`, `[gates.merge]` with `steps = [{ name = \"…\", run = \"…\" }]`; \
             beside them stand `[scope]` and `[stages]`",
        )
    })?;
    let mut definitions = GateDefinitions {
        scope: file.scope,
        ..GateDefinitions::default()
    };
    Scope::new(definitions.scope.clone())
        .map_err(|error| GatesError::new(error.to_string(), "`*` stops at `/`, `**` does not"))?;
    for (name, table) in file.gates {
        let mode: GateMode = name
            .parse()
            .map_err(|_| unknown("gate", &name, &["fast", "full", "merge"]))?;
        if table.steps.is_empty() {
            let why = format!("gate `{mode}` has no steps");
            return Err(GatesError::new(
                why,
                "name at least one step, or leave the gate out",
            ));
        }
        for step in &table.steps {
            let wrong = match step {
                step if step.name.trim().is_empty() => Some("name"),
                step if step.run.trim().is_empty() => Some("run"),
                step if step.timeout.0.is_zero() => Some("timeout"),
                _ => None,
            };
            if let Some(key) = wrong {
                let why = format!("a step of gate `{mode}` has an empty `{key}`");
                return Err(GatesError::new(why, "a step has a name and something to run"));
            }
        }
        definitions.gates.insert(mode, table.steps);
    }
    for (name, agent) in file.stages {
        let stage = match name.as_str() {
            "building" => Stage::Building,
            "qa" => Stage::Qa,
            _ => return Err(unknown("stage", &name, &["building", "qa"])),
        };
        definitions.stages.insert(stage, agent);
    }
    Ok(definitions)
}

fn unknown(what: &str, name: &str, known: &[&'static str]) -> GatesError {
    let hint = nearest_key(name, known).map_or_else(
        || format!("there are: {}", known.join(", ")),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    GatesError::new(
        format!("there is no {what} `{}`", pod_core::quoted(name, 60)),
        hint,
    )
}

/// The hash of a gate's steps as they were read: spaces and comments of the file do not count.
pub fn definition_hash(steps: &[StepDefinition]) -> String {
    let text = serde_json::to_string(steps).unwrap_or_default();
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_its_steps_have_a_hash() {
        let text = r#"
            [gates.fast] # quick
            steps = [{ name = "check", run = "cargo check", timeout = "10m" }, { name = "b", run = "true" }]
            [scope]
            allow = ["src/**"]
            [stages]
            qa = "reviewer"
        "#;
        let read = parse_gates(text).unwrap();
        let steps = &read.gates[&GateMode::Fast];
        assert_eq!(
            (steps[0].timeout.0.as_secs(), steps[1].timeout.0.as_secs()),
            (600, 1800)
        );
        assert_eq!(read.stages[&Stage::Qa].as_str(), "reviewer");
        let same = parse_gates(&text.replace("# quick", "")).unwrap();
        assert_eq!(
            definition_hash(steps),
            definition_hash(&same.gates[&GateMode::Fast])
        );
        let other = parse_gates(&text.replace("cargo check", "true")).unwrap();
        assert_ne!(
            definition_hash(steps),
            definition_hash(&other.gates[&GateMode::Fast])
        );
        assert_eq!(parse_gates("").unwrap(), GateDefinitions::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_a_way_out() {
        for (text, word) in [
            ("[gates.fats]\nsteps=[{name='a',run='b'}]", "did you mean `fast`?"),
            ("[gates.fast]\nsteps=[]", "no steps"),
            ("[gates.fast]\nsteps=[{name='a'}]", "run"),
            ("[gates.fast]\nsteps=[{name='',run='b'}]", "empty `name`"),
            ("[gates.fast]\nsteps=[{name='a',run='b',timeout='0s'}]", "timeout"),
            ("[gates.fast]\nsteps=[{name='a',run='b',extra=1}]", "extra"),
            ("[scope]\nalow=[]", "alow"),
            ("[scope]\nallow=['a[']", "no pattern"),
            ("[stages]\nready_to_merge='x'", "no stage"),
            ("x = 1", "unknown field"),
        ] {
            let error = parse_gates(text).unwrap_err();
            let said = format!("{error} {}", error.hint());
            assert!(said.contains(word), "{text}: {said}");
        }
    }
}

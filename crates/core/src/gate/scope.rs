//! Which paths a pod may change, and what its gates are.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use super::{GateMode, Stage, Violation, ViolationKind};
use crate::{AgentName, Span};

/// One step of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// Its name.
    pub name: String,
    /// What `sh -c` runs, in the project.
    pub run: String,
    /// How long it may take.
    #[serde(default = "StepDefinition::default_timeout")]
    pub timeout: Span,
}

impl StepDefinition {
    fn default_timeout() -> Span {
        Span::secs(30 * 60)
    }
}

/// Which paths may change, relative to the project.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeDefinition {
    /// Those that may; empty: all.
    pub allow: Vec<String>,
    /// Those that may not, whatever `allow` says.
    pub deny: Vec<String>,
}

/// What `agents-pod.toml` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GateDefinitions {
    /// The gates that are defined, with their steps.
    pub gates: BTreeMap<GateMode, Vec<StepDefinition>>,
    /// Which paths may change.
    pub scope: ScopeDefinition,
    /// The agents of stages.
    pub stages: BTreeMap<Stage, AgentName>,
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern: {why}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

/// A scope that can be asked.
#[derive(Debug, Clone)]
pub struct Scope {
    definition: ScopeDefinition,
    allow: GlobSet,
    deny: GlobSet,
}

impl Scope {
    /// Reads the patterns: `*` stops at `/`, `**` does not.
    pub fn new(definition: ScopeDefinition) -> Result<Self, PatternError> {
        Ok(Self {
            allow: set(&definition.allow)?,
            deny: set(&definition.deny)?,
            definition,
        })
    }

    /// The rule that a change of this path breaks. `shown` is the path for people.
    pub fn violation(&self, path: &Path, shown: &str) -> Option<Violation> {
        let rule = match self.deny.matches(path).first() {
            Some(at) => format!("deny {}", self.definition.deny[*at]),
            None if self.definition.allow.is_empty() || self.allow.is_match(path) => return None,
            None => format!("not in allow {}", self.definition.allow.join(", ")),
        };
        Some(Violation {
            path: shown.to_owned(),
            rule,
            reason: ViolationKind::OutsideAllowedAreas,
        })
    }
}

fn set(patterns: &[String]) -> Result<GlobSet, PatternError> {
    let mut all = GlobSetBuilder::new();
    for pattern in patterns {
        all.add(glob(pattern)?);
    }
    all.build().map_err(|error| PatternError {
        pattern: patterns.join(", "),
        why: error.to_string(),
    })
}

fn glob(pattern: &str) -> Result<Glob, PatternError> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    built.map_err(|error| PatternError {
        pattern: crate::quoted(pattern, 200),
        why: error.kind().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        let scope = |allow: &[&str], deny: &[&str]| {
            let list = |patterns: &[&str]| patterns.iter().map(|one| (*one).to_owned()).collect();
            let definition = ScopeDefinition {
                allow: list(allow),
                deny: list(deny),
            };
            Scope::new(definition).unwrap()
        };
        let rule = |scope: &Scope, path: &str| scope.violation(Path::new(path), path).map(|found| found.rule);
        let some = scope(&["src/**", "*.md"], &["**/*.lock"]);
        for fine in ["src/a.rs", "src/a/b/c", "README.md"] {
            assert_eq!(rule(&some, fine), None, "{fine}");
        }
        for (path, broken) in [
            ("src/x.lock", "deny **/*.lock"),
            ("x.lock", "deny **/*.lock"),
            ("docs/README.md", "not in allow src/**, *.md"),
            ("src", "not in allow src/**, *.md"),
        ] {
            assert_eq!(rule(&some, path).as_deref(), Some(broken), "{path}");
        }
        assert_eq!(rule(&scope(&[], &[]), "anything/at/all"), None);
        let bad = ScopeDefinition {
            allow: vec!["a[".into()],
            deny: vec![],
        };
        assert!(
            Scope::new(bad)
                .unwrap_err()
                .to_string()
                .contains("`a[` is no pattern")
        );
    }
}

//! Why no wake-up was claimed.

use std::error::Error;
use std::fmt::Write as _;

/// A refusal: nothing was claimed, and nothing has to be settled.
#[derive(Debug)]
pub(crate) struct Refused {
    error: String,
    causes: Vec<String>,
    hint: String,
}

impl Refused {
    pub(crate) fn new(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            causes: Vec::new(),
            hint: hint.into(),
        }
    }

    pub(crate) fn because(error: impl Into<String>, cause: &dyn Error, hint: impl Into<String>) -> Self {
        let mut causes = Vec::new();
        let mut next = Some(cause);
        while let Some(cause) = next {
            let said = cause.to_string();
            // A transparent error says what its source says.
            if causes.last() != Some(&said) {
                causes.push(said);
            }
            next = cause.source();
        }
        Self {
            causes,
            ..Self::new(error, hint)
        }
    }

    /// The text for stderr, as every program of ours writes errors.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", pod_core::escaped(&self.error));
        for cause in &self.causes {
            writeln!(text, "  caused by: {}", pod_core::escaped(cause)).expect("a String takes every write");
        }
        writeln!(text, "hint: {}", self.hint).expect("a String takes every write");
        text
    }
}

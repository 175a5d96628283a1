//! Names that become paths, and the token that marks a wake-up's processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The name has a character, a length or a beginning that no id may have.
    #[error("`{shown}` is not an id: ids match {pattern}")]
    Malformed {
        /// The name, with control characters escaped.
        shown: String,
        /// What would match, as a regular expression.
        pattern: &'static str,
    },
    /// The name belongs to a directory that stands beside the pods.
    #[error("`{0}` is reserved and names no pod")]
    Reserved(&'static str),
}

/// What a kind of name looks like.
struct Rule {
    pattern: &'static str,
    matches: fn(&[u8]) -> bool,
    reserved: Option<&'static str>,
}

/// Names of pods and agents.
const LOWER: Rule = Rule {
    pattern: "[a-z0-9][a-z0-9-]{0,62}",
    matches: |bytes| {
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        (1..=63).contains(&bytes.len()) && plain(&bytes[0]) && bytes.iter().all(|b| plain(b) || *b == b'-')
    },
    reserved: None,
};

/// Names of waves and subagents, which others choose.
const WORD: Rule = Rule {
    pattern: "[A-Za-z0-9_-]{1,64}",
    matches: |bytes| {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        (1..=64).contains(&bytes.len()) && bytes.iter().all(plain)
    },
    reserved: None,
};

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as it stands in files and paths.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(name: &str) -> Result<Self, IdError> {
                let Rule { pattern, matches, reserved } = $rule;
                if !matches(name.as_bytes()) {
                    return Err(IdError::Malformed { shown: crate::quoted(name, 80), pattern });
                }
                match reserved {
                    Some(word) if word == name => Err(IdError::Reserved(word)),
                    _ => Ok(Self(name.to_owned())),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(name: String) -> Result<Self, IdError> {
                name.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// The name of a pod. It is checked once, here, and may then become a path.
    PodId,
    Rule {
        reserved: Some(crate::WAVES),
        ..LOWER
    }
);
name_type!(
    /// The name of an agent definition.
    AgentName,
    LOWER
);
name_type!(
    /// The name of a wave: subagents that were dispatched together. It becomes a path.
    WaveId,
    WORD
);
name_type!(
    /// The name of a subagent within its wave. It becomes a path.
    SubId,
    WORD
);

impl AgentName {
    /// The definition that a pod follows when it names none.
    pub fn default_agent() -> Self {
        Self("default".to_owned())
    }
}

/// The random mark of one wake-up, which every process below it carries in its environment.
///
/// Whoever holds it can pass for the wake-up, so its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Makes a token of random bytes that the caller drew.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        use fmt::Write as _;
        let mut hex = String::with_capacity(32);
        for byte in bytes {
            write!(hex, "{byte:02x}").expect("a String takes every write");
        }
        Self(hex)
    }

    /// Takes a token as it was found in an environment or a file.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The token as it stands in environments and files.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_the_contract_says() {
        for good in ["a", "0", "fix-login-7k2m", &"a".repeat(63)] {
            assert!(good.parse::<PodId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "A",
            "a_b",
            "a/b",
            "..",
            ".",
            "a\n",
            "é",
            "waves",
            &"a".repeat(64),
        ] {
            assert!(bad.parse::<PodId>().is_err(), "{bad}");
        }
        assert!("waves".parse::<AgentName>().is_ok());
        for good in ["1", "A-0_x", "-", &"a".repeat(64)] {
            assert!(good.parse::<WaveId>().is_ok(), "{good}");
        }
        for bad in ["", ".", "a.b", "a/b", "é", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<SubId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let token = Token::from_random([7; 16]);
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(token.reveal().len(), 32);
    }
}

//! Subagent checkpoints: what a subagent knew when it was cut off, for whoever dispatches it again.
//!
//! The files are the seed's contract: one small JSON object a subagent, with four keys of ours around whatever the
//! subagent wants to keep.

mod brief;
mod judge;
mod state;

pub use brief::brief;
pub use judge::{BranchCheck, ClaimedCommit, CommitFacts, Expected, JudgeVerdict, Judgement, Report, judge};
pub use state::{RUNNING_FOR, SubState, SubView, sub_state};

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{SCHEMA_VERSION, SubId, Timestamp, WaveId};

/// The keys that are ours in a checkpoint.
const OURS: [&str; 4] = ["schema_version", "wave_id", "sub_id", "ts"];

/// Why something is no subagent checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubCheckpointError {
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    NotJson(String),
    /// It is JSON, and no object.
    #[error("it is no JSON object")]
    NotAnObject,
    /// The payload has a key that is not its own.
    #[error("the key `{0}` is set by podctl and cannot be in the payload")]
    OurKey(&'static str),
    /// It would be too long.
    #[error("the checkpoint would be {bytes} bytes long, and the limit is {limit} bytes")]
    TooLong {
        /// How long it would be, our own keys included.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Another version wrote it.
    #[error("it has schema_version {0}, which this version does not know")]
    Newer(u64),
    /// A key of ours is missing or makes no sense.
    #[error("its `{0}` is missing or makes no sense")]
    Key(&'static str),
}

/// One subagent's checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct SubCheckpoint {
    /// The wave.
    pub wave: WaveId,
    /// The subagent.
    pub sub: SubId,
    /// When it was written.
    pub at: Timestamp,
    /// What the subagent keeps, under any keys but ours.
    pub payload: Map<String, Value>,
    /// The same as it was written, without blanks: a number may have more digits than we can count with.
    raw: BTreeMap<String, String>,
}

impl SubCheckpoint {
    /// The longest file, in bytes.
    pub const LIMIT: usize = 4096;

    /// Takes a payload as the subagent hands it over.
    pub fn new(wave: WaveId, sub: SubId, at: Timestamp, payload: &str) -> Result<Self, SubCheckpointError> {
        let raw = raw_members(payload.as_bytes())?;
        let payload = object(payload.as_bytes())?;
        match OURS.into_iter().find(|key| payload.contains_key(*key)) {
            Some(key) => Err(SubCheckpointError::OurKey(key)),
            None => Ok(Self {
                wave,
                sub,
                at,
                payload,
                raw,
            }),
        }
    }

    /// Reads a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, SubCheckpointError> {
        let mut raw = raw_members(bytes)?;
        raw.retain(|key, _| !OURS.contains(&key.as_str()));
        let mut payload = object(bytes)?;
        let mut text = |key| match payload.remove(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(SubCheckpointError::Key(key)),
        };
        let (wave, sub, at) = (text("wave_id")?, text("sub_id")?, text("ts")?);
        let wave = wave.parse().map_err(|_| SubCheckpointError::Key("wave_id"))?;
        let sub = sub.parse().map_err(|_| SubCheckpointError::Key("sub_id"))?;
        let at = at.parse().map_err(|_| SubCheckpointError::Key("ts"))?;
        match payload
            .remove("schema_version")
            .and_then(|version| version.as_u64())
        {
            Some(version) if version > u64::from(SCHEMA_VERSION) => Err(SubCheckpointError::Newer(version)),
            Some(_) => Ok(Self {
                wave,
                sub,
                at,
                payload,
                raw,
            }),
            None => Err(SubCheckpointError::Key("schema_version")),
        }
    }

    /// The file, which is refused if it would be longer than [`Self::LIMIT`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, SubCheckpointError> {
        let ours = [
            Value::from(SCHEMA_VERSION),
            Value::from(self.wave.as_str()),
            Value::from(self.sub.as_str()),
            Value::from(self.at.to_string()),
        ];
        let ours = OURS.iter().copied().zip(ours.iter().map(Value::to_string));
        let theirs = self.raw.iter().map(|(key, raw)| (key.as_str(), raw.clone()));
        let members: Vec<String> = ours
            .chain(theirs)
            .map(|(key, value)| format!("{}:{value}", Value::from(key)))
            .collect();
        let text = format!("{{{}}}\n", members.join(","));
        if text.len() > Self::LIMIT {
            return Err(SubCheckpointError::TooLong {
                bytes: text.len(),
                limit: Self::LIMIT,
            });
        }
        Ok(text.into_bytes())
    }

    /// What keeps the subagent from going on, if it said so.
    pub fn blockers(&self) -> Option<String> {
        let text = self.list("blockers").join(", ");
        (!text.trim().is_empty()).then_some(text)
    }

    /// A key as a list of texts: a subagent may write one as well as several.
    pub fn list(&self, key: &str) -> Vec<String> {
        let text = |value: &Value| match value {
            // What says nothing in any language.
            Value::Null | Value::Bool(false) => None,
            Value::Array(items) if items.is_empty() => None,
            Value::Object(fields) if fields.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        match self.payload.get(key) {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
            Some(value) => text(value).into_iter().collect(),
        }
    }
}

/// The members of an object as they are written, without blanks.
fn raw_members(bytes: &[u8]) -> Result<BTreeMap<String, String>, SubCheckpointError> {
    let members: BTreeMap<String, Box<RawValue>> = match serde_json::from_slice(bytes) {
        Ok(members) => members,
        // Said better by whoever reads it as an object.
        Err(_) => return object(bytes).map(|_| BTreeMap::new()),
    };
    Ok(members
        .into_iter()
        .map(|(key, raw)| (key, without_blanks(raw.get())))
        .collect())
}

fn without_blanks(json: &str) -> String {
    let (mut text, mut quoted, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if quoted || !c.is_ascii_whitespace() {
            text.push(c);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    text
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, SubCheckpointError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(SubCheckpointError::NotAnObject),
        Err(error) => Err(SubCheckpointError::NotJson(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(payload: &str) -> Result<SubCheckpoint, SubCheckpointError> {
        let at = "2026-11-30T20:02:00.000Z".parse().unwrap();
        SubCheckpoint::new("7".parse().unwrap(), "A-1".parse().unwrap(), at, payload)
    }

    #[test]
    fn a_checkpoint_reads_back_with_keys_of_anybody() {
        let made = made(r#"{"tool_use_count":3,"mine":{"é":[1]}}"#).unwrap();
        let bytes = made.to_bytes().unwrap();
        assert!(bytes.starts_with(
            br#"{"schema_version":1,"wave_id":"7","sub_id":"A-1","ts":"2026-11-30T20:02:00.000Z","#
        ));
        assert_eq!(SubCheckpoint::parse(&bytes), Ok(made));
    }

    #[test]
    fn numbers_stay_as_they_were_written_and_blanks_do_not() {
        let made = made(
            "{ \"n\" : 123456789012345678901234567890.10 ,\n \"s\": \" a \\\" b \", \"l\": [ 1, { } ] }",
        )
        .unwrap();
        let text = String::from_utf8(made.to_bytes().unwrap()).unwrap();
        assert!(
            text.contains(r#""n":123456789012345678901234567890.10"#),
            "{text}"
        );
        assert!(
            text.contains(r#""s":" a \" b ""#) && text.contains(r#""l":[1,{}]"#),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_checkpoint_is_refused_by_name() {
        use SubCheckpointError::{Key, Newer, NotAnObject, NotJson, OurKey};
        assert!(matches!(made("{"), Err(NotJson(_))));
        assert_eq!(made("[]"), Err(NotAnObject));
        assert_eq!(made(r#"{"ts":1}"#), Err(OurKey("ts")));
        let parse = |text: &str| SubCheckpoint::parse(text.as_bytes());
        assert_eq!(parse("{}"), Err(Key("wave_id")));
        let whole = r#"{"schema_version":1,"wave_id":"w","sub_id":"s","ts":"2026-11-30T20:02:00Z"}"#;
        assert!(parse(whole).is_ok());
        assert_eq!(parse(&whole.replace(":1,", ":2,")), Err(Newer(2)));
        assert_eq!(parse(&whole.replace("\"w\"", "\"../w\"")), Err(Key("wave_id")));
        assert_eq!(parse(&whole.replace("2026", "noon")), Err(Key("ts")));
    }

    #[test]
    fn the_limit_counts_bytes_and_not_characters() {
        let of = |letters: usize| made(&format!(r#"{{"k":"{}"}}"#, "é".repeat(letters))).unwrap();
        let empty = of(0).to_bytes().unwrap().len();
        let most = (SubCheckpoint::LIMIT - empty) / 2;
        assert!(of(most).to_bytes().unwrap().len() > SubCheckpoint::LIMIT - 2);
        let refused = of(most + 1).to_bytes().unwrap_err();
        let bytes = empty + 2 * (most + 1);
        assert_eq!(refused, SubCheckpointError::TooLong { bytes, limit: 4096 });
        assert!(refused.to_string().contains(&bytes.to_string()) && refused.to_string().contains("4096"));
    }

    #[test]
    fn blockers_are_words_in_any_form() {
        let blockers = |payload: &str| made(payload).unwrap().blockers();
        for none in [
            "{}",
            r#"{"blockers":""}"#,
            r#"{"blockers":null}"#,
            r#"{"blockers":[" "]}"#,
        ] {
            assert_eq!(blockers(none), None, "{none}");
        }
        assert_eq!(blockers(r#"{"blockers":"no key"}"#).as_deref(), Some("no key"));
        assert_eq!(blockers(r#"{"blockers":["a","b"]}"#).as_deref(), Some("a, b"));
    }
}

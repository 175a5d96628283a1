//! What a wake-up leaves in its own directory: agent.json, result.json; and wrapper.json beside it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{AgentName, Current, Declaration, EventFacts, PodId, Usage, WakeUpEntry};

/// The last bytes that an agent wrote and that are no events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail {
    /// Of stderr.
    pub stderr: String,
    /// Of the lines of stdout that are no records.
    pub stdout: String,
}

/// result.json: the verdict with its three layers of evidence. It is written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WakeResult {
    /// The format's version.
    pub schema_version: u32,
    /// Whose.
    pub pod_id: PodId,
    /// What goes into the record.
    #[serde(flatten)]
    pub entry: WakeUpEntry,
    /// Layer 1.
    pub declaration: Declaration,
    /// Layer 2.
    pub events: EventFacts,
    /// What layer 3 does not say.
    pub tail: Tail,
}

/// HEAD when a wake-up began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartHead {
    /// There was no commit yet.
    Unborn,
    /// This one was checked out.
    Commit(String),
}

/// The session that a wake-up's agent keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// Its file, where the CLI takes a path.
    pub path: PathBuf,
    /// Its id, where the CLI knows its sessions by one; absent while only the CLI knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The wake-up whose session it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<u32>,
}

/// agent.json: what a wake-up runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentFile {
    /// The format's version.
    pub schema_version: u32,
    /// The definition's name.
    pub id: AgentName,
    /// The type's word, as the definition has it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The first 12 hex digits of the role text's SHA-256.
    pub instructions_hash: String,
    /// Whether it continues a lost wake-up's session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// The resolved program.
    #[serde(default)]
    pub binary: Option<PathBuf>,
    /// Its version, where that is known without running it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_version: Option<String>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRecord>,
    /// Whose limits it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What a person should know, such as a session that could not be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl AgentFile {
    /// Adds something that a person should know.
    pub fn add_note(&mut self, note: String) {
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
    }
}

/// wrapper.json: the identity of the live wrapper, and of its agent once that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrapperFile {
    /// The format's version.
    pub schema_version: u32,
    /// Whose.
    pub pod_id: PodId,
    /// The agent's process, which leads its session and group.
    #[serde(default)]
    pub agent_pid: Option<i32>,
    /// When the agent started, in ticks since boot.
    #[serde(default)]
    pub agent_start_ticks: Option<u64>,
    /// The wake-up's own control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// What the agent is known to have used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// HEAD when it began; absent where that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_head: Option<StartHead>,
    /// The same identity as the record's `current`.
    #[serde(flatten)]
    pub current: Current,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailReason, Verdict};

    #[test]
    fn a_result_reads_back_and_its_layers_stay_out_of_the_entry() {
        let result = WakeResult {
            schema_version: 1,
            pod_id: "p".parse().unwrap(),
            entry: WakeUpEntry::bare(3, Verdict::Failed(FailReason::NoHandoff)),
            declaration: Declaration::NotWritten,
            events: EventFacts::default(),
            tail: Tail::default(),
        };
        let text = serde_json::to_string(&result).unwrap();
        let read: WakeResult = serde_json::from_str(&text).unwrap();
        assert_eq!(read, result);
        assert!(read.entry.extra.is_empty());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["n"], &value["outcome"]),
            (&serde_json::json!(3), &serde_json::json!("failed"))
        );
    }
}

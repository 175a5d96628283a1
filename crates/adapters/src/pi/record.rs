//! One line of pi's, taken apart no further than is needed.
//!
//! pi 0.73 repeats the whole message so far in every update, megabytes a line: what is not asked for is
//! skipped and never built.

use std::borrow::Cow;
use std::fmt;

use pod_core::Usage;
use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::{self, read, with_string};

/// The types of pi's records, in all versions since 0.73.
const TYPES: &[&str] = &[
    "session",
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "queue_update",
    "entry_appended",
    "session_info_changed",
    "thinking_level_changed",
    "compaction_start",
    "compaction_end",
    "auto_retry_start",
    "auto_retry_end",
    "summarization_retry_scheduled",
    "summarization_retry_attempt_start",
    "summarization_retry_finished",
    "bash_execution_update",
    "extension_error",
];

/// A record whose parts are still JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record<'a> {
    /// Its type, one of [`TYPES`].
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    assistant_message_event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    will_retry: Option<&'a RawValue>,
    #[serde(borrow, default)]
    aborted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    success: Option<&'a RawValue>,
    #[serde(borrow, default)]
    final_error: Option<&'a RawValue>,
}

/// Reads a line; `None` if it is no record of pi's.
pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
    let record: Record<'_> = json::object(line)?;
    TYPES.contains(&record.kind.as_ref()).then_some(record)
}

impl<'a> Record<'a> {
    /// The session's id, of its header, unless it is too long to be one.
    pub(super) fn id(&self) -> Option<String> {
        with_string(self.id, |id| (id.len() <= 256).then(|| id.to_owned())).flatten()
    }

    fn update(&self) -> Option<Update<'a>> {
        let event = self
            .assistant_message_event
            .filter(|_| self.kind == "message_update");
        read(event).filter(|update: &Update<'a>| update.kind == "text_delta")
    }

    /// The piece of text of an update.
    pub(super) fn text_delta(&self) -> Option<Cow<'a, str>> {
        let delta = self.update()?.delta;
        let whole = read::<Text<'a>>(delta).map(|delta| delta.0);
        whole.or_else(|| with_string(delta, |delta| Cow::Owned(delta.to_owned())))
    }

    /// Gives the piece of text of an update to `take`, unless there is none.
    pub(super) fn with_text_delta(&self, take: impl FnOnce(&str)) {
        with_string(self.update().and_then(|update| update.delta), take);
    }

    /// The message, if the assistant's.
    pub(super) fn assistant_message(&self) -> Option<Message<'a>> {
        read(self.message).filter(|message: &Message<'a>| message.role == "assistant")
    }

    /// Gives the tool's name to `take`, unless there is none.
    pub(super) fn with_tool_name<T>(&self, take: impl FnOnce(&str) -> T) -> Option<T> {
        with_string(self.tool_name, take)
    }

    /// Whether it says anything of a retry.
    pub(super) fn speaks_of_retry(&self) -> bool {
        self.will_retry.is_some()
    }

    /// Whether it announces a retry.
    pub(super) fn will_retry(&self) -> bool {
        read(self.will_retry).unwrap_or(false)
    }

    /// What it says of an abort.
    pub(super) fn aborted(&self) -> Option<bool> {
        read(self.aborted)
    }

    /// What it says of success.
    pub(super) fn success(&self) -> Option<bool> {
        read(self.success)
    }

    /// Gives the error after the last retry to `take`, unless there is none.
    pub(super) fn with_final_error<T>(&self, take: impl FnOnce(&str) -> T) -> Option<T> {
        with_string(self.final_error, take)
    }
}

/// A string, borrowed where no escape stands in it.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
}

/// A finished message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    /// Why it stopped.
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    #[serde(default)]
    input: Option<f64>,
    #[serde(default)]
    output: Option<f64>,
    #[serde(default)]
    cache_read: Option<f64>,
    #[serde(default)]
    cost: Option<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(default)]
    total: Option<f64>,
}

/// One block of a message.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    /// `text`, `toolCall` and others.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    /// A tool call's tool.
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
}

impl Block<'_> {
    /// Gives the block's text to `take`, unless there is none.
    pub(super) fn with_text(&self, take: impl FnOnce(&str)) {
        with_string(self.text.filter(|raw| raw.get() != r#""""#), take);
    }
}

impl Message<'_> {
    /// What it used.
    pub(super) fn usage(&self) -> Usage {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` holds a float within the range of the integer"
        )]
        fn count(number: f64) -> u64 {
            number as u64
        }
        let Some(used) = read::<Used>(self.usage) else {
            return Usage::default();
        };
        Usage {
            input_tokens: used.input.map(count),
            output_tokens: used.output.map(count),
            cache_read_tokens: used.cache_read.map(count),
            cost_usd: used.cost.and_then(|cost| cost.total),
        }
    }

    /// Gives the error that stopped it to `take`, unless there is none.
    pub(super) fn with_error<T>(&self, take: impl FnOnce(&str) -> T) -> Option<T> {
        with_string(self.error_message, take)
    }

    /// Gives each block to `each`, one in memory at a time.
    pub(super) fn blocks(&self, each: impl FnMut(Block<'_>)) {
        let Some(content) = self.content else { return };
        let mut json = serde_json::Deserializer::from_str(content.get());
        // A content of another shape has no blocks.
        drop(json.deserialize_seq(Blocks(each)));
    }
}

struct Blocks<F>(F);

impl<'de, F: FnMut(Block<'_>)> Visitor<'de> for Blocks<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the blocks of a message")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut blocks: A) -> Result<(), A::Error> {
        while let Some(raw) = blocks.next_element::<&RawValue>()? {
            if let Some(block) = read(Some(raw)) {
                (self.0)(block);
            }
        }
        Ok(())
    }
}

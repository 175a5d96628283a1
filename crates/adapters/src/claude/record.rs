//! One line of Claude Code's, taken apart no further than is needed.

use std::borrow::Cow;

use pod_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, read};

/// The types of its records.
const TYPES: &[&str] = &[
    "system",
    "assistant",
    "user",
    "result",
    "rate_limit_event",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "control_request",
    "control_response",
    "keep_alive",
];

/// A record whose parts are still JSON.
#[derive(Deserialize)]
pub(super) struct Record<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) session_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    /// Of an assistant's record that is an error in disguise.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// Of a retry: which one it is.
    #[serde(borrow, default)]
    attempt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    errors: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) terminal_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) api_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    api_error_status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    total_cost_usd: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    rate_limit_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event: Option<&'a RawValue>,
}

/// Reads a line; `None` if it is no record of Claude Code's.
pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
    let record: Record<'_> = json::object(line)?;
    TYPES.contains(&record.kind.as_ref()).then_some(record)
}

/// A message of the assistant or of a tool.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// One block of a message.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    /// A tool call's tool.
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
}

impl<'a> Message<'a> {
    pub(super) fn blocks(&self) -> Vec<Block<'a>> {
        read::<Vec<&RawValue>>(self.content)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|block| read(Some(block)))
            .collect()
    }
}

/// What a subscription says of its limit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limit<'a> {
    #[serde(borrow)]
    pub(super) status: Cow<'a, str>,
    /// Seconds of the epoch.
    #[serde(default)]
    pub(super) resets_at: Option<i64>,
}

#[derive(Deserialize)]
struct Used {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl<'a> Record<'a> {
    pub(super) fn subtype(&self) -> String {
        json::string(self.subtype, 64).unwrap_or_default()
    }

    pub(super) fn attempt(&self) -> Option<u32> {
        read(self.attempt)
    }

    pub(super) fn message(&self) -> Option<Message<'a>> {
        read(self.message)
    }

    pub(super) fn is_error(&self) -> bool {
        read(self.is_error).unwrap_or(false)
    }

    pub(super) fn status(&self) -> Option<u16> {
        read(self.api_error_status)
    }

    pub(super) fn limit(&self) -> Option<Limit<'a>> {
        read(self.rate_limit_info)
    }

    /// What went wrong, in its words.
    pub(super) fn words(&self) -> String {
        let listed = read::<Vec<&RawValue>>(self.errors).unwrap_or_default();
        let listed = listed.first().copied();
        json::string(self.result.filter(|raw| raw.get() != r#""""#), 16 * 1024)
            .or_else(|| json::string(listed, 16 * 1024))
            .unwrap_or_default()
    }

    /// What this turn used; the cost is that of the whole session.
    pub(super) fn usage(&self) -> Usage {
        let used: Option<Used> = read(self.usage);
        let sum = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_add(b.unwrap_or(0)));
        Usage {
            input_tokens: used
                .as_ref()
                .and_then(|used| sum(used.input_tokens, used.cache_creation_input_tokens)),
            output_tokens: used.as_ref().and_then(|used| used.output_tokens),
            cache_read_tokens: used.as_ref().and_then(|used| used.cache_read_input_tokens),
            cost_usd: read(self.total_cost_usd),
        }
    }

    /// The piece of text of a partial message.
    pub(super) fn text_delta(&self) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow, default)]
            delta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Delta<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow, default)]
            text: Option<Cow<'a, str>>,
        }
        let event: Event<'a> = read(self.event.filter(|_| self.kind == "stream_event"))?;
        let delta: Delta<'a> = read(event.delta)?;
        delta.text.filter(|_| delta.kind == "text_delta")
    }
}

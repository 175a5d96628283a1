//! What Codex' records mean, one after the other.

use std::borrow::Cow;

use pod_core::ErrorClass::{Auth, Context, Quota, RateLimit};
use pod_core::{Stop, Timestamp, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::catalogue::{self, Row, Said, Sign, row, status_behind};
use crate::json::{self, read};
use crate::seen::{Records, Seen};
use crate::text::{is_handoff, size_in_words};
use crate::{Line, TextSink, ZoneSource};

/// Its own sentences.
const CATALOGUE: &[Row] = &[
    row(
        "codex-usage-limit",
        RateLimit,
        Sign::Says(&["hit your usage limit"]),
    ),
    row("codex-quota", Quota, Sign::Says(&["quota exceeded"])),
    row("codex-out-of-room", Context, Sign::Says(&["ran out of room"])),
    row(
        "codex-missing-variable",
        Auth,
        Sign::Says(&["missing environment variable"]),
    ),
    row("codex-refresh-token", Auth, Sign::Says(&["refresh token"])),
    row("codex-not-logged-in", Auth, Sign::Says(&["not logged in"])),
];

/// How it begins to say that it tries again.
const TRIES_AGAIN: &str = "Reconnecting...";

const TYPES: &[&str] = &[
    "thread.started",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "item.started",
    "item.updated",
    "item.completed",
    "error",
];

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    thread_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Used {
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    output_tokens: u64,
}

/// What Codex's records mean, and what has to be kept for it.
pub(super) struct CodexRecords {
    zone: ZoneSource,
    /// What earlier wake-ups of the thread used.
    recorded: Usage,
}

fn parse(line: &[u8]) -> Option<Record<'_>> {
    let record: Record<'_> = json::object(line)?;
    TYPES.contains(&record.kind.as_ref()).then_some(record)
}

impl CodexRecords {
    pub(super) fn new(zone: ZoneSource, recorded: Usage) -> Self {
        Self { zone, recorded }
    }

    fn record(&mut self, seen: &mut Seen, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        match record.kind.as_ref() {
            "thread.started" => {
                seen.session_id = json::string(record.thread_id, 256).or(seen.session_id.take());
            }
            "turn.started" => {
                seen.settled = false;
                seen.error = None;
            }
            "item.started" => seen.tools += u32::from(self.item(seen, record, line, None)),
            "item.completed" => {
                let tool = self.item(seen, record, line, Some(text));
                seen.tools = seen.tools.saturating_sub(u32::from(tool));
            }
            "error" => self.fail(seen, record.message, line.read_at),
            "turn.failed" => {
                let failure: Option<Failure<'_>> = read(record.error);
                self.fail(seen, failure.and_then(|failure| failure.message), line.read_at);
                self.end(seen, Stop::Error);
            }
            "turn.completed" => {
                seen.error = None;
                self.end(seen, Stop::Stop);
                seen.usage = used(record.usage).map_or(seen.usage, |total| less(total, self.recorded));
            }
            _ => {}
        }
    }

    fn end(&mut self, seen: &mut Seen, stop: Stop) {
        seen.settled = true;
        seen.stop = Some(stop);
        seen.tools = 0;
    }

    /// Takes an item; its text is shown when it is complete. Returns whether it is a tool.
    fn item(
        &mut self,
        seen: &mut Seen,
        record: &Record<'_>,
        line: &Line<'_>,
        text: Option<&mut dyn TextSink>,
    ) -> bool {
        let Some(item) = read::<Item<'_>>(record.item) else {
            return false;
        };
        // What is said behind an error shows that it was tried again.
        match item.kind.as_ref() {
            "agent_message" => {
                seen.error = None;
                if let Some(text) = text {
                    if line.pruned {
                        text.finished(&size_in_words(line.size));
                    } else {
                        json::with_string(item.text, |said| text.finished(said));
                    }
                }
                false
            }
            "error" | "reasoning" | "todo_list" => false,
            _ => {
                seen.error = None;
                seen.handed_off = json::with_string(item.tool, is_handoff).unwrap_or(false);
                true
            }
        }
    }

    fn fail(&mut self, seen: &mut Seen, message: Option<&RawValue>, read_at: Timestamp) {
        let zone = self.zone;
        let judged = json::with_string(message, |message| {
            let said = Said {
                message,
                status: status_behind(message, "last status: ")
                    .or_else(|| status_behind(message, "unexpected status ")),
                code: None,
            };
            let transient = message.starts_with(TRIES_AGAIN);
            (!transient).then(|| catalogue::judge(CATALOGUE, &said, read_at, zone))
        });
        seen.error = judged.flatten().or(seen.error.take());
    }
}

fn used(part: Option<&RawValue>) -> Option<Usage> {
    let used: Used = read(part)?;
    Some(Usage {
        input_tokens: Some(used.input_tokens.saturating_sub(used.cached_input_tokens)),
        output_tokens: Some(used.output_tokens),
        cache_read_tokens: Some(used.cached_input_tokens),
        cost_usd: None,
    })
}

/// The thread's total without what is recorded of it already.
fn less(total: Usage, recorded: Usage) -> Usage {
    let less = |total: Option<u64>, earlier: Option<u64>| Some(total?.saturating_sub(earlier.unwrap_or(0)));
    Usage {
        input_tokens: less(total.input_tokens, recorded.input_tokens),
        output_tokens: less(total.output_tokens, recorded.output_tokens),
        cache_read_tokens: less(total.cache_read_tokens, recorded.cache_read_tokens),
        cost_usd: None,
    }
}

impl Records for CodexRecords {
    fn take(&mut self, line: &Line<'_>, seen: &mut Seen, text: &mut dyn TextSink) -> bool {
        let record = parse(line.bytes);
        if let Some(record) = &record {
            self.record(seen, record, line, text);
        }
        record.is_some()
    }
}

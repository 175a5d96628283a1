//! What Claude Code's records mean, one after the other.

use pod_core::{LimitSource, Stop, Timestamp, Usage};

use super::record::{self, Record};
use crate::catalogue::{self, Row, Said, Sign, row};
use crate::json;
use crate::seen::{Records, Seen};
use crate::text::{is_handoff, size_in_words};
use crate::{Line, TextSink, ZoneSource};
use pod_core::ErrorClass::{Auth, Context, RateLimit};

/// How it says that a key was refused.
const REFUSED: &str = "authentication_failed";

/// Its own codes and sentences.
const CATALOGUE: &[Row] = &[
    row("claude-usage-limit", RateLimit, Sign::Code("usage_limit_reached")),
    row("claude-prompt-too-long", Context, Sign::Code("prompt_too_long")),
    row("claude-hit-limit", RateLimit, Sign::Says(&["hit your", "limit"])),
    row("claude-refused", Auth, Sign::Code(REFUSED)),
    row("claude-login", Auth, Sign::Says(&["please run /login"])),
    row("claude-invalid-key", Auth, Sign::Says(&["invalid api key"])),
];

/// A key that was refused so often is not tried again: it would be ten times, over three minutes.
const REFUSALS: u32 = 3;

/// What Claude Code's records mean, and what has to be kept for it.
pub(super) struct ClaudeRecords {
    zone: ZoneSource,
    /// What earlier wake-ups of the session cost.
    recorded: Usage,
    /// When the subscription's limit ends, if it has rejected a request.
    resets: Option<Timestamp>,
}

impl ClaudeRecords {
    pub(super) fn new(zone: ZoneSource, recorded: Usage) -> Self {
        Self {
            zone,
            recorded,
            resets: None,
        }
    }

    fn record(&mut self, seen: &mut Seen, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        match record.kind.as_ref() {
            "system" if record.subtype() == "init" => {
                seen.session_id = json::string(record.session_id, 256).or(seen.session_id.take());
                seen.settled = false;
            }
            "system" if record.subtype() == "api_retry" => self.retry(seen, record, line.read_at),
            "assistant" => self.assistant(seen, record, line, text),
            "user" => {
                let results = record.message().map_or(0, |message| {
                    let blocks = message.blocks();
                    blocks.iter().filter(|block| block.kind == "tool_result").count()
                });
                seen.tools = seen
                    .tools
                    .saturating_sub(u32::try_from(results).unwrap_or(u32::MAX));
            }
            "stream_event" => {
                if let Some(delta) = record.text_delta() {
                    text.delta(&delta);
                }
            }
            "rate_limit_event" => {
                let limit = record.limit().filter(|limit| limit.status == "rejected");
                let at = limit.and_then(|limit| limit.resets_at);
                self.resets = at
                    .map(|at| Timestamp::from_millis(at.saturating_mul(1000)))
                    .or(self.resets);
            }
            "result" => self.result(seen, record, line.read_at),
            _ => {}
        }
    }

    fn retry(&mut self, seen: &mut Seen, record: &Record<'_>, read_at: Timestamp) {
        let refused = json::with_string(record.error, |word| word == REFUSED).unwrap_or(false);
        if !refused || record.attempt() < Some(REFUSALS) {
            return;
        }
        let said = Said {
            message: "authentication failed, and it goes on trying",
            status: None,
            code: Some(REFUSED),
        };
        seen.error = Some(catalogue::judge(CATALOGUE, &said, read_at, self.zone));
        seen.hopeless = true;
    }

    fn assistant(&mut self, seen: &mut Seen, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        seen.settled = false;
        let Some(message) = record.message() else { return };
        // An error of the API in the shape of an answer; the result says it again.
        if record.error.is_some() || message.model.as_deref() == Some("<synthetic>") {
            return;
        }
        // An answer shows that it was tried again with success.
        seen.error = None;
        seen.hopeless = false;
        for block in message.blocks() {
            match block.kind.as_ref() {
                "text" if line.pruned => text.finished(&size_in_words(line.size)),
                "text" => {
                    json::with_string(block.text, |said| text.finished(said));
                }
                "tool_use" => {
                    seen.tools += 1;
                    seen.handed_off = block.name.as_deref().is_some_and(is_handoff);
                }
                _ => {}
            }
        }
    }

    fn result(&mut self, seen: &mut Seen, record: &Record<'_>, read_at: Timestamp) {
        seen.settled = true;
        seen.tools = 0;
        let used = record.usage();
        let before = seen.usage.cost_usd;
        seen.usage = seen.usage.plus(Usage {
            cost_usd: None,
            ..used
        });
        // The session's total, not the turn's.
        let earlier = self.recorded.cost_usd.unwrap_or(0.0);
        seen.usage.cost_usd = used.cost_usd.map(|total| (total - earlier).max(0.0)).or(before);
        let reason = json::string(record.terminal_reason, 64).unwrap_or_default();
        let code = json::string(record.api_error, 64);
        let stopped = json::string(record.stop_reason, 64).unwrap_or_default();
        seen.aborted = reason.starts_with("aborted").then_some(true);
        seen.stop = match stopped.as_str() {
            "end_turn" | "stop_sequence" => Some(Stop::Stop),
            "tool_use" => Some(Stop::ToolUse),
            "max_tokens" => Some(Stop::Length),
            _ => None,
        };
        seen.error = None;
        if code.as_deref() == Some("max_output_tokens") || record.subtype() == "error_max_turns" {
            seen.stop = Some(Stop::Length);
        } else if record.is_error() {
            seen.stop = Some(Stop::Error);
            let words = record.words();
            let said = Said {
                message: if words.is_empty() { &reason } else { &words },
                status: record.status(),
                code: code.as_deref().or(Some(&reason)),
            };
            let mut error = catalogue::judge(CATALOGUE, &said, read_at, self.zone);
            if let (RateLimit, Some(at)) = (error.class, self.resets) {
                error.resets = Some((at, LimitSource::Event));
            }
            seen.error = Some(error);
        }
    }
}

impl Records for ClaudeRecords {
    fn take(&mut self, line: &Line<'_>, seen: &mut Seen, text: &mut dyn TextSink) -> bool {
        let record = record::parse(line.bytes);
        if let Some(record) = &record {
            self.record(seen, record, line, text);
        }
        record.is_some()
    }
}

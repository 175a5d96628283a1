//! What Claude Code's records mean, one after the other.

use pod_core::{EventFacts, FinalError, LimitSource, Stop, Timestamp, Usage};

use super::record::{self, Record};
use crate::catalogue::{self, Row, Said, Sign, row};
use crate::json::{self, Tally};
use crate::text::{is_handoff, size_in_words};
use crate::{EventReader, Line, LineKind, TextSink, ZoneSource};
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

/// Reads Claude Code's stream.
pub(super) struct ClaudeReader {
    zone: ZoneSource,
    /// What earlier wake-ups of the session cost.
    recorded: Usage,
    tally: Tally,
    settled: bool,
    aborted: Option<bool>,
    stop: Option<Stop>,
    error: Option<FinalError>,
    /// When the subscription's limit ends, if it has rejected a request.
    resets: Option<Timestamp>,
    handed_off: bool,
    tokens: Usage,
    session_id: Option<String>,
    tools: u32,
    hopeless: bool,
}

impl ClaudeReader {
    pub(super) fn new(zone: ZoneSource, recorded: Usage) -> Self {
        Self {
            zone,
            recorded,
            tally: Tally::default(),
            settled: false,
            aborted: None,
            stop: None,
            error: None,
            resets: None,
            handed_off: false,
            tokens: Usage::default(),
            session_id: None,
            tools: 0,
            hopeless: false,
        }
    }

    fn record(&mut self, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        match record.kind.as_ref() {
            "system" if record.subtype() == "init" => {
                self.session_id = json::string(record.session_id, 256).or(self.session_id.take());
                self.settled = false;
            }
            "system" if record.subtype() == "api_retry" => self.retry(record, line.read_at),
            "assistant" => self.assistant(record, line, text),
            "user" => {
                let results = record.message().map_or(0, |message| {
                    let blocks = message.blocks();
                    blocks.iter().filter(|block| block.kind == "tool_result").count()
                });
                self.tools = self
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
            "result" => self.result(record, line.read_at),
            _ => {}
        }
    }

    fn retry(&mut self, record: &Record<'_>, read_at: Timestamp) {
        let refused = json::with_string(record.error, |word| word == REFUSED).unwrap_or(false);
        if !refused || record.attempt() < Some(REFUSALS) {
            return;
        }
        let said = Said {
            message: "authentication failed, and it goes on trying",
            status: None,
            code: Some(REFUSED),
        };
        self.error = Some(catalogue::judge(CATALOGUE, &said, read_at, self.zone));
        self.hopeless = true;
    }

    fn assistant(&mut self, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        self.settled = false;
        let Some(message) = record.message() else { return };
        // An error of the API in the shape of an answer; the result says it again.
        if record.error.is_some() || message.model.as_deref() == Some("<synthetic>") {
            return;
        }
        // An answer shows that it was tried again with success.
        self.error = None;
        self.hopeless = false;
        for block in message.blocks() {
            match block.kind.as_ref() {
                "text" if line.pruned => text.finished(&size_in_words(line.size)),
                "text" => {
                    json::with_string(block.text, |said| text.finished(said));
                }
                "tool_use" => {
                    self.tools += 1;
                    self.handed_off = block.name.as_deref().is_some_and(is_handoff);
                }
                _ => {}
            }
        }
    }

    fn result(&mut self, record: &Record<'_>, read_at: Timestamp) {
        self.settled = true;
        self.tools = 0;
        let used = record.usage();
        let before = self.tokens.cost_usd;
        self.tokens = self.tokens.plus(Usage {
            cost_usd: None,
            ..used
        });
        // The session's total, not the turn's.
        let earlier = self.recorded.cost_usd.unwrap_or(0.0);
        self.tokens.cost_usd = used.cost_usd.map(|total| (total - earlier).max(0.0)).or(before);
        let reason = json::string(record.terminal_reason, 64).unwrap_or_default();
        let code = json::string(record.api_error, 64);
        let stopped = json::string(record.stop_reason, 64).unwrap_or_default();
        self.aborted = reason.starts_with("aborted").then_some(true);
        self.stop = match stopped.as_str() {
            "end_turn" | "stop_sequence" => Some(Stop::Stop),
            "tool_use" => Some(Stop::ToolUse),
            "max_tokens" => Some(Stop::Length),
            _ => None,
        };
        self.error = None;
        if code.as_deref() == Some("max_output_tokens") || record.subtype() == "error_max_turns" {
            self.stop = Some(Stop::Length);
        } else if record.is_error() {
            self.stop = Some(Stop::Error);
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
            self.error = Some(error);
        }
    }
}

impl EventReader for ClaudeReader {
    fn line(&mut self, line: &Line<'_>, text: &mut dyn TextSink) -> LineKind {
        let record = record::parse(line.bytes);
        if let Some(record) = &record {
            self.record(record, line, text);
        }
        self.tally.count(line, record.is_some())
    }

    fn facts(&self) -> EventFacts {
        EventFacts {
            aborted: self.aborted,
            stop: self.stop,
            handed_off_by_tool: self.handed_off,
            error: self.error.clone(),
            session_id: self.session_id.clone(),
            ..self.tally.facts(self.settled, self.usage())
        }
    }

    fn settled(&self) -> bool {
        self.settled
    }

    fn hopeless(&self) -> bool {
        self.hopeless
    }

    fn usage(&self) -> Usage {
        self.tokens
    }

    fn tool_running(&self) -> bool {
        self.tools > 0
    }
}

//! What Gemini's records mean, one after the other.

use std::borrow::Cow;

use pod_core::{Stop, Timestamp, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::catalogue::{self, Row, Said, Sign, leading_status, row};
use crate::json::{self, read};
use crate::seen::{Records, Seen};
use crate::text::{is_handoff, size_in_words};
use crate::{Line, TextSink, ZoneSource};
use pod_core::ErrorClass::{Overloaded, Quota, RateLimit};

/// Its own sentences.
const CATALOGUE: &[Row] = &[
    row(
        "gemini-daily-quota",
        RateLimit,
        Sign::Says(&["exhausted your daily quota"]),
    ),
    row(
        "gemini-capacity",
        RateLimit,
        Sign::Says(&["exhausted your capacity"]),
    ),
    row(
        "gemini-resource",
        RateLimit,
        Sign::Says(&["resource has been exhausted"]),
    ),
    row("gemini-credits", Quota, Sign::Says(&["prepayment credits"])),
    row(
        "gemini-overloaded",
        Overloaded,
        Sign::Says(&["model is overloaded"]),
    ),
];

const TYPES: &[&str] = &["init", "message", "tool_use", "tool_result", "error", "result"];

/// So much of a message that comes in pieces is kept for the log.
const KEPT: usize = 1 << 20;

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    severity: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stats: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Stats {
    input: Option<u64>,
    output_tokens: Option<u64>,
    cached: Option<u64>,
}

fn parse(line: &[u8]) -> Option<Record<'_>> {
    let record: Record<'_> = json::object(line)?;
    TYPES.contains(&record.kind.as_ref()).then_some(record)
}

/// The piece of text of a raw line.
pub(super) fn delta_text(line: &[u8]) -> Option<Cow<'_, str>> {
    let record = parse(line)?;
    let piece = record.is_piece();
    json::string(record.content, usize::MAX)
        .filter(|_| piece)
        .map(Cow::Owned)
}

impl Record<'_> {
    fn is_answer(&self) -> bool {
        self.kind == "message" && self.role.as_deref() == Some("assistant")
    }

    fn is_piece(&self) -> bool {
        self.is_answer() && read(self.delta).unwrap_or(false)
    }
}

/// What Gemini's records mean, and what has to be kept for it.
pub(super) struct GeminiRecords {
    zone: ZoneSource,
    /// The last `error` record that was no warning; the result says whether it counts.
    complaint: Option<String>,
    /// The message that comes in pieces, and how long it is in all.
    pieces: String,
    length: u64,
}

impl GeminiRecords {
    pub(super) fn new(zone: ZoneSource) -> Self {
        Self {
            zone,
            complaint: None,
            pieces: String::new(),
            length: 0,
        }
    }

    fn record(&mut self, seen: &mut Seen, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        if !record.is_piece() && record.kind != "error" {
            self.finish_message(text);
        }
        match record.kind.as_ref() {
            "init" => seen.session_id = json::string(record.session_id, 256).or(seen.session_id.take()),
            "message" if record.is_answer() => self.answer(record, line, text),
            "tool_use" => {
                seen.tools += 1;
                seen.handed_off = json::with_string(record.tool_name, is_handoff).unwrap_or(false);
            }
            "tool_result" => seen.tools = seen.tools.saturating_sub(1),
            "error" if json::with_string(record.severity, |word| word == "error").unwrap_or(false) => {
                self.complaint = json::string(record.message, 16 * 1024);
            }
            "result" => self.result(seen, record, line.read_at),
            _ => {}
        }
    }

    fn answer(&mut self, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        if line.pruned {
            text.finished(&size_in_words(line.size));
            return;
        }
        let piece = record.is_piece();
        json::with_string(record.content, |said| {
            if !piece {
                return text.finished(said);
            }
            text.delta(said);
            self.length += said.len() as u64;
            if self.pieces.len() + said.len() <= KEPT {
                self.pieces.push_str(said);
            }
        });
    }

    /// A message ends where something else begins: nothing else says so.
    fn finish_message(&mut self, text: &mut dyn TextSink) {
        let pieces = std::mem::take(&mut self.pieces);
        let length = std::mem::take(&mut self.length);
        if length > pieces.len() as u64 {
            text.finished(&size_in_words(length));
        } else if length > 0 {
            text.finished(&pieces);
        }
    }

    fn result(&mut self, seen: &mut Seen, record: &Record<'_>, read_at: Timestamp) {
        seen.settled = true;
        seen.tools = 0;
        if let Some(stats) = read::<Stats>(record.stats) {
            seen.usage = Usage {
                input_tokens: stats.input,
                output_tokens: stats.output_tokens,
                cache_read_tokens: stats.cached,
                cost_usd: None,
            };
        }
        let failed = json::with_string(record.status, |word| word != "success").unwrap_or(false);
        seen.stop = Some(if failed { Stop::Error } else { Stop::Stop });
        seen.error = failed.then(|| {
            let failure: Option<Failure<'_>> = read(record.error);
            let words = json::string(failure.and_then(|failure| failure.message), 16 * 1024)
                .or(self.complaint.take())
                .unwrap_or_else(|| "result: error".to_owned());
            let inner = words.strip_prefix("[API Error: ");
            let message = inner.map_or(words.as_str(), |inner| inner.strip_suffix(']').unwrap_or(inner));
            let said = Said {
                message,
                status: status(message),
                code: None,
            };
            catalogue::judge(CATALOGUE, &said, read_at, self.zone)
        });
    }
}

/// The status in the body that it quotes.
fn status(message: &str) -> Option<u16> {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        code: u16,
    }
    let body = serde_json::Deserializer::from_str(message)
        .into_iter::<Body>()
        .next();
    let quoted = body.and_then(Result::ok).map(|body| body.error.code);
    quoted.or_else(|| leading_status(message))
}

impl Records for GeminiRecords {
    fn take(&mut self, line: &Line<'_>, seen: &mut Seen, text: &mut dyn TextSink) -> bool {
        let record = parse(line.bytes);
        if let Some(record) = &record {
            self.record(seen, record, line, text);
        }
        record.is_some()
    }
}

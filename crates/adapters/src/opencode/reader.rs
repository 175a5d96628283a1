//! What OpenCode's records mean, one after the other.

use std::borrow::Cow;
use std::time::Duration;

use pod_core::ErrorClass::{self, Auth, Context};
use pod_core::{LimitSource, Stop, Timestamp, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::catalogue::{self, Row, Said, Sign, row};
use crate::json::{self, read};
use crate::seen::{Records, Seen};
use crate::text::{is_handoff, size_in_words};
use crate::{Line, TextSink, ZoneSource};

/// The names of its own errors.
const CATALOGUE: &[Row] = &[
    row("opencode-auth", Auth, Sign::Code("ProviderAuthError")),
    row("opencode-overflow", Context, Sign::Code("ContextOverflowError")),
];

const TYPES: &[&str] = &[
    "step_start",
    "step_finish",
    "text",
    "reasoning",
    "tool_use",
    "error",
];

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "sessionID", borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    part: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(default)]
    synthetic: bool,
    #[serde(borrow, default)]
    tool: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reason: Option<&'a RawValue>,
    #[serde(default)]
    tokens: Option<Tokens>,
    #[serde(default)]
    cost: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input: u64,
    output: u64,
    reasoning: u64,
    cache: Cache,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cache {
    read: u64,
    write: u64,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    status_code: Option<u16>,
    #[serde(borrow, default)]
    response_headers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response_body: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Headers<'a> {
    #[serde(borrow, default)]
    retry_after: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    retry_after_ms: Option<Cow<'a, str>>,
}

fn parse(line: &[u8]) -> Option<Record<'_>> {
    let record: Record<'_> = json::object(line)?;
    TYPES.contains(&record.kind.as_ref()).then_some(record)
}

/// So many overflows of one run show that it compacts what cannot be compacted. It would do so for ever, and each
/// time ask the model (1.18: 430 requests a minute).
const OVERFLOWS: u32 = 3;

/// What OpenCode's records mean, and what has to be kept for it.
pub(super) struct OpenCodeRecords {
    zone: ZoneSource,
    overflows: u32,
}

impl OpenCodeRecords {
    pub(super) fn new(zone: ZoneSource) -> Self {
        Self { zone, overflows: 0 }
    }

    fn record(&mut self, seen: &mut Seen, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        if seen.session_id.is_none() {
            seen.session_id = json::string(record.session_id, 256);
        }
        let part: Option<Part<'_>> = read(record.part);
        match (record.kind.as_ref(), part) {
            // Whatever was wrong, it goes on.
            ("step_start", _) if !seen.hopeless => {
                seen.settled = false;
                seen.aborted = None;
                seen.stop = None;
                seen.error = None;
            }
            ("text", Some(part)) if !part.synthetic => {
                if line.pruned {
                    text.finished(&size_in_words(line.size));
                } else {
                    json::with_string(part.text, |said| text.finished(said));
                }
            }
            ("tool_use", Some(part)) => {
                seen.handed_off = json::with_string(part.tool, is_handoff).unwrap_or(false);
            }
            ("step_finish", Some(part)) => self.step_finish(seen, &part),
            ("error", _) => self.fail(seen, record.error, line.read_at),
            _ => {}
        }
    }

    fn step_finish(&mut self, seen: &mut Seen, part: &Part<'_>) {
        let reason = json::string(part.reason, 64).unwrap_or_default();
        seen.stop = match reason.as_str() {
            "stop" => Some(Stop::Stop),
            "tool-calls" => Some(Stop::ToolUse),
            "length" => Some(Stop::Length),
            "error" => Some(Stop::Error),
            _ => None,
        };
        // Behind tool calls another step follows.
        seen.settled = seen.stop != Some(Stop::ToolUse);
        if let Some(tokens) = &part.tokens {
            seen.usage = seen.usage.plus(Usage {
                input_tokens: Some(tokens.input.saturating_add(tokens.cache.write)),
                output_tokens: Some(tokens.output.saturating_add(tokens.reasoning)),
                cache_read_tokens: Some(tokens.cache.read),
                cost_usd: part.cost,
            });
        }
    }

    fn fail(&mut self, seen: &mut Seen, error: Option<&RawValue>, read_at: Timestamp) {
        let failure: Option<Failure<'_>> = read(error);
        let name = failure.as_ref().and_then(|failure| failure.name.as_deref());
        let data: Option<Data<'_>> = read(failure.as_ref().and_then(|failure| failure.data));
        let field = |get: fn(&Data<'_>) -> Option<String>| data.as_ref().and_then(get);
        let message = field(|data| json::string(data.message, 16 * 1024));
        // The provider's code stands in the body alone.
        let body = field(|data| json::string(data.response_body, 16 * 1024)).unwrap_or_default();
        let shown = message.unwrap_or_else(|| name.unwrap_or("error").to_owned());
        let said = Said {
            message: &format!("{shown}\n{body}"),
            status: data.as_ref().and_then(|data| data.status_code),
            code: name,
        };
        seen.aborted = (name == Some("MessageAbortedError")).then_some(true);
        seen.settled = false;
        let mut judged = catalogue::judge(CATALOGUE, &said, read_at, self.zone);
        judged.message = shown;
        let headers: Option<Headers<'_>> = read(data.as_ref().and_then(|data| data.response_headers));
        let limited = matches!(judged.class, ErrorClass::RateLimit | ErrorClass::Overloaded);
        if let Some(wait) = headers.filter(|_| limited).and_then(|headers| headers.wait()) {
            judged.resets = Some((read_at.plus(wait), LimitSource::Event));
        }
        self.overflows += u32::from(judged.class == Context);
        seen.hopeless = self.overflows >= OVERFLOWS;
        seen.error = Some(judged);
    }
}

impl Headers<'_> {
    fn wait(&self) -> Option<Duration> {
        let number = |text: &Option<Cow<'_, str>>| text.as_ref()?.trim().parse::<f64>().ok();
        let secs = number(&self.retry_after_ms)
            .map(|millis| millis / 1000.0)
            .or_else(|| number(&self.retry_after))?;
        Duration::try_from_secs_f64(secs).ok()
    }
}

impl Records for OpenCodeRecords {
    const ERROR_ENDS: bool = true;

    fn take(&mut self, line: &Line<'_>, seen: &mut Seen, text: &mut dyn TextSink) -> bool {
        let record = parse(line.bytes);
        if let Some(record) = &record {
            self.record(seen, record, line, text);
        }
        record.is_some()
    }
}

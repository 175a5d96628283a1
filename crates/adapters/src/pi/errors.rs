//! The catalogue of errors that pi reports, as data: the first row that matches decides.
//!
//! Codes and whole sentences of the providers stand before the HTTP status, and that before single words,
//! which are the least certain.

use crate::ZoneSource;
use pod_core::{ErrorClass, FinalError, LimitSource, Timestamp, reset_from_text};

use Sign::{Says, Status};

/// How much of a message is looked at; the sentence of a provider is shorter.
const LOOKED_AT: usize = 16 * 1024;
/// How much of a message is kept.
const KEPT: usize = 1024;

/// What a row looks for.
enum Sign {
    /// The message begins with an HTTP status of this range.
    Status(u16, u16),
    /// It holds all of these, in any letter case.
    Says(&'static [&'static str]),
}

struct Row {
    id: &'static str,
    class: ErrorClass,
    sign: Sign,
}

const fn row(id: &'static str, class: ErrorClass, sign: Sign) -> Row {
    Row { id, class, sign }
}

#[rustfmt::skip]
const CATALOGUE: &[Row] = &[
    // Google says this of a minute's quota too, and then when it is over.
    row("quota-of-a-minute",   ErrorClass::RateLimit,  Says(&["exceeded your current quota", "retry in"])),
    row("quota-code",          ErrorClass::Quota,      Says(&["insufficient_quota"])),
    row("quota-sentence",      ErrorClass::Quota,      Says(&["exceeded your current quota"])),
    row("quota-balance",       ErrorClass::Quota,      Says(&["credit balance"])),
    row("context-sentence",    ErrorClass::Context,    Says(&["prompt is too long"])),
    row("context-code",        ErrorClass::Context,    Says(&["context_length_exceeded"])),
    row("context-window",      ErrorClass::Context,    Says(&["context window"])),
    row("context-length",      ErrorClass::Context,    Says(&["maximum context length"])),
    row("context-request",     ErrorClass::Context,    Says(&["request_too_large"])),
    // Before the words of billing: the hint behind a rate limit often names the billing page.
    row("rate-code",           ErrorClass::RateLimit,  Says(&["rate_limit"])),
    row("rate-sentence",       ErrorClass::RateLimit,  Says(&["rate limit reached"])),
    row("rate-usage",          ErrorClass::RateLimit,  Says(&["usage limit"])),
    row("overloaded-code",     ErrorClass::Overloaded, Says(&["overloaded_error"])),
    row("auth-code",           ErrorClass::Auth,       Says(&["invalid_api_key"])),
    row("auth-error",          ErrorClass::Auth,       Says(&["authentication_error"])),
    row("quota-billing",       ErrorClass::Quota,      Says(&["billing"])),
    row("quota-credit",        ErrorClass::Quota,      Says(&["credit"])),

    row("status-402",          ErrorClass::Quota,      Status(402, 402)),
    row("status-401",          ErrorClass::Auth,       Status(401, 401)),
    row("status-403",          ErrorClass::Auth,       Status(403, 403)),
    row("status-413",          ErrorClass::Context,    Status(413, 413)),
    row("status-429",          ErrorClass::RateLimit,  Status(429, 429)),
    row("status-5xx",          ErrorClass::Overloaded, Status(500, 599)),
    row("status-other",        ErrorClass::Other,      Status(100, 499)),

    row("word-authentication", ErrorClass::Auth,       Says(&["authentication"])),
    row("word-unauthorized",   ErrorClass::Auth,       Says(&["unauthorized"])),
    row("word-api-key",        ErrorClass::Auth,       Says(&["api key"])),
    row("word-rate-limit",     ErrorClass::RateLimit,  Says(&["rate limit"])),
    row("word-requests",       ErrorClass::RateLimit,  Says(&["too many requests"])),
    row("word-exhausted",      ErrorClass::RateLimit,  Says(&["resource_exhausted"])),
    row("word-throttling",     ErrorClass::RateLimit,  Says(&["throttlingexception"])),
    row("word-overloaded",     ErrorClass::Overloaded, Says(&["overloaded"])),
    row("word-unavailable",    ErrorClass::Overloaded, Says(&["service unavailable"])),
];

/// Judges the error that was pi's last word, in pi's own words.
///
/// `zone` is the one in which a time of day without a zone is meant.
pub(super) fn judge(message: &str, read_at: Timestamp, zone: ZoneSource) -> FinalError {
    let looked_at = head(message, LOOKED_AT);
    let lower = looked_at.to_lowercase();
    let found = CATALOGUE.iter().find(|row| row.sign.matches(&lower));
    let (class, rule) = found.map_or((ErrorClass::Other, "none"), |row| (row.class, row.id));
    let limited = matches!(class, ErrorClass::RateLimit | ErrorClass::Overloaded);
    // `in ~5 min` is five minutes.
    let resets = limited
        .then(|| reset_from_text(&looked_at.replace('~', ""), read_at, &zone()))
        .flatten()
        .map(|at| (at, LimitSource::Text));
    FinalError {
        class,
        message: head(message, KEPT).to_owned(),
        rule: rule.to_owned(),
        resets,
    }
}

impl Sign {
    fn matches(&self, lower: &str) -> bool {
        match self {
            Self::Status(first, last) => status(lower).is_some_and(|code| (*first..=*last).contains(&code)),
            Self::Says(phrases) => phrases.iter().all(|phrase| lower.contains(phrase)),
        }
    }
}

/// The HTTP status that a message begins with: `429 Rate limit`, `429: {…}`.
fn status(message: &str) -> Option<u16> {
    let (digits, rest) = message.trim_start().split_at_checked(3)?;
    if rest.starts_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    digits.parse().ok()
}

/// The beginning of a text, cut at a character.
fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(message: &str) -> FinalError {
        judge(message, "2026-11-30T20:00:00Z".parse().unwrap(), || {
            jiff::tz::TimeZone::UTC
        })
    }

    #[test]
    fn each_class_is_told_by_what_providers_say() {
        use ErrorClass::{Auth, Context, Other, Overloaded, Quota, RateLimit};
        for (message, class) in [
            (
                "429 Rate limit reached for m on tokens per min. Please try again in 2s.",
                RateLimit,
            ),
            (
                r#"429: {"message":"Slow down","code":"rate_limit_exceeded"}"#,
                RateLimit,
            ),
            (
                "429 Rate limit reached. Add a payment method at https://x/account/billing.",
                RateLimit,
            ),
            (
                "429 You exceeded your current quota, see billing details. Please retry in 43.2s.",
                RateLimit,
            ),
            (
                "You have hit your usage limit (plus plan). Try again in ~5 min.",
                RateLimit,
            ),
            ("429", RateLimit),
            (
                "429 You exceeded your current quota, please check your plan and billing details.",
                Quota,
            ),
            ("429 You exceeded your current quota.", Quota),
            (r#"429: {"message":"x","type":"insufficient_quota"}"#, Quota),
            (
                "429 Your account is not active, please check your billing details.",
                Quota,
            ),
            ("400 Your credit balance is too low to access the API.", Quota),
            ("402 Payment required", Quota),
            ("401 Incorrect API key provided: dummy.", Auth),
            ("403 forbidden", Auth),
            (
                r#"{"type":"error","error":{"type":"authentication_error"}}"#,
                Auth,
            ),
            ("No API key found for anthropic.", Auth),
            ("503 The server is overloaded", Overloaded),
            ("529 x", Overloaded),
            ("500: {}", Overloaded),
            (
                r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
                Overloaded,
            ),
            ("400 prompt is too long: 250000 tokens > 200000 maximum", Context),
            ("Your input exceeds the context window of this model.", Context),
            ("404 The model `nope` does not exist", Other),
            ("terminated: other side closed (UND_ERR_SOCKET)", Other),
            ("4290 things went wrong", Other),
            ("é", Other),
            ("", Other),
        ] {
            let error = judged(message);
            assert_eq!(error.class, class, "{message} by {}", error.rule);
        }
    }

    #[test]
    fn the_end_of_a_limit_is_read_from_its_text() {
        for (message, at) in [
            (
                "429 Rate limit reached. Please try again in 2s.",
                Some("2026-11-30T20:00:02.000Z"),
            ),
            (
                "429 You've hit your limit · resets 11pm (UTC)\"}}",
                Some("2026-11-30T23:00:00.000Z"),
            ),
            (
                "You have hit your usage limit. Try again in ~5 min.",
                Some("2026-11-30T20:05:00.000Z"),
            ),
            ("429 slow down", None),
            ("401 try again in 2s", None),
        ] {
            let resets = judged(message).resets.map(|(at, _)| at.to_string());
            assert_eq!(resets.as_deref(), at, "{message}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = format!("429 {}", "é".repeat(40_000));
        assert!(judged(&message).message.len() <= KEPT);
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let mut ids: Vec<_> = CATALOGUE.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CATALOGUE.len());
    }
}

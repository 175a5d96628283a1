//! The catalogue of errors that CLIs report, as data: the first row that matches decides.
//!
//! A CLI's own rows stand first, then those of the providers, which every CLI passes on in its own words.
//! Of these, codes and whole sentences stand before the HTTP status, and that before single words, which are
//! the least certain. Only what the CLI itself authored is judged.

use pod_core::{ErrorClass, FinalError, LimitSource, Timestamp, reset_from_text};

use crate::ZoneSource;
use Sign::{Says, Status};

/// How much of a message is looked at; the sentence of a provider is shorter.
const LOOKED_AT: usize = 16 * 1024;
/// How much of a message is kept.
const KEPT: usize = 1024;

/// What a row looks for.
pub(crate) enum Sign {
    /// An HTTP status of this range.
    Status(u16, u16),
    /// The CLI's own code, as it stands.
    Code(&'static str),
    /// The message holds all of these, in any letter case.
    Says(&'static [&'static str]),
}

/// One row of a catalogue.
pub(crate) struct Row {
    id: &'static str,
    class: ErrorClass,
    sign: Sign,
}

/// A row: its id, which the evidence keeps, the class, and the sign.
pub(crate) const fn row(id: &'static str, class: ErrorClass, sign: Sign) -> Row {
    Row { id, class, sign }
}

/// What a CLI said of an error.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    /// Its words.
    pub(crate) message: &'a str,
    /// The HTTP status, where it stands in a field or in a known place of the words.
    pub(crate) status: Option<u16>,
    /// The CLI's own code for it.
    pub(crate) code: Option<&'a str>,
}

#[rustfmt::skip]
const PROVIDERS: &[Row] = &[
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
    row("context-google",      ErrorClass::Context,    Says(&["input token count", "exceeds the maximum"])),
    // Before the words of billing: the hint behind a rate limit often names the billing page.
    row("rate-code",           ErrorClass::RateLimit,  Says(&["rate_limit"])),
    row("rate-sentence",       ErrorClass::RateLimit,  Says(&["rate limit reached"])),
    row("rate-usage",          ErrorClass::RateLimit,  Says(&["usage limit"])),
    row("overloaded-code",     ErrorClass::Overloaded, Says(&["overloaded_error"])),
    row("auth-code",           ErrorClass::Auth,       Says(&["invalid_api_key"])),
    row("auth-error",          ErrorClass::Auth,       Says(&["authentication_error"])),
    row("auth-google",         ErrorClass::Auth,       Says(&["api_key_invalid"])),
    row("auth-google-text",    ErrorClass::Auth,       Says(&["api key not valid"])),
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

/// Judges the error that was a CLI's last word.
///
/// `zone` is the one in which a time of day without a zone is meant.
pub(crate) fn judge(own: &[Row], said: &Said<'_>, read_at: Timestamp, zone: ZoneSource) -> FinalError {
    let looked_at = head(said.message, LOOKED_AT);
    let lower = looked_at.to_lowercase();
    let found = own
        .iter()
        .chain(PROVIDERS)
        .find(|row| row.sign.matches(&lower, said));
    let (class, rule) = found.map_or((ErrorClass::Other, "none"), |row| (row.class, row.id));
    let limited = matches!(class, ErrorClass::RateLimit | ErrorClass::Overloaded);
    // `in ~5 min` is five minutes.
    let resets = limited
        .then(|| reset_from_text(&looked_at.replace('~', ""), read_at, &zone()))
        .flatten()
        .map(|at| (at, LimitSource::Text));
    FinalError {
        class,
        message: head(said.message, KEPT).to_owned(),
        rule: rule.to_owned(),
        resets,
    }
}

impl Sign {
    fn matches(&self, lower: &str, said: &Said<'_>) -> bool {
        match self {
            Self::Status(first, last) => said.status.is_some_and(|code| (*first..=*last).contains(&code)),
            Self::Code(code) => said.code == Some(code),
            Self::Says(phrases) => phrases.iter().all(|phrase| lower.contains(phrase)),
        }
    }
}

/// The HTTP status that a text begins with: `429 Rate limit`, `429: {…}`.
pub(crate) fn leading_status(message: &str) -> Option<u16> {
    let (digits, rest) = message.trim_start().split_at_checked(3)?;
    if rest.starts_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    digits.parse().ok()
}

/// The HTTP status behind a phrase in a text: `last status: 429 Too Many Requests`.
pub(crate) fn status_behind(message: &str, phrase: &str) -> Option<u16> {
    let (_, rest) = message.split_once(phrase)?;
    leading_status(rest)
}

/// The beginning of a text, cut at a character.
fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(message: &str) -> FinalError {
        let said = Said {
            message,
            status: leading_status(message),
            code: None,
        };
        judge(&[], &said, "2026-11-30T20:00:00Z".parse().unwrap(), || {
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
            (
                "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
                Context,
            ),
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
        let mut ids: Vec<_> = PROVIDERS.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), PROVIDERS.len());
    }
}

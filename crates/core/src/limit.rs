//! Reads from a CLI's own sentence when a limit ends.

use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use crate::Timestamp;

/// When a limit ends, as a sentence says it; `None` where it says nothing, or something that is past.
///
/// Reads `in 2s`, `in 5 minutes`, `retry after 30`, an RFC 3339 instant, and a time of day such as
/// `resets 2:30am`, `at 11:13 PM`, `8pm (Asia/Tokyo)`, `Dec 5 at 9am`, `Dec 5th, 2026 9:13 AM`. A time of day
/// without a zone is in `local`, the CLI's own; without a date it means its next occurrence after `read_at`.
pub fn reset_from_text(text: &str, read_at: Timestamp, local: &TimeZone) -> Option<Timestamp> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '"'))
        .collect();
    instant(&words, read_at)
        .or_else(|| delay(&words).map(|delay| read_at.plus(delay)))
        .or_else(|| time_of_day(&words, read_at, local))
        .filter(|at| *at > read_at)
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn instant(words: &[&str], read_at: Timestamp) -> Option<Timestamp> {
    let whole = words
        .iter()
        .map(|word| trimmed(word))
        .filter(|word| word.len() >= 20 && word.contains('T'));
    whole
        .filter_map(|word| word.parse().ok())
        .find(|at| *at > read_at)
}

fn delay(words: &[&str]) -> Option<Duration> {
    words.iter().enumerate().find_map(|(index, word)| {
        let lead = trimmed(word).to_ascii_lowercase();
        if !matches!(lead.as_str(), "in" | "after" | "retry-after" | "wait") {
            return None;
        }
        // `1 hour and 30 minutes`, `1h 30m`: every part counts.
        let mut rest = &words[index + 1..];
        let mut total: Option<Duration> = None;
        while let Some((part, used)) = delay_part(rest, &lead, total.is_none()) {
            total = Some(total.unwrap_or_default().saturating_add(part));
            rest = &rest[used..];
            if rest.first().is_some_and(|word| word.eq_ignore_ascii_case("and")) {
                rest = &rest[1..];
            }
        }
        total
    })
}

/// One part of a delay, and how many words it takes.
fn delay_part(words: &[&str], lead: &str, first: bool) -> Option<(Duration, usize)> {
    let number = words.first()?.trim_end_matches(['.', ')', '!']);
    let Ok(count) = number.parse::<f64>() else {
        return spelled(number).map(|part| (part, 1));
    };
    let unit = words.get(1).map_or("", |word| trimmed(word));
    let (secs, used) = match unit_secs(unit) {
        Some(secs) => (secs, 2),
        // `in 3 requests` is no delay; `retry-after: 30` is one, in seconds.
        None if first && lead != "in" => (1.0, 1),
        None => return None,
    };
    let part = Duration::try_from_secs_f64(count * secs).ok()?;
    Some((part, used))
}

fn unit_secs(unit: &str) -> Option<f64> {
    match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => Some(0.001),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

/// `2s`, `1.5h`, `1h2m3s`: humantime takes no fraction.
fn spelled(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        total += number.parse::<f64>().ok()? * unit_secs(unit)?;
        rest = tail;
    }
    if text.is_empty() {
        None
    } else {
        Duration::try_from_secs_f64(total).ok()
    }
}

fn time_of_day(words: &[&str], read_at: Timestamp, local: &TimeZone) -> Option<Timestamp> {
    let word = |at: usize| words.get(at).copied().unwrap_or("");
    // The first time of day decides, even if it cannot be one.
    let found = (1..words.len()).find_map(|index| {
        let lead = trimmed(words[index - 1]).to_ascii_lowercase();
        if !matches!(lead.as_str(), "at" | "resets" | "reset" | "until" | "on") {
            return None;
        }
        let (date, skipped) = calendar_date(&words[index..]).unzip();
        let index = index + skipped.unwrap_or(0);
        let (time, used) = clock_time(trimmed(word(index)), trimmed(word(index + 1)))?;
        let zone_word = word(index + 1 + used);
        let zone = if zone_word.starts_with('(') || zone_word == "UTC" {
            // An unknown zone is no reason to guess another one.
            match TimeZone::get(
                zone_word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '_'),
            ) {
                Ok(zone) => zone,
                Err(_) => return Some(None),
            }
        } else {
            local.clone()
        };
        Some(match date {
            Some(date) => on_date(date, time, read_at, &zone),
            None => next_occurrence(time, read_at, &zone),
        })
    });
    found.flatten()
}

/// A day of a month, and its year where one is named.
type Day = (i8, i8, Option<i16>);

/// A date such as `Dec 5`, `Dec 5th, 2026` or `December 5 at`, and how many words it takes.
fn calendar_date(words: &[&str]) -> Option<(Day, usize)> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    // Commas have split words and left empty ones.
    let mut at = words.iter().enumerate().filter(|(_, word)| !word.is_empty());
    let (_, month) = at.next()?;
    let month = trimmed(month).to_ascii_lowercase();
    let month = MONTHS.iter().position(|name| month.starts_with(name))?;
    let (day_at, day) = at.next()?;
    let day = trimmed(day).trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let day = day.parse::<i8>().ok()?;
    let mut used = day_at + 1;
    let mut year = None;
    for (at, word) in at {
        match trimmed(word).parse::<i16>() {
            Ok(named) if year.is_none() && named >= 1970 => year = Some(named),
            Err(_) if word.eq_ignore_ascii_case("at") => {}
            Ok(_) | Err(_) => return Some(((i8::try_from(month + 1).ok()?, day, year), at)),
        }
        used = at + 1;
    }
    Some(((i8::try_from(month + 1).ok()?, day, year), used))
}

/// A time on a date; without a year, on the next such date.
fn on_date((month, day, year): Day, time: Time, read_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let this = zone.to_datetime(read_at.instant()).date().year();
    let years = year.map_or([this, this.saturating_add(1)], |year| [year, year]);
    years
        .into_iter()
        .filter_map(|year| Date::new(year, month, day).ok())
        .filter_map(|date| zone.to_timestamp(date.to_datetime(time)).ok())
        .map(Timestamp::new)
        .find(|at| *at > read_at)
}

/// A time of day, and how many of the two words it took beyond the first.
fn clock_time(word: &str, next: &str) -> Option<(Time, usize)> {
    let lower = word.to_ascii_lowercase();
    let (digits, half, used) = if let Some(digits) = lower.strip_suffix("am") {
        (digits, Some(0), 0)
    } else if let Some(digits) = lower.strip_suffix("pm") {
        (digits, Some(12), 0)
    } else if next.eq_ignore_ascii_case("am") {
        (lower.as_str(), Some(0), 1)
    } else if next.eq_ignore_ascii_case("pm") {
        (lower.as_str(), Some(12), 1)
    } else {
        (lower.as_str(), None, 0)
    };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?),
        // A bare number without am or pm is no time of day.
        None => (digits.parse::<i8>().ok().filter(|_| half.is_some())?, 0),
    };
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Some((Time::new(hour, minute, 0, 0).ok()?, used))
}

fn next_occurrence(time: Time, read_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = zone.to_datetime(read_at.instant()).date();
    [today, today.tomorrow().ok()?]
        .into_iter()
        .filter_map(|day| zone.to_timestamp(day.to_datetime(time)).ok())
        .map(Timestamp::new)
        .find(|at| *at > read_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let read_at: Timestamp = "2026-11-30T23:00:00Z".parse().unwrap();
        reset_from_text(text, read_at, &TimeZone::UTC).map(|at| at.to_string())
    }

    #[test]
    fn sentences_that_clis_write() {
        for (text, want) in [
            ("Please try again in 2s.", Some("2026-11-30T23:00:02.000Z")),
            ("try again in 5 minutes", Some("2026-11-30T23:05:00.000Z")),
            ("retry after 30", Some("2026-11-30T23:00:30.000Z")),
            ("in 1h2m3s", Some("2026-12-01T00:02:03.000Z")),
            ("in 1.5h", Some("2026-12-01T00:30:00.000Z")),
            ("in 1 hour 30 minutes", Some("2026-12-01T00:30:00.000Z")),
            ("in 1h 30m, or upgrade", Some("2026-12-01T00:30:00.000Z")),
            ("in 2 days and 1 hour.", Some("2026-12-03T00:00:00.000Z")),
            ("resets Dec 5 at 9am (UTC)", Some("2026-12-05T09:00:00.000Z")),
            ("resets Dec 5, 9am (UTC)", Some("2026-12-05T09:00:00.000Z")),
            ("resets Jan 2, 5pm (Asia/Tokyo)", Some("2027-01-02T08:00:00.000Z")),
            (
                "Try again at Dec 5th, 2026 9:13 AM.",
                Some("2026-12-05T09:13:00.000Z"),
            ),
            ("resets Feb 30 at 9am", None),
            ("resets Dec 5", None),
            ("limit resets 2:30am", Some("2026-12-01T02:30:00.000Z")),
            (
                "hit your limit · resets 3pm (UTC)",
                Some("2026-12-01T15:00:00.000Z"),
            ),
            ("try again at 11:13 PM.", Some("2026-11-30T23:13:00.000Z")),
            ("resets 8pm (Asia/Tokyo)", Some("2026-12-01T11:00:00.000Z")),
            ("until 2026-12-02T00:00:00Z", Some("2026-12-02T00:00:00.000Z")),
            ("resets 8pm (Mars/Olympus)", None),
            ("resets 13pm", None),
            ("at 25:00", None),
            ("in total 3 requests", None),
            ("in 3 requests", None),
            ("look at 7 files", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn a_time_that_the_clock_skips_is_found() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let read_at: Timestamp = "2026-03-28T23:30:00Z".parse().unwrap();
        let at = reset_from_text("resets 2:30am", read_at, &zone).unwrap();
        assert_eq!(at.to_string(), "2026-03-29T01:30:00.000Z");
    }
}

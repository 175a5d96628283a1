//! Instants as they stand in files: RFC 3339, UTC, milliseconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A wall-clock instant with millisecond precision.
///
/// For showing and for reset times only. Ages and time-outs are measured on a monotonic clock by whoever
/// observes, since this one can jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The last day of the year 9998, in milliseconds since 1970.
    const LAST_MILLIS: i64 = 253_370_764_800_000;

    /// Takes an instant, cut to milliseconds.
    pub fn new(instant: jiff::Timestamp) -> Self {
        Self::from_millis(instant.as_millisecond())
    }

    /// Takes milliseconds since 1970, held between 1970 and the end of 9998.
    pub fn from_millis(millis: i64) -> Self {
        let held = millis.clamp(0, Self::LAST_MILLIS);
        Self(jiff::Timestamp::from_millisecond(held).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// The instant as the calendar library knows it.
    pub fn instant(self) -> jiff::Timestamp {
        self.0
    }

    /// The instant `after` later; the end of the calendar where that lies beyond it.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        let millis = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.as_millis().saturating_add(millis))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.as_millis().saturating_sub(earlier.as_millis());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse().map(Self::new)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Says in words how long ago something was: `just now`, `5 minutes ago`, `3 days ago`.
pub fn ago(elapsed: Duration) -> String {
    let secs = elapsed.as_secs();
    let (count, unit) = match secs {
        0..=9 => return "just now".to_owned(),
        10..=119 => (secs, "second"),
        120..=7199 => (secs / 60, "minute"),
        7200..=172_799 => (secs / 3600, "hour"),
        _ => (secs / 86_400, "day"),
    };
    format!("{count} {unit}s ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_keep_three_digits_and_a_z() {
        let at: Timestamp = "2026-11-30T21:02:00.5+01:00".parse().unwrap();
        assert_eq!(at.to_string(), "2026-11-30T20:02:00.500Z");
        assert_eq!(
            at.plus(Duration::from_millis(1)).to_string(),
            "2026-11-30T20:02:00.501Z"
        );
        assert_eq!(
            Timestamp::from_millis(i64::MAX).plus(Duration::MAX),
            Timestamp::from_millis(i64::MAX)
        );
    }

    #[test]
    fn ages_are_said_in_words() {
        let said = |secs| ago(Duration::from_secs(secs));
        assert_eq!(said(3), "just now");
        assert_eq!(said(42), "42 seconds ago");
        assert_eq!(said(600), "10 minutes ago");
        assert_eq!(said(7200), "2 hours ago");
        assert_eq!(said(1_000_000), "11 days ago");
    }
}

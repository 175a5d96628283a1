//! Durations and sizes as people write them: `30s`, `4h`, `2GiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a duration or a size was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration.
    #[error("`{0}` is not a duration: write `30s`, `10m`, `4h` or `90d`")]
    Span(String),
    /// Not a size.
    #[error("`{0}` is not a size: write `512MiB` or `2GiB`")]
    Size(String),
}

/// A duration that a person wrote, kept so that it reads back the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// A duration of whole seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|_| UnitError::Span(crate::quoted(text, 40)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The library would turn 90 days into months, which nobody wrote.
        let (secs, sub) = (self.0.as_secs(), self.0.subsec_nanos());
        if sub == 0 && secs > 0 {
            for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "m")] {
                if secs.is_multiple_of(unit) {
                    return write!(f, "{}{name}", secs / unit);
                }
            }
            return write!(f, "{secs}s");
        }
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

/// A number of bytes that a person wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// So many mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parsed = text.parse::<bytesize::ByteSize>();
        parsed
            .map(|size| Self(size.as_u64()))
            .map_err(|_| UnitError::Size(crate::quoted(text, 40)))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 > 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{name}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}
as_text!(Span);
as_text!(ByteSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back() {
        for text in ["30s", "10m", "4h", "90d", "500ms", "90s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["2GiB", "512MiB", "1KiB", "7B"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert_eq!("2GiB".parse(), Ok(ByteSize::mib(2048)));
        assert_eq!("1h30m".parse::<Span>().unwrap().0, Duration::from_secs(5400));
        assert!("10".parse::<Span>().is_err());
        assert!("-1s".parse::<Span>().is_err());
        assert!("much".parse::<ByteSize>().is_err());
    }
}

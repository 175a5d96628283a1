//! A record as bytes, and what is wrong with bytes that are no record.

use std::path::Path;

use pod_core::{PodId, PodRecord, SCHEMA_VERSION};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{ReadError, RegistryError};

/// The two keys that every version has to keep.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "schemaVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Puts a record into the bytes of its file.
pub(crate) fn encode(record: &PodRecord) -> Result<Vec<u8>, RegistryError> {
    let mut bytes = serde_json::to_vec(record).map_err(|source| RegistryError::Encode {
        id: record.id.clone(),
        source,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads the record of `id` from the bytes of `file`.
pub(crate) fn decode(file: &Path, id: &PodId, bytes: &[u8]) -> Result<PodRecord, ReadError> {
    match serde_json::from_slice::<PodRecord>(bytes) {
        Ok(record) if record.schema_version == SCHEMA_VERSION && record.id == *id => Ok(record),
        Ok(_) => Err(diagnose(file, bytes, None)),
        Err(error) => Err(diagnose(file, bytes, Some(&error))),
    }
}

fn diagnose(file: &Path, bytes: &[u8], error: Option<&serde_json::Error>) -> ReadError {
    let broken = |byte: usize, why: String| ReadError::Unreadable {
        file: file.to_owned(),
        byte: byte as u64,
        why,
    };
    if bytes.is_empty() {
        return broken(0, "it is empty".to_owned());
    }
    // The version decides first: of a newer record the rest need make no sense to us.
    let head = serde_json::from_slice::<Head<'_>>(bytes).ok();
    let version = head.as_ref().and_then(|head| head.version);
    let number = version.and_then(|raw| raw.get().parse::<u64>().ok());
    if let Some(version) = number.filter(|number| *number > u64::from(SCHEMA_VERSION)) {
        let version = u32::try_from(version).unwrap_or(u32::MAX);
        return ReadError::Newer {
            file: file.to_owned(),
            version,
        };
    }
    if let Some(error) = error {
        return broken(offset(error, bytes), reason(error));
    }
    let quoted = |raw: &RawValue| pod_core::quoted(raw.get(), 80);
    match (version, head.and_then(|head| head.id)) {
        (Some(raw), _) if number != Some(u64::from(SCHEMA_VERSION)) => broken(
            position(raw, bytes),
            format!("schemaVersion {} is unknown", quoted(raw)),
        ),
        (_, Some(raw)) => broken(
            position(raw, bytes),
            format!("it is the record of {}", quoted(raw)),
        ),
        _ => broken(0, "it names no pod".to_owned()),
    }
}

fn position(part: &RawValue, whole: &[u8]) -> usize {
    part.get().as_ptr().addr().saturating_sub(whole.as_ptr().addr())
}

fn offset(error: &serde_json::Error, bytes: &[u8]) -> usize {
    if error.is_eof() {
        return bytes.len();
    }
    let lines_before = error.line().saturating_sub(1);
    let start: usize = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(lines_before)
        .map(<[u8]>::len)
        .sum();
    (start + error.column().saturating_sub(1)).min(bytes.len())
}

fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // Line and column say again what the byte says.
    let why = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(why, _)| why);
    pod_core::quoted(why, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"schemaVersion":1,"id":"p","project":"/p","goal":"g","state":"idle","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:00.000Z","later":{"deep":[1,"x"]}}"#;

    fn read(bytes: &[u8]) -> Result<PodRecord, ReadError> {
        decode(Path::new("/r/p.json"), &"p".parse().unwrap(), bytes)
    }

    fn broken_at(bytes: &[u8]) -> (u64, String) {
        match read(bytes) {
            Err(ReadError::Unreadable { byte, why, .. }) => (byte, why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_survives_and_so_do_keys_of_another_version() {
        let record = read(GOOD.as_bytes()).unwrap();
        let bytes = encode(&record).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains(r#""later":{"deep":[1,"x"]}"#));
        assert_eq!(read(&bytes).unwrap(), record);
    }

    #[test]
    fn every_prefix_of_a_record_is_unreadable() {
        for end in 0..GOOD.len() {
            let (byte, why) = broken_at(&GOOD.as_bytes()[..end]);
            assert_eq!(byte, end as u64, "{why}");
        }
        assert_eq!(broken_at(b"").1, "it is empty");
    }

    #[test]
    fn the_byte_is_named() {
        let length = GOOD.len() as u64;
        assert_eq!(
            broken_at(format!("{GOOD}x").as_bytes()),
            (length, "trailing characters".into())
        );
        assert_eq!(broken_at(format!("{GOOD}\n\n{GOOD}").as_bytes()).0, length + 2);
        assert_eq!(broken_at(&[0; 700]).0, 0);
        assert_eq!(broken_at(b"{\n  \"id\": ?}").0, 10);
        let other = GOOD.replace(r#""id":"p""#, r#""id":"q""#);
        assert_eq!(
            broken_at(other.as_bytes()),
            (24, r#"it is the record of "q""#.into())
        );
        let old = GOOD.replace(r#""schemaVersion":1"#, r#""schemaVersion":0"#);
        assert_eq!(broken_at(old.as_bytes()).0, 17);
        let mut garbage = GOOD.as_bytes().to_vec();
        garbage[40] = 0xff;
        broken_at(&garbage);
    }

    #[test]
    fn a_newer_version_is_newer_whatever_else_it_holds() {
        let newer = GOOD.replace(r#""schemaVersion":1"#, r#""schemaVersion":2"#);
        let strange = r#"{"id":["no","text"],"state":"sleeping","schemaVersion":7}"#;
        for (text, expected) in [(newer.as_str(), 2), (strange, 7)] {
            match read(text.as_bytes()) {
                Err(ReadError::Newer { version, .. }) => assert_eq!(version, expected),
                other => panic!("{other:?}"),
            }
        }
        broken_at(br#"{"schemaVersion":7"#);
    }
}

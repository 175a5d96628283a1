//! Reading a TOML file that a person wrote.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pod_disk::DiskError;

use crate::ConfigError;

/// No file of a person's hand comes near this.
const LIMIT: u64 = 4 << 20;

/// Reads a file that may be a symlink, as dotfiles often are; `None` if it is missing.
///
/// A FIFO in its place is refused: nobody would write to it, and a daemon must not wait.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let Some(real) = resolved(path)? else {
        return Ok(None);
    };
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(DiskError::new("read", path, io::ErrorKind::IsADirectory).into());
    };
    match pod_disk::read_below(directory, Path::new(name), LIMIT)? {
        Some(bytes) => text(path, bytes).map(Some),
        None => Ok(None),
    }
}

/// Reads a file that a person named, whatever kind of file it is.
pub(crate) fn read_named(path: &Path) -> Result<String, ConfigError> {
    let failed = |error| DiskError::new("read", path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT {
        return Err(failed(io::ErrorKind::FileTooLarge.into()).into());
    }
    text(path, bytes)
}

/// The file behind a path and its symlinks; `None` if there is none.
pub(crate) fn resolved(path: &Path) -> Result<Option<PathBuf>, DiskError> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::new("read", path, error)),
    }
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, ConfigError> {
    let text = String::from_utf8(bytes);
    text.map_err(|_| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
        DiskError::new("read", path, error).into()
    })
}

/// Says where and why a text is no TOML, without quoting it: it may hold secrets.
pub(crate) fn syntax(
    file: &Path,
    text: &str,
    span: Option<std::ops::Range<usize>>,
    why: &str,
) -> ConfigError {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    ConfigError::Syntax {
        file: file.to_owned(),
        line: before.matches('\n').count() + 1,
        why: pod_core::quoted(why, 200),
    }
}

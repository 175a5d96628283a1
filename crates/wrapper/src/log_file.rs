//! A log on a disk that may be full, and that an agent may remove.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use pod_core::MissingBytes;

/// A file that takes what it can, and keeps count of what it lacks.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: Option<File>,
    written: u64,
    missing: u64,
    cause: Option<String>,
}

impl LogFile {
    /// The log in `file`; one that could not be opened lacks everything.
    pub(crate) fn new(file: Result<File, String>) -> Self {
        let (file, cause) = match file {
            Ok(file) => (Some(file), None),
            Err(cause) => (None, Some(cause)),
        };
        Self {
            file,
            written: 0,
            missing: 0,
            cause,
        }
    }

    /// Writes; if not all of it, says how much was taken. What was not is the caller's to count.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let Some(file) = &mut self.file else { return Err(0) };
        let mut taken = 0;
        while taken < bytes.len() {
            let error = match file.write(&bytes[taken..]) {
                Ok(0) => std::io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    taken += count;
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.cause.get_or_insert_with(|| error.to_string());
            self.written += taken as u64;
            return Err(taken);
        }
        self.written += taken as u64;
        Ok(())
    }

    /// Counts bytes that were not written.
    pub(crate) fn lose(&mut self, bytes: usize) {
        self.missing += bytes as u64;
    }

    /// What it lacks.
    pub(crate) fn missing(&self, log: &str) -> Option<MissingBytes> {
        // A file without a name goes with our descriptor, and all that was written with it.
        let removed = self
            .file
            .as_ref()
            .is_some_and(|file| file.metadata().is_ok_and(|meta| meta.nlink() == 0));
        let (bytes, cause) = if removed {
            (
                self.missing + self.written,
                "the file was removed while it was written".to_owned(),
            )
        } else {
            (self.missing, self.cause.clone().unwrap_or_default())
        };
        (bytes > 0).then(|| MissingBytes {
            log: log.to_owned(),
            bytes: Some(bytes),
            cause,
        })
    }
}

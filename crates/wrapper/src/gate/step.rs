//! What a step prints: kept up to a limit, and always read.

use std::fs::File;

use pod_core::Usage;

use crate::claim::Claimed;
use crate::ears::Ears;
use crate::log_file::LogFile;
use crate::machine::Event;

/// The log of one step: stdout and stderr as they come.
pub(crate) struct StepLog {
    log: LogFile,
    left: u64,
    dropped: u64,
}

impl StepLog {
    pub(crate) fn new(file: Result<File, String>, limit: u64) -> Self {
        Self {
            log: LogFile::new(file),
            left: limit,
            dropped: 0,
        }
    }

    /// Says what was not kept.
    pub(crate) fn finish(&mut self) {
        if self.dropped > 0 {
            let line = format!("\n[{} bytes more are not kept: maxGateOutput]\n", self.dropped);
            let _written = self.log.write(line.as_bytes());
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(piece.len());
        // A full disk costs the log, and not the verdict.
        let _written = self.log.write(&piece[..fits]);
        self.left -= fits as u64;
        self.dropped += (piece.len() - fits) as u64;
    }
}

impl Ears for StepLog {
    fn stdout(&mut self, piece: &[u8]) {
        self.keep(piece);
    }

    fn stderr(&mut self, piece: &[u8]) {
        self.keep(piece);
    }

    fn end(&mut self) {}

    fn note(&mut self, line: &str) {
        self.keep(format!("{line}\n").as_bytes());
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn heard(&self, _claimed: &Claimed) -> Event {
        Event::Output { settled: false }
    }
}

//! The demo's log, as it comes.

use std::time::Duration;

use pod_core::{PodId, PodLayout};
use pod_reconcile::PodFiles;

use crate::fault::Stop;
use crate::logs::{Collector, LogFile, Sink, begins, harmless};
use crate::ui;
use crate::watch::Watch;

/// Shows a pod's log under short headings.
pub(crate) struct Live {
    log: LogFile,
    lines: Shown,
    watch: Option<Watch>,
}

impl Live {
    pub(crate) fn new(project: &str, id: &PodId) -> Self {
        Self {
            log: LogFile::new(PodFiles::new(project, id), PodLayout::output),
            lines: Shown::default(),
            watch: None,
        }
    }

    /// Shows what is new.
    pub(crate) fn show(&mut self) -> Result<(), Stop> {
        self.log.copy(&mut self.lines).map_err(|failed| failed.stop())
    }

    /// Whether nobody writes to it any more.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.log.is_being_written()
    }

    /// Waits for more.
    pub(crate) fn wait(&mut self, at_most: Duration) {
        let log = &self.log;
        let watch = self.watch.get_or_insert_with(|| Watch::on(&[log.directory()]));
        watch.wait(at_most);
    }
}

#[derive(Default)]
struct Shown {
    lines: Collector,
}

/// A line of the log as the demo shows it.
fn shown(line: &[u8]) -> String {
    let text = harmless(line);
    if let Some(n) = begins(line) {
        return format!("\nwake-up {n}\n");
    }
    let ended = text
        .strip_prefix("--- wake-up ")
        .and_then(|rest| rest.strip_suffix(" ---"));
    match ended.and_then(|rest| rest.split_once(" ended: ")) {
        Some((_, verdict)) => format!("  => {verdict}\n"),
        None => format!("  {text}\n"),
    }
}

impl Sink for Shown {
    fn part(&mut self, _file: &mut std::fs::File) -> std::io::Result<(u64, Option<u64>)> {
        Ok((0, None))
    }

    fn begin(&mut self, _file: &mut std::fs::File, _part: u64, _start: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.lines.take(bytes, |line| ui::answer(&shown(line.bytes)))
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn end(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_short() {
        assert_eq!(
            shown(b"--- wake-up 3 2026-11-30T20:02:00Z demo ---"),
            "\nwake-up 3\n"
        );
        assert_eq!(
            shown(b"--- wake-up 3 ended: failed/noHandoff: exit 1 ---"),
            "  => failed/noHandoff: exit 1\n"
        );
        assert_eq!(shown(b"hello"), "  hello\n");
    }
}

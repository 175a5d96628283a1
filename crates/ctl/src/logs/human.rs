//! output.log, for people and as JSON.

use std::fs::File;
use std::io;

use crate::fault::Stop;
use crate::logs::lines::{Collector, beginnings, begins};
use crate::logs::source::Sink;
use crate::ui;

/// Prints output.log, or one wake-up's part of it.
pub(crate) struct Human {
    wake_up: Option<u32>,
    json: bool,
    lines: Collector,
    /// The wake-up that the next line belongs to.
    current: u32,
    complete: bool,
}

impl Human {
    pub(crate) fn new(wake_up: Option<u32>, json: bool) -> Self {
        Self {
            wake_up,
            json,
            lines: Collector::default(),
            current: 0,
            complete: false,
        }
    }

    fn line(&mut self, bytes: &[u8], dropped: u64) -> Result<(), Stop> {
        if let Some(n) = begins(bytes).filter(|n| *n > self.current) {
            if self.wake_up.is_some_and(|wanted| n > wanted) {
                self.complete = true;
            }
            self.current = n;
        }
        if self.complete || self.wake_up.is_some_and(|wanted| wanted != self.current) {
            return Ok(());
        }
        let mut text = harmless(bytes);
        if dropped > 0 {
            text.push_str(&format!(" [{dropped} bytes more]"));
        }
        if self.json {
            return ui::json(&serde_json::json!({ "wakeUp": self.current, "line": text }));
        }
        text.push('\n');
        ui::answer(&text)
    }
}

/// The text of bytes, which acts on no terminal. The log is written so; an agent may write to it as well.
pub(crate) fn harmless(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        pod_core::escape_into(chunk.valid(), &mut text);
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

impl Sink for Human {
    fn part(&mut self, file: &mut File) -> io::Result<(u64, Option<u64>)> {
        let Some(wanted) = self.wake_up else {
            return Ok((0, None));
        };
        let (mut from, mut to) = (None, None);
        beginnings(file, None, |n, at| {
            if n == wanted {
                from = Some(at);
            } else if n > wanted {
                to = Some(at);
            }
            to.is_none()
        })?;
        let length = file.metadata()?.len();
        // It has not begun: what comes is looked at line by line.
        Ok((from.or(to).unwrap_or(length), to))
    }

    fn begin(&mut self, file: &mut File, part: u64, start: u64) -> io::Result<()> {
        if start > part
            && let Some(wanted) = self.wake_up
        {
            self.current = wanted;
        } else if self.json && start > 0 {
            // Only here a line has to say which wake-up it belongs to, and a long log is gone through for it.
            let mut current = 0;
            beginnings(file, Some(start), |n, at| {
                if at < start {
                    current = n;
                }
                at < start
            })?;
            self.current = current;
        }
        if start > part && !self.json {
            ui::note("only the last lines are shown; `-n all` shows everything");
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut lines = std::mem::take(&mut self.lines);
        let taken = lines.take(bytes, |line| self.line(line.bytes, line.dropped));
        self.lines = lines;
        taken
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn end(&mut self) -> Result<(), Stop> {
        match self.lines.rest() {
            Some(line) => self.line(&line, 0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_harmless_already_is_not_escaped_again() {
        assert_eq!(harmless(b"a\\x1b[2J"), "a\\x1b[2J");
        assert_eq!(harmless(b"a\x1b[2J\xff\xc3"), "a\\x1b[2J\\xff\\xc3");
    }
}

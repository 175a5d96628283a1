//! events.jsonl: byte for byte into a pipe, harmless on a terminal, wrapped as JSON.

use std::fs::File;
use std::io;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::fault::Stop;
use crate::logs::human::harmless;
use crate::logs::lines::{Collected, Collector};
use crate::logs::source::Sink;
use crate::ui;

/// An event, its text unaltered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfWakeUp<'a> {
    wake_up: u32,
    event: &'a RawValue,
}

/// Prints a wake-up's events.
pub(crate) struct Events {
    wake_up: u32,
    form: Form,
    lines: Collector,
    skipped: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As they are.
    Bytes,
    /// Escaped, for a terminal.
    Shown,
    /// Each in an object that names its wake-up.
    Json,
}

impl Events {
    pub(crate) fn new(wake_up: u32, json: bool) -> Self {
        let form = match (json, ui::is_terminal()) {
            (true, _) => Form::Json,
            (false, true) => Form::Shown,
            (false, false) => Form::Bytes,
        };
        Self {
            wake_up,
            form,
            lines: Collector::default(),
            skipped: 0,
        }
    }

    fn line(&mut self, line: Collected<'_>) -> Result<(), Stop> {
        if self.form == Form::Shown {
            return ui::answer(&format!("{}\n", harmless(line.bytes)));
        }
        match event(line) {
            Some(event) => ui::json(&OfWakeUp {
                wake_up: self.wake_up,
                event: &event,
            }),
            None => {
                self.skipped += 1;
                Ok(())
            }
        }
    }
}

/// The line as a JSON object; `None` if it is torn, runs into another one, or never was one.
fn event(line: Collected<'_>) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(line.bytes)
        .ok()
        .filter(|_| line.dropped == 0)?;
    let event: Box<RawValue> = serde_json::from_str(text).ok()?;
    event.get().starts_with('{').then_some(event)
}

impl Sink for Events {
    fn part(&mut self, _file: &mut File) -> io::Result<(u64, Option<u64>)> {
        Ok((0, None))
    }

    fn begin(&mut self, _file: &mut File, _part: u64, _start: u64) -> io::Result<()> {
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.form == Form::Bytes {
            return ui::answer_bytes(bytes);
        }
        let mut lines = std::mem::take(&mut self.lines);
        let taken = lines.take(bytes, |line| self.line(line));
        self.lines = lines;
        taken
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn end(&mut self) -> Result<(), Stop> {
        if let Some(rest) = self.lines.rest() {
            self.line(Collected {
                bytes: &rest,
                dropped: 0,
            })?;
        }
        if self.skipped > 0 {
            ui::note(&format!(
                "{} lines are no JSON objects and were left out",
                self.skipped
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_and_joined_lines_are_no_events() {
        let is_event = |bytes: &[u8]| event(Collected { bytes, dropped: 0 }).is_some();
        assert!(is_event(br#"{"type":"agent_start"}"#));
        for not in [
            &br#"{"type":"agen"#[..],
            br#"{"a":1}{"b":2}"#,
            b"\xc3",
            b"7",
            b"",
            b"plain text",
        ] {
            assert!(!is_event(not), "{}", String::from_utf8_lossy(not));
        }
    }
}

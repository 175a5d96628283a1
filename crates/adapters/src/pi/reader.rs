//! What pi's records mean, one after the other.

use crate::ZoneSource;
use pod_core::{EventFacts, FinalError, Stop, Terminal, Timestamp, Usage};

use super::record::{self, Message, Record};
use crate::catalogue::{self, Said, leading_status};
use crate::json::Tally;
use crate::text::{is_handoff, size_in_words};
use crate::{EventReader, Line, LineKind, TextSink};

/// How far a run of pi's has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It works, or a retry is due.
    Working,
    /// `agent_end` came. Before 1.x that is the last event of a run that went well.
    Ended,
    /// `agent_end` came, and the history is being compacted.
    Compacting,
    /// `agent_end` came, and the last retry is behind it.
    GivenUp,
    /// `agent_settled` came.
    Settled,
}

/// Reads pi's stream.
pub(crate) struct PiReader {
    zone: ZoneSource,
    phase: Phase,
    /// Whether any `agent_end` had the key `willRetry`: then `agent_settled` is owed.
    owes_settled: bool,
    tally: Tally,
    aborted: Option<bool>,
    stop: Option<Stop>,
    error: Option<FinalError>,
    handed_off: bool,
    usage: Usage,
    session_id: Option<String>,
    tools: u32,
}

impl PiReader {
    /// A reader that has seen nothing yet.
    pub(crate) fn new(zone: ZoneSource) -> Self {
        Self {
            zone,
            phase: Phase::Working,
            owes_settled: false,
            tally: Tally::default(),
            aborted: None,
            stop: None,
            error: None,
            handed_off: false,
            usage: Usage::default(),
            session_id: None,
            tools: 0,
        }
    }

    fn record(&mut self, record: &Record<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        match record.kind.as_ref() {
            "session" => self.session_id = record.id().or(self.session_id.take()),
            "agent_start" | "auto_retry_start" => self.begin_again(),
            "message_update" => record.with_text_delta(|delta| text.delta(delta)),
            "message_end" => {
                if let Some(message) = record.assistant_message() {
                    self.message(&message, line, text);
                }
            }
            "tool_execution_start" => {
                self.tools = self.tools.saturating_add(1);
                self.handed_off = record.with_tool_name(is_handoff).unwrap_or(false);
            }
            "tool_execution_end" => self.tools = self.tools.saturating_sub(1),
            "turn_end" => self.tools = 0,
            "agent_end" => self.agent_end(record),
            "auto_retry_end" => self.retry_end(record, line.read_at),
            "compaction_start" if self.phase == Phase::Ended => self.phase = Phase::Compacting,
            "compaction_end" if self.phase == Phase::Compacting => {
                self.phase = if record.will_retry() {
                    Phase::Working
                } else {
                    Phase::Ended
                };
            }
            "agent_settled" => {
                self.phase = Phase::Settled;
                self.aborted = record.aborted();
            }
            _ => {}
        }
    }

    /// What was said before is not the last word: pi works again.
    fn begin_again(&mut self) {
        self.phase = Phase::Working;
        self.tools = 0;
        self.aborted = None;
        self.stop = None;
        self.error = None;
    }

    fn agent_end(&mut self, record: &Record<'_>) {
        self.tools = 0;
        self.owes_settled |= record.speaks_of_retry();
        self.phase = if record.will_retry() {
            Phase::Working
        } else {
            Phase::Ended
        };
    }

    fn retry_end(&mut self, record: &Record<'_>, read_at: Timestamp) {
        match record.success() {
            Some(true) => self.error = None,
            Some(false) => {
                let judged = record.with_final_error(|said| judge(said, read_at, self.zone));
                self.error = judged.or(self.error.take());
                if self.phase == Phase::Ended {
                    self.phase = Phase::GivenUp;
                }
            }
            None => {}
        }
    }

    fn message(&mut self, message: &Message<'_>, line: &Line<'_>, text: &mut dyn TextSink) {
        self.usage = self.usage.plus(message.usage());
        self.stop = message.stop_reason.as_deref().and_then(|word| word.parse().ok());
        self.error = match self.stop {
            Some(stop @ (Stop::Error | Stop::Aborted)) => {
                let judged = |said: &str| judge(said, line.read_at, self.zone);
                message.with_error(judged).or_else(|| Some(judged(stop.word())))
            }
            Some(Stop::Stop | Stop::ToolUse | Stop::Length) | None => None,
        };
        let mut texts = 0_u32;
        message.blocks(|block| match block.kind.as_ref() {
            "text" => block.with_text(|said| {
                texts += 1;
                if !line.pruned {
                    text.finished(said);
                } else if texts == 1 {
                    text.finished(&size_in_words(line.size));
                }
            }),
            "toolCall" => self.handed_off = block.name.as_deref().is_some_and(is_handoff),
            _ => {}
        });
        if texts == 0 {
            text.discarded();
        }
    }

    fn terminal(&self) -> Terminal {
        match self.phase {
            Phase::Settled => Terminal::Settled,
            Phase::Ended | Phase::Compacting | Phase::GivenUp if !self.owes_settled => Terminal::Settled,
            Phase::Working | Phase::Ended | Phase::Compacting | Phase::GivenUp => Terminal::Missing,
        }
    }
}

/// Judges an error in pi's own words, which begin with the HTTP status where there was one.
fn judge(message: &str, read_at: Timestamp, zone: ZoneSource) -> FinalError {
    let said = Said {
        message,
        status: leading_status(message),
        code: None,
    };
    catalogue::judge(&[], &said, read_at, zone)
}

impl EventReader for PiReader {
    fn line(&mut self, line: &Line<'_>, text: &mut dyn TextSink) -> LineKind {
        let record = record::parse(line.bytes);
        if let Some(record) = &record {
            self.record(record, line, text);
        }
        self.tally.count(line, record.is_some())
    }

    fn facts(&self) -> EventFacts {
        EventFacts {
            lines: self.tally.lines,
            records: self.tally.records,
            noise: self.tally.lines - self.tally.records,
            plain_text: false,
            terminal: self.terminal(),
            aborted: self.aborted,
            stop: self.stop,
            handed_off_by_tool: self.handed_off,
            error: self.error.clone(),
            question: None,
            usage: (self.usage != Usage::default()).then_some(self.usage),
            session_id: self.session_id.clone(),
        }
    }

    fn settled(&self) -> bool {
        match self.phase {
            Phase::Settled => true,
            Phase::GivenUp => !self.owes_settled,
            // An error here may still be retried.
            Phase::Ended => !self.owes_settled && self.error.is_none(),
            Phase::Working | Phase::Compacting => false,
        }
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn tool_running(&self) -> bool {
        self.tools > 0
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;

//! What the agent writes: into the raw log, the human log and the adapter's reader.

use jiff::tz::TimeZone;
use pod_adapters::{Adapter, EventReader, Line, LineKind};
use pod_core::{EventFacts, ExitStatus, KillCause, MissingBytes, Tail, Usage, budget_exhausted};
use pod_disk::OpenKind;
use pod_reconcile::PodFiles;

use crate::claim::Claimed;
use crate::ears::Ears;
use crate::framer::{Framed, Framer};
use crate::human_log::{HumanLog, TailBuffer};
use crate::machine::Event;
use crate::raw_log::RawLog;
use pod_reconcile::now;

/// The two streams of one agent and all that is made of them.
pub(crate) struct Streams {
    framer: Framer,
    raw: RawLog,
    pub(crate) human: HumanLog,
    reader: Option<Box<dyn EventReader + Send>>,
    adapter: Option<&'static dyn Adapter>,
    stdout_tail: TailBuffer,
    stderr_tail: TailBuffer,
    /// Bytes of both streams.
    pub(crate) bytes: u64,
}

impl Streams {
    pub(crate) fn open(files: &PodFiles, n: u32) -> Self {
        let open = |place: &std::path::Path| {
            files
                .open(place, OpenKind::Append)
                .map_err(|error| format!("{error}: {}", error.source))
        };
        let layout = files.layout();
        // A log that a killed wake-up left torn is ended before anything is added to it.
        let _ended = files.end_torn_line(&layout.output());
        Self {
            framer: Framer::default(),
            raw: RawLog::new(open(&layout.events(n))),
            human: HumanLog::new(open(&layout.output())),
            reader: None,
            adapter: None,
            stdout_tail: TailBuffer::default(),
            stderr_tail: TailBuffer::default(),
            bytes: 0,
        }
    }

    /// From here on lines are read as those of this CLI.
    pub(crate) fn speak(&mut self, adapter: &'static dyn Adapter, recorded: Usage) {
        self.reader = Some(adapter.reader(TimeZone::system, recorded));
        self.adapter = Some(adapter);
    }

    /// From here on the agent writes the raw log itself.
    pub(crate) fn leave_raw_log(&mut self) {
        self.raw.leave();
    }

    pub(crate) fn settled(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.settled())
    }

    pub(crate) fn hopeless(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.hopeless())
    }

    /// What was seen; `status` is the agent's end, which may say more where nothing was printed.
    pub(crate) fn facts(&self, status: Option<&ExitStatus>) -> EventFacts {
        let mut facts = self
            .reader
            .as_ref()
            .map_or_else(EventFacts::default, |reader| reader.facts());
        if let (0, Some(ExitStatus::Code(code)), Some(adapter)) = (facts.lines, status, self.adapter) {
            facts.error = facts
                .error
                .or_else(|| adapter.start_error(*code, &self.stderr_tail.text()));
        }
        // A program that asks may ask on stderr; one that speaks in records asks in records.
        if facts.plain_text || (facts.lines == 0 && facts.records == 0) {
            facts.question = facts
                .question
                .or_else(|| pod_adapters::question_in(&self.stderr_tail.text()));
        }
        facts
    }

    pub(crate) fn tail(&self) -> Tail {
        Tail {
            stderr: self.stderr_tail.text(),
            stdout: self.stdout_tail.text(),
        }
    }

    pub(crate) fn missing(&self) -> Vec<MissingBytes> {
        self.raw
            .missing("events.jsonl")
            .into_iter()
            .chain(self.human.missing())
            .collect()
    }
}

impl Ears for Streams {
    fn stdout(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.raw.add(piece);
        let Self {
            framer,
            human,
            reader,
            stdout_tail,
            ..
        } = self;
        framer.feed(piece, |line| read_line(reader, human, stdout_tail, &line));
        human.flush();
    }

    fn stderr(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.stderr_tail.push(piece);
        self.human.stderr(piece);
        self.human.flush();
    }

    /// Ends what has no end: a last line without its newline, a message that was never finished.
    fn end(&mut self) {
        self.raw.end();
        let Self {
            framer,
            human,
            reader,
            stdout_tail,
            ..
        } = self;
        framer.end(|line| read_line(reader, human, stdout_tail, &line));
        self.human.end();
    }

    fn usage(&self) -> Usage {
        self.reader
            .as_ref()
            .map_or_else(Usage::default, |reader| reader.usage())
    }

    fn note(&mut self, line: &str) {
        self.human.note(line);
    }

    fn heard(&self, claimed: &Claimed) -> Event {
        let policy = &claimed.policy;
        if self.bytes > policy.output_limit.0 {
            return Event::Limit(KillCause::OutputLimit);
        }
        let budgeted = policy.max_tokens.is_some() || policy.max_cost_usd.is_some();
        if budgeted && budget_exhausted(&claimed.record, policy, self.usage()).is_some() {
            return Event::Limit(KillCause::BudgetExhausted);
        }
        if self.hopeless() {
            return Event::Hopeless;
        }
        Event::Output {
            settled: self.settled(),
        }
    }
}

fn read_line(
    reader: &mut Option<Box<dyn EventReader + Send>>,
    human: &mut HumanLog,
    tail: &mut TailBuffer,
    line: &Framed<'_>,
) {
    if line.bytes.iter().all(u8::is_ascii_whitespace) && !line.pruned {
        return;
    }
    let kind = reader.as_mut().map_or(LineKind::NotJson, |reader| {
        let line = Line {
            bytes: line.bytes,
            size: line.size,
            pruned: line.pruned,
            read_at: now(),
        };
        reader.line(&line, human)
    });
    if kind == LineKind::Record {
        return;
    }
    if line.pruned {
        human.note(&format!(
            "[a line of {} bytes that is no record: whole in events.jsonl]",
            line.size
        ));
        return;
    }
    tail.push(line.bytes);
    tail.push(b"\n");
    if kind == LineKind::NotJson {
        human.foreign_line(line.bytes);
    }
}

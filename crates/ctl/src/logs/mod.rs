//! `podctl logs`: what the agents said, now and from now on.

mod human;
mod lines;
mod raw;
mod source;

use std::time::{Duration, Instant};

use pod_core::{PodId, PodRecord, PodState};
use pod_reconcile::PodFiles;

use crate::args::{Lines, Logs};
use crate::context::Context;
use crate::fault::{Ended, Exit, Fault};
use crate::watch::Watch;
use crate::{ui, wait};

pub(crate) use human::harmless;
pub(crate) use lines::{Collector, begins};
pub(crate) use source::{LogFile, Sink};

/// How many lines of the human log are shown if nobody says.
const SHOWN: usize = 100;

/// How long a pod's last words may come behind its end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Prints a pod's logs.
pub(crate) fn run(context: &Context, args: &Logs) -> Ended {
    let record = context.read(&args.id)?;
    let files = PodFiles::new(&record.project, &args.id);
    if let Some(n) = args.wake_up {
        check_number(&record, n)?;
    }
    if args.events {
        return events(context, args, &record, &files);
    }
    let default = if args.wake_up.is_some() {
        Lines::All
    } else {
        Lines::Last(SHOWN)
    };
    let lines = args.lines.unwrap_or(default);
    let mut sink = human::Human::new(args.wake_up, args.format.json);
    let log = LogFile::new(files, pod_core::PodLayout::output);
    follow(
        context,
        args,
        log,
        &mut sink,
        lines,
        &|record| match args.wake_up {
            Some(n) => record.entry(n).is_some() || record.wake_up_count > n,
            None => false,
        },
    )
}

/// Prints the events of one wake-up, or follows those of one after the other.
fn events(context: &Context, args: &Logs, record: &PodRecord, files: &PodFiles) -> Ended {
    let mut n = args.wake_up.unwrap_or(record.wake_up_count);
    let mut lines = args.lines.unwrap_or(Lines::All);
    loop {
        let mut sink = raw::Events::new(n, args.format.json);
        let log = LogFile::new(files.clone(), |layout| layout.events(n));
        let over = |record: &PodRecord| record.entry(n).is_some() || record.wake_up_count > n;
        let ended = follow(context, args, log, &mut sink, lines, &over)?;
        if !args.follow || args.wake_up.is_some() {
            return Ok(ended);
        }
        let next = wait::for_record(context, &args.id, |record| {
            let more = record.wake_up_count > n;
            (more || record.state.is_terminal()).then_some(more)
        })?;
        if !next {
            return Ok(ended);
        }
        n += 1;
        lines = Lines::All;
    }
}

fn check_number(record: &PodRecord, n: u32) -> Result<(), Fault> {
    if n == 0 || n > record.wake_up_count {
        let hint = match record.wake_up_count {
            0 => "it was never woken".to_owned(),
            1 => "its only wake-up is 1".to_owned(),
            last => format!("its wake-ups are 1 to {last}"),
        };
        return Err(Fault::new(
            format!("pod `{}` has no wake-up {n}", record.id),
            hint,
        ));
    }
    Ok(())
}

/// Prints what there is and, if asked, what comes, until `over` or the pod's end.
fn follow(
    context: &Context,
    args: &Logs,
    mut log: LogFile,
    sink: &mut dyn Sink,
    lines: Lines,
    over: &dyn Fn(&PodRecord) -> bool,
) -> Ended {
    log.start(lines, sink)
        .map_err(|error| Fault::of(format!("cannot read the log of pod `{}`", args.id), &error))?;
    if !args.follow {
        log.copy(sink).map_err(source::Failed::stop)?;
        sink.end()?;
        if !log.was_there() {
            // Asked for now: it may have ended in between.
            let ended = over(&context.read(&args.id)?);
            ui::note(if ended {
                "its log is gone: it was removed, or forgotten for its age (`keepWakeUps`, `keepFor`)"
            } else {
                "nothing has been logged yet"
            });
        }
        return Ok(Exit::Done);
    }
    let mut state = Following::new(Watch::on(&[&context.home().pods()]));
    loop {
        // The record before the log: what was written before its end is then seen.
        let record = context.read(&args.id)?;
        log.copy(sink).map_err(source::Failed::stop)?;
        if sink.is_complete() || state.is_over(&args.id, &record, over, &log) {
            log.copy(sink).map_err(source::Failed::stop)?;
            sink.end()?;
            return Ok(Exit::Done);
        }
        state.wait(&log);
    }
}

/// What a follower remembers.
struct Following {
    watch: Watch,
    watched: bool,
    over_since: Option<Instant>,
    said_parked: bool,
}

impl Following {
    fn new(watch: Watch) -> Self {
        Self {
            watch,
            watched: false,
            over_since: None,
            said_parked: false,
        }
    }

    fn is_over(
        &mut self,
        id: &PodId,
        record: &PodRecord,
        over: &dyn Fn(&PodRecord) -> bool,
        log: &LogFile,
    ) -> bool {
        if record.state == PodState::Parked && !std::mem::replace(&mut self.said_parked, true) {
            ui::note(&format!(
                "pod `{id}` is parked; this goes on until it ends, or until you stop it"
            ));
        }
        self.said_parked &= record.state == PodState::Parked;
        if !record.state.is_terminal() && !over(record) {
            self.over_since = None;
            return false;
        }
        let since = *self.over_since.get_or_insert_with(Instant::now);
        // The outcome is recorded before the last line of the log is written.
        !log.is_being_written() || since.elapsed() >= LAST_WORDS
    }

    fn wait(&mut self, log: &LogFile) {
        if !self.watched && log.was_there() {
            self.watch.add(log.directory());
            self.watched = true;
        }
        let pause = if self.over_since.is_some() {
            Duration::from_millis(20)
        } else {
            Duration::MAX
        };
        self.watch.wait(pause);
    }
}

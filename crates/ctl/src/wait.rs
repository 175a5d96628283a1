//! `podctl wait`, and every other wait for a pod's end.

use std::time::{Duration, Instant};

use pod_core::{Outcome, PodId, PodRecord, PodState};
use serde::Serialize;

use crate::args::Wait;
use crate::context::Context;
use crate::fault::{Ended, Exit, Fault, Stop};
use crate::podd_note::warn_without_podd;
use crate::ui;
use crate::watch::Watch;

/// How a pod stood when the wait for it ended.
#[derive(Debug, Serialize)]
struct Answer {
    id: PodId,
    state: PodState,
    outcome: Option<Outcome>,
}

/// Waits for pods.
pub(crate) fn run(context: &Context, args: &Wait) -> Ended {
    let deadline = args
        .timeout
        .map(|span| Instant::now() + span.0.min(Duration::from_secs(u32::MAX.into())));
    let records = settled(context, &args.pods.ids, deadline)?;
    let ended = records.iter().filter(|record| is_over(record)).count();
    if args.format.json {
        let answers: Vec<Answer> = records.iter().map(answer).collect();
        ui::json(&answers)?;
    } else {
        for record in &records {
            ui::answer(&format!("{}\t{}\n", record.id, record.state))?;
        }
    }
    if ended < records.len() {
        return Ok(Exit::TimedOut);
    }
    Ok(verdict(&records))
}

/// Waits until a pod is terminal or parked; the answer is yes only if it is done.
pub(crate) fn until_done(context: &Context, id: &PodId) -> Ended {
    let records = settled(context, std::slice::from_ref(id), None)?;
    Ok(verdict(&records))
}

fn verdict(records: &[PodRecord]) -> Exit {
    if records.iter().all(|record| record.state == PodState::Done) {
        Exit::Done
    } else {
        Exit::No
    }
}

fn answer(record: &PodRecord) -> Answer {
    Answer {
        id: record.id.clone(),
        state: record.state,
        outcome: record.last().map(|last| last.verdict.outcome()),
    }
}

/// Whether nothing more happens to a pod by itself. One that is parked while it runs goes on until it ends.
pub(crate) fn is_over(record: &PodRecord) -> bool {
    record.state.is_terminal() || record.state == PodState::Parked
}

/// Waits until all pods are over, or the time is up.
fn settled(context: &Context, ids: &[PodId], deadline: Option<Instant>) -> Result<Vec<PodRecord>, Stop> {
    let registry = context.registry()?;
    let watch = Watch::on(&[&context.home().pods()]);
    let mut said = false;
    loop {
        let mut records = Vec::new();
        for id in ids {
            let read = registry.read(id);
            records.push(read.map_err(|error| Fault::of(format!("cannot wait for pod `{id}`"), &error))?);
        }
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if records.iter().all(is_over) || left.is_zero() {
            return Ok(records);
        }
        if !std::mem::replace(&mut said, true) {
            warn_without_podd(context);
        }
        watch.wait(left);
    }
}

/// Waits until `ready` finds what it looks for in a pod's record.
pub(crate) fn for_record<T>(
    context: &Context,
    id: &PodId,
    mut ready: impl FnMut(&PodRecord) -> Option<T>,
) -> Result<T, Stop> {
    let registry = context.registry()?;
    let watch = Watch::on(&[&context.home().pods()]);
    loop {
        let record = registry.read(id);
        let record = record.map_err(|error| Fault::of(format!("cannot wait for pod `{id}`"), &error))?;
        if let Some(found) = ready(&record) {
            return Ok(found);
        }
        watch.wait(Duration::MAX);
    }
}

//! What one pass remembers of the one before, for the log alone.

use std::collections::HashMap;

use pod_core::{By, PodId, PodRecord, PodState};
use tracing::info;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    state: PodState,
    /// The newest wake-up with an outcome.
    judged: u32,
    /// The newest wake-up.
    claimed: u32,
}

/// Says in the log what has changed since the last pass: one line a change.
#[derive(Debug, Default)]
pub(crate) struct News {
    seen: HashMap<PodId, Seen>,
    first: bool,
}

impl News {
    pub(crate) fn new() -> Self {
        Self {
            seen: HashMap::new(),
            first: true,
        }
    }

    /// Takes note of all records; the first time in silence, but for what runs.
    pub(crate) fn tell<'a>(&mut self, records: impl Iterator<Item = &'a PodRecord>) {
        let mut seen = HashMap::with_capacity(self.seen.len());
        for record in records {
            let now = Seen {
                state: record.state,
                judged: record.last().map_or(0, |last| last.n),
                claimed: record.wake_up_count,
            };
            match self.seen.get(&record.id) {
                Some(before) if *before == now => {}
                before => self.say(record, before.copied(), now),
            }
            seen.insert(record.id.clone(), now);
        }
        self.seen = seen;
        self.first = false;
    }

    fn say(&self, record: &PodRecord, before: Option<Seen>, now: Seen) {
        let pod = &record.id;
        if self.first {
            if let Some(current) = record.wake() {
                info!(%pod, wakeup = current.n, pid = current.pid, "wake-up taken up");
            }
            return;
        }
        let judged_before = before.map_or(0, |before| before.judged);
        for entry in record.wake_ups.iter().filter(|entry| entry.n > judged_before) {
            let elapsed_ms = entry
                .ended_at
                .zip(entry.started_at)
                .map(|(end, start)| end.since(start).as_millis());
            let detail = entry
                .detail
                .as_deref()
                .map(|detail| pod_core::quoted(detail, 200));
            info!(%pod, wakeup = entry.n, outcome = %entry.verdict, because = detail, elapsed_ms, "wake-up adjudicated");
        }
        if let Some(current) = record
            .wake()
            .filter(|current| before.is_none_or(|before| before.claimed < current.n))
        {
            info!(%pod, wakeup = current.n, pid = current.pid, warm = current.warm, agent = %current.agent, "wake-up claimed");
        }
        // podd's own park was said when it was done.
        let parked = record.parked.as_ref();
        if before.is_none_or(|before| before.state != now.state)
            && parked.is_none_or(|parked| parked.by != By::Podd)
        {
            info!(%pod, state = %now.state, because = parked.map(|parked| parked.code.word()), "pod changed its state");
        }
    }
}

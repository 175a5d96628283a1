//! Which session an agent opens, and what that session has used already.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use pod_adapters::{Adapter, Line, SessionKind, SessionPlan, TextSink};
use pod_core::{AgentFile, SessionRecord, Usage};
use pod_disk::OpenKind;

use crate::claim::Claimed;

/// How much of a stream is read for the id at its beginning.
const LOOKED_FOR_ID: u64 = 1 << 20;

/// The session that the agent opens: its own, or the lost wake-up's.
///
/// One that failed to be continued once is not tried again, and where there is none the start is a cold
/// one; either is said in agent.json.
pub(crate) fn session(claimed: &Claimed, adapter: &dyn Adapter, agent: &mut AgentFile) -> SessionPlan {
    let lost = claimed.record.last().filter(|_| claimed.current.warm);
    let continues = lost.map(|lost| lost.n);
    let found = lost.map(|lost| lost_session(claimed, adapter, lost.n, lost.warm));
    let (path, id) = match found {
        Some(Ok((path, id))) => {
            agent.session = Some(SessionRecord {
                path: path.clone(),
                id: id.clone(),
                continues,
            });
            return SessionPlan::Continue {
                path,
                id: id.unwrap_or_default(),
            };
        }
        Some(Err(why)) => {
            agent.add_note(format!("cold start: {why}"));
            (claimed.files.layout().session(claimed.current.n), random_uuid())
        }
        None => (claimed.files.layout().session(claimed.current.n), random_uuid()),
    };
    agent.session = Some(SessionRecord {
        path: path.clone(),
        id: (adapter.sessions() == SessionKind::GivenId).then(|| id.clone()),
        continues: None,
    });
    SessionPlan::Fresh { path, id }
}

/// A version 4 UUID.
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    // Without randomness the pod's own token could not have been made either.
    let _filled = getrandom::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Where the session of a lost wake-up lies, and its id.
fn lost_session(
    claimed: &Claimed,
    adapter: &dyn Adapter,
    n: u32,
    warm: bool,
) -> Result<(PathBuf, Option<String>), String> {
    let files = &claimed.files;
    let lost = files.agent(n);
    let kind = lost.as_ref().map(|lost| lost.kind.clone()).unwrap_or_default();
    if !kind.is_empty() && kind != adapter.agent_type().word() {
        return Err(format!(
            "the session of wake-up {n} is that of another agent, {kind}"
        ));
    }
    let session = lost.and_then(|agent| agent.session);
    let session = session.ok_or_else(|| format!("wake-up {n} left no word of its session"))?;
    let there = |path: &Path| {
        files
            .stat(path)
            .ok()
            .flatten()
            .is_some_and(|stamp| stamp.size > 0)
    };
    let spoke = there(&files.layout().events(n));
    if warm && session.continues.is_some() && !spoke {
        return Err(format!("wake-up {n} failed to continue that session already"));
    }
    let none = || format!("wake-up {n} left no session");
    let id = match adapter.sessions() {
        SessionKind::Path => {
            let ours = session.path.starts_with(files.layout().wakeups()) && there(&session.path);
            ours.then_some(None).ok_or_else(none)?
        }
        SessionKind::GivenId => Some(session.id.filter(|id| spoke && is_id(id)).ok_or_else(none)?),
        SessionKind::PrintedId => {
            let printed = printed_id(claimed, adapter, n)
                .filter(|id| is_id(id))
                .ok_or_else(none)?;
            // What a continuation prints is another session if it failed.
            if session.id.is_some_and(|given| given != printed) {
                return Err(format!("wake-up {n} failed to continue that session already"));
            }
            Some(printed)
        }
        SessionKind::None => {
            return Err(format!(
                "an agent of type {} keeps no session",
                adapter.agent_type()
            ));
        }
    };
    Ok((session.path, id))
}

/// Whether a text can be an id and nothing else, such as an option.
fn is_id(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// The id that a CLI printed at the beginning of its stream.
fn printed_id(claimed: &Claimed, adapter: &dyn Adapter, n: u32) -> Option<String> {
    let events = claimed
        .files
        .open(&claimed.files.layout().events(n), OpenKind::Read)
        .ok()?;
    let mut reader = adapter.reader(jiff::tz::TimeZone::system, Usage::default());
    let mut lines = std::io::BufReader::new(events.take(LOOKED_FOR_ID));
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        let line = Line {
            bytes: bytes.trim_ascii_end(),
            size: bytes.len() as u64,
            pruned: false,
            read_at: pod_reconcile::now(),
        };
        reader.line(&line, &mut Nowhere);
        if let Some(id) = reader.facts().session_id {
            return Some(id);
        }
        bytes.clear();
    }
    None
}

struct Nowhere;

impl TextSink for Nowhere {
    fn finished(&mut self, _text: &str) {}
    fn delta(&mut self, _text: &str) {}
    fn discarded(&mut self) {}
}

/// What the earlier wake-ups of the session that this one continues are recorded to have used.
pub(crate) fn recorded_usage(claimed: &Claimed, agent: &AgentFile) -> Usage {
    let mut total = Usage::default();
    let mut continues = agent.session.as_ref().and_then(|session| session.continues);
    while let Some(n) = continues {
        let entry = claimed.record.wake_ups.iter().find(|entry| entry.n == n);
        total = total.plus(entry.and_then(|entry| entry.usage).unwrap_or_default());
        let earlier = claimed.files.agent(n).and_then(|agent| agent.session);
        // Only ever backwards: a file that was changed by hand leads to no circle.
        continues = earlier
            .and_then(|session| session.continues)
            .filter(|next| *next < n);
    }
    total
}

//! Limits that all pods of one account share.

use std::fmt;
use std::time::Duration;

use crate::{FailReason, LimitSource, PodId, PodRecord, Timestamp, Verdict};

/// A limit is never believed to hold longer than this.
pub(crate) const LONGEST_LIMIT: Duration = Duration::from_secs(8 * 86_400);

/// Whose limit it is: the definition's `account`, else its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(pub String);

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A limit that holds back every pod of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountHold {
    /// Until when.
    pub until: Timestamp,
    /// The pod whose wake-up ran into it.
    pub pod: PodId,
    /// How its end is known.
    pub source: LimitSource,
}

/// The limit that holds an account back at `now`: the latest that the newest wake-up of any pod ran into.
///
/// It is derived from the records and so survives a restart, and ends with the first wake-up that does not
/// run into it again.
pub fn account_hold<'a>(
    pods: impl IntoIterator<Item = (&'a PodRecord, &'a AccountName)>,
    account: &AccountName,
    now: Timestamp,
) -> Option<AccountHold> {
    pods.into_iter()
        .filter_map(|(record, of_pod)| {
            let last = record.last()?;
            let name = last.account.as_ref().unwrap_or(&of_pod.0);
            let (until, source) = held_until(record).filter(|_| *name == account.0)?;
            (until > now).then(|| AccountHold {
                until,
                pod: record.id.clone(),
                source,
            })
        })
        .max_by_key(|hold| hold.until)
}

/// How long a wake-up has to run behind a limit's end until the others need not wait for its outcome: longer
/// than any CLI tries again before it gives up (Claude Code 180 s, Gemini 254 s).
const PROBED: Duration = Duration::from_secs(300);

/// What is known of an account whose limit has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probe {
    /// There was no limit, or a wake-up has shown since that it is over.
    NotNeeded,
    /// Nobody has tried since: one wake-up finds out.
    Due,
    /// This pod's wake-up is finding out.
    Running(PodId),
}

/// Whether a limit has ended of which nobody knows yet whether it holds again. A limit that is met by all pods
/// of an account at its supposed end is met by one alone.
pub(crate) fn probe<'a>(
    pods: impl IntoIterator<Item = (&'a PodRecord, &'a AccountName)> + Clone,
    account: &AccountName,
    now: Timestamp,
) -> Probe {
    let name = |of: Option<&String>, pod: &AccountName| *of.unwrap_or(&pod.0) == account.0;
    let ended = pods.clone().into_iter().filter_map(|(record, of_pod)| {
        let last = record.last()?;
        let limited = last.verdict == Verdict::Failed(FailReason::RateLimited);
        let (until, _) = held_until(record).filter(|_| limited && name(last.account.as_ref(), of_pod))?;
        (until <= now).then_some(until)
    });
    let Some(ended) = ended.max() else {
        return Probe::NotNeeded;
    };
    let mut running = None;
    for (record, of_pod) in pods {
        let shown = record.wake_ups.iter().any(|entry| {
            let after = entry.started_at.is_some_and(|started| started >= ended);
            after && !entry.verdict.is_held() && name(entry.account.as_ref(), of_pod)
        });
        if shown {
            return Probe::NotNeeded;
        }
        let since = record.wake().map(|current| current.claimed_at);
        match since.filter(|since| *since >= ended && name(None, of_pod)) {
            Some(since) if now.since(since) >= PROBED => return Probe::NotNeeded,
            Some(_) => running = Some(record.id.clone()),
            None => {}
        }
    }
    running.map_or(Probe::Due, Probe::Running)
}

/// Until when the newest wake-up of a pod holds it and its account back.
pub(crate) fn held_until(record: &PodRecord) -> Option<(Timestamp, LimitSource)> {
    let last = record.last()?;
    match last.verdict {
        Verdict::Failed(FailReason::RateLimited) => {
            let limit = last.rate_limit?;
            let latest = last.ended_at.unwrap_or(record.updated_at).plus(LONGEST_LIMIT);
            Some((limit.resets_at.min(latest), limit.source))
        }
        // An overloaded provider names no time: podd's backoff is the time.
        Verdict::Failed(FailReason::Overloaded) => Some((record.next_wake_at?, LimitSource::Default)),
        Verdict::More | Verdict::Done | Verdict::Cancelled | Verdict::Lost(_) | Verdict::Failed(_) => None,
    }
}

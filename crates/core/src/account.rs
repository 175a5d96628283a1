//! Limits that all pods of one account share.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::{FailReason, LimitSource, PodId, PodRecord, Timestamp, Verdict, WakeUpEntry};

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

/// The limits of every account at one time.
///
/// They are derived from the records, so they survive a restart, and a limit ends with the first wake-up of its
/// pod that does not run into it again.
#[derive(Debug, Default)]
pub struct AccountLimits {
    holds: BTreeMap<AccountName, AccountHold>,
    ended: BTreeMap<AccountName, Ended>,
}

/// A limit that has ended, and what has been tried since.
#[derive(Debug)]
struct Ended {
    at: Timestamp,
    probe: Probe,
}

impl AccountLimits {
    /// Looks at all pods, each with the account that its next wake-up would use.
    pub fn of<'a>(
        pods: impl IntoIterator<Item = (&'a PodRecord, &'a AccountName)> + Clone,
        now: Timestamp,
    ) -> Self {
        let mut limits = Self::default();
        for (record, account) in pods.clone() {
            limits.note_limit(record, account, now);
        }
        if !limits.ended.is_empty() {
            for (record, account) in pods {
                limits.note_tries(record, account, now);
            }
        }
        limits
    }

    /// The limit that holds an account back: the latest that the newest wake-up of any pod ran into.
    pub fn hold(&self, account: &AccountName) -> Option<&AccountHold> {
        self.holds.get(account)
    }

    /// Whether a limit of an account has ended of which nobody knows yet whether it holds again. A limit that is
    /// met by all pods of an account at its supposed end is met by one alone.
    pub(crate) fn probe(&self, account: &AccountName) -> &Probe {
        self.ended
            .get(account)
            .map_or(&Probe::NotNeeded, |ended| &ended.probe)
    }

    fn note_limit(&mut self, record: &PodRecord, account: &AccountName, now: Timestamp) {
        let Some(last) = record.last() else { return };
        let Some((until, source)) = held_until(record) else {
            return;
        };
        let account = last.account.clone().map_or_else(|| account.clone(), AccountName);
        if until > now {
            let pod = record.id.clone();
            let hold = AccountHold { until, pod, source };
            let latest = self.holds.entry(account).or_insert_with(|| hold.clone());
            if hold.until > latest.until {
                *latest = hold;
            }
        } else if last.verdict == Verdict::Failed(FailReason::RateLimited) {
            let ended = self.ended.entry(account).or_insert(Ended {
                at: until,
                probe: Probe::Due,
            });
            ended.at = ended.at.max(until);
        }
    }

    fn note_tries(&mut self, record: &PodRecord, account: &AccountName, now: Timestamp) {
        for entry in &record.wake_ups {
            let used = entry.account.clone().map_or_else(|| account.clone(), AccountName);
            if let Some(ended) = self.ended.get_mut(&used) {
                let after = entry.started_at.is_some_and(|started| started >= ended.at);
                if after && answered(entry) {
                    ended.probe = Probe::NotNeeded;
                }
            }
        }
        let since = record.wake().map(|current| current.claimed_at);
        if let (Some(since), Some(ended)) = (since, self.ended.get_mut(account))
            && since >= ended.at
            && ended.probe != Probe::NotNeeded
        {
            ended.probe = if now.since(since) >= PROBED {
                Probe::NotNeeded
            } else {
                Probe::Running(record.id.clone())
            };
        }
    }
}

/// Whether a wake-up shows that the account's provider answers again. One that never started, or that was ended
/// from outside before anything was paid for, shows nothing.
fn answered(entry: &WakeUpEntry) -> bool {
    match entry.verdict {
        Verdict::More | Verdict::Done => true,
        Verdict::Failed(
            FailReason::AgentUnresolved
            | FailReason::AgentTypeRefused
            | FailReason::AgentMissing
            | FailReason::SpawnFailed,
        ) => false,
        Verdict::Failed(_) => !entry.verdict.is_held(),
        Verdict::Lost(_) | Verdict::Cancelled => entry.usage.is_some(),
    }
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

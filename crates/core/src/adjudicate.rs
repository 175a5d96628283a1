//! Decides what happened in one wake-up, from evidence alone.
//!
//! Nothing here reads a clock, a file or a process, so a disputed wake-up can be judged again from its
//! record. A clean exit is a claim, not proof.

use crate::{
    Declaration, ErrorClass, Evidence, ExitFacts, ExitStatus, FailReason, FinalError, KilledBy, LostReason,
    StartFailure, Stop, Terminal, Verdict,
};

/// The judgement and its grounds.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjudication {
    /// Outcome and reason.
    pub verdict: Verdict,
    /// What a person should know beside them.
    pub detail: Option<String>,
}

impl Adjudication {
    fn failed(reason: FailReason, detail: impl Into<Option<String>>) -> Self {
        Self {
            verdict: Verdict::Failed(reason),
            detail: detail.into(),
        }
    }
}

/// Judges a wake-up: a cancel is not judged, a fresh declaration beats everything else, the events beat the
/// exit, and what declares nothing has failed.
pub fn adjudicate(evidence: &Evidence) -> Adjudication {
    if evidence.cancelled {
        let killed = evidence.exit.as_ref().is_some_and(|exit| exit.killed_after_grace);
        return Adjudication {
            verdict: Verdict::Cancelled,
            detail: killed.then(|| "killed after grace".to_owned()),
        };
    }
    match &evidence.declaration {
        Declaration::More => return declared(Verdict::More, evidence),
        Declaration::Done => return declared(Verdict::Done, evidence),
        Declaration::NotWritten | Declaration::Malformed(_) => {}
    }
    if let Some(cause) = evidence.intent {
        return Adjudication::failed(cause.into(), kill_detail(evidence.exit.as_ref()));
    }
    if evidence.interrupted {
        return Adjudication {
            verdict: Verdict::Lost(LostReason::Interrupted),
            detail: Some("the wrapper was told to end by neither podctl nor podd".to_owned()),
        };
    }
    if let Some(failure) = &evidence.start_failure {
        return never_started(failure);
    }
    if let Declaration::Malformed(line) = &evidence.declaration {
        return Adjudication::failed(FailReason::HandoffMalformed, format!("HANDOFF.md says: {line}"));
    }
    from_events(evidence)
        .or_else(|| from_exit(evidence))
        .unwrap_or_else(|| ended_well(evidence))
}

fn declared(verdict: Verdict, evidence: &Evidence) -> Adjudication {
    let mut against = Vec::new();
    if let Some(cause) = evidence.intent {
        against.push(format!("{cause} was about to end it"));
    }
    if evidence.interrupted {
        against.push("the wrapper was told to end by a stranger".to_owned());
    }
    if evidence.events.aborted == Some(true) {
        against.push("agent settled aborted".to_owned());
    }
    match evidence.events.stop {
        None | Some(Stop::Stop) => {}
        Some(Stop::ToolUse) if evidence.events.handed_off_by_tool => {}
        Some(stop) => against.push(format!("last stop reason {stop}")),
    }
    if let Some(exit) = evidence.exit.as_ref().filter(|exit| exit.sent_by.is_none()) {
        match &exit.status {
            None | Some(ExitStatus::Code(0)) => {}
            Some(ExitStatus::Code(code)) => against.push(format!("exit {code}")),
            Some(ExitStatus::Signal(name)) => against.push(format!("killed by {name}")),
        }
    }
    let detail =
        (!against.is_empty()).then(|| format!("declared {} but {}", verdict.outcome(), against.join("; ")));
    Adjudication { verdict, detail }
}

fn kill_detail(exit: Option<&ExitFacts>) -> Option<String> {
    exit.filter(|exit| exit.killed_after_grace)
        .map(|_| "killed after grace".to_owned())
}

fn never_started(failure: &StartFailure) -> Adjudication {
    let (reason, detail) = match failure {
        StartFailure::Unresolved(detail) => (FailReason::AgentUnresolved, detail),
        StartFailure::TypeRefused(detail) => (FailReason::AgentTypeRefused, detail),
        StartFailure::Missing(detail) => (FailReason::AgentMissing, detail),
        StartFailure::Spawn(detail) => (FailReason::SpawnFailed, detail),
    };
    Adjudication::failed(reason, detail.clone())
}

fn from_events(evidence: &Evidence) -> Option<Adjudication> {
    let events = &evidence.events;
    if let Some(FinalError { class, message, .. }) = &events.error {
        let reason = match class {
            ErrorClass::Auth => FailReason::AuthFailed,
            ErrorClass::RateLimit => FailReason::RateLimited,
            ErrorClass::Quota => FailReason::QuotaExhausted,
            ErrorClass::Overloaded => FailReason::Overloaded,
            ErrorClass::Context => FailReason::ContextExhausted,
            ErrorClass::Other => FailReason::AgentError,
        };
        return Some(Adjudication::failed(reason, crate::quoted(message, 400)));
    }
    match events.stop {
        _ if events.aborted == Some(true) => {
            return Some(Adjudication::failed(
                FailReason::AgentError,
                "agent settled aborted".to_owned(),
            ));
        }
        Some(stop @ (Stop::Error | Stop::Aborted)) => {
            return Some(Adjudication::failed(
                FailReason::AgentError,
                format!("last stop reason {stop}"),
            ));
        }
        None | Some(Stop::Stop | Stop::ToolUse | Stop::Length) => {}
    }
    let question = events.question.as_ref()?;
    Some(Adjudication::failed(
        FailReason::NeedsInput,
        format!("it asks: {}", crate::quoted(question, 200)),
    ))
}

fn from_exit(evidence: &Evidence) -> Option<Adjudication> {
    let exit = evidence.exit.as_ref()?;
    if exit.sent_by.is_none()
        && let Some(ended) = ended_by_signal(exit)
    {
        return Some(ended);
    }
    if evidence.events.lines > 0 {
        return None;
    }
    Some(match &exit.status {
        Some(ExitStatus::Code(code)) if *code != 0 => {
            let tail = crate::quoted(evidence.stderr_tail.trim(), 400);
            let detail = if tail.is_empty() {
                format!("exit {code}")
            } else {
                format!("exit {code}: {tail}")
            };
            Adjudication::failed(FailReason::AgentError, detail)
        }
        None | Some(ExitStatus::Code(_) | ExitStatus::Signal(_)) => {
            Adjudication::failed(FailReason::NoEvents, None)
        }
    })
}

fn ended_by_signal(exit: &ExitFacts) -> Option<Adjudication> {
    let how = match exit.status.as_ref()? {
        ExitStatus::Signal(name) if name == "SIGKILL" && exit.oom_killed == Some(true) => {
            let detail = "the kernel killed it: its control group was out of memory".to_owned();
            return Some(Adjudication::failed(FailReason::OutOfMemory, detail));
        }
        ExitStatus::Signal(name) => format!("killed by {name}"),
        ExitStatus::Code(code @ 129..=192) => format!("exit {code}, as by signal {}", code - 128),
        ExitStatus::Code(_) => return None,
    };
    let detail = match exit.oom_kills_on_machine {
        Some(kills) if kills > 0 && exit.oom_killed.is_none() => {
            format!(
                "{how}; meanwhile the kernel killed {kills} processes of this machine for memory (/proc/vmstat)"
            )
        }
        Some(_) | None => how,
    };
    Some(Adjudication::failed(FailReason::Terminated, detail))
}

fn ended_well(evidence: &Evidence) -> Adjudication {
    let events = &evidence.events;
    let status = evidence.exit.as_ref().and_then(|exit| exit.status.as_ref());
    let exit = match status {
        Some(ExitStatus::Code(code)) if *code != 0 => Some(format!("exit {code}")),
        Some(ExitStatus::Signal(name)) => {
            let by = evidence
                .exit
                .as_ref()
                .and_then(|exit| exit.sent_by)
                .unwrap_or(KilledBy::Wrapper);
            Some(format!("ended by {name} of the {by}"))
        }
        None | Some(ExitStatus::Code(_)) => None,
    };
    if events.lines > 0 && events.records == 0 && !events.plain_text {
        let detail = format!("{} lines, none a record of its CLI", events.lines);
        return Adjudication::failed(FailReason::ProviderOutputInvalid, join(Some(detail), exit));
    }
    let reason = match (events.terminal, events.stop) {
        (Terminal::Missing, _) => FailReason::Incomplete,
        (Terminal::Settled | Terminal::NotSpoken, Some(Stop::Length)) => FailReason::Truncated,
        (Terminal::Settled | Terminal::NotSpoken, _) => FailReason::NoHandoff,
    };
    Adjudication::failed(reason, exit)
}

fn join(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
#[path = "adjudicate_tests.rs"]
mod tests;

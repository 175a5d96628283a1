//! The table of contract section 6, row by row, and what must hold for every input.

use proptest::prelude::*;

use super::*;
use crate::{EventFacts, KillCause};

fn well() -> Evidence {
    Evidence {
        declaration: Declaration::NotWritten,
        events: EventFacts {
            lines: 9,
            records: 9,
            terminal: Terminal::Settled,
            aborted: Some(false),
            stop: Some(Stop::Stop),
            ..EventFacts::default()
        },
        exit: Some(exit(ExitStatus::Code(0))),
        start_failure: None,
        intent: None,
        cancelled: false,
        interrupted: false,
        stderr_tail: String::new(),
    }
}

fn exit(status: ExitStatus) -> ExitFacts {
    ExitFacts {
        status: Some(status),
        sent_by: None,
        killed_after_grace: false,
        oom_killed: None,
        oom_kills_on_machine: Some(0),
    }
}

fn signal(name: &str) -> ExitStatus {
    ExitStatus::Signal(name.to_owned())
}

fn error(class: ErrorClass) -> Option<FinalError> {
    Some(FinalError {
        class,
        message: "why".to_owned(),
        rule: "r".to_owned(),
        resets: None,
    })
}

fn reason(change: impl FnOnce(&mut Evidence)) -> FailReason {
    let mut evidence = well();
    change(&mut evidence);
    match adjudicate(&evidence).verdict {
        Verdict::Failed(reason) => reason,
        other => panic!("{other} is not failed"),
    }
}

type Change = fn(&mut Evidence);

const ROWS: &[(FailReason, Change)] = &[
    (FailReason::NoHandoff, |_| ()),
    (FailReason::NoHandoff, |e| {
        e.exit = Some(exit(ExitStatus::Code(3)))
    }),
    (FailReason::TimedOut, |e| e.intent = Some(KillCause::TimedOut)),
    (FailReason::Progressless, |e| {
        e.intent = Some(KillCause::Progressless)
    }),
    (FailReason::Wedged, |e| e.intent = Some(KillCause::Wedged)),
    (FailReason::BudgetExhausted, |e| {
        e.intent = Some(KillCause::BudgetExhausted)
    }),
    (FailReason::OutputLimit, |e| {
        e.intent = Some(KillCause::OutputLimit)
    }),
    (FailReason::AgentUnresolved, |e| {
        e.start_failure = Some(StartFailure::Unresolved("x".into()))
    }),
    (FailReason::AgentTypeRefused, |e| {
        e.start_failure = Some(StartFailure::TypeRefused("x".into()))
    }),
    (FailReason::AgentMissing, |e| {
        e.start_failure = Some(StartFailure::Missing("x".into()))
    }),
    (FailReason::SpawnFailed, |e| {
        e.start_failure = Some(StartFailure::Spawn("x".into()))
    }),
    (FailReason::HandoffMalformed, |e| {
        e.declaration = Declaration::Malformed("x".into())
    }),
    (FailReason::AuthFailed, |e| {
        e.events.error = error(ErrorClass::Auth)
    }),
    (FailReason::RateLimited, |e| {
        e.events.error = error(ErrorClass::RateLimit)
    }),
    (FailReason::QuotaExhausted, |e| {
        e.events.error = error(ErrorClass::Quota)
    }),
    (FailReason::Overloaded, |e| {
        e.events.error = error(ErrorClass::Overloaded)
    }),
    (FailReason::ContextExhausted, |e| {
        e.events.error = error(ErrorClass::Context)
    }),
    (FailReason::AgentError, |e| {
        e.events.error = error(ErrorClass::Other)
    }),
    (FailReason::AgentError, |e| e.events.aborted = Some(true)),
    (FailReason::AgentError, |e| e.events.stop = Some(Stop::Error)),
    (FailReason::NeedsInput, |e| {
        e.events.question = Some("approve? [y/N]".into())
    }),
    (FailReason::Terminated, |e| e.exit = Some(exit(signal("SIGSEGV")))),
    (FailReason::Terminated, |e| {
        e.exit = Some(exit(ExitStatus::Code(143)))
    }),
    (FailReason::Terminated, |e| {
        e.events = EventFacts::default();
        e.exit = Some(exit(signal("SIGKILL")));
    }),
    (FailReason::NoEvents, |e| e.events = EventFacts::default()),
    (FailReason::AgentError, |e| {
        e.events = EventFacts::default();
        e.exit = Some(exit(ExitStatus::Code(1)));
    }),
    (FailReason::ProviderOutputInvalid, |e| e.events.records = 0),
    (FailReason::NoHandoff, |e| {
        e.events = EventFacts {
            lines: 3,
            plain_text: true,
            terminal: Terminal::NotSpoken,
            ..EventFacts::default()
        };
    }),
    (FailReason::Incomplete, |e| e.events.terminal = Terminal::Missing),
    (FailReason::Truncated, |e| e.events.stop = Some(Stop::Length)),
];

#[test]
fn every_reason_has_its_row() {
    for (want, change) in ROWS {
        assert_eq!(reason(change), *want);
    }
}

#[test]
fn out_of_memory_needs_the_count_of_its_own_group() {
    let killed = |oom_killed| {
        reason(move |e| {
            e.exit = Some(ExitFacts {
                oom_killed,
                ..exit(signal("SIGKILL"))
            })
        })
    };
    assert_eq!(killed(Some(true)), FailReason::OutOfMemory);
    assert_eq!(killed(Some(false)), FailReason::Terminated);
    assert_eq!(killed(None), FailReason::Terminated);
}

#[test]
fn an_earlier_row_beats_a_later_one() {
    assert_eq!(
        reason(|e| {
            e.declaration = Declaration::Malformed("x".into());
            e.intent = Some(KillCause::TimedOut);
        }),
        FailReason::TimedOut
    );
    assert_eq!(
        reason(|e| {
            e.events.error = error(ErrorClass::RateLimit);
            e.exit = Some(exit(signal("SIGSEGV")));
        }),
        FailReason::RateLimited
    );
    assert_eq!(
        reason(|e| {
            e.events.terminal = Terminal::Missing;
            e.events.stop = Some(Stop::Length);
        }),
        FailReason::Incomplete
    );
}

#[test]
fn a_signal_of_ours_is_not_the_agents_death() {
    let ours = |e: &mut Evidence| {
        e.exit = Some(ExitFacts {
            sent_by: Some(KilledBy::Wrapper),
            ..exit(signal("SIGTERM"))
        });
    };
    assert_eq!(reason(ours), FailReason::NoHandoff);
}

#[test]
fn a_disagreement_is_said_and_changes_nothing() {
    let mut evidence = well();
    evidence.declaration = Declaration::Done;
    assert_eq!(
        adjudicate(&evidence),
        Adjudication {
            verdict: Verdict::Done,
            detail: None
        }
    );
    evidence.events.aborted = Some(true);
    evidence.events.stop = Some(Stop::Error);
    evidence.exit = Some(exit(ExitStatus::Code(3)));
    let judged = adjudicate(&evidence);
    assert_eq!(judged.verdict, Verdict::Done);
    assert_eq!(
        judged.detail.as_deref(),
        Some("declared done but agent settled aborted; last stop reason error; exit 3")
    );
}

#[test]
fn a_tool_that_hands_off_ends_its_run_by_a_tool_call() {
    let mut evidence = well();
    evidence.declaration = Declaration::More;
    evidence.events.stop = Some(Stop::ToolUse);
    evidence.events.handed_off_by_tool = true;
    assert_eq!(adjudicate(&evidence).detail, None);
    evidence.events.handed_off_by_tool = false;
    assert_eq!(
        adjudicate(&evidence).detail.as_deref(),
        Some("declared more but last stop reason toolUse")
    );
}

#[test]
fn a_cancel_is_not_judged_and_an_interruption_yields_to_a_declaration() {
    let mut evidence = well();
    evidence.declaration = Declaration::Done;
    evidence.interrupted = true;
    assert_eq!(adjudicate(&evidence).verdict, Verdict::Done);
    evidence.cancelled = true;
    assert_eq!(adjudicate(&evidence).verdict, Verdict::Cancelled);
    evidence.cancelled = false;
    evidence.declaration = Declaration::NotWritten;
    assert_eq!(
        adjudicate(&evidence).verdict,
        Verdict::Lost(LostReason::Interrupted)
    );
}

#[test]
fn a_death_that_defect_20_lost_is_named() {
    let mut evidence = well();
    evidence.exit = Some(exit(signal("SIGSEGV")));
    assert_eq!(adjudicate(&evidence).detail.as_deref(), Some("killed by SIGSEGV"));
}

prop_compose! {
    fn any_evidence()(
        declaration in prop_oneof![
            Just(Declaration::NotWritten), Just(Declaration::More), Just(Declaration::Done),
            Just(Declaration::Malformed("x".into()))
        ],
        lines in 0u64..3, records in 0u64..3, plain_text: bool,
        terminal in prop::sample::select(Terminal::ALL),
        aborted: Option<bool>,
        stop in prop::option::of(prop::sample::select(Stop::ALL)),
        class in prop::option::of(prop::sample::select(ErrorClass::ALL)),
        code in prop::option::of(-1i32..300),
        by_signal: bool,
        sent_by in prop::option::of(prop::sample::select(KilledBy::ALL)),
        oom_killed: Option<bool>,
        start_failed: bool,
        intent in prop::option::of(prop::sample::select(KillCause::ALL)),
        flags in 0u8..8,
    ) -> Evidence {
        let status = if by_signal { Some(signal("SIGKILL")) } else { code.map(ExitStatus::Code) };
        Evidence {
            declaration,
            events: EventFacts {
                lines, records, plain_text, terminal, aborted, stop,
                error: class.and_then(error),
                question: (flags & 4 != 0).then(|| "y/n".to_owned()),
                ..EventFacts::default()
            },
            exit: (!start_failed).then(|| ExitFacts { sent_by, oom_killed, status, ..exit(ExitStatus::Code(0)) }),
            start_failure: start_failed.then(|| StartFailure::Spawn("x".into())),
            intent,
            cancelled: flags & 1 != 0,
            interrupted: flags & 2 != 0,
            stderr_tail: String::new(),
        }
    }
}

proptest! {
    #[test]
    fn it_is_total_and_repeatable(evidence in any_evidence()) {
        prop_assert_eq!(adjudicate(&evidence), adjudicate(&evidence.clone()));
    }

    #[test]
    fn done_and_more_come_from_a_fresh_declaration_alone(evidence in any_evidence()) {
        let verdict = adjudicate(&evidence).verdict;
        prop_assert_eq!(verdict == Verdict::Done, !evidence.cancelled && evidence.declaration == Declaration::Done);
        prop_assert_eq!(verdict == Verdict::More, !evidence.cancelled && evidence.declaration == Declaration::More);
        prop_assert_eq!(verdict == Verdict::Cancelled, evidence.cancelled);
    }
}

use super::*;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn machine() -> Machine {
    Machine::new(Limits {
        wake_timeout: secs(1000),
        cancel_grace: secs(10),
        settle_grace: secs(30),
        drain_limit: secs(30),
    })
}

#[test]
fn an_agent_that_exits_with_its_pipes_is_over_at_once() {
    let mut m = machine();
    assert_eq!(m.step(Event::Exited, secs(5)), []);
    assert_eq!(m.step(Event::Closed, secs(5)), [Effect::Finish]);
    assert_eq!(m.step(Event::Tick, secs(9)), [], "it finishes once");
    let mut m = machine();
    assert_eq!(m.step(Event::Closed, secs(5)), [], "end of file is not an exit");
    assert_eq!(m.step(Event::Exited, secs(6)), [Effect::Finish]);
}

#[test]
fn a_cancel_asks_then_kills_and_a_repeated_one_changes_nothing() {
    let mut m = machine();
    assert_eq!(m.step(Event::EndRequested, secs(5)), [Effect::Terminate]);
    assert_eq!(m.step(Event::EndRequested, secs(14)), []);
    assert_eq!(m.next_deadline(), Some(secs(15)));
    assert_eq!(m.step(Event::Tick, secs(15)), [Effect::Kill]);
    assert!(m.killed_after_grace());
    assert_eq!(m.step(Event::Exited, secs(15)), []);
    assert_eq!(m.step(Event::Closed, secs(15)), [Effect::Finish]);
}

#[test]
fn an_agent_that_ends_in_its_grace_is_not_killed() {
    let mut m = machine();
    m.step(Event::EndRequested, secs(5));
    m.step(Event::Exited, secs(6));
    assert_eq!(
        m.step(Event::Tick, secs(7)),
        [Effect::Finish],
        "its pipe is quiet"
    );
    assert!(!m.killed_after_grace());
}

#[test]
fn a_kill_that_meets_nobody_ends_too() {
    let mut m = machine();
    m.step(Event::EndRequested, secs(0));
    assert_eq!(m.step(Event::Tick, secs(10)), [Effect::Kill]);
    assert_eq!(m.step(Event::Tick, secs(19)), []);
    assert_eq!(m.step(Event::Tick, secs(20)), [Effect::Finish]);
}

#[test]
fn a_timeout_is_written_down_before_its_signal() {
    let mut m = machine();
    assert_eq!(m.next_deadline(), Some(secs(1000)));
    assert_eq!(
        m.step(Event::Tick, secs(1000)),
        [Effect::RecordIntent(KillCause::TimedOut), Effect::Terminate]
    );
    assert_eq!(m.ending(), Some(Ending::Limit(KillCause::TimedOut)));
}

#[test]
fn a_settled_agent_is_given_silence_and_then_ended() {
    let mut m = machine();
    m.step(Event::Output { settled: true }, secs(5));
    assert_eq!(
        m.step(Event::Output { settled: true }, secs(20)),
        [],
        "stderr is no silence"
    );
    assert_eq!(m.step(Event::Tick, secs(49)), []);
    assert_eq!(m.step(Event::Tick, secs(50)), [Effect::Terminate]);
    assert_eq!(m.ending(), Some(Ending::Settled));
    let mut m = machine();
    m.step(Event::Output { settled: true }, secs(5));
    m.step(Event::Output { settled: false }, secs(6));
    assert_eq!(m.step(Event::Tick, secs(900)), [], "it went on");
}

#[test]
fn a_pipe_that_is_held_is_released_when_quiet_and_read_while_it_is_not() {
    let mut m = machine();
    m.step(Event::Exited, secs(5));
    assert_eq!(m.next_deadline(), Some(secs(6)));
    assert_eq!(m.step(Event::Tick, secs(6)), [Effect::Finish]);
    let mut m = machine();
    m.step(Event::Exited, secs(5));
    for at in 5..34 {
        assert_eq!(
            m.step(
                Event::Output { settled: false },
                Duration::from_millis(at * 1000 + 500)
            ),
            [],
            "{at}"
        );
    }
    assert_eq!(
        m.step(Event::Output { settled: false }, secs(35)),
        [Effect::Finish],
        "drainLimit at most"
    );
}

#[test]
fn a_cancelled_agents_child_is_not_listened_to_for_long() {
    let mut m = machine();
    m.step(Event::EndRequested, secs(5));
    m.step(Event::Exited, secs(6));
    for half in 12..29 {
        assert_eq!(
            m.step(
                Event::Output { settled: false },
                Duration::from_millis(half * 500)
            ),
            [],
            "{half}"
        );
    }
    assert_eq!(
        m.step(Event::Output { settled: false }, secs(15)),
        [Effect::Finish]
    );
}

#[test]
fn a_wish_behind_the_exit_is_too_late() {
    let mut m = machine();
    m.step(Event::Exited, secs(5));
    assert_eq!(m.step(Event::EndRequested, secs(5)), []);
    assert_eq!(m.ending(), None);
}

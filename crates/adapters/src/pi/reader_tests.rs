use pod_core::ErrorClass;

use super::*;

/// What a human log would show.
#[derive(Default)]
struct Log {
    shown: Vec<String>,
    unfinished: String,
}

impl TextSink for Log {
    fn finished(&mut self, text: &str) {
        self.unfinished.clear();
        self.shown.push(text.to_owned());
    }

    fn delta(&mut self, text: &str) {
        self.unfinished.push_str(text);
    }

    fn discarded(&mut self) {
        self.unfinished.clear();
    }
}

struct Run {
    reader: PiReader,
    log: Log,
}

impl Run {
    fn new() -> Self {
        Self {
            reader: PiReader::new(|| jiff::tz::TimeZone::UTC),
            log: Log::default(),
        }
    }

    fn line(&mut self, bytes: &[u8]) -> LineKind {
        self.sized(bytes, bytes.len() as u64, false)
    }

    fn sized(&mut self, bytes: &[u8], size: u64, pruned: bool) -> LineKind {
        let read_at = "2026-11-30T20:00:00Z".parse().unwrap();
        let line = Line {
            bytes,
            size,
            pruned,
            read_at,
        };
        self.reader.line(&line, &mut self.log)
    }

    fn of(lines: &[&str]) -> Self {
        let mut run = Self::new();
        for line in lines {
            assert_eq!(run.line(line.as_bytes()), LineKind::Record, "{line}");
        }
        run
    }
}

const END: &str = r#"{"type":"agent_end","messages":[]}"#;
const END_1X: &str = r#"{"type":"agent_end","messages":[],"willRetry":false}"#;
const SETTLED: &str = r#"{"type":"agent_settled","aborted":false}"#;
const ANSWER: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}],"stopReason":"stop"}}"#;
const LIMITED: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"429 Try again in 5s."}}"#;
const RETRY: &str =
    r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"429 x"}"#;

#[test]
fn which_event_is_the_last_depends_on_the_version() {
    let old = Run::of(&[ANSWER, END]);
    assert_eq!(
        (old.reader.facts().terminal, old.reader.settled()),
        (Terminal::Settled, true)
    );
    let cut = Run::of(&[ANSWER, END_1X]);
    assert_eq!(
        (cut.reader.facts().terminal, cut.reader.settled()),
        (Terminal::Missing, false)
    );
    let new = Run::of(&[ANSWER, END_1X, SETTLED]);
    assert_eq!(
        (new.reader.facts().terminal, new.reader.settled()),
        (Terminal::Settled, true)
    );
    let again = Run::of(&[ANSWER, END_1X, SETTLED, r#"{"type":"agent_start"}"#]);
    assert_eq!(
        (again.reader.facts().terminal, again.reader.settled()),
        (Terminal::Missing, false)
    );
}

#[test]
fn an_error_that_was_retried_is_not_the_last_word() {
    let retried = Run::of(&[LIMITED, END, RETRY]);
    let facts = retried.reader.facts();
    assert_eq!(
        (facts.error, facts.stop, facts.terminal),
        (None, None, Terminal::Missing)
    );

    let recovered = Run::of(&[
        LIMITED,
        END,
        RETRY,
        ANSWER,
        r#"{"type":"auto_retry_end","success":true}"#,
        END,
    ]);
    assert_eq!(recovered.reader.facts().error, None);
    assert!(recovered.reader.settled());

    let given_up =
        r#"{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"429 Try again in 5s."}"#;
    let failed = Run::of(&[LIMITED, END, RETRY, LIMITED, END, given_up]);
    let error = failed.reader.facts().error.unwrap();
    assert_eq!(
        (error.class, error.rule.as_str()),
        (ErrorClass::RateLimit, "status-429")
    );
    assert_eq!(error.resets.unwrap().0.to_string(), "2026-11-30T20:00:05.000Z");
    assert!(failed.reader.settled());
    assert!(!Run::of(&[LIMITED, END]).reader.settled());
}

#[test]
fn only_the_clis_own_error_counts() {
    let run = Run::of(&[
        r#"{"type":"message_end","message":{"role":"toolResult","content":[{"type":"text","text":"429 Rate limit reached"}],"stopReason":"error","errorMessage":"429 x"}}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"401 invalid_api_key"}],"stopReason":"stop","errorMessage":"429 x"}}"#,
        r#"{"type":"tool_execution_end","toolCallId":"a","toolName":"bash","result":{"finalError":"429"},"isError":true}"#,
    ]);
    assert_eq!(run.reader.facts().error, None);
    assert_eq!(run.log.shown, ["401 invalid_api_key"]);
}

#[test]
fn a_compaction_after_the_end_is_waited_for() {
    let start = r#"{"type":"compaction_start","reason":"threshold"}"#;
    let end = r#"{"type":"compaction_end","reason":"threshold","aborted":false,"willRetry":false}"#;
    let retry = r#"{"type":"compaction_end","reason":"overflow","aborted":false,"willRetry":true}"#;
    assert!(!Run::of(&[ANSWER, END, start]).reader.settled());
    assert!(Run::of(&[ANSWER, END, start, end]).reader.settled());
    let again = Run::of(&[ANSWER, END, start, retry]);
    assert_eq!(again.reader.facts().terminal, Terminal::Missing);
}

#[test]
fn text_comes_once_and_pieces_until_then() {
    let delta =
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"H"},"message":{}}"#;
    let mut run = Run::of(&[delta, delta]);
    assert_eq!(run.log.unfinished, "HH");
    run.line(ANSWER.as_bytes());
    assert_eq!((run.log.unfinished.as_str(), run.log.shown.len()), ("", 1));
    run.line(delta.as_bytes());
    run.line(LIMITED.as_bytes());
    assert_eq!((run.log.unfinished.as_str(), run.log.shown.len()), ("", 1));
    run.line(
        "{\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\u{2028}b\"},\
         {\"type\":\"toolCall\",\"name\":\"bash\"},{\"type\":\"text\",\"text\":\"c\\n\"}],\"stopReason\":\"toolUse\"}}"
            .as_bytes(),
    );
    assert_eq!(run.log.shown[1..], ["a\u{2028}b", "c\n"]);
}

#[test]
fn of_a_pruned_line_the_size_is_shown_and_the_facts_are_kept() {
    let mut run = Run::new();
    let line = br#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"aaa"},{"type":"text","text":"bbb"}],"usage":{"input":7},"stopReason":"length"}}"#;
    run.sized(line, 314_572_800, true);
    assert_eq!(run.log.shown.len(), 1);
    assert!(run.log.shown[0].contains("314572800 bytes") && !run.log.shown[0].contains('\n'));
    let facts = run.reader.facts();
    assert_eq!(facts.stop, Some(Stop::Length));
    assert_eq!(facts.usage.unwrap().input_tokens, Some(7));
}

#[test]
fn what_is_no_record() {
    let mut run = Run::new();
    for (line, kind) in [
        (&br#"{"type":"thread.started"}"#[..], LineKind::Json),
        (br#"{"kind":"session"}"#, LineKind::Json),
        (br#"["session"]"#, LineKind::Json),
        (br#"{"type":"agent_end","type":"agent_end"}"#, LineKind::Json),
        (b"42", LineKind::NotJson),
        (b"Error: boom", LineKind::NotJson),
        (b"{\"type\":\"agent_end\"", LineKind::NotJson),
        (b"\xff\xfe\xc3\x28", LineKind::NotJson),
        (b"{\"type\":\"agent_end\",\"x\":\"\xff\"}", LineKind::Record),
        (b"{\"type\":\"message_end\",\"message\":{\"role\":\"\xff\"}}", LineKind::NotJson),
        (b"{\"type\":\"message_end\",\"message\":7}", LineKind::Record),
        (br#"{"type":"message_end","message":{"role":"assistant","content":"x","usage":[1],"stopReason":"odd"}}"#, LineKind::Record),
    ] {
        assert_eq!(run.line(line), kind, "{}", String::from_utf8_lossy(line));
    }
    let facts = run.reader.facts();
    assert_eq!((facts.lines, facts.records, facts.noise), (12, 3, 9));
}

#[test]
fn a_tool_runs_from_its_start_to_its_end_or_its_turns() {
    let start =
        r#"{"type":"tool_execution_start","toolCallId":"a","toolName":"mcp__pod__pod_handoff","args":{}}"#;
    let end = r#"{"type":"tool_execution_end","toolCallId":"a","toolName":"x","result":{}}"#;
    let mut run = Run::of(&[start, start, end]);
    assert!(run.reader.tool_running() && run.reader.facts().handed_off_by_tool);
    run.line(br#"{"type":"turn_end"}"#);
    assert!(!run.reader.tool_running());
    run.line(br#"{"type":"tool_execution_start","toolName":"bash"}"#);
    assert!(!run.reader.facts().handed_off_by_tool);
}

#[test]
fn usage_is_summed_and_the_unknown_stays_unknown() {
    let one = r#"{"type":"message_end","message":{"role":"assistant","content":[],"usage":{"input":116,"output":45,"cost":{"total":0.25}},"stopReason":"stop"}}"#;
    let usage = Run::of(&[one, one, r#"{"type":"session","id":"s-1"}"#]).reader;
    assert_eq!(usage.session_id.as_deref(), Some("s-1"));
    let usage = usage.usage();
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(232), Some(90)));
    assert_eq!((usage.cache_read_tokens, usage.cost_usd), (None, Some(0.5)));
}

#[test]
fn a_message_of_megabytes_is_taken() {
    let text = "é\\n".repeat(500_000);
    let line = format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"stopReason":"stop"}}}}"#
    );
    let run = Run::of(&[&line]);
    assert_eq!(run.log.shown[0].chars().count(), 1_000_000);
}

#[test]
fn half_a_surrogate_pair_loses_no_text() {
    let delta =
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"a\ud83d"}}"#;
    let message = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"cut \ud83d"}],"stopReason":"error","errorMessage":"429 \ud83d"}}"#;
    let mut run = Run::of(&[delta]);
    assert_eq!(run.log.unfinished, "a\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(
        record::parse(delta.as_bytes()).unwrap().text_delta().unwrap(),
        run.log.unfinished
    );
    run.line(message.as_bytes());
    assert!(run.log.shown[0].starts_with("cut \u{fffd}"));
    assert_eq!(run.reader.facts().error.unwrap().class, ErrorClass::RateLimit);
}

//! Replays what real CLIs printed: every recording must be judged as its row of `expected.tsv` says.

#![expect(clippy::unwrap_used, reason = "a test says by its panic what was wrong")]

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use pod_adapters::{Line, LineKind, TextSink, adapter};
use pod_core::{
    AgentType, Declaration, EventFacts, Evidence, ExitFacts, ExitStatus, LimitSource, Terminal, Usage,
    Verdict, adjudicate,
};

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/streams")
}

/// One row of the table.
struct Row<'a> {
    case: &'a str,
    exit: &'a str,
    verdict: Verdict,
    text: &'a str,
    unfinished: &'a str,
    usage: Usage,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[
            case,
            exit,
            _,
            outcome,
            reason,
            text,
            unfinished,
            input,
            output,
            cache_read,
            cost,
        ] = &fields[..]
        else {
            panic!("{line:?} has {} fields", fields.len());
        };
        Self {
            case,
            exit,
            verdict: Verdict::from_words(outcome.parse().unwrap(), Some(reason)).unwrap(),
            text: if text == "-" { "" } else { text },
            unfinished: if unfinished == "-" { "" } else { unfinished },
            usage: Usage {
                input_tokens: input.parse().ok(),
                output_tokens: output.parse().ok(),
                cache_read_tokens: cache_read.parse().ok(),
                cost_usd: cost.parse().ok(),
            },
        }
    }

    /// The adapter of the CLI whose recording it is.
    fn kind(&self) -> AgentType {
        let cli = self.case.split(['-', '/']).next().unwrap();
        cli.parse().unwrap()
    }

    fn exit(&self) -> ExitStatus {
        let code = self.exit.parse().map(ExitStatus::Code);
        code.unwrap_or_else(|_| ExitStatus::Signal(self.exit.to_owned()))
    }
}

/// What the human log would show.
#[derive(Default)]
struct Log {
    last: String,
    unfinished: String,
}

impl TextSink for Log {
    fn finished(&mut self, text: &str) {
        text.clone_into(&mut self.last);
        self.unfinished.clear();
    }

    fn delta(&mut self, text: &str) {
        self.unfinished.push_str(text);
    }

    fn discarded(&mut self) {
        self.unfinished.clear();
    }
}

fn replay(kind: AgentType, stream: &[u8]) -> (EventFacts, Usage, Log) {
    let mut reader = adapter(kind).reader(|| TimeZone::UTC, Usage::default());
    let mut log = Log::default();
    for bytes in stream
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let line = Line {
            bytes,
            size: bytes.len() as u64,
            pruned: false,
            read_at: "2026-11-30T20:00:00Z".parse().unwrap(),
        };
        let found = reader.line(&line, &mut log);
        // What a pipe cut off is the only line that is no record.
        let cut = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err();
        let wanted = if cut { LineKind::NotJson } else { LineKind::Record };
        assert_eq!(
            found,
            wanted,
            "{}",
            String::from_utf8_lossy(&bytes[..80.min(bytes.len())])
        );
    }
    (reader.facts(), reader.usage(), log)
}

fn evidence(events: EventFacts, exit: ExitStatus) -> Evidence {
    Evidence {
        declaration: Declaration::NotWritten,
        events,
        exit: Some(ExitFacts {
            status: Some(exit),
            sent_by: None,
            killed_after_grace: false,
            oom_killed: None,
            oom_kills_on_machine: None,
        }),
        start_failure: None,
        intent: None,
        cancelled: false,
        interrupted: false,
        stderr_tail: String::new(),
    }
}

/// What the wrapper adds where nothing was printed.
fn with_start_error(row: &Row<'_>, facts: EventFacts) -> EventFacts {
    let error = match row.exit() {
        ExitStatus::Code(code) if facts.lines == 0 => adapter(row.kind()).start_error(code, ""),
        ExitStatus::Code(_) | ExitStatus::Signal(_) => None,
    };
    EventFacts {
        error: facts.error.clone().or(error),
        ..facts
    }
}

fn rounded(usage: Usage) -> Usage {
    Usage {
        cost_usd: usage.cost_usd.map(|cost| (cost * 1e9).round() / 1e9),
        ..usage
    }
}

fn table() -> String {
    std::fs::read_to_string(streams().join("expected.tsv")).unwrap()
}

fn rows(table: &str) -> Vec<Row<'_>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.skip(1).map(Row::read).collect()
}

#[test]
fn every_recording_is_judged_as_its_row_says() {
    let table = table();
    let mut wrong = Vec::new();
    for row in rows(&table) {
        let stream = std::fs::read(streams().join(format!("{}.jsonl", row.case))).unwrap();
        let (facts, usage, log) = replay(row.kind(), &stream);
        let facts = with_start_error(&row, facts);
        let verdict = adjudicate(&evidence(facts, row.exit())).verdict;
        let got = (
            verdict,
            rounded(usage),
            log.last.as_str(),
            log.unfinished.as_str(),
        );
        let want = (row.verdict, row.usage, row.text, row.unfinished);
        if got != want {
            wrong.push(format!("{}:\n   got {got:?}\n  want {want:?}", row.case));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_recording_has_its_row() {
    let table = table();
    let mut named: Vec<String> = rows(&table).iter().map(|row| row.case.to_owned()).collect();
    let mut found = Vec::new();
    for folder in std::fs::read_dir(streams())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let Ok(files) = std::fs::read_dir(&folder) else {
            continue;
        };
        for file in files.map(|entry| entry.unwrap().path()) {
            let case = file.with_extension("");
            found.push(case.strip_prefix(streams()).unwrap().to_str().unwrap().to_owned());
        }
    }
    named.sort();
    found.sort();
    assert_eq!(named, found);
}

#[test]
fn a_command_that_speaks_pi_is_judged_alike() {
    let table = table();
    for row in rows(&table).iter().filter(|row| row.kind() == AgentType::Pi) {
        let stream = std::fs::read(streams().join(format!("{}.jsonl", row.case))).unwrap();
        if !stream.is_empty() {
            let facts = |kind| replay(kind, &stream).0;
            assert_eq!(facts(AgentType::Command), facts(AgentType::Pi), "{}", row.case);
        }
    }
}

#[test]
fn what_a_cut_stream_left_is_found_again_in_its_raw_lines() {
    let stream = std::fs::read(streams().join("pi-0.73.1/c_term_hang_mid.jsonl")).unwrap();
    let pieces = stream
        .split(|byte| *byte == b'\n')
        .filter_map(|line| adapter(AgentType::Pi).delta_text(line));
    assert_eq!(pieces.collect::<String>(), "Partial answer that never ");
}

#[test]
fn limits_say_when_they_end_and_how_that_is_known() {
    // Read from the recordings by hand; every line is read at 2026-11-30T20:00:00Z, in UTC.
    for (case, at, source) in [
        (
            "claude-2.1.332/x_oauth_limit",
            "2026-11-30T23:13:55.000Z",
            LimitSource::Event,
        ),
        (
            "claude-2.1.332/x_unified_limit",
            "2026-12-01T15:00:00.000Z",
            LimitSource::Text,
        ),
        (
            "codex/x_usage_limit",
            "2026-11-30T23:13:00.000Z",
            LimitSource::Text,
        ),
        (
            "opencode/e2_429_always",
            "2026-11-30T20:00:02.000Z",
            LimitSource::Event,
        ),
        (
            "pi-1.6.0/e2_429_always",
            "2026-11-30T20:00:02.000Z",
            LimitSource::Text,
        ),
    ] {
        let stream = std::fs::read(streams().join(format!("{case}.jsonl"))).unwrap();
        let kind = case.split(['-', '/']).next().unwrap().parse().unwrap();
        let (resets, by) = replay(kind, &stream).0.error.unwrap().resets.unwrap();
        assert_eq!((resets.to_string().as_str(), by), (at, source), "{case}");
    }
    let unknown = std::fs::read(streams().join("codex/e2_429_always.jsonl")).unwrap();
    assert_eq!(replay(AgentType::Codex, &unknown).0.error.unwrap().resets, None);
}

#[test]
fn an_error_names_the_row_that_decided() {
    for (case, rule) in [
        ("claude-2.1.332/x_oauth_limit", "claude-usage-limit"),
        ("claude-2.1.332/h3_400_context", "claude-prompt-too-long"),
        ("claude-2.1.332/h_401", "claude-invalid-key"),
        ("codex/h3_400_context", "codex-out-of-room"),
        ("codex/x_no_key", "codex-missing-variable"),
        ("codex/h_401", "status-401"),
        ("gemini/h_401", "auth-google"),
        ("opencode/h3_400_context", "opencode-overflow"),
        ("opencode/e5_overloaded_always", "status-5xx"),
    ] {
        let stream = std::fs::read(streams().join(format!("{case}.jsonl"))).unwrap();
        let kind = case.split(['-', '/']).next().unwrap().parse().unwrap();
        assert_eq!(replay(kind, &stream).0.error.unwrap().rule, rule, "{case}");
    }
}

#[test]
fn the_words_of_an_error_mean_nothing_in_an_answer_or_a_tool() {
    let said = "You've hit your usage limit. 401 invalid_api_key. status: done";
    for (kind, lines) in [
        (
            AgentType::Claude,
            vec![
                r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"@"}]}}"#,
                r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"@","is_error":true}]}}"#,
                r#"{"is_error":false,"stop_reason":"end_turn","result":"@","subtype":"success","type":"result"}"#,
            ],
        ),
        (
            AgentType::Codex,
            vec![
                r#"{"type":"item.completed","item":{"type":"agent_message","text":"@"}}"#,
                r#"{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"@","exit_code":1}}"#,
                r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
            ],
        ),
        (
            AgentType::Gemini,
            vec![
                r#"{"type":"message","role":"assistant","content":"@","delta":true}"#,
                r#"{"type":"tool_result","status":"error","output":"@","error":{"message":"@"}}"#,
                r#"{"type":"error","severity":"warning","message":"@"}"#,
                r#"{"type":"result","status":"success"}"#,
            ],
        ),
        (
            AgentType::OpenCode,
            vec![
                r#"{"type":"text","part":{"text":"@"}}"#,
                r#"{"type":"tool_use","part":{"tool":"bash","state":{"status":"error","error":"@"}}}"#,
                r#"{"type":"step_finish","part":{"reason":"stop"}}"#,
            ],
        ),
    ] {
        let stream = lines.join("\n").replace('@', said);
        let (facts, _, log) = replay(kind, stream.as_bytes());
        assert_eq!((facts.error, facts.terminal), (None, Terminal::Settled), "{kind}");
        assert_eq!(log.last, said, "{kind}");
    }
}

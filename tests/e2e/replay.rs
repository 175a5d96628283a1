//! What real CLIs printed, replayed through the real wrapper: the outcome, the text and the usage that the
//! table says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::env;

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams")
}

/// One row of `expected.tsv`, whose head says what the columns are.
struct Row {
    fields: Vec<String>,
}

impl Row {
    fn field(&self, index: usize) -> Option<&str> {
        Some(self.fields[index].as_str()).filter(|text| *text != "-")
    }

    fn case(&self) -> &str {
        &self.fields[0]
    }

    /// The shell's last words, which end it as the recorded agent ended.
    fn end(&self) -> String {
        match self.fields[1].parse::<i32>() {
            Ok(code) => format!("exit {code}"),
            Err(_) => format!(
                "kill -s {} $$; sleep 60",
                self.fields[1].trim_start_matches("SIG")
            ),
        }
    }
}

fn rows() -> Vec<Row> {
    let table = fs::read_to_string(streams().join("expected.tsv")).expect("the table is there");
    let lines = table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("case\t"));
    lines
        .map(|line| Row {
            fields: line.split('\t').map(str::to_owned).collect(),
        })
        .collect()
}

fn number(row: &Row, index: usize) -> Option<f64> {
    row.field(index).map(|text| text.parse().expect("a number"))
}

fn assert_usage(row: &Row, usage: &Value) {
    for (index, key) in [
        (7, "inputTokens"),
        (8, "outputTokens"),
        (9, "cacheReadTokens"),
        (10, "costUsd"),
    ] {
        let found = usage[key].as_f64();
        let same = match (found, number(row, index)) {
            (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-9,
            (found, wanted) => found == wanted,
        };
        assert!(
            same,
            "{}: {key} is {found:?} and not {:?}",
            row.case(),
            row.field(index)
        );
    }
}

#[test]
fn every_recording_is_judged_as_its_row_says() {
    let env = env();
    env.spawn("p");
    let agent = env.scratch().join("replayed");
    let rows = rows();
    assert!(rows.len() > 250, "all recordings have a row");
    for (row, n) in rows.iter().zip(1..) {
        let cli = row.case().split(['-', '/']).next().expect("a case names its CLI");
        env.define("default", cli, &agent, "");
        let stream = streams().join(format!("{}.jsonl", row.case()));
        let script = format!("#!/bin/sh\ncat '{}'\n{}\n", stream.display(), row.end());
        fs::write(&agent, script).expect("it is written");
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let said_before =
            fs::read_to_string(env.pod_dir("p").join("output.log")).map_or(0, |text| text.len());
        let last = env.wake("p");
        let case = row.case();
        assert_eq!(last["n"], n, "{case}");
        assert_eq!(last["outcome"].as_str(), row.field(3), "{case}: {last}");
        assert_eq!(last["reason"].as_str(), row.field(4), "{case}: {last}");
        assert_usage(row, &last["usage"]);
        let recorded = fs::read(&stream).expect("the recording is there");
        // What a pipe cut off is ended.
        let torn = recorded.last().is_some_and(|last| *last != b'\n');
        let whole = if torn {
            [&recorded[..], b"\n"].concat()
        } else {
            recorded
        };
        assert_eq!(env.events("p", n), whole, "{case}");
        let output = env.output("p").split_off(said_before);
        for text in [row.field(5), row.field(6)].into_iter().flatten() {
            assert!(
                output.contains(&pod_core::escaped(text)),
                "{case}: {text:?} is not in {output:?}"
            );
        }
    }
}

//! What the agent of a gated pod is told about its gates.

use std::io::{Read as _, Seek as _, SeekFrom};

use pod_core::{GateMode, GateOverall, PodRecord, Stage, StepRecord};
use pod_disk::OpenKind;
use pod_reconcile::{Pinned, PodFiles, gate_evidence};

/// How much of a failed step's output is quoted, from its end.
const OUTPUT: u64 = 6_000;

/// The stage, its gate, and why that failed; `None` for an ungated pod.
pub(crate) fn of(files: &PodFiles, record: &PodRecord) -> Option<String> {
    let pinned = Pinned::of(record.gates.as_ref()?).ok()?;
    let stage = record.stage.unwrap_or(Stage::Building);
    let mode = stage.mode();
    let steps = pinned.definitions.gates.get(&mode);
    let runs: Vec<String> = steps
        .into_iter()
        .flatten()
        .map(|step| format!("- {}: `{}`", step.name, step.run))
        .collect();
    let gate = if runs.is_empty() {
        "No gate stands at its end.".to_owned()
    } else {
        format!("At its end stands the gate `{mode}`:\n\n{}", runs.join("\n"))
    };
    let scope = &pinned.definitions.scope;
    let list = |name: &str, patterns: &[String]| match patterns {
        [] => String::new(),
        patterns => format!("\n- {name}: `{}`", patterns.join("`, `")),
    };
    let scope = match format!("{}{}", list("allowed", &scope.allow), list("denied", &scope.deny)) {
        empty if empty.is_empty() => String::new(),
        lists => format!("\n\nWhat you may change:\n{lists}"),
    };
    // In the last stage any gate may be in the way.
    let asked: Vec<GateMode> = match stage {
        Stage::Building | Stage::Qa => vec![mode],
        Stage::ReadyToMerge => pinned.definitions.gates.keys().copied().collect(),
    };
    let failed = asked
        .into_iter()
        .filter_map(|mode| gate_evidence(files, mode))
        .find(|evidence| evidence.overall == GateOverall::Fail)
        .and_then(|evidence| {
            evidence
                .steps
                .last()
                .map(|step| failure(files, evidence.mode, step))
        })
        .unwrap_or_default();
    Some(format!(
        "# The gates of this pod\n\nThe pod is in the stage `{stage}`. `status: done` is a claim that the stage is \
         finished; it is believed when the gate agrees. {gate}{scope}\n\nagents-pod.toml and git hooks are pinned: a \
         change of them blocks the pod. If the plan itself has to change, say `plan: update_required` below the \
         status in HANDOFF.md.{failed}"
    ))
}

fn failure(files: &PodFiles, mode: GateMode, step: &StepRecord) -> String {
    let how = match (step.timed_out, step.exit_code, &step.signal) {
        (true, _, _) => "took too long".to_owned(),
        (false, Some(code), _) => format!("ended with exit code {code}"),
        (false, None, Some(signal)) => format!("was ended by {signal}"),
        (false, None, None) => "failed".to_owned(),
    };
    let output = tail(files, &step.log).unwrap_or_default();
    let output: Vec<String> = pod_core::escaped(&output)
        .lines()
        .map(|line| format!("    {line}"))
        .collect();
    format!(
        "\n\nThe last run of gate `{mode}` failed: step `{}` {how}. Mend that first. The end of what it printed:\n\n{}",
        step.name,
        output.join("\n")
    )
}

fn tail(files: &PodFiles, log: &str) -> Option<String> {
    let mut file = files
        .open(&files.layout().gates().join(log), OpenKind::Read)
        .ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT))).ok()?;
    let mut bytes = Vec::new();
    file.take(OUTPUT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

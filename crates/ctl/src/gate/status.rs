//! `podctl gate status`: each gate, and whether its evidence is about the worktree as it is.

use pod_core::{Freshness, GateMode, PodId, Stage, Timestamp};
use pod_reconcile::{GateReport, WorktreeLook, look_at_worktree};
use serde_json::json;

use super::Gated;
use crate::context::{self, Context};
use crate::fault::{Ended, Exit};
use crate::table::Table;
use crate::{ui, words};

/// How many violations a line names.
const NAMED: usize = 5;

/// Shows the gates of a pod.
pub(crate) fn run(context: &Context, id: &PodId, json: bool) -> Ended {
    let gated = Gated::read(context, id)?;
    let (look, report) = looked(&gated);
    let stage = gated.record.stage.unwrap_or(Stage::Building);
    if json {
        let gates: serde_json::Map<String, serde_json::Value> = report
            .modes
            .iter()
            .map(|(mode, (evidence, fresh))| {
                let evidence = evidence.as_ref();
                let value = json!({
                    "overall": evidence.map(|evidence| evidence.overall),
                    "freshness": fresh,
                    "finishedAt": evidence.map(|evidence| evidence.finished_at),
                });
                (mode.word().to_owned(), value)
            })
            .collect();
        ui::json(&json!({
            "pod": id,
            "stage": stage,
            "claim": gated.record.gates.as_ref().is_some_and(|state| state.claim),
            "gates": gates,
            "checkpointValidity": look.validity(),
            "violations": look.violations,
            "diffHash": look.diff_hash(),
        }))?;
        return Ok(Exit::Done);
    }
    ui::answer(&format!("stage {stage}, worktree {}\n", look.validity()))?;
    ui::answer(&table(&report, context::now()).draw(ui::width()))?;
    for violation in &look.violations {
        ui::answer(&format!(
            "violation: {} ({})\n",
            violation.path,
            pod_core::escaped(&violation.rule)
        ))?;
    }
    if let Err(why) = &look.content {
        ui::note(&format!("the worktree could not be read: {why}"));
    }
    Ok(Exit::Done)
}

fn looked(gated: &Gated) -> (WorktreeLook, GateReport) {
    let look = look_at_worktree(&gated.files, &gated.state, None);
    let report = GateReport::of(&gated.files, &gated.state, &gated.pinned, &look);
    (look, report)
}

fn table(report: &GateReport, now: Timestamp) -> Table {
    let mut table = Table::new(&["GATE", "OVERALL", "EVIDENCE", "RUN"]);
    for (mode, (evidence, fresh)) in &report.modes {
        table.row([
            mode.to_string(),
            evidence
                .as_ref()
                .map_or("-".to_owned(), |evidence| evidence.overall.to_string()),
            fresh.to_string(),
            evidence
                .as_ref()
                .map_or("-".to_owned(), |evidence| words::away(evidence.finished_at, now)),
        ]);
    }
    table
}

/// The blocker of a gated pod in one line: stage, gate, fresh or not since when, violations.
pub(crate) fn line(context: &Context, id: &PodId) -> Option<String> {
    let gated = Gated::read(context, id).ok()?;
    let (look, report) = looked(&gated);
    let (stage, now) = (gated.record.stage.unwrap_or(Stage::Building), context::now());
    let mode: GateMode = stage.mode();
    let gate = match report.modes.get(&mode) {
        None => "no gate at its end".to_owned(),
        Some((None, _)) => format!("gate {mode} has not run"),
        Some((Some(evidence), fresh)) => {
            let since = words::away(evidence.finished_at, now);
            let about = match fresh {
                Freshness::Current => "of this content",
                Freshness::Stale => "of another content or definition",
                Freshness::Missing | Freshness::Unknown => "of an unknown content",
            };
            format!("gate {mode}: {} {since}, {about}", evidence.overall)
        }
    };
    let mut parts = vec![format!("{stage}; {gate}")];
    let named: Vec<String> = look
        .violations
        .iter()
        .take(NAMED)
        .map(|violation| format!("`{}` ({})", violation.path, violation.rule))
        .collect();
    if !named.is_empty() {
        let more = look.violations.len() - named.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        parts.push(format!("not allowed: {}{more}", named.join(", ")));
    }
    if let Err(why) = &look.content {
        parts.push(format!("the worktree could not be read: {why}"));
    }
    Some(parts.join("; "))
}

//! `podctl plan`: what podd would do now.

use std::collections::BTreeSet;

use pod_core::{Step, Timestamp};
use pod_reconcile::Observer;
use serde::Serialize;

use crate::args::Format;
use crate::context::{self, Context};
use crate::fault::{Ended, Exit, Fault};
use crate::table::Table;
use crate::{ui, words};

#[derive(Debug, Serialize)]
struct Line<'a> {
    pod: &'a pod_core::PodId,
    action: &'static str,
    because: &'a str,
    at: Option<Timestamp>,
}

/// Shows the plan; nothing is changed.
pub(crate) fn run(context: &Context, args: Format) -> Ended {
    let now = context::now();
    let mut observer = Observer::new(context.registry()?);
    let observed = observer.observe(
        &context.config()?,
        &context.agents()?,
        &BTreeSet::new(),
        now,
        pod_process::monotonic(),
    );
    let observed = observed.map_err(|error| Fault::of("cannot look at the pods", &error))?;
    let steps = pod_core::plan(&observed.world, now);
    if args.json {
        let lines: Vec<Line<'_>> = steps.iter().map(line).collect();
        ui::json(&lines)?;
        return Ok(Exit::Done);
    }
    for record in &observed.unreadable {
        ui::note(&format!(
            "the record of `{}` cannot be read: {}",
            record.id, record.error
        ));
    }
    if steps.is_empty() {
        ui::note("there is nothing to do: no pod is idle, active or parked");
    } else {
        ui::answer(&table(&steps, now).draw(ui::width()))?;
    }
    Ok(Exit::Done)
}

fn line(step: &Step) -> Line<'_> {
    Line {
        pod: &step.pod,
        action: step.action.word(),
        because: &step.because,
        at: step.at,
    }
}

fn table(steps: &[Step], now: Timestamp) -> Table {
    let mut table = Table::new(&["POD", "ACTION", "WHEN", "BECAUSE"]);
    for step in steps {
        let when = match step.at {
            Some(at) => words::away(at, now),
            None if step.action == pod_core::Action::Wait => "-".to_owned(),
            None => "now".to_owned(),
        };
        table.row([
            step.pod.to_string(),
            step.action.word().to_owned(),
            when,
            step.because.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use pod_core::{Action, WakeMode};

    use crate::words::tests::at;

    use super::*;

    fn steps() -> Vec<Step> {
        let step = |pod: &str, action, because: &str, at| Step {
            pod: pod.parse().unwrap(),
            action,
            because: because.into(),
            at,
        };
        vec![
            step("a", Action::Wake(WakeMode::Cold), "it is due", None),
            step(
                "b",
                Action::Wait,
                "it rests after failed/noHandoff (1 in a row)",
                Some(at("20:00:30")),
            ),
        ]
    }

    #[test]
    fn a_plan_says_what_when_and_why() {
        assert_eq!(
            table(&steps(), at("20:00:00")).draw(Some(80)),
            "POD  ACTION  WHEN    BECAUSE\n\
             a    wake    now     it is due\n\
             b    wait    in 30s  it rests after failed/noHandoff (1 in a row)\n"
        );
        let lines: Vec<Line<'_>> = steps().leak().iter().map(line).collect();
        let json = serde_json::to_string(&lines[1]).unwrap();
        assert!(json.ends_with(r#""at":"2026-11-30T20:00:30.000Z"}"#), "{json}");
    }
}

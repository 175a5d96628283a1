//! `podctl ls`: all pods at a glance.

use std::path::Path;

use pod_core::{PodRecord, Timestamp};
use pod_registry::{Listing, Unreadable};

use crate::args::Ls;
use crate::context::{self, Context};
use crate::fault::{Ended, Exit, Fault};
use crate::table::Table;
use crate::{ui, words};

/// Lists the pods.
pub(crate) fn run(context: &Context, args: &Ls) -> Ended {
    let listing = context.registry()?.list();
    let Listing { records, unreadable } =
        listing.map_err(|error| Fault::of("cannot list the pods", &error))?;
    let total = records.len();
    let project = args.project.as_deref().map(real);
    let wanted = |record: &PodRecord| {
        (args.states.is_empty() || args.states.contains(&record.state))
            && project.as_ref().is_none_or(|project| record.project == *project)
    };
    let records: Vec<PodRecord> = records.into_iter().filter(wanted).collect();
    if args.format.json {
        let pods: Vec<_> = records.iter().map(words::public).collect();
        ui::json(&serde_json::json!({ "pods": pods, "unreadable": unreadable }))?;
        return Ok(Exit::Done);
    }
    if !records.is_empty() {
        ui::answer(&table(&records, context::now()).draw(ui::width()))?;
    }
    unreadable.iter().for_each(name_unreadable);
    if records.is_empty() && unreadable.is_empty() {
        ui::note(match total {
            0 => {
                "there are no pods yet; `podctl spawn \"what is to be reached\"` starts one in this directory"
            }
            _ => "no pod is like that; `podctl ls` lists all of them",
        });
    }
    Ok(Exit::Done)
}

/// The project as records have it; one that is gone is looked for as it was given.
fn real(project: &Path) -> String {
    let real = project.canonicalize().or_else(|_| std::path::absolute(project));
    real.unwrap_or_else(|_| project.to_owned())
        .to_string_lossy()
        .into_owned()
}

fn table(records: &[PodRecord], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "STATE", "WAKE-UPS", "LAST", "GOAL"]);
    for record in records {
        table.row([
            record.id.to_string(),
            words::state(record, now),
            record.wake_up_count.to_string(),
            words::last(record, now),
            // One line says enough here; `show` has the rest.
            record.goal.lines().next().unwrap_or_default().to_owned(),
        ]);
    }
    table
}

fn name_unreadable(record: &Unreadable) {
    ui::note(&format!(
        "the record of `{}` cannot be read: {}; `podctl doctor` says what to do",
        record.id, record.error
    ));
}

#[cfg(test)]
mod tests {
    use crate::words::tests::{at, record};

    use super::*;

    #[test]
    fn a_list_fits_and_its_goals_are_harmless() {
        let mut pod = record();
        pod.goal = "Fix \x1b[2J the login\nand more".into();
        pod.wake_up_count = 12;
        assert_eq!(
            table(&[pod], at("20:10:00")).draw(Some(64)),
            "ID              STATE  WAKE-UPS  LAST  GOAL\n\
             fix-login-7k2m  idle   12        -     Fix \\x1b[2J the login\n"
        );
    }
}

//! `podctl ls`: all pods at a glance.

use std::collections::BTreeMap;
use std::path::Path;

use pod_core::{AccountLimits, AccountName, PodId, PodRecord, PodState, Timestamp};
use pod_reconcile::Accounts;
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
    let limits = held(&records, &accounts(context, &records), context::now());
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
        ui::answer(&table(&records, &limits, context::now()).draw(ui::width()))?;
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

/// Whose limits each pod shares; empty where the definitions cannot be read, which other commands say.
fn accounts(context: &Context, records: &[PodRecord]) -> Vec<AccountName> {
    let (Ok(config), Ok(agents)) = (context.config(), context.agents()) else {
        return Vec::new();
    };
    let accounts = Accounts::new(&agents);
    let of = |record: &PodRecord| accounts.of(&config.policy_for(&record.policy).agent);
    records.iter().map(of).collect()
}

/// Until when each idle pod that would be due is held back by a limit of its account.
fn held(records: &[PodRecord], accounts: &[AccountName], now: Timestamp) -> BTreeMap<PodId, Timestamp> {
    let pods = records.iter().zip(accounts);
    let limits = AccountLimits::of(pods.clone(), now);
    let waits =
        |record: &PodRecord| record.state == PodState::Idle && record.next_wake_at.is_none_or(|at| at <= now);
    pods.filter(|(record, _)| waits(record))
        .filter_map(|(record, account)| Some((record.id.clone(), limits.hold(account)?.until)))
        .collect()
}

fn table(records: &[PodRecord], limits: &BTreeMap<PodId, Timestamp>, now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "STATE", "WAKE-UPS", "LAST", "GOAL"]);
    for record in records {
        table.row([
            record.id.to_string(),
            limits.get(&record.id).map_or_else(
                || words::state(record, now),
                |until| format!("limit until {}", words::clock(*until, now)),
            ),
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
            table(&[pod], &BTreeMap::new(), at("20:10:00")).draw(Some(64)),
            "ID              STATE  WAKE-UPS  LAST  GOAL\n\
             fix-login-7k2m  idle   12        -     Fix \\x1b[2J the login\n"
        );
    }
}

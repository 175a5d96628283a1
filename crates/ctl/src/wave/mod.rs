//! `podctl wave`: looks after subagents.

mod judge;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pod_checkpoints::{Dispatch, Found, Look, Repository, Wave};
use pod_core::{SCHEMA_VERSION, SubId, SubState, Timestamp, brief};
use serde_json::{Value, json};

use crate::args::{OneSub, WaveCommand};
use crate::checkpoint::{directory, open};
use crate::context;
use crate::fault::{Ended, Exit, Fault};
use crate::table::Table;
use crate::{ui, words};

/// How long git may take.
pub(crate) const LOOK: Look = Look {
    limit: Duration::from_secs(30),
    mark: None,
};

/// Ages below it are told in seconds, since that is what decides.
const SHORT: Duration = Duration::from_secs(120);

/// Works on a wave.
pub(crate) fn run(command: &WaveCommand) -> Ended {
    match command {
        WaveCommand::Dispatch { one, branch } => dispatch(one, branch.as_deref()),
        WaveCommand::Status { wave, format } => status(&open(wave.clone())?, format.json),
        WaveCommand::Orphans { wave, roots, format } => orphans(&open(wave.clone())?, roots, format.json),
        WaveCommand::Complete { one } => complete(one),
        WaveCommand::Brief { one, format } => print_brief(one, format.json),
        WaveCommand::Drain {
            wave,
            worktree,
            format,
        } => drain(&open(wave.clone())?, worktree, format.json),
        WaveCommand::Judge(args) => judge::run(args),
    }
}

fn dispatch(one: &OneSub, branch: Option<&str>) -> Ended {
    let wave = open(one.wave.clone())?;
    let cannot = "cannot note the dispatch";
    let found = Repository::find(wave.root(), &LOOK).unwrap_or_else(|error| {
        ui::note(&format!("HEAD is not noted: {}", pod_core::error_chain(&error)));
        None
    });
    let noted = wave.dispatch(&Dispatch {
        schema_version: SCHEMA_VERSION,
        wave_id: one.wave.clone(),
        sub_id: one.sub.clone(),
        at: context::now(),
        head: found.as_ref().and_then(|found| found.head().map(str::to_owned)),
        branch: branch.map(str::to_owned),
    });
    noted.map_err(|error| Fault::of(cannot, &error))?;
    Ok(Exit::Done)
}

fn scan(wave: &Wave) -> Result<Found, Fault> {
    let cannot = format!("cannot look at wave `{}`", wave.id());
    let found = wave.scan().map_err(|error| Fault::of(cannot, &error))?;
    found.warnings.iter().for_each(|warning| ui::note(warning));
    Ok(found)
}

fn status(wave: &Wave, json: bool) -> Ended {
    let there = wave.exists();
    let there = there.map_err(|error| Fault::of(format!("cannot look at wave `{}`", wave.id()), &error))?;
    if !there {
        let root = pod_disk::shown(wave.root());
        let hint =
            "a wave begins with its first checkpoint or `podctl wave dispatch`; is this the right project?";
        return Err(Fault::new(format!("there is no wave `{}` in `{root}`", wave.id()), hint).into());
    }
    let (found, now) = (scan(wave)?, context::now());
    if json {
        ui::json(&json!({
            "wave": wave.id(),
            "root": wave.root(),
            "subs": found.subs().iter().map(|sub| one_sub(&found, sub, now)).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Done);
    }
    if found.subs().is_empty() {
        ui::note("nobody was dispatched, and nobody left a checkpoint");
    } else {
        ui::answer(&table(&found, now).draw(ui::width()))?;
    }
    Ok(Exit::Done)
}

fn one_sub(found: &Found, sub: &SubId, now: Timestamp) -> Value {
    let checkpoint = found.checkpoints.get(sub);
    let dispatch = found.dispatches.get(sub);
    let age = |at: Option<Timestamp>| at.map(|at| now.since(at).as_secs());
    json!({
        "sub": sub,
        "state": found.state(sub, now),
        "checkpointAt": checkpoint.map(|checkpoint| checkpoint.at),
        "ageSeconds": age(checkpoint.map(|checkpoint| checkpoint.at)),
        "dispatchedAt": dispatch.map(|dispatch| dispatch.at),
        "dispatchAgeSeconds": age(dispatch.map(|dispatch| dispatch.at)),
        "branch": dispatch.and_then(|dispatch| dispatch.branch.as_ref()),
        "blockers": checkpoint.and_then(|checkpoint| checkpoint.blockers()),
        "nextStep": checkpoint.map(|checkpoint| checkpoint.list("next_step").join(", ")).filter(|text| !text.is_empty()),
    })
}

fn table(found: &Found, now: Timestamp) -> Table {
    let mut table = Table::new(&["SUB", "STATE", "CHECKPOINT", "DISPATCHED", "NEXT STEP"]);
    let age = |at: Timestamp| match now.since(at) {
        young if young < SHORT => format!("{} ago", words::span(young)),
        _ => words::away(at, now),
    };
    let away = |at: Option<Timestamp>| at.map_or("-".to_owned(), age);
    for sub in found.subs() {
        let (checkpoint, dispatch) = (found.checkpoints.get(sub), found.dispatches.get(sub));
        let state = found.state(sub, now);
        let next = checkpoint.map(|checkpoint| match state {
            SubState::Blocked => format!("blocked by: {}", checkpoint.blockers().unwrap_or_default()),
            SubState::Complete | SubState::Running | SubState::Orphaned => {
                checkpoint.list("next_step").join(", ")
            }
        });
        table.row([
            sub.to_string(),
            state.to_string(),
            away(checkpoint.map(|checkpoint| checkpoint.at)),
            away(dispatch.map(|dispatch| dispatch.at)),
            next.unwrap_or_default(),
        ]);
    }
    table
}

/// Every root once: the wave's own first.
fn orphans(wave: &Wave, roots: &[PathBuf], json: bool) -> Ended {
    let mut looked = vec![wave.clone()];
    for root in roots {
        looked.push(Wave::at(directory(root)?, wave.id().clone()));
    }
    let mut newest: BTreeMap<SubId, (Timestamp, PathBuf)> = BTreeMap::new();
    let mut completed = Vec::new();
    for one in &looked {
        let found = scan(one)?;
        completed.extend(found.completed);
        for (sub, checkpoint) in found.checkpoints {
            let here = (checkpoint.at, one.root().to_owned());
            let known = newest.entry(sub).or_insert_with(|| here.clone());
            if here.0 > known.0 {
                *known = here;
            }
        }
    }
    newest.retain(|sub, _| !completed.contains(sub));
    if json {
        let orphans: Vec<Value> = newest
            .iter()
            .map(|(sub, (at, root))| json!({"sub": sub, "checkpointAt": at, "root": root}))
            .collect();
        ui::json(&orphans)?;
    } else {
        let lines: String = newest.keys().map(|sub| format!("{sub}\n")).collect();
        ui::answer(&lines)?;
    }
    Ok(Exit::Done)
}

fn complete(one: &OneSub) -> Ended {
    let wave = open(one.wave.clone())?;
    let news = wave.complete(&one.sub);
    let news = news.map_err(|error| Fault::of(format!("cannot complete `{}`", one.sub), &error))?;
    if !news {
        ui::note(&format!("`{}` was complete already", one.sub));
    }
    Ok(Exit::Done)
}

fn print_brief(one: &OneSub, json: bool) -> Ended {
    let wave = open(one.wave.clone())?;
    let cannot = format!("cannot brief `{}` of wave `{}`", one.sub, one.wave);
    let file = pod_disk::shown(&wave.file(&one.sub));
    match wave.load(&one.sub) {
        Ok(Some(checkpoint)) if json => ui::json(&json!({
            "wave": one.wave, "sub": one.sub, "checkpointAt": checkpoint.at, "payload": checkpoint.payload,
            "brief": brief(&checkpoint),
        }))?,
        Ok(Some(checkpoint)) => ui::answer(&brief(&checkpoint))?,
        Ok(None) => {
            let hint = "it left none: dispatch it with its task alone, or look with `podctl wave orphans --root WORKTREE`";
            return Err(Fault::new(cannot, hint)
                .caused_by(format!("there is no checkpoint `{file}`"))
                .into());
        }
        Err(why) => {
            let hint = "look at the file; what is no checkpoint is not read";
            return Err(Fault::new(cannot, hint)
                .caused_by(format!("`{file}`: {why}"))
                .into());
        }
    }
    Ok(Exit::Done)
}

fn drain(wave: &Wave, worktree: &Path, json: bool) -> Ended {
    let drained = wave.drain(directory(worktree)?);
    let drained = drained.map_err(|error| Fault::of("cannot drain the worktree", &error))?;
    drained.warnings.iter().for_each(|warning| ui::note(warning));
    if json {
        ui::json(&json!({"ok": true, "drained": drained.drained, "kept": drained.kept}))?;
    } else {
        ui::answer(&format!("{} drained, {} kept\n", drained.drained, drained.kept))?;
    }
    Ok(Exit::Done)
}

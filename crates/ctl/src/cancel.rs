//! `podctl cancel`: written down first, signalled then.

use std::time::Duration;

use pod_core::{By, CancelEffect, Liveness, PodId, PodRecord, PodState, Policy};
use pod_process::Handle;
use pod_reconcile::{Settled, identity_of, settle_dead};

use crate::args::Cancel;
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault, Stop};
use crate::watch::Watch;
use crate::{each, ui};

/// How often a wait looks whether the wrapper has died meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Cancels pods.
pub(crate) fn run(context: &Context, args: &Cancel) -> Ended {
    // All are asked to end before the first one is waited for.
    let asked = each(&args.pods.ids, |id| cancel(context, id))?;
    if !args.wait {
        return Ok(asked);
    }
    let waited = each(&args.pods.ids, |id| wait(context, id))?;
    Ok(asked.max(waited))
}

fn cancel(context: &Context, id: &PodId) -> Ended {
    let now = context::now();
    let updated = context.registry()?.update(id, LOCK_WAIT, |record| {
        let effect = record.request_cancel(By::Operator, now);
        Ok::<_, pod_core::Refusal>((effect, record.clone()))
    });
    let (effect, record) = updated.map_err(|error| Fault::of(format!("cannot cancel pod `{id}`"), &error))?;
    match effect {
        CancelEffect::Cancelled => {}
        CancelEffect::AlreadyCancelled => ui::note(&format!("pod `{id}` was cancelled before")),
        CancelEffect::Done => ui::note(&format!("pod `{id}` is done, and stays so")),
        CancelEffect::Signal => signal(context, &record)?,
    }
    Ok(Exit::Done)
}

/// Tells what runs in a pod to end. Where its wrapper is dead, its outcome is recorded instead.
fn signal(context: &Context, record: &PodRecord) -> Result<(), Fault> {
    let id = &record.id;
    let Some(current) = &record.current else {
        return settle(context, record);
    };
    match identity_of(current).liveness() {
        Liveness::Alive => {
            let told = Handle::of(current.pid, current.start_ticks)
                .and_then(|handle| handle.map_or(Ok(false), |handle| handle.ask_to_end()));
            match told {
                Ok(true) => Ok(()),
                // It has gone since.
                Ok(false) => settle(context, record),
                Err(error) => Err(Fault::new(
                    format!(
                        "pod `{id}` will be cancelled, but its wrapper (pid {}) cannot be signalled",
                        current.pid
                    ),
                    "run this as the user who runs podd, or leave it to podd",
                )
                .because(&error)),
            }
        }
        Liveness::Dead { .. } => settle(context, record),
        Liveness::Unknown(why) => {
            ui::note(&format!(
                "the cancel of `{id}` is recorded, but nothing was signalled: {why}"
            ));
            Ok(())
        }
    }
}

fn settle(context: &Context, record: &PodRecord) -> Result<(), Fault> {
    let id = &record.id;
    // A configuration that cannot be read keeps nobody alive.
    let policy = context
        .policy(record)
        .unwrap_or_else(|_| Policy::of_layers(&[&record.policy]));
    let settled = settle_dead(&context.registry()?, id, &policy, None, Vec::new(), context::now);
    match settled {
        Ok(
            Settled::NothingToDo | Settled::StillHeld | Settled::GateEnded { .. } | Settled::Recorded { .. },
        ) => Ok(()),
        Ok(Settled::Unknown(why)) => {
            ui::note(&format!(
                "the cancel of `{id}` is recorded, but nothing was ended: {why}"
            ));
            Ok(())
        }
        Err(error) => Err(Fault::of(
            format!("pod `{id}` will be cancelled, but its dead wake-up stands"),
            &error,
        )),
    }
}

fn wait(context: &Context, id: &PodId) -> Ended {
    let registry = context.registry()?;
    let watch = Watch::on(&[&context.home().pods()]);
    loop {
        let record = match registry.read(id) {
            Ok(record) => record,
            // It was named before.
            Err(_) => return Ok(Exit::Failed),
        };
        if record.state.is_terminal() && record.current.is_none() {
            return Ok(Exit::Done);
        }
        watch.wait(LOOK_AGAIN);
        if record.state == PodState::Active
            && matches!(pod_reconcile::liveness_of(&record), Liveness::Dead { .. })
        {
            settle(context, &record).map_err(Stop::from)?;
        }
    }
}

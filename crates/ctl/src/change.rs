//! `podctl park`, `resume` and `edit`: changes of a record.

use pod_core::{By, ParkCode, PodId, PodRecord, PodState, PolicyError, Refusal};

use crate::args::{Edit, Ids, Park};
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault};
use crate::{each, retry, ui};

/// Parks pods.
pub(crate) fn park(context: &Context, args: &Park) -> Ended {
    each(&args.pods.ids, |id| {
        let (changed, state) = update(context, id, "park", |record| {
            let reason = args.reason.clone();
            let changed = record.park(ParkCode::Operator, reason, By::Operator, context::now())?;
            Ok((changed, record.state))
        })?;
        if !changed {
            ui::note(&format!("pod `{id}` is parked by an operator already"));
        } else if state == PodState::Active {
            ui::note(&format!("pod `{id}` is parked once its wake-up has ended"));
        }
        Ok(Exit::Done)
    })
}

/// Unparks pods.
pub(crate) fn resume(context: &Context, args: &Ids) -> Ended {
    each(&args.ids, |id| {
        if let Some(goes_on) = retry::resume(context, id)? {
            return Ok(if goes_on { Exit::Done } else { Exit::No });
        }
        let changed = update(context, id, "resume", |record| record.resume(context::now()))?;
        if !changed {
            ui::note(&format!("pod `{id}` is not parked"));
        }
        Ok(Exit::Done)
    })
}

fn update<T>(
    context: &Context,
    id: &PodId,
    verb: &str,
    change: impl FnOnce(&mut PodRecord) -> Result<T, Refusal>,
) -> Result<T, Fault> {
    let updated = context.registry()?.update(id, LOCK_WAIT, change);
    updated.map_err(|error| Fault::of(format!("cannot {verb} pod `{id}`"), &error))
}

/// Changes a pod's goal and policy.
pub(crate) fn edit(context: &Context, args: &Edit) -> Ended {
    let id = &args.id;
    let nothing = args.goal.is_none() && args.agent.is_none() && args.model.is_none();
    if nothing && args.sets.is_empty() && args.unsets.is_empty() {
        let hint = "give --goal, --agent, --model, --set KEY=VALUE or --unset KEY";
        return Err(Fault::usage(format!("nothing to change in pod `{id}`"), hint).into());
    }
    if args.goal.as_ref().is_some_and(|goal| goal.trim().is_empty()) {
        return Err(Fault::new("the goal is empty", "say in a sentence what you want").into());
    }
    // Tried on a copy first: what cannot be set is wrong usage, whatever the pod is.
    let mut trial = context.read(id)?;
    apply(args, &mut trial)
        .map_err(|error| Fault::of(format!("cannot edit pod `{id}`"), &error).into_usage())?;
    let named = args.agent.is_some() || args.sets.iter().any(|(key, _)| key == "agent");
    if let Some(agent) = trial.policy.agent.as_ref().filter(|_| named) {
        context::defined(context, agent)?;
    }
    let running = update(context, id, "edit", |record| {
        if record.state.is_terminal() {
            let (pod, state) = (id.to_string(), record.state);
            return Err(Refusal::Terminal { pod, state });
        }
        // The same as above: a policy takes or refuses a text whatever it holds.
        let _applied = apply(args, record);
        record.updated_at = context::now();
        Ok(record.state == PodState::Active)
    })?;
    if running {
        ui::note("its wake-up goes on as it is; the change holds from the next one");
    }
    Ok(Exit::Done)
}

fn apply(args: &Edit, record: &mut PodRecord) -> Result<(), PolicyError> {
    if let Some(goal) = &args.goal {
        goal.trim().clone_into(&mut record.goal);
    }
    let policy = &mut record.policy;
    if args.agent.is_some() {
        policy.agent.clone_from(&args.agent);
    }
    if args.model.is_some() {
        policy.model.clone_from(&args.model);
    }
    for key in &args.unsets {
        policy.unset(key)?;
    }
    for (key, value) in &args.sets {
        policy.set(key, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Cli, Command};
    use crate::words::tests::record;

    use super::*;

    fn edit(line: &[&str]) -> Edit {
        match Cli::try_parse_from([&["podctl", "edit", "p"], line].concat())
            .unwrap()
            .command
        {
            Command::Edit(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_set_beats_what_is_unset() {
        let mut pod = record();
        let args = edit(&[
            "--set",
            "cancelGrace=1s",
            "--set",
            "model=a=b",
            "--unset",
            "cancelGrace",
            "--goal",
            " G ",
        ]);
        apply(&args, &mut pod).unwrap();
        assert_eq!(pod.policy.cancel_grace, Some(pod_core::Span::secs(1)));
        assert_eq!(
            (pod.policy.model.as_deref(), pod.goal.as_str()),
            (Some("a=b"), "G")
        );
        apply(&edit(&["--unset", "model"]), &mut pod).unwrap();
        assert_eq!(pod.policy.model, None);
    }

    #[test]
    fn a_misspelt_key_has_its_neighbour_as_the_hint() {
        let error = apply(&edit(&["--set", "canselGrace=1s"]), &mut record()).unwrap_err();
        let text = Fault::of("cannot edit pod `p`", &error).text();
        assert!(text.ends_with("hint: did you mean `cancelGrace`?\n"), "{text}");
    }
}

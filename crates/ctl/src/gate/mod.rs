//! `podctl gate`: runs gates, and shows what they came to.

mod pin;
mod run;
mod show;
mod status;

use pod_core::{Current, CurrentKind, GateState, PodId, PodRecord, Refusal};
use pod_reconcile::{Pinned, PodFiles};

use crate::args::GateCommand;
use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::{Ended, Exit, Fault};
use crate::ui;

pub(crate) use pin::pin;
pub(crate) use run::run_gate;
pub(crate) use status::line;

/// Works on the gates of a pod.
pub(crate) fn run(context: &Context, command: &GateCommand) -> Ended {
    match command {
        GateCommand::Run { id, mode, format } => run::run(context, id, *mode, format.json),
        GateCommand::Status { id, format } => status::run(context, id, format.json),
        GateCommand::Show { id, mode, format } => show::run(context, id, *mode, format.json),
        GateCommand::Reload { id } => reload(context, id),
    }
}

/// A gated pod with its pinned gates.
pub(crate) struct Gated {
    pub(crate) record: PodRecord,
    pub(crate) state: GateState,
    pub(crate) pinned: Pinned,
    pub(crate) files: PodFiles,
}

impl Gated {
    pub(crate) fn read(context: &Context, id: &PodId) -> Result<Self, Fault> {
        let record = context.read(id)?;
        let Some(state) = record.gates.clone() else {
            let hint =
                format!("write agents-pod.toml into the project and pin it: `podctl gate reload {id}`");
            return Err(Fault::new(format!("pod `{id}` is ungated"), hint));
        };
        let pinned = Pinned::of(&state).map_err(|why| {
            let hint = format!("correct agents-pod.toml, then `podctl gate reload {id}`");
            Fault::new(format!("the pinned gates of pod `{id}` cannot be read"), hint).caused_by(why)
        })?;
        let files = PodFiles::new(&record.project, id);
        Ok(Self {
            record,
            state,
            pinned,
            files,
        })
    }
}

/// Names what runs in a pod.
pub(crate) fn busy(id: &PodId, current: &Current) -> Refusal {
    let (pod, n, pid) = (id.to_string(), current.n, current.pid);
    match current.kind {
        CurrentKind::Wake => Refusal::Awake { pod, n, pid },
        CurrentKind::Gate => Refusal::GateRunning { pod, pid },
    }
}

fn reload(context: &Context, id: &PodId) -> Ended {
    let record = context.read(id)?;
    let cannot = format!("cannot pin the gates of pod `{id}`");
    let Some(mut state) = pin(std::path::Path::new(&record.project), &cannot)? else {
        let hint = "define at least one gate: `[gates.fast]` with `steps = [{ name = \"…\", run = \"…\" }]`";
        return Err(Fault::new(cannot, hint)
            .caused_by("agents-pod.toml defines no gate")
            .into());
    };
    let updated = context.registry()?.update(id, LOCK_WAIT, |record| {
        if record.state.is_terminal() {
            let (pod, state) = (id.to_string(), record.state);
            return Err(Refusal::Terminal { pod, state });
        }
        if let Some(current) = &record.current {
            return Err(busy(id, current));
        }
        state.iteration = record.gates.as_ref().map_or(0, |gates| gates.iteration);
        record.gates = Some(state);
        record.stage = Some(pod_core::Stage::Building);
        record.updated_at = context::now();
        Ok(())
    });
    updated.map_err(|error| Fault::of(cannot, &error))?;
    ui::note("agents-pod.toml, the repository's hooks and HEAD are pinned as they are now");
    Ok(Exit::Done)
}

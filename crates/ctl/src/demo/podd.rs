//! The demo's own podd, which does not outlive it.

use std::time::{Duration, Instant};

use pod_core::{By, PodId};
use pod_process::{Launched, Output, Reaped, Sig};

use crate::context::{self, Context, LOCK_WAIT};
use crate::fault::Fault;

/// How long podd and a wake-up may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(10);

/// A podd that ends, with what it woke, when this is dropped.
pub(crate) struct Podd {
    launched: Launched,
    output: Output,
    context: Context,
    id: PodId,
}

impl Podd {
    /// Starts podd on the demo's home, away from the terminal: Ctrl-C reaches us, and we end it in order.
    pub(crate) fn start(context: &Context, id: &PodId) -> Result<Self, Fault> {
        let cannot = "cannot start podd";
        let program = pod_process::sibling("podd").map_err(|error| {
            Fault::new(cannot, "install agents-pod's programs beside one another").because(&error)
        })?;
        let home = context.home();
        // Its own configuration alone: the user's is for real work.
        let args = [
            "--home".into(),
            home.root().into(),
            "--config".into(),
            home.config().into(),
        ];
        let (launched, output) =
            pod_process::launch_detached(&program, &args).map_err(|error| Fault::of(cannot, &error))?;
        Ok(Self {
            launched,
            output,
            context: context.clone(),
            id: id.clone(),
        })
    }

    /// Whether it goes on; else what it said.
    pub(crate) fn is_well(&self) -> Result<(), Fault> {
        if self.launched.handle.is_live() {
            return Ok(());
        }
        let text = self.output.text();
        let last = text.lines().last().unwrap_or("it said nothing").to_owned();
        Err(Fault::new("the demo's podd has ended", "run `podctl doctor`").caused_by(last))
    }

    /// Cancels what still runs. podd itself would leave it running, as it has to.
    fn end_wake_up(&self) {
        let Ok(registry) = self.context.registry() else {
            return;
        };
        let cancelled = registry.update(&self.id, LOCK_WAIT, |record| {
            let _effect = record.request_cancel(By::Operator, context::now());
            Ok::<_, pod_core::Refusal>(record.clone())
        });
        let Ok(record) = cancelled else { return };
        if let Some(current) = &record.current
            && let Ok(Some(wrapper)) = pod_process::Handle::of(current.pid, current.start_ticks)
        {
            let _told = wrapper.ask_to_end();
        }
        wait(|| {
            registry
                .read(&self.id)
                .is_ok_and(|record| record.current.is_some())
        });
    }
}

fn wait(goes_on: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while goes_on() && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
}

impl Drop for Podd {
    fn drop(&mut self) {
        // podd first: it must wake nothing any more.
        let podd = &self.launched.handle;
        let _told = podd.signal(Sig::TERM);
        wait(|| podd.is_live());
        let _killed = podd.signal(Sig::KILL);
        wait(|| pod_process::reap(podd.pid()) == Reaped::Lives);
        self.end_wake_up();
    }
}

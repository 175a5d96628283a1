//! How running wake-ups get on, as this observer has seen them on a clock that no step moves.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use pod_checkpoints::{Fingerprint, Look, worktree};
use pod_core::{PodId, PodRecord, Policy, Pulse};
use pod_disk::FileStamp;

use crate::files::PodFiles;

/// What moves when an agent gets on. CPU time is looked at apart: a little of it is no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Signs {
    events: Option<FileStamp>,
    output: Option<FileStamp>,
    documents: [Option<FileStamp>; 3],
}

#[derive(Debug)]
struct Watched {
    token: String,
    seen_at: Duration,
    watched: Duration,
    heartbeat: Option<FileStamp>,
    silent: Duration,
    signs: Signs,
    looked_at: Duration,
    quiet: Duration,
    cpu_at_quiet: Option<Duration>,
    worktree: Option<Fingerprint>,
    /// A look at the worktree that is being taken.
    look: Option<mpsc::Receiver<Option<Fingerprint>>>,
    stalled: Duration,
}

/// Remembers what was seen of each running wake-up.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: HashMap<PodId, Watched>,
}

impl Watch {
    /// Forgets the wake-ups that no longer run.
    pub(crate) fn keep_only(&mut self, running: impl Fn(&PodId) -> bool) {
        self.seen.retain(|id, _| running(id));
    }

    /// Looks at a running wake-up at `now`, on the monotonic clock.
    ///
    /// What lies between two looks counts as one heartbeat interval at most: an observer that was stopped
    /// itself has seen nothing meanwhile.
    pub(crate) fn look(&mut self, record: &PodRecord, policy: &Policy, now: Duration) -> Pulse {
        let Some(current) = &record.current else {
            return Pulse::default();
        };
        let files = PodFiles::new(&record.project, &record.id);
        let fresh = |watched: &&mut Watched| watched.token == current.token.reveal();
        let Some(watched) = self.seen.get_mut(&record.id).filter(fresh) else {
            let token = current.token.reveal().to_owned();
            self.seen
                .insert(record.id.clone(), Watched::begin(token, &files, now));
            return Pulse::default();
        };
        let elapsed = now
            .saturating_sub(watched.seen_at)
            .min(policy.heartbeat_interval.0);
        watched.seen_at = now;
        watched.watched += elapsed;
        let heartbeat = stamp_of(&files, &files.layout().heartbeat());
        watched.silent = if heartbeat == watched.heartbeat {
            watched.silent + elapsed
        } else {
            Duration::ZERO
        };
        watched.heartbeat = heartbeat;
        watched.look_for_progress(record, policy, &files, elapsed, current.pid);
        Pulse {
            watched: watched.watched,
            silent: watched.silent,
            stalled: watched.stalled,
        }
    }
}

/// How long a project is looked at.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

fn look_beside(files: &PodFiles) -> mpsc::Receiver<Option<Fingerprint>> {
    let (done, wait) = mpsc::channel();
    let project = files.layout().project().to_owned();
    std::thread::spawn(move || {
        let look = Look {
            limit: LOOK_LIMIT,
            mark: None,
        };
        // Nobody waits any more if the wake-up has ended meanwhile.
        let _sent = done.send(worktree(&project, &look).map(|found| found.fingerprint));
    });
    wait
}

fn stamp_of(files: &PodFiles, place: &std::path::Path) -> Option<FileStamp> {
    files.stat(place).ok().flatten()
}

impl Signs {
    fn read(files: &PodFiles, n: u32) -> Self {
        let layout = files.layout();
        Self {
            events: stamp_of(files, &layout.events(n)),
            output: stamp_of(files, &layout.output()),
            documents: [layout.handoff(), layout.tasks(), layout.decisions()]
                .map(|place| stamp_of(files, &place)),
        }
    }
}

impl Watched {
    fn begin(token: String, files: &PodFiles, now: Duration) -> Self {
        Self {
            token,
            seen_at: now,
            watched: Duration::ZERO,
            heartbeat: stamp_of(files, &files.layout().heartbeat()),
            silent: Duration::ZERO,
            signs: Signs {
                events: None,
                output: None,
                documents: [None; 3],
            },
            looked_at: Duration::ZERO,
            quiet: Duration::ZERO,
            cpu_at_quiet: None,
            worktree: None,
            look: None,
            stalled: Duration::ZERO,
        }
    }

    /// The tree's CPU time and the worktree cost more to look at than a file, so they are looked at rarely,
    /// and only while everything else stands still.
    fn look_for_progress(
        &mut self,
        record: &PodRecord,
        policy: &Policy,
        files: &PodFiles,
        elapsed: Duration,
        wrapper: i32,
    ) {
        let limit = policy.stall_timeout.0;
        self.quiet += elapsed;
        if self.watched.saturating_sub(self.looked_at) < (limit / 20).min(Duration::from_secs(30)) {
            return;
        }
        self.looked_at = self.watched;
        let n = record.wake().map_or(0, |current| current.n);
        let signs = Signs::read(files, n);
        let cpu = pod_process::cpu_time(wrapper).ok();
        if signs != self.signs || self.worked(cpu) {
            self.signs = signs;
            self.start_over(cpu);
            return;
        }
        if self.quiet < limit / 2 {
            return;
        }
        // A change can be seen only against an earlier look: the first is taken half way. Looks are taken
        // beside the pass, which does not wait for a project.
        match (&self.worktree, self.look.as_ref().map(mpsc::Receiver::try_recv)) {
            (_, Some(Err(mpsc::TryRecvError::Empty))) => {}
            (None, None) => self.look = Some(look_beside(files)),
            (Some(_), None) if self.quiet >= limit => self.look = Some(look_beside(files)),
            (Some(_), None) => {}
            (None, Some(Ok(Some(first)))) => {
                self.worktree = Some(first);
                self.look = None;
            }
            (Some(before), Some(Ok(Some(after)))) if *before == after => {
                self.stalled = self.quiet;
                self.look = None;
            }
            // What moved is progress, and what cannot be looked at proves nothing.
            (_, Some(Ok(_) | Err(mpsc::TryRecvError::Disconnected))) => self.start_over(cpu),
        }
    }

    /// Whether the tree used more than 1 % of a core since it became quiet. Unknown counts as work.
    fn worked(&self, cpu: Option<Duration>) -> bool {
        match (self.cpu_at_quiet, cpu) {
            (Some(before), Some(now)) => {
                let used = now.saturating_sub(before);
                used > self.quiet / 100 && used > Duration::from_millis(100)
            }
            (None, _) | (_, None) => true,
        }
    }

    fn start_over(&mut self, cpu: Option<Duration>) {
        self.quiet = Duration::ZERO;
        self.stalled = Duration::ZERO;
        self.cpu_at_quiet = cpu;
        self.worktree = None;
        self.look = None;
    }
}

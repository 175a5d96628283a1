//! One gate run: the steps of one gate, under the same supervision as an agent, bound to the content that they
//! judged.

mod step;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use pod_config::definition_hash;
use pod_core::{
    GateEvidence, GateMode, GateOverall, GateRun, HomeLayout, SCHEMA_VERSION, Settlement, StepDefinition,
    StepRecord, Timestamp, Usage, error_chain,
};
use pod_disk::{DiskError, Durability, OpenKind};
use pod_process::{Cgroup, Recipe};
use pod_reconcile::{Pinned, WorktreeLook, hashed_evidence, look_at_worktree, now};
use pod_registry::UpdateError;
use signal_hook_tokio::Signals;
use std::process::ExitCode;
use tokio::net::unix::pipe::Receiver;

use crate::NOT_RECORDED;
use crate::claim::Claimed;
use crate::conclude::OUTCOME_WAIT;
use crate::heart::{Heart, beside};
use crate::machine::{Ending, Limits};
use crate::prepare::WAKE_UP_VARIABLES;
use crate::run::{Ran, Runner, told_to_end};
use crate::start::{Running, Stdout};
use step::StepLog;

/// Runs a gate that was claimed.
pub(crate) async fn run_gate(
    claimed: &Claimed,
    home: &HomeLayout,
    mode: GateMode,
    mut signals: Signals,
) -> ExitCode {
    let group = Cgroup::place(&format!(
        "agents-pod-{}-gate-{}",
        claimed.record.id,
        std::process::id()
    ));
    claimed.announce(group.as_deref());
    let heart = Heart::new(&claimed.files, claimed.policy.heartbeat_interval.0);
    let group = group.and_then(Cgroup::create_at);
    let mut gate = Gate {
        claimed,
        home,
        heart: &heart,
        signals: &mut signals,
        mode,
        started_at: now(),
    };
    let ran = gate.run(group.as_ref()).await;
    if let Some(group) = group {
        group.remove();
    }
    let (run, line) = match ran {
        Ok(evidence) => {
            // What is on the disk is what counts from now on.
            let hash = hashed_evidence(&claimed.files, mode)
                .filter(|(written, _)| *written == evidence)
                .map(|(_, hash)| hash);
            let run = GateRun::of(&evidence, hash.unwrap_or_default());
            let moved = if run.moved {
                ", but the worktree moved while it ran"
            } else {
                ""
            };
            let line = format!("gate {mode}: {}{moved}", run.overall);
            (Some(run), line)
        }
        Err(why) => (None, format!("gate {mode}: no evidence: {why}")),
    };
    // What a person reads is no reason to lose a verdict.
    let _noted = claimed.files.append_output(&format!("--- {line} ---\n"));
    record_run(claimed, run)
}

fn record_run(claimed: &Claimed, run: Option<GateRun>) -> ExitCode {
    let token = &claimed.current.token;
    let recorded = claimed
        .registry
        .update(&claimed.record.id, OUTCOME_WAIT, |record| {
            Ok::<Settlement, std::convert::Infallible>(record.settle_gate(token, run.clone(), now()))
        });
    match recorded {
        Ok(Settlement::Recorded) => {
            let _removed = claimed.files.remove(&claimed.files.layout().wrapper());
            ExitCode::SUCCESS
        }
        Ok(Settlement::Fenced) => ExitCode::from(NOT_RECORDED),
        Err(UpdateError::Refused(never)) => match never {},
        Err(UpdateError::Registry(error)) => not_recorded(claimed, &error_chain(&error)),
        Err(UpdateError::Read(error)) => not_recorded(claimed, &error_chain(&error)),
    }
}

fn not_recorded(claimed: &Claimed, error: &str) -> ExitCode {
    let _noted = claimed
        .files
        .append_output(&format!("the gate's verdict could not be recorded: {error}\n"));
    ExitCode::from(NOT_RECORDED)
}

struct Gate<'a> {
    claimed: &'a Claimed,
    home: &'a HomeLayout,
    heart: &'a Heart,
    signals: &'a mut Signals,
    mode: GateMode,
    started_at: Timestamp,
}

impl Gate<'_> {
    /// Runs the steps. An error says why there is no evidence.
    async fn run(&mut self, group: Option<&Cgroup>) -> Result<GateEvidence, String> {
        let state = self.claimed.record.gates.as_ref().ok_or("the pod is ungated")?;
        let definitions = Pinned::of(state)?.definitions;
        let mode = self.mode;
        let steps = definitions
            .gates
            .get(&mode)
            .ok_or_else(|| format!("there is no gate `{mode}`"))?;
        pod_process::become_subreaper().map_err(|error| format!("orphans cannot be adopted: {error}"))?;
        self.prepare_places().map_err(|error| error_chain(&error))?;
        let before = self.look();
        let mut records: Vec<StepRecord> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            if told_to_end(self.signals) {
                return Err("it was told to end".to_owned());
            }
            let record = self.step(at, step, group).await?;
            let overall = record.overall();
            records.push(record);
            if overall != GateOverall::Pass {
                break;
            }
        }
        let after = self.look();
        let overall = records.last().map_or(GateOverall::Error, StepRecord::overall);
        let head = |look: &WorktreeLook| {
            look.content
                .as_ref()
                .ok()
                .and_then(|content| content.head.clone())
        };
        let evidence = GateEvidence {
            schema_version: SCHEMA_VERSION,
            mode,
            overall,
            steps: records,
            input_diff_hash: before.diff_hash().map(str::to_owned),
            output_diff_hash: after.diff_hash().map(str::to_owned),
            input_checkpoint_id: before.id.clone(),
            input_worktree_validity: before.validity(),
            gate_definition_hash: definition_hash(steps),
            head_before: head(&before),
            head_after: head(&after),
            started_at: self.started_at,
            finished_at: now(),
        };
        self.write(&evidence)
            .map_err(|error| format!("it could not be written: {}", error_chain(&error)))?;
        Ok(evidence)
    }

    fn prepare_places(&self) -> Result<(), DiskError> {
        let (files, layout) = (&self.claimed.files, self.claimed.files.layout());
        files.ensure_base()?;
        files.create_dirs(&layout.gate_logs())?;
        files.create_dirs(&layout.gate_history())
    }

    /// The history first: what is newest is complete then.
    fn write(&self, evidence: &GateEvidence) -> Result<(), DiskError> {
        let (files, layout) = (&self.claimed.files, self.claimed.files.layout());
        // A step that cleans the project of what git ignores takes our directories along.
        self.prepare_places()?;
        let name = format!("{}-{}.json", self.stamp(), self.mode);
        files.write_json(&layout.gate_history().join(name), evidence, Durability::Durable)?;
        files.write_json(&layout.latest_gate(self.mode), evidence, Durability::Durable)
    }

    /// The time of the run, as a file name can hold it.
    fn stamp(&self) -> String {
        self.started_at.to_string().replace([':', '-', '.'], "")
    }

    fn look(&self) -> WorktreeLook {
        let (files, record) = (self.claimed.files.clone(), self.claimed.record.clone());
        let token = self.claimed.current.token.clone();
        let looking = beside(move || {
            let state = record.gates.as_ref();
            state.map(|state| look_at_worktree(&files, state, Some(&token)))
        });
        let looked = self.heart.wait_for(&looking);
        looked.unwrap_or_else(|| WorktreeLook {
            content: Err("the pod is ungated".to_owned()),
            violations: Vec::new(),
            id: None,
        })
    }

    async fn step(
        &mut self,
        at: usize,
        step: &StepDefinition,
        group: Option<&Cgroup>,
    ) -> Result<StepRecord, String> {
        let name = format!("{}-{}-{}.log", self.stamp(), self.mode, at + 1);
        let place = self.claimed.files.layout().gate_logs().join(&name);
        let _made = self.prepare_places();
        let opened = self.claimed.files.open(&place, OpenKind::Append);
        let mut log = StepLog::new(
            opened.map_err(|error| error_chain(&error)),
            self.claimed.policy.max_gate_output.0,
        );
        let began = tokio::time::Instant::now();
        let mut record = StepRecord {
            name: step.name.clone(),
            exit_code: None,
            signal: None,
            timed_out: false,
            error: None,
            duration_ms: 0,
            log: format!("logs/{name}"),
        };
        let running = match self.start(step, group) {
            Ok(running) => running,
            Err(why) => {
                record.error = Some(why);
                return Ok(record);
            }
        };
        let limits = Limits {
            wake_timeout: step.timeout.0,
            // A step has no last record behind which it could be silent.
            settle_grace: std::time::Duration::MAX,
            ..(&self.claimed.policy).into()
        };
        let mut runner = Runner {
            claimed: self.claimed,
            heart: self.heart,
            signals: self.signals,
            streams: &mut log,
            end_requested: false,
            start_head: None,
            group: group.map(|group| group.dir().to_owned()),
            exited: false,
            noted: Usage::default(),
        };
        let ran = runner.see_out(running, group, limits).await;
        log.finish();
        record.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        ended(&ran, &mut record)?;
        Ok(record)
    }

    fn start(&self, step: &StepDefinition, group: Option<&Cgroup>) -> Result<Running, String> {
        let text = |error: std::io::Error| error.to_string();
        let (stdout, steps_stdout) = pod_process::pipe().map_err(text)?;
        let (stderr, steps_stderr) = pod_process::pipe().map_err(text)?;
        let stdout = Receiver::from_owned_fd(stdout).map_err(text)?;
        let stderr = Receiver::from_owned_fd(stderr).map_err(text)?;
        let recipe = Recipe {
            program: PathBuf::from("/bin/sh"),
            args: ["-c", &step.run].map(OsString::from).into(),
            env: self.environment().into_iter().collect(),
            dir: self.claimed.files.layout().project().to_owned(),
            stdin: None,
            stdout: steps_stdout,
            stderr: steps_stderr,
        };
        let launched = pod_process::launch(recipe, group).map_err(|error| error_chain(&error))?;
        self.claimed
            .announce_agent(&launched.handle, group.map(Cgroup::dir), None, Usage::default());
        Ok(Running {
            agent: launched.handle,
            stdout: Some(Stdout::Pipe(stdout)),
            stderr: Some(stderr),
        })
    }

    /// What a step inherits, marked as the pod's, and nothing of an outer wake-up.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for name in WAKE_UP_VARIABLES {
            env.remove(OsStr::new(name));
        }
        let id = self.claimed.record.id.as_str();
        let token = self.claimed.current.token.reveal();
        for (name, value) in [
            ("AGENTS_POD_POD_ID", OsStr::new(id)),
            ("AGENTS_POD_HOME", self.home.root().as_os_str()),
            ("AGENTS_POD_WAKE_TOKEN", OsStr::new(token)),
            ("AGENTS_POD_GATE", OsStr::new(self.mode.word())),
        ] {
            env.insert(name.into(), value.into());
        }
        env
    }
}

/// How a step ended. One that somebody wanted ended is no evidence.
fn ended(ran: &Ran, record: &mut StepRecord) -> Result<(), String> {
    match ran.ending {
        Some(Ending::Requested) => return Err("it was told to end".to_owned()),
        Some(Ending::Limit(_)) => record.timed_out = true,
        Some(Ending::Settled) | None => {}
    }
    match &ran.exit.status {
        Some(pod_core::ExitStatus::Code(code)) => record.exit_code = Some(*code),
        Some(pod_core::ExitStatus::Signal(signal)) => record.signal = Some(signal.clone()),
        None => record.error = Some("its end could not be seen".to_owned()),
    }
    Ok(())
}

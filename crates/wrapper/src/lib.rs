//! One wake-up, from claim to recorded outcome.
//!
//! The order is fixed: trap signals, refuse, take the wake-up's lock, claim, write down who we are, start the
//! agent, read it to its end, sweep what it left, judge, write result.json, record. Whatever happens behind
//! the claim ends in an outcome, here or by whoever finds us dead.

#![forbid(unsafe_code)]

mod args;
mod check;
mod claim;
mod conclude;
mod ears;
mod framer;
mod gate;
mod gate_words;
mod handoff;
mod heart;
mod human_log;
mod log_file;
mod machine;
mod overlay;
mod prepare;
mod prompt;
mod prune;
mod raw_log;
mod refusal;
mod run;
mod session;
mod start;
mod streams;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use pod_config::Config;
use pod_core::HomeLayout;
use pod_process::Cgroup;
use pod_reconcile::header;
use pod_registry::Registry;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook_tokio::Signals;

use crate::args::{Invocation, parse};
use crate::claim::{Claimed, claim};
use crate::conclude::{Before, End, conclude};
use crate::heart::{Heart, beside};
use crate::refusal::Refused;
use crate::run::{Runner, told_to_end};
use crate::streams::Streams;

const NOT_RECORDED: u8 = 1;
const NOT_CLAIMED: u8 = 2;

/// Runs pod-wrapper with the arguments behind its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let invocation = match parse(args) {
        Ok(invocation) => invocation,
        Err(refused) => return say(&refused),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            return say(&Refused::because(
                "cannot start",
                &error,
                "are there file descriptors left?",
            ));
        }
    };
    runtime.block_on(async {
        // Trapped first, so that a signal between here and the agent's start is not missed.
        let signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD, SIGXFSZ]);
        match signals {
            Ok(signals) => wake(&invocation, signals).await,
            Err(error) => say(&Refused::because(
                "cannot trap signals",
                &error,
                "are there file descriptors left?",
            )),
        }
    })
}

/// A refusal's text goes to stderr. One that nobody reads changes nothing.
fn say(refused: &Refused) -> ExitCode {
    let _written = std::io::stderr().write_all(refused.text().as_bytes());
    ExitCode::from(NOT_CLAIMED)
}

async fn wake(invocation: &Invocation, mut signals: Signals) -> ExitCode {
    let (home, request) = match invocation {
        Invocation::Wake {
            home,
            request,
            config,
        } => (home, (request, config)),
        Invocation::Check { home, agent } => {
            let checked = check::check(home, agent);
            let printed = writeln!(std::io::stdout(), "{checked}");
            return ExitCode::from(u8::from(printed.is_err()));
        }
        Invocation::Print(text) => {
            let printed = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::from(u8::from(printed.is_err()));
        }
    };
    let (request, explicit) = request;
    if std::env::var_os("AGENTS_POD_WAKE_TOKEN").is_some() {
        let error = match request.gate {
            Some(mode) => format!(
                "cannot run gate {mode} of pod `{}` from within a wake-up",
                request.pod
            ),
            None => format!("cannot wake pod `{}` from within a wake-up", request.pod),
        };
        return say(&Refused::new(
            error,
            format!("`podctl wake {}` makes it due, and podd wakes it", request.pod),
        ));
    }
    let claimed = open(home, explicit.as_deref()).and_then(|(registry, config)| {
        if told_to_end(&mut signals) {
            return Err(Refused::new(
                "told to end before anything was claimed",
                "wake it again",
            ));
        }
        claim(request, registry, &config)
    });
    match claimed {
        Ok(claimed) if let Some(mode) = request.gate => gate::run_gate(&claimed, home, mode, signals).await,
        Ok(claimed) => see_through(&claimed, home, signals).await,
        Err(refused) => say(&refused),
    }
}

fn open(home: &HomeLayout, explicit: Option<&std::path::Path>) -> Result<(Registry, Config), Refused> {
    let cannot = "cannot open the home";
    let registry =
        Registry::open(home.clone()).map_err(|error| Refused::because(cannot, &error, error.hint()))?;
    let config = Config::load(home, explicit, &|name| std::env::var_os(name))
        .map_err(|error| Refused::because("cannot read the configuration", &error, error.hint()))?;
    Ok((registry, config))
}

/// From here on the wake-up is ours, and ends in an outcome.
async fn see_through(claimed: &Claimed, home: &HomeLayout, mut signals: Signals) -> ExitCode {
    let (n, layout) = (claimed.current.n, claimed.files.layout());
    let group = Cgroup::place(&format!(
        "agents-pod-{}-{n}-{}",
        claimed.record.id,
        std::process::id()
    ));
    claimed.announce(group.as_deref());
    let heart = Heart::new(&claimed.files, claimed.policy.heartbeat_interval.0);
    // A directory that cannot be made shows when the first file in it is written.
    let made = claimed
        .files
        .create_dirs(&layout.wakeup(n))
        .and_then(|()| claimed.files.create_dirs(&layout.docs()));
    // Looked at beside the preparation, which touches neither the documents nor the worktree.
    let (files, token) = (claimed.files.clone(), claimed.current.token.clone());
    let record = claimed.record.clone();
    let before = beside(move || Before::take(&files, &record, &token));
    let preparation = prepare::prepare(claimed, home);
    let mut streams = Streams::open(&claimed.files, n);
    let shown = if preparation.agent.kind.is_empty() {
        claimed.current.agent.as_str()
    } else {
        &preparation.agent.kind
    };
    streams.human.note(&header(n, claimed.current.claimed_at, shown));
    if let Some(note) = &preparation.agent.note {
        streams.human.note(note);
    }
    if let Err(error) = made {
        streams.human.note(&pod_core::error_chain(&error));
    }
    let before = heart.wait_for(&before);
    let end_requested = told_to_end(&mut signals);
    let mut runner = Runner {
        claimed,
        heart: &heart,
        signals: &mut signals,
        streams: &mut streams,
        end_requested,
        start_head: before.head(),
        group: None,
        exited: false,
        noted: pod_core::Usage::default(),
    };
    let group = group.and_then(Cgroup::create_at);
    let adopts = pod_process::become_subreaper();
    let ran = match (preparation.start, adopts) {
        (Ok(_), _) if runner.end_requested => Err(pod_core::StartFailure::Spawn(
            "told to end before the start".to_owned(),
        )),
        (Ok(prepared), Ok(())) => runner.run(prepared, group.as_ref()).await,
        (Ok(_), Err(error)) => Err(pod_core::StartFailure::Spawn(format!(
            "orphans cannot be adopted: {error}"
        ))),
        (Err(failure), _) => Err(failure),
    };
    let end_requested = runner.end_requested;
    if let Some(group) = group {
        group.remove();
    }
    if let Err(failure) = &ran {
        streams.human.note(&conclude::declared_nothing(failure));
    }
    let end = End {
        agent: &preparation.agent,
        ran,
        end_requested,
    };
    if conclude(claimed, &heart, &mut streams, &before, end) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_RECORDED)
    }
}

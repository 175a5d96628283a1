//! Starts the agent, with its pipes.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use pod_core::{StartFailure, StartHead, Usage, error_chain};
use pod_process::{Cgroup, Handle, LaunchError, Recipe};
use tokio::net::unix::pipe::Receiver;

use crate::claim::Claimed;
use crate::prepare::Prepared;

/// Where an agent's stdout comes from.
pub(crate) enum Stdout {
    Pipe(Receiver),
    /// A file that grows, of which nothing says when; and whether there was nothing new at the last look.
    File(File, bool),
}

/// How long a file is left alone between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The descriptors of a running agent.
pub(crate) struct Running {
    pub(crate) agent: Handle,
    pub(crate) stdout: Option<Stdout>,
    pub(crate) stderr: Option<Receiver>,
}

/// Starts the agent of a prepared wake-up.
pub(crate) fn start(
    prepared: Prepared,
    claimed: &Claimed,
    group: Option<&Cgroup>,
    head: Option<&StartHead>,
) -> Result<Running, StartFailure> {
    let other = |error: std::io::Error| StartFailure::Spawn(error.to_string());
    let stdin = match &prepared.command.stdin {
        pod_adapters::StdinPlan::Null => None,
        pod_adapters::StdinPlan::File(path) => {
            let opened = claimed.files.open(path, pod_disk::OpenKind::Read);
            Some(
                opened
                    .map_err(|error| StartFailure::Spawn(error_chain(&error)))?
                    .into(),
            )
        }
    };
    let (stdout, agent_stdout) = match prepared.command.stdout {
        pod_adapters::StdoutPlan::Pipe => {
            let (ours, agents) = pod_process::pipe().map_err(other)?;
            (
                Stdout::Pipe(Receiver::from_owned_fd(ours).map_err(other)?),
                agents,
            )
        }
        pod_adapters::StdoutPlan::File => {
            let place = claimed.files.layout().events(claimed.current.n);
            let open = |kind| {
                let opened = claimed.files.open(&place, kind);
                opened.map_err(|error| StartFailure::Spawn(error_chain(&error)))
            };
            let agents = open(pod_disk::OpenKind::Append)?;
            (
                Stdout::File(open(pod_disk::OpenKind::Read)?, false),
                agents.into(),
            )
        }
    };
    let (stderr, agent_stderr) = pod_process::pipe().map_err(other)?;
    let stderr = Receiver::from_owned_fd(stderr).map_err(other)?;
    let recipe = Recipe {
        program: prepared.program,
        args: prepared.command.args,
        env: prepared.env,
        dir: claimed.files.layout().project().to_owned(),
        stdin,
        stdout: agent_stdout,
        stderr: agent_stderr,
    };
    let launched = pod_process::launch(recipe, group).map_err(|error| match &error {
        LaunchError::NotExecutable { .. } => StartFailure::Missing(error_chain(&error)),
        LaunchError::TooLong { .. } | LaunchError::Directory { .. } | LaunchError::Other { .. } => {
            StartFailure::Spawn(error_chain(&error))
        }
    })?;
    claimed.announce_agent(&launched.handle, group.map(Cgroup::dir), head, Usage::default());
    Ok(Running {
        agent: launched.handle,
        stdout: Some(stdout),
        stderr: Some(stderr),
    })
}

/// Ready when there is something to read; never for a stream that has ended.
pub(crate) async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        // A pipe that cannot be waited for is read, and shows there what is wrong.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

/// Ready when it is time to look at the agent's stdout.
pub(crate) async fn stdout_readable(stdout: Option<&Stdout>) {
    match stdout {
        Some(Stdout::Pipe(pipe)) => readable(Some(pipe)).await,
        Some(Stdout::File(_, true)) => tokio::time::sleep(LOOK_AGAIN).await,
        Some(Stdout::File(_, false)) => tokio::task::yield_now().await,
        None => std::future::pending().await,
    }
}

/// Reads what is there of the agent's stdout; a file is at its end when its agent is gone.
pub(crate) fn read_stdout(stdout: &mut Stdout, piece: &mut [u8], exited: bool) -> Read {
    match stdout {
        Stdout::Pipe(pipe) => read_now(pipe, piece),
        Stdout::File(file, idle) => {
            let read = file.read(piece);
            *idle = matches!(read, Ok(0));
            match read {
                Ok(0) if exited => Read::End,
                Ok(0) => Read::Nothing,
                Ok(count) => Read::Some(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => Read::Nothing,
                Err(_) => Read::End,
            }
        }
    }
}

/// What a look at a pipe brought.
pub(crate) enum Read {
    Some(usize),
    Nothing,
    End,
}

pub(crate) fn read_now(pipe: &Receiver, piece: &mut [u8]) -> Read {
    match pipe.try_read(piece) {
        Ok(0) => Read::End,
        Ok(count) => Read::Some(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Read::Nothing,
        // A pipe that cannot be read any more is at its end.
        Err(_) => Read::End,
    }
}

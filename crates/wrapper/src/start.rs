//! Starts the agent, with its pipes.

use std::io::ErrorKind;

use pod_core::{StartFailure, error_chain};
use pod_process::{Cgroup, Handle, LaunchError, Recipe};
use tokio::net::unix::pipe::Receiver;

use crate::claim::Claimed;
use crate::prepare::Prepared;

/// The descriptors of a running agent.
pub(crate) struct Running {
    pub(crate) agent: Handle,
    pub(crate) stdout: Option<Receiver>,
    pub(crate) stderr: Option<Receiver>,
}

/// Starts the agent of a prepared wake-up.
pub(crate) fn start(
    prepared: Prepared,
    claimed: &Claimed,
    group: Option<&Cgroup>,
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
    if prepared.command.stdout == pod_adapters::StdoutPlan::File {
        return Err(StartFailure::Spawn(
            "this build gives agents a pipe for stdout, and this one needs a file".to_owned(),
        ));
    }
    let (stdout, agent_stdout) = pod_process::pipe().map_err(other)?;
    let (stderr, agent_stderr) = pod_process::pipe().map_err(other)?;
    let stdout = Receiver::from_owned_fd(stdout).map_err(other)?;
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
    claimed.announce_agent(&launched.handle, group);
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

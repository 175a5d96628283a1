//! The command line: `pod-wrapper <podId> [agentId] [--warm]`.
//!
//! Read by hand: the wrapper is small because a thousand of them may run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pod_core::{AgentName, HomeLayout};

use crate::claim::Request;
use crate::refusal::Refused;

const HELP: &str = "\
Run one wake-up of an idle pod

Usage: pod-wrapper <podId> [agentId] [--warm]
       pod-wrapper --gate <MODE> <podId>
       pod-wrapper --check <agentId>

podd and `podctl wake` start it; by hand it does the same.

Arguments:
  <podId>         The pod to wake
  [agentId]       The agent definition to follow, instead of the pod's own

Options:
      --warm           Continue the session of the last wake-up, which has to be lost
      --gate <MODE>    Run a gate of the pod instead: fast, full or merge
      --check <AGENT>  Print as JSON which program the agent is and what it lacks; `podctl doctor` asks
      --home <DIR>     The home, instead of $AGENTS_POD_HOME
      --config <FILE>  The only configuration file to read
  -h, --help           Print help
  -V, --version        Print version

Exit status: 0 the outcome is recorded, whatever it is; 1 it could not be recorded; 2 nothing was claimed.
";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Invocation {
    Wake {
        home: HomeLayout,
        request: Request,
        config: Option<PathBuf>,
    },
    /// Look whether an agent could be started, and start nothing.
    Check {
        home: HomeLayout,
        agent: AgentName,
    },
    Print(String),
}

fn usage(error: String) -> Refused {
    Refused::new(
        error,
        "pod-wrapper <podId> [agentId] [--warm]; see `pod-wrapper --help`",
    )
}

pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refused> {
    let mut words = Vec::new();
    let (mut warm, mut home, mut config, mut check, mut gate) = (false, None, None, None, None);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let text = arg
            .to_str()
            .ok_or_else(|| usage("an argument is no UTF-8".to_owned()))?;
        let (flag, inline) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(OsString::from(value))),
            _ => (text, None),
        };
        let mut value = || {
            inline
                .clone()
                .or_else(|| args.next())
                .ok_or_else(|| usage(format!("`{flag}` needs a value")))
        };
        match flag {
            "-h" | "--help" => return Ok(Invocation::Print(HELP.to_owned())),
            "-V" | "--version" => {
                return Ok(Invocation::Print(format!(
                    "pod-wrapper {}\n",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            "--warm" => warm = true,
            "--gate" => gate = Some(value()?),
            "--check" => check = Some(value()?),
            "--home" => home = Some(PathBuf::from(value()?)),
            "--config" => config = Some(PathBuf::from(value()?)),
            _ if flag.starts_with('-') => {
                return Err(usage(format!(
                    "there is no flag `{}`",
                    pod_core::quoted(flag, 60)
                )));
            }
            _ => words.push(text.to_owned()),
        }
    }
    if let Some(agent) = check {
        let agent = agent.to_string_lossy().parse();
        let agent = agent.map_err(|error: pod_core::IdError| usage(error.to_string()))?;
        let home = find_home(home.as_deref())?;
        return Ok(Invocation::Check { home, agent });
    }
    let mut words = words.into_iter();
    let pod = words.next().ok_or_else(|| usage("no pod is named".to_owned()))?;
    let agent = words.next();
    if let Some(surplus) = words.next() {
        return Err(usage(format!(
            "`{}` is one argument too many",
            pod_core::quoted(&surplus, 60)
        )));
    }
    let pod = pod
        .parse()
        .map_err(|error: pod_core::IdError| usage(error.to_string()))?;
    let agent = agent
        .map(|agent| agent.parse())
        .transpose()
        .map_err(|error: pod_core::IdError| usage(error.to_string()))?;
    let gate = gate
        .map(|mode| mode.to_string_lossy().parse())
        .transpose()
        .map_err(usage)?;
    if gate.is_some() && (warm || agent.is_some()) {
        return Err(usage("a gate has no agent and no session".to_owned()));
    }
    let home = find_home(home.as_deref())?;
    Ok(Invocation::Wake {
        home,
        request: Request {
            pod,
            agent,
            warm,
            gate,
        },
        config,
    })
}

fn find_home(named: Option<&Path>) -> Result<HomeLayout, Refused> {
    pod_config::home_layout(named, &|name| std::env::var_os(name))
        .map_err(|error| Refused::because("cannot find the home", &error, error.hint()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Invocation, Refused> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn the_contracts_arguments_are_taken_and_others_refused_with_a_hint() {
        let invocation = parsed(&["fix-1", "worker", "--warm", "--home=/h"]).unwrap();
        let Invocation::Wake { home, request, .. } = invocation else {
            panic!("it wakes")
        };
        assert_eq!(home.root(), Path::new("/h"));
        assert_eq!((request.pod.as_str(), request.warm), ("fix-1", true));
        assert_eq!(request.agent.unwrap().as_str(), "worker");
        for bad in [
            &["--home", "/h"][..],
            &["a", "b", "c"],
            &["A", "--home=/h"],
            &["a", "--cold"],
            &["a", "--home"],
        ] {
            let text = parsed(bad).unwrap_err().text();
            assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
        }
    }
}

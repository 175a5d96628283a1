//! `podctl doctor`: what is wrong, and what to type next.

mod machine;
mod pods;

use std::os::unix::fs::PermissionsExt as _;

use pod_config::AgentError;
use pod_core::{AgentDefinition, AgentName, AgentType, PodRecord};
use pod_registry::Listing;
use serde::Serialize;

use crate::agent::{Preflight, preflight};
use crate::args::Format;
use crate::context::{Context, Podd};
use crate::fault::{Ended, Exit};
use crate::ui;

/// One thing that was looked at.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Check {
    check: String,
    ok: bool,
    detail: String,
    hint: Option<String>,
}

impl Check {
    fn good(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            ok: true,
            detail: detail.into(),
            hint: None,
        }
    }

    fn bad(check: impl Into<String>, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            ok: false,
            detail: detail.into(),
            hint: Some(hint.into()),
        }
    }

    fn lines(&self) -> String {
        let mark = if self.ok { "ok " } else { "BAD" };
        let shown = |text: &str| pod_core::quoted(text, 4096);
        let mut text = format!("{mark}  {}: {}\n", shown(&self.check), shown(&self.detail));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("     hint: {}\n", shown(hint)));
        }
        text
    }
}

/// Looks at everything.
pub(crate) fn run(context: &Context, args: Format) -> Ended {
    let checks = checks(context);
    if args.json {
        ui::json(&checks)?;
    } else {
        for check in &checks {
            ui::answer(&check.lines())?;
        }
    }
    let all_well = checks.iter().all(|check| check.ok);
    Ok(if all_well { Exit::Done } else { Exit::Failed })
}

fn checks(context: &Context) -> Vec<Check> {
    let mut checks = vec![home(context)];
    // Looking must not make a home.
    if context.home().root().is_dir() {
        let listing = context.registry().map(|registry| registry.list());
        let records = match listing {
            Ok(Ok(listing)) => registry(&mut checks, listing),
            Ok(Err(error)) => {
                checks.push(Check::bad(
                    "registry",
                    pod_core::error_chain(&error),
                    error.hint(),
                ));
                Vec::new()
            }
            Err(fault) => {
                checks.push(Check::bad("registry", fault.one_line(), fault.way_out()));
                Vec::new()
            }
        };
        checks.push(podd(context));
        configuration(context, &records, &mut checks);
        pods::look(&records, &mut checks);
    }
    machine::look(context, &mut checks);
    checks
}

fn home(context: &Context) -> Check {
    let root = context.home().root();
    let shown = pod_disk::shown(root);
    match root.metadata() {
        Ok(found) if !found.is_dir() => Check::bad(
            "home",
            format!("`{shown}` is no directory"),
            "move it away, or pass `--home DIR`",
        ),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o777;
            let hint = format!("chmod 700 '{shown}'");
            Check::bad(
                "home",
                format!("others can look into `{shown}` (mode {mode:04o})"),
                hint,
            )
        }
        Ok(_) => Check::good("home", shown),
        Err(error) => {
            let hint =
                "the first `podctl spawn`, or `podd`, creates it; AGENTS_POD_HOME or `--home` names another";
            Check::bad("home", format!("`{shown}` cannot be seen: {error}"), hint)
        }
    }
}

fn registry(checks: &mut Vec<Check>, listing: Listing) -> Vec<PodRecord> {
    for broken in &listing.unreadable {
        let file = pod_disk::shown(&broken.file);
        let hint = match broken.fault {
            pod_registry::Fault::Newer => "run the newer version of agents-pod that wrote it".to_owned(),
            pod_registry::Fault::Disk => format!("look at the permissions and the disk of `{file}`"),
            pod_registry::Fault::Broken | pod_registry::Fault::SetAside | pod_registry::Fault::Stranger => {
                format!("repair it and put it into registry/pods, or free its id: rm '{file}'")
            }
        };
        checks.push(Check::bad(
            format!("record {}", broken.id),
            broken.error.clone(),
            hint,
        ));
    }
    let open = listing
        .records
        .iter()
        .filter(|record| !record.state.is_terminal())
        .count();
    let detail = format!("{} pods, {open} of them not over", listing.records.len());
    checks.push(Check::good("registry", detail));
    listing.records
}

fn podd(context: &Context) -> Check {
    match context.podd() {
        Podd::Running { pid } => Check::good("podd", format!("running (pid {pid})")),
        Podd::Starting => Check::good("podd", "it holds its lock and is starting"),
        Podd::Absent => {
            let hint = "run `podd`, or `systemctl --user start podd` if you installed its unit";
            Check::bad("podd", "not running: nothing wakes by itself", hint)
        }
    }
}

/// The configuration, and every agent that a pod needs.
fn configuration(context: &Context, records: &[PodRecord], checks: &mut Vec<Check>) {
    let config = match context.config() {
        Ok(config) => config,
        Err(fault) => return checks.push(Check::bad("configuration", fault.one_line(), fault.way_out())),
    };
    let files: Vec<String> = config.files().map(pod_disk::shown).collect();
    let detail = if files.is_empty() {
        "defaults alone".to_owned()
    } else {
        files.join(", ")
    };
    checks.push(Check::good("configuration", detail));
    let agents = match context.agents() {
        Ok(agents) => agents,
        Err(fault) => return checks.push(Check::bad("agents", fault.one_line(), fault.way_out())),
    };
    let open = records.iter().filter(|record| !record.state.is_terminal());
    let mut names: Vec<AgentName> = open
        .map(|record| config.policy_for(&record.policy).agent)
        .collect();
    names.push(AgentName::default_agent());
    names.sort();
    names.dedup();
    for name in names {
        match definition(&name, agents.get(&name)) {
            Ok(kind) => checks.extend(agent(&name, kind, preflight(context, &name))),
            Err(check) => checks.push(check),
        }
    }
}

/// The type of an agent, if it is defined and known.
fn definition(
    name: &AgentName,
    found: Result<Option<AgentDefinition>, AgentError>,
) -> Result<AgentType, Check> {
    let check = format!("agent {name}");
    let bad = |detail: String, hint: String| Err(Check::bad(&check, detail, hint));
    match found {
        Ok(Some(definition)) => definition.agent_type().or_else(|error| {
            let hint = format!("podctl agent add {name} --replace --type …");
            bad(error.to_string(), hint)
        }),
        Ok(None) => bad(
            "pods name it, and nobody defined it".to_owned(),
            format!("podctl agent add {name} --type …"),
        ),
        Err(error) => bad(error.to_string(), "correct agents.toml".to_owned()),
    }
}

/// Whether an agent can be started, and what it lacks.
fn agent(name: &AgentName, kind: AgentType, found: Result<Preflight, String>) -> Vec<Check> {
    let check = format!("agent {name}");
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            let hint = format!(
                "install it where podd finds it, name it with `podctl agent add {name} --replace --type {kind} \
                 --binary PATH`, or set {}",
                kind.binary_variable()
            );
            return vec![Check::bad(check, why, hint)];
        }
    };
    if found.findings.is_empty() {
        let version = found.version.map(|version| format!(" ({version})"));
        let detail = format!("{}, {}{}", found.kind, found.program, version.unwrap_or_default());
        return vec![Check::good(check, detail)];
    }
    let lacking = found.findings.into_iter();
    lacking
        .map(|finding| Check::bad(check.clone(), finding.what, finding.remedy))
        .collect()
}

#[cfg(test)]
mod tests {
    use pod_core::HomeLayout;

    use crate::agent::Finding;

    use super::*;

    #[test]
    fn every_finding_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let found = checks(&Context::at(HomeLayout::new(&home)));
        assert!(!found[0].ok && !home.exists(), "looking makes nothing");
        pod_disk::create_dirs(&home).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
        pod_disk::create_dirs(&home.join("registry/pods")).unwrap();
        std::fs::write(home.join("registry/pods/torn.json"), "{").unwrap();
        let found = checks(&Context::at(HomeLayout::new(&home)));
        let bad: Vec<&str> = found
            .iter()
            .filter(|check| !check.ok)
            .map(|check| check.check.as_str())
            .collect();
        for want in ["home", "record torn", "podd"] {
            assert!(bad.contains(&want), "{want} in {bad:?}");
        }
        assert!(found.iter().all(|check| check.ok || check.hint.is_some()));
    }

    #[test]
    fn an_agent_is_good_only_if_it_can_run() {
        let name = AgentName::default_agent();
        assert!(!definition(&name, Ok(None)).unwrap_err().ok);
        let mut defined = AgentDefinition::of_type(AgentType::Command);
        assert_eq!(
            definition(&name, Ok(Some(defined.clone()))).unwrap(),
            AgentType::Command
        );
        defined.kind = "cluade".into();
        assert!(!definition(&name, Ok(Some(defined))).unwrap_err().ok);
        let found = |findings| Preflight {
            kind: "pi".into(),
            program: "/bin/pi".into(),
            version: Some("1.6.0".into()),
            findings,
        };
        let good = agent(&name, AgentType::Pi, Ok(found(Vec::new())));
        assert_eq!(good, [Check::good("agent default", "pi, /bin/pi (1.6.0)")]);
        let lacking = Finding {
            what: "no key".into(),
            remedy: "set one".into(),
        };
        let bad = agent(&name, AgentType::Pi, Ok(found(vec![lacking])));
        assert_eq!(bad, [Check::bad("agent default", "no key", "set one")]);
        assert!(!agent(&name, AgentType::Pi, Err("it could not be asked".into()))[0].ok);
    }

    #[test]
    fn what_is_shown_acts_on_nothing() {
        let check = Check::bad("record x", "torn \x1b[2J", "rm 'x'");
        assert_eq!(check.lines(), "BAD  record x: torn \\x1b[2J\n     hint: rm 'x'\n");
    }
}

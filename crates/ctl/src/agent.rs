//! `podctl agent`: the definitions of agents.toml.

use std::os::unix::process::CommandExt as _;

use pod_config::{AgentStore, IfPresent};
use pod_core::{AgentDefinition, AgentName, AgentType, UnknownAgentType, nearest_key};
use serde::Serialize;

use crate::args::{AgentAdd, AgentCommand};
use crate::context::{self, Context};
use crate::fault::{Ended, Exit, Fault};
use crate::table::Table;
use crate::ui;

/// Works on the agent definitions.
pub(crate) fn run(context: &Context, command: &AgentCommand) -> Ended {
    match command {
        AgentCommand::Add(args) => add(context, args),
        AgentCommand::Ls(format) => ls(context, format.json),
        AgentCommand::Show { name, format } => show(context, name, format.json),
        AgentCommand::Rm { name } => rm(context, name),
    }
}

/// A definition as it may be shown: the values of its variables may be secrets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    model: Option<&'a str>,
    binary: Option<&'a str>,
    args: &'a [String],
    env: Vec<&'a str>,
    instructions: Option<&'a str>,
    instructions_file: Option<&'a str>,
    account: String,
}

fn shown<'a>(name: &'a str, definition: &'a AgentDefinition) -> Shown<'a> {
    Shown {
        name,
        kind: &definition.kind,
        model: definition.model.as_deref(),
        binary: definition.binary.as_deref(),
        args: &definition.args,
        env: definition.env.keys().map(String::as_str).collect(),
        instructions: definition.instructions.as_deref(),
        instructions_file: definition.instructions_file.as_deref(),
        account: definition.account().to_string(),
    }
}

fn add(context: &Context, args: &AgentAdd) -> Ended {
    let cannot = format!("cannot add agent `{}`", args.name);
    args.kind
        .parse::<AgentType>()
        .map_err(|error| unknown_type(&cannot, &error))?;
    let definition = AgentDefinition {
        kind: args.kind.clone(),
        model: args.model.clone(),
        binary: args.binary.clone(),
        args: args.args.clone(),
        env: args.env.iter().cloned().collect(),
        instructions: args.instructions.clone(),
        instructions_file: args.instructions_file.as_deref().map(role_file).transpose()?,
        account: args.account.clone(),
    };
    let if_present = if args.replace {
        IfPresent::Replace
    } else {
        IfPresent::Refuse
    };
    let added = AgentStore::add(context.home(), &args.name, &definition, if_present);
    added.map_err(|error| match error {
        pod_config::ConfigError::AgentExists { .. } => Fault::new(
            &cannot,
            "choose another name, or put it in its place with `--replace`",
        )
        .because(&error),
        error => Fault::of(&cannot, &error),
    })?;
    match preflight(context, &args.name) {
        Ok(found) => {
            for finding in found.findings {
                ui::note(&format!("{}; {}", finding.what, finding.remedy));
            }
        }
        Err(why) => ui::note(&format!("its wake-ups will fail until this is mended: {why}")),
    }
    Ok(Exit::Done)
}

fn unknown_type(cannot: &str, error: &UnknownAgentType) -> Fault {
    let types: Vec<&'static str> = AgentType::ALL.iter().map(|kind| kind.word()).collect();
    let hint = nearest_key(&error.found, &types).map_or_else(
        || "`command` runs any program".to_owned(),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    Fault::new(cannot, hint).because(error)
}

/// The file as an absolute path, since agents.toml is read from elsewhere.
fn role_file(file: &str) -> Result<String, Fault> {
    let cannot = || format!("cannot use `{}` as instructions", pod_core::quoted(file, 400));
    let hint = "name a text file that exists";
    let read = std::fs::read_to_string(file).and_then(|_| std::path::absolute(file));
    let path = read.map_err(|error| Fault::new(cannot(), hint).because(&error))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Fault::new(cannot(), "its path has to be UTF-8"))
}

/// What pod-wrapper says of an agent, which looks as it would in a wake-up.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Preflight {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) version: Option<String>,
    pub(crate) findings: Vec<Finding>,
}

/// Something that the machine lacks, and what to do about it.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Finding {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

/// Asks pod-wrapper about an agent. The error says why it cannot be started, or could not be asked about.
pub(crate) fn preflight(context: &Context, name: &AgentName) -> Result<Preflight, String> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Said {
        Found(Preflight),
        Failed { error: String },
    }
    let wrapper = pod_process::sibling("pod-wrapper");
    let wrapper = wrapper.map_err(|error| format!("pod-wrapper was not found: {error}"))?;
    let mut command = std::process::Command::new(&wrapper.path);
    if let Some(name) = wrapper.arg0 {
        command.arg0(name);
    }
    command
        .args(["--check", name.as_str(), "--home"])
        .arg(context.home().root())
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let shown = wrapper.path.display();
    let said = command
        .output()
        .map_err(|error| format!("`{shown}` cannot be started: {error}"))?;
    match serde_json::from_slice(&said.stdout) {
        Ok(Said::Found(found)) => Ok(found),
        Ok(Said::Failed { error }) => Err(error),
        Err(error) => Err(format!(
            "`{shown} --check` gave no answer ({}): {error}",
            said.status
        )),
    }
}

fn ls(context: &Context, json: bool) -> Ended {
    let all = context.agents()?.all();
    let usable = all
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.as_ref().ok()?)));
    let agents: Vec<Shown<'_>> = usable.map(|(name, definition)| shown(name, definition)).collect();
    if json {
        ui::json(&agents)?;
    } else {
        let mut table = Table::new(&["NAME", "TYPE", "MODEL", "ACCOUNT", "BINARY"]);
        for agent in &agents {
            let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
            table.row([
                agent.name.to_owned(),
                agent.kind.to_owned(),
                or_none(agent.model),
                agent.account.clone(),
                or_none(agent.binary),
            ]);
        }
        ui::answer(&table.draw(ui::width()))?;
    }
    for error in all.values().filter_map(|entry| entry.as_ref().err()) {
        ui::note(&error.to_string());
    }
    Ok(Exit::Done)
}

fn show(context: &Context, name: &AgentName, json: bool) -> Ended {
    let definition = context::defined(context, name)?;
    let agent = shown(name.as_str(), &definition);
    if json {
        ui::json(&agent)?;
    } else {
        ui::answer(&page(&agent))?;
    }
    Ok(Exit::Done)
}

fn page(agent: &Shown<'_>) -> String {
    let env = agent
        .env
        .iter()
        .map(|name| format!("{name}=…"))
        .collect::<Vec<_>>()
        .join(" ");
    let lines = [
        ("type", Some(agent.kind)),
        ("model", agent.model),
        ("binary", agent.binary),
        (
            "args",
            Some(agent.args.join(" "))
                .as_deref()
                .filter(|args| !args.is_empty()),
        ),
        ("env", Some(env.as_str()).filter(|env| !env.is_empty())),
        ("account", Some(agent.account.as_str())),
        ("instructions", agent.instructions),
        ("instructionsFile", agent.instructions_file),
    ]
    .map(|(name, value)| value.map(|value| format!("  {name:<16} {}\n", pod_core::quoted(value, 4096))));
    std::iter::once(format!("{}\n", agent.name))
        .chain(lines.into_iter().flatten())
        .collect()
}

fn rm(context: &Context, name: &AgentName) -> Ended {
    let removed = AgentStore::remove(context.home(), name);
    removed.map_err(|error| Fault::of(format!("cannot remove agent `{name}`"), &error))?;
    let (config, listing) = (context.config()?, context.registry()?.list());
    let used = listing.is_ok_and(|listing| {
        let mut open = listing
            .records
            .iter()
            .filter(|record| !record.state.is_terminal());
        open.any(|record| config.policy_for(&record.policy).agent == *name)
    });
    if used && *name != AgentName::default_agent() {
        ui::note("pods still name it: their wake-ups will fail with agentUnresolved");
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_variables_are_never_shown() {
        let mut definition = AgentDefinition::of_type(AgentType::Pi);
        definition.env.insert("KEY".into(), "secret".into());
        definition.instructions = Some("be\nbrief".into());
        let agent = shown("a", &definition);
        let (page, json) = (page(&agent), serde_json::to_string(&agent).unwrap());
        assert!(
            !page.contains("secret") && !json.contains("secret"),
            "{page}{json}"
        );
        assert_eq!(
            page,
            "a\n  type             pi\n  env              KEY=…\n  account          pi\n  \
             instructions     be\\x0abrief\n"
        );
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_nearest() {
        let error = "comand".parse::<AgentType>().unwrap_err();
        let text = unknown_type("cannot add agent `x`", &error).text();
        assert!(text.ends_with("hint: did you mean `command`?\n"), "{text}");
        let error = "zzz".parse::<AgentType>().unwrap_err();
        assert!(
            unknown_type("x", &error)
                .text()
                .ends_with("hint: `command` runs any program\n")
        );
    }
}

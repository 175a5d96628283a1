//! `podctl show`: one pod on a page.

use std::fmt::Write as _;

use pod_core::{KEYS, PodLayout, PodRecord, PodState, Policy, Timestamp, WakeUpEntry};

use crate::args::Show;
use crate::context::{self, Context, Podd};
use crate::fault::{Ended, Exit};
use crate::{gate, ui, words};

/// How many wake-ups are listed.
const LISTED: usize = 10;

/// Shows a pod.
pub(crate) fn run(context: &Context, args: &Show) -> Ended {
    let record = context.read(&args.id)?;
    let policy = context.policy(&record)?;
    if args.format.json {
        let mut value = words::public(&record);
        if let Some(fields) = value.as_object_mut() {
            let policy = serde_json::to_value(&policy).unwrap_or_default();
            fields.insert("effectivePolicy".to_owned(), policy);
            let saved = record
                .wake_ups
                .iter()
                .rev()
                .find_map(|entry| entry.saved_work.as_ref());
            let saved = serde_json::to_value(saved).unwrap_or_default();
            fields.insert("savedWork".to_owned(), saved);
        }
        ui::json(&value)?;
        return Ok(Exit::Done);
    }
    let gates = record
        .gates
        .as_ref()
        .filter(|_| !record.state.is_terminal())
        .and_then(|_| gate::line(context, &record.id));
    ui::answer(&page(
        &record,
        &policy,
        gates.as_deref(),
        context.podd(),
        context::now(),
    ))?;
    Ok(Exit::Done)
}

struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, name: &str, value: &str) {
        let mut lines = value.lines();
        let first = lines.next().unwrap_or_default();
        self.push(&format!("  {name:<10} {}", pod_core::escaped(first)));
        for line in lines {
            self.push(&format!("  {:<10} {}", "", pod_core::escaped(line)));
        }
    }

    fn push(&mut self, line: &str) {
        let written = writeln!(self.text, "{}", line.trim_end());
        written.expect("a String takes every write");
    }
}

fn page(record: &PodRecord, policy: &Policy, gates: Option<&str>, podd: Podd, now: Timestamp) -> String {
    let mut page = Page { text: String::new() };
    page.push(&format!("{}: {}", record.id, words::state(record, now)));
    if let Some(parked) = &record.parked {
        let detail = parked.detail.as_deref().unwrap_or("no reason was given");
        page.line(
            "parked",
            &format!("{detail}; {}, by {}", words::away(parked.since, now), parked.by),
        );
    }
    if let Some(cancel) = &record.cancel {
        page.line(
            "cancelled",
            &format!("{}, by {}", words::away(cancel.at, now), cancel.by),
        );
    }
    page.line("goal", &record.goal);
    page.line("project", &record.project);
    if let Some(gates) = gates {
        page.line("gates", gates);
    }
    page.line("agent", &format!("{}{}", policy.agent, model(policy)));
    let said: Vec<String> = KEYS
        .iter()
        .filter(|key| record.policy.says(key.name) && !matches!(key.name, "agent" | "model"))
        .map(|key| format!("{} = {}", key.name, policy.text_of(key.name).unwrap_or_default()))
        .collect();
    if !said.is_empty() {
        page.line("policy", &said.join("\n"));
    }
    page.line("spawned", &words::away(record.created_at, now));
    if record.state == PodState::Idle {
        let next = record
            .next_wake_at
            .map_or("as soon as podd has looked".to_owned(), |at| {
                if at > now {
                    words::away(at, now)
                } else {
                    "now".to_owned()
                }
            });
        page.line("next wake", &next);
    }
    if let Some(used) = record.usage_total.and_then(words::usage) {
        page.line("used", &used);
    }
    running(&mut page, record, now);
    wake_ups(&mut page, record, now);
    files(&mut page, record);
    page.push("");
    page.push(&format!("next: {}", next_step(record, podd)));
    page.text
}

fn model(policy: &Policy) -> String {
    policy
        .model
        .as_ref()
        .map(|model| format!(", model {model}"))
        .unwrap_or_default()
}

fn running(page: &mut Page, record: &PodRecord, now: Timestamp) {
    let Some(current) = &record.current else { return };
    let warm = if current.warm { ", warm" } else { "" };
    page.line(
        "running",
        &format!(
            "{} {} (pid {}), agent {}{warm}, for {}",
            if record.wake().is_some() {
                "wake-up"
            } else {
                "gate behind wake-up"
            },
            current.n,
            current.pid,
            current.agent,
            words::span(now.since(current.claimed_at)),
        ),
    );
    if let Some(cause) = record.intent(current.n) {
        page.line("", &format!("it is being killed: {cause}"));
    }
}

fn wake_ups(page: &mut Page, record: &PodRecord, now: Timestamp) {
    if record.wake_ups.is_empty() {
        return;
    }
    page.push("");
    page.push("wake-ups");
    let left_out = record.wake_ups.len().saturating_sub(LISTED);
    if left_out > 0 {
        page.push(&format!(
            "  … {left_out} earlier ones: `podctl show {} --json`",
            record.id
        ));
    }
    for entry in record.wake_ups.iter().skip(left_out) {
        page.push(&format!("  {}", one_wake_up(entry, now)));
        if let Some(detail) = &entry.detail {
            page.push(&format!("      {}", pod_core::quoted(detail, 400)));
        }
        if let Some(saved) = &entry.saved_work {
            page.push(&format!("      {}", pod_core::quoted(&saved.place(), 2_000)));
        }
    }
}

fn one_wake_up(entry: &WakeUpEntry, now: Timestamp) -> String {
    let mut parts = vec![format!("{:>3}  {}", entry.n, entry.verdict)];
    if let Some(at) = entry.ended_at {
        parts.push(words::away(at, now));
        parts.push(format!("took {}", words::took(entry)));
    }
    if entry.warm {
        parts.push("warm".to_owned());
    }
    parts.extend(entry.usage.and_then(words::usage));
    if entry.swept > 0 {
        parts.push(format!("{} left-over processes ended", entry.swept));
    }
    parts.extend(entry.missing.iter().map(|missing| match missing.bytes {
        Some(bytes) => format!("{} lacks {bytes} bytes", pod_core::quoted(&missing.log, 60)),
        None => format!("{} may lack its end", pod_core::quoted(&missing.log, 60)),
    }));
    parts.join(", ")
}

fn files(page: &mut Page, record: &PodRecord) {
    let layout = PodLayout::new(&record.project, &record.id);
    page.push("");
    page.push("files");
    let mut one = |path: std::path::PathBuf, what: &str| {
        page.push(&format!("  {}  {what}", pod_disk::shown(&path)));
    };
    one(layout.docs(), "handoff, tasks and decisions");
    one(layout.output(), "what the agents said");
    if record.last().is_some() {
        one(
            layout.latest_checkpoint(),
            "where the work stood, to go on by hand",
        );
    }
    if record.wake_up_count > 0 {
        one(
            layout.wakeup(record.wake_up_count),
            "the last wake-up: prompt, events, verdict",
        );
    }
}

/// What a person would most likely want to do about it.
fn next_step(record: &PodRecord, podd: Podd) -> String {
    let id = &record.id;
    match record.state {
        PodState::Done => format!("`podctl rm {id}` forgets it; its files stay"),
        PodState::Cancelled => format!("`podctl rm {id}` forgets it, `--purge` with its files"),
        PodState::Active => format!("`podctl logs -f {id}` follows it"),
        PodState::Parked
            if record
                .parked
                .as_ref()
                .is_some_and(|parked| parked.code.is_of_gates()) =>
        {
            format!("`podctl decisions {id}` says why; mend it, then `podctl retry {id}` goes on from there")
        }
        PodState::Parked if record.last().is_some() => {
            format!("`podctl logs {id}` shows what went on; `podctl resume {id}` lets it go on")
        }
        PodState::Parked => format!("`podctl resume {id}` lets it begin"),
        PodState::Idle if podd == Podd::Absent => {
            format!("no podd is running: start `podd`, or wake it once with `podctl wake {id}`")
        }
        PodState::Idle => {
            format!("`podctl wait {id}` waits for its end; `podctl wake {id}` wakes it at once")
        }
    }
}

#[cfg(test)]
mod tests {
    use pod_core::{By, FailReason, ParkCode, Verdict};

    use crate::words::tests::{at, record};

    use super::*;

    #[test]
    fn a_page_says_where_it_stands_and_what_to_do() {
        let mut pod = record();
        pod.policy.set("cancelGrace", "1s").unwrap();
        let mut entry = WakeUpEntry::bare(1, Verdict::Failed(FailReason::NoHandoff));
        entry.started_at = Some(at("20:00:10"));
        entry.ended_at = Some(at("20:01:00"));
        entry.detail = Some("exit 3\x1b[2J".into());
        pod.wake_ups.push(entry);
        pod.wake_up_count = 1;
        let parked = pod.park(
            ParkCode::FailureStreak,
            Some("3 in a row".into()),
            By::Podd,
            at("20:01:00"),
        );
        assert!(parked.unwrap());
        let policy = Policy::of_layers(&[&pod.policy]);
        assert_eq!(
            page(&pod, &policy, None, Podd::Absent, at("20:11:00")),
            "fix-login-7k2m: parked (failureStreak)\n  \
               parked     3 in a row; 10 minutes ago, by podd\n  \
               goal       Fix the login\n  \
               project    /src/app\n  \
               agent      default\n  \
               policy     cancelGrace = 1s\n  \
               spawned    11 minutes ago\n\
             \n\
             wake-ups\n    \
                 1  failed/noHandoff, 10 minutes ago, took 50s\n      \
                   exit 3\\x1b[2J\n\
             \n\
             files\n  \
               /src/app/.agents-pod/fix-login-7k2m/docs  handoff, tasks and decisions\n  \
               /src/app/.agents-pod/fix-login-7k2m/output.log  what the agents said\n  \
               /src/app/.agents-pod/fix-login-7k2m/checkpoints/latest.md  where the work stood, to go on by hand\n  \
               /src/app/.agents-pod/fix-login-7k2m/wakeups/1  the last wake-up: prompt, events, verdict\n\
             \n\
             next: `podctl logs fix-login-7k2m` shows what went on; `podctl resume fix-login-7k2m` lets it go on\n"
        );
    }
}

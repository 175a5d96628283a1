//! What an agent is told when it wakes.

use std::path::{Path, PathBuf};

use pod_core::{PodLayout, PodRecord, Verdict, quote_checkpoint};
use pod_disk::{DiskError, Durability};
use pod_reconcile::PodFiles;

/// So many wake-ups' uncommitted work is named.
const SAVED_LISTED: usize = 3;

/// How much of one message is given.
const MESSAGE_LIMIT: usize = 64 * 1024;

/// What differs from one prompt of a pod to the next.
pub(crate) struct Parts<'a> {
    /// The words of the agent's definition.
    pub(crate) role: &'a str,
    /// The newest checkpoint.
    pub(crate) checkpoint: Option<&'a str>,
    /// What a gated pod's agent has to know of its gates.
    pub(crate) gates: Option<&'a str>,
    /// Messages from a person.
    pub(crate) messages: &'a [String],
}

/// Puts a prompt together, in the order of contract section 7: the pod's contract, the role, the newest checkpoint,
/// messages from a person, the goal. A part that is empty is left out.
pub(crate) fn compose(record: &PodRecord, n: u32, layout: &PodLayout, given: &Parts<'_>) -> String {
    let docs = &layout.docs();
    let mut parts = vec![contract(record, n, docs)];
    if !given.role.trim().is_empty() {
        parts.push(format!("# Your role\n\n{}", given.role.trim()));
    }
    if let Some(checkpoint) = given.checkpoint {
        let path = layout.latest_checkpoint();
        parts.push(
            quote_checkpoint(checkpoint, &path.to_string_lossy())
                .trim_end()
                .to_owned(),
        );
    }
    parts.extend(given.gates.map(str::to_owned));
    let saved = saved_work(record);
    if !saved.is_empty() {
        parts.push(format!(
            "# Work that was left uncommitted\n\n{}",
            saved.join("\n")
        ));
    }
    let messages = given.messages;
    if !messages.is_empty() {
        let list: Vec<String> = messages
            .iter()
            .map(|message| format!("- {}", message.trim()))
            .collect();
        parts.push(format!(
            "# Messages from the person who keeps this pod\n\n{}",
            list.join("\n")
        ));
    }
    parts.push(goal(record, docs));
    parts.join("\n\n")
}

/// The uncommitted work of the wake-ups since the last one that declared something, the newest first.
fn saved_work(record: &PodRecord) -> Vec<String> {
    let unanswered = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| !matches!(entry.verdict, Verdict::More | Verdict::Done));
    unanswered
        .filter_map(|entry| {
            Some(format!(
                "- Wake-up {}: {}",
                entry.n,
                entry.saved_work.as_ref()?.words()
            ))
        })
        .take(SAVED_LISTED)
        .collect()
}

fn contract(record: &PodRecord, n: u32, docs: &Path) -> String {
    let docs = docs.display();
    format!(
        "# How this pod works\n\n\
         You are wake-up {n} of pod `{pod}`: one session of a longer piece of work. Nobody is watching and nobody can \
         answer. What earlier sessions knew is in three documents, and what you know is lost unless you leave it there:\n\n\
         - `{docs}/HANDOFF.md`: what the session before you left for you. Read it first.\n\
         - `{docs}/TASKS.md`: the plan, as boxes to tick. Keep it true.\n\
         - `{docs}/DECISIONS.md`: what was decided and why. Add to it; do not rewrite it.\n\n\
         When your work has reached a good place to stop, or your context runs low, hand off. Do it by one of these, \
         as your last act:\n\n\
         - the tool `pod_handoff`, if you have it;\n\
         - `podctl handoff --status rotating --summary \"…\"` in a shell;\n\
         - writing `{docs}/HANDOFF.md` yourself, with the status as its first line.\n\n\
         The status is `status: rotating` if another session has to go on, and `status: done` if the whole goal is \
         reached and checked. Below it, say what is done, what is not, and what to do next. A session that ends \
         without a fresh handoff counts as failed, however well it went.\n\n\
         A session may be cut off at any moment. What should survive that, leave on the way: by the tool \
         `pod_checkpoint`, or by `podctl checkpoint --save -` with the text on stdin. It is no handoff. If you send \
         subagents to work, have each of them run `podctl checkpoint WAVE SUB \
         '{{\"last_action\":\"…\",\"next_step\":\"…\",\"files_modified\":[],\"commits_made\":[]}}'` after every \
         substantive tool use or every 30 seconds, whichever comes first, and not after mere reads; \
         `podctl wave brief WAVE SUB` is what a new one has to be told if one was cut off.",
        pod = record.id,
    )
}

fn goal(record: &PodRecord, docs: &Path) -> String {
    let docs = docs.display();
    format!(
        "# The goal\n\n{}\n\nThe project is `{}`. Start with `{docs}/HANDOFF.md` and `{docs}/TASKS.md`.",
        record.goal.trim(),
        record.project,
    )
}

/// Takes the messages for this wake-up: those in the inbox, which move to the wake-up's own directory, and
/// those that earlier wake-ups were given and did not declare anything about.
pub(crate) fn take_messages(files: &PodFiles, record: &PodRecord, n: u32) -> Vec<String> {
    let unanswered = record
        .wake_ups
        .iter()
        .rev()
        .take_while(|entry| !matches!(entry.verdict, Verdict::More | Verdict::Done));
    let mut numbers: Vec<u32> = unanswered.map(|entry| entry.n).collect();
    numbers.reverse();
    let mut messages = Vec::new();
    for earlier in numbers {
        read_messages(
            files,
            &files.layout().wakeup(earlier).join("inbox"),
            &mut messages,
        );
    }
    let own = files.layout().wakeup(n).join("inbox");
    // One that cannot be moved stays in the inbox, and is given again: twice is better than never.
    let _moved = move_messages(files, &own);
    read_messages(files, &own, &mut messages);
    messages
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let regular = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut names: Vec<PathBuf> = regular.map(|entry| entry.path()).collect();
    names.retain(|path| {
        path.file_name()
            .is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    });
    names.sort();
    names
}

fn move_messages(files: &PodFiles, own: &Path) -> Result<(), DiskError> {
    let waiting = names(&files.layout().inbox());
    if waiting.is_empty() {
        return Ok(());
    }
    files.create_dirs(own)?;
    for message in waiting {
        let Some(name) = message.file_name() else { continue };
        if let Some(bytes) = files.read(&message)? {
            files.write(&own.join(name), &bytes, Durability::Durable)?;
            files.remove(&message)?;
        }
    }
    Ok(())
}

fn read_messages(files: &PodFiles, dir: &Path, messages: &mut Vec<String>) {
    for path in names(dir) {
        let Ok(Some(mut bytes)) = files.read(&path) else {
            continue;
        };
        bytes.truncate(MESSAGE_LIMIT);
        messages.push(String::from_utf8_lossy(&bytes).into_owned());
    }
}

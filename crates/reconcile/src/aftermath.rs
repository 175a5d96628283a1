//! What is done for whoever goes on when a wake-up's tree is gone: its uncommitted work is kept, and a checkpoint
//! is written. Neither may fail an outcome.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use pod_checkpoints::{GitError, Look, Repository, Saving, open_tasks};
use pod_core::{
    ByteSize, Checkpoint, Facts, PodRecord, SavedWork, StartHead, Token, Verdict, WakeUpEntry, error_chain,
    is_complete, leaves_unsaved_work, own_words,
};
use pod_disk::{DiskError, Durability, OpenKind};

use crate::files::{PodFiles, now};

/// How long keeping the work of a project may take: the first time every file is read.
const SAVE_LIMIT: Duration = Duration::from_secs(60);

/// How long a checkpoint's facts are looked for.
const FACTS_LIMIT: Duration = Duration::from_secs(5);

/// How much of what an agent said last is looked at and kept.
const LAST_WORDS: usize = 4_000;

/// How much of a text by an agent is kept in a checkpoint.
const OWN_LIMIT: usize = 256 * 1024;

/// What became of a wake-up's uncommitted work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptWork {
    /// For the record.
    pub saved: Option<SavedWork>,
    /// What a person should read in output.log.
    pub note: Option<String>,
}

/// The look that marks what git starts as the wake-up's.
pub fn look(limit: Duration, token: Option<&Token>) -> Look {
    let mark = token.map(|token| ("AGENTS_POD_WAKE_TOKEN".to_owned(), token.reveal().to_owned()));
    Look { limit, mark }
}

/// Keeps the uncommitted work of wake-up `n`. Its tree has to be gone, and its lock in the caller's hands.
pub fn keep_work(
    files: &PodFiles,
    record: &PodRecord,
    n: u32,
    limit: ByteSize,
    token: Option<&Token>,
) -> KeptWork {
    let project = files.layout().project();
    let index = files.layout().git_index();
    let failed = |error: String| KeptWork {
        note: Some(format!("uncommitted work could not be kept: {error}")),
        saved: Some(SavedWork::Failed { error }),
    };
    if let Err(error) = own_place(files) {
        return failed(error_chain(&error));
    }
    let kept = Repository::find(project, &look(SAVE_LIMIT, token)).and_then(|found| {
        let Some(repository) = found else { return Ok(None) };
        repository.save_work(&record.id, n, &index, limit).map(Some)
    });
    match kept {
        Ok(Some(Saving::Saved(saved))) => KeptWork {
            note: Some(saved.words()),
            saved: Some(saved),
        },
        Ok(Some(Saving::Nothing { left_out })) if left_out.is_empty() => KeptWork::default(),
        Ok(Some(Saving::Nothing { left_out })) => {
            let saved = SavedWork::LeftOut { left_out };
            KeptWork {
                note: Some(saved.words()),
                saved: Some(saved),
            }
        }
        Ok(None) => KeptWork {
            saved: None,
            note: first_time(record).then(|| {
                "the project is no git repository, so uncommitted work is not kept apart: its files are as the agent \
                 left them"
                    .to_owned()
            }),
        },
        Err(error) => failed(error_chain(&error)),
    }
}

/// The index lies in the pod's directory, on the way to which nothing may lead elsewhere.
fn own_place(files: &PodFiles) -> Result<(), DiskError> {
    files.ensure_base()?;
    files.create_dirs(files.layout().root())
}

/// Whether no wake-up before this one would have had its work kept.
fn first_time(record: &PodRecord) -> bool {
    let would = |entry: &WakeUpEntry| leaves_unsaved_work(entry.verdict, entry.exit.as_ref(), false);
    !record.wake_ups.iter().any(would)
}

/// What only the one who saw the wake-up's end knows.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// HEAD when it began, if known.
    pub start: Option<StartHead>,
    /// What the agent said last, if it was heard.
    pub last_words: Option<String>,
}

/// Writes the checkpoint of a wake-up that has ended, and makes it the newest. What its agent saved on the way
/// stands above what we add.
pub fn write_checkpoint(
    files: &PodFiles,
    record: &PodRecord,
    entry: &WakeUpEntry,
    seen: &Seen,
) -> Result<(), DiskError> {
    let n = entry.n;
    let agent = files.agent(n);
    let own = own_text(files, n);
    let words = seen.last_words.clone().or_else(|| words_in_log(files, n));
    let handoff = match entry.verdict {
        Verdict::More | Verdict::Done => text_of(files, &files.layout().wakeup(n).join("handoff.md")),
        Verdict::Failed(_) | Verdict::Lost(_) | Verdict::Cancelled => None,
    };
    let checkpoint = Checkpoint {
        pod: &record.id,
        project: &record.project,
        goal: &record.goal,
        n,
        agent: entry.agent.as_ref(),
        agent_type: agent
            .as_ref()
            .map(|agent| agent.kind.as_str())
            .filter(|kind| !kind.is_empty()),
        model: entry.model.as_deref(),
        verdict: Some(entry.verdict),
        detail: entry.detail.as_deref(),
        created_at: now(),
        own: own.as_deref(),
        handoff: handoff.as_deref(),
        last_words: words.as_deref(),
        facts: facts(files, seen.start.as_ref()),
        saved_work: entry.saved_work.as_ref(),
    };
    // What an agent saved is on the disk already, and must not leave it.
    let durability = if own.is_some() {
        Durability::Durable
    } else {
        Durability::Atomic
    };
    store(files, n, &checkpoint.render(), durability)
}

/// Writes the checkpoint of a pod's last wake-up where whoever recorded its outcome did not come to it. The
/// wake-up's lock has to be in the caller's hands. Returns whether anything was missing.
pub fn ensure_checkpoint(files: &PodFiles, record: &PodRecord) -> Result<bool, DiskError> {
    let Some(entry) = record.last() else {
        return Ok(false);
    };
    let text = text_of(files, &files.layout().checkpoint(entry.n));
    if text.is_some_and(|text| is_complete(&text)) || !files.layout().project().is_dir() {
        return Ok(false);
    }
    let wrapper = files.wrapper().filter(|file| file.current.n == entry.n);
    let seen = Seen {
        start: wrapper.and_then(|file| file.start_head),
        last_words: None,
    };
    write_checkpoint(files, record, entry, &seen).map(|()| true)
}

/// Saves what an agent itself wants to keep, while it runs.
pub fn save_own_checkpoint(files: &PodFiles, record: &PodRecord, text: &str) -> Result<u32, DiskError> {
    let current = record.wake();
    let n = current.map_or(record.wake_up_count, |current| current.n);
    let agent = files.agent(n);
    let own = own_words(text);
    let head = Repository::find(files.layout().project(), &look(FACTS_LIMIT, None));
    let checkpoint = Checkpoint {
        pod: &record.id,
        project: &record.project,
        goal: &record.goal,
        n,
        agent: current.map(|current| &current.agent),
        agent_type: agent.as_ref().map(|agent| agent.kind.as_str()),
        model: agent.as_ref().and_then(|agent| agent.model.as_deref()),
        verdict: None,
        detail: None,
        created_at: now(),
        own: Some(&own),
        handoff: None,
        last_words: None,
        facts: Facts {
            head: head
                .ok()
                .flatten()
                .and_then(|found| found.head().map(str::to_owned)),
            ..Facts::default()
        },
        saved_work: None,
    };
    store(files, n, &checkpoint.render(), Durability::Durable)?;
    Ok(n)
}

/// The newest checkpoint, for the next prompt; `None` if there is none.
pub fn latest_checkpoint(files: &PodFiles) -> Result<Option<String>, DiskError> {
    let place = files.layout().latest_checkpoint();
    let file = match files.open(&place, OpenKind::Read) {
        Ok(file) => file,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = file.take(OWN_LIMIT as u64).read_to_end(&mut bytes);
    read.map_err(|error| DiskError::new("read", place, error))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The newest first: a wake-up whose own file stands is not looked at again.
fn store(files: &PodFiles, n: u32, text: &str, durability: Durability) -> Result<(), DiskError> {
    let layout = files.layout();
    files.ensure_base()?;
    files.create_dirs(&layout.checkpoint_runs())?;
    files.write(&layout.latest_checkpoint(), text.as_bytes(), durability)?;
    files.write(&layout.checkpoint(n), text.as_bytes(), durability)
}

fn own_text(files: &PodFiles, n: u32) -> Option<String> {
    let mut text = own_words(&text_of(files, &files.layout().checkpoint(n))?);
    if text.len() > OWN_LIMIT {
        text.truncate(text.floor_char_boundary(OWN_LIMIT));
        text.push_str("\n\n[…]");
    }
    Some(text).filter(|text| !text.is_empty())
}

fn text_of(files: &PodFiles, place: &Path) -> Option<String> {
    let bytes = files.read(place).ok().flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn facts(files: &PodFiles, start: Option<&StartHead>) -> Facts {
    let tasks = pod_checkpoints::read_document(&files.layout().tasks()).unwrap_or_default();
    let mut facts = Facts {
        open_tasks: open_tasks(&String::from_utf8_lossy(&tasks)),
        ..Facts::default()
    };
    match Repository::find(files.layout().project(), &look(FACTS_LIMIT, None)) {
        Ok(None) => facts.notes.push("The project is no git repository.".to_owned()),
        Err(error) => facts.notes.push(format!(
            "The repository could not be looked at: {}",
            error_chain(&error)
        )),
        Ok(Some(repository)) => {
            facts.head = repository.head().map(str::to_owned);
            if let Some(start) = start {
                let commits = repository.commits_since(start);
                let changed = repository.changed_since(start);
                let mut told = |error: GitError| facts.notes.push(error_chain(&error));
                facts.commits = commits.map_err(&mut told).ok();
                facts.changed = changed.map_err(&mut told).ok();
            }
            facts.notes.extend(repository.index_lock().map(|lock| {
                let lock = pod_disk::shown(lock);
                format!("There is a lock on git's index, perhaps left by a killed git: if none runs, `rm '{lock}'`.")
            }));
        }
    }
    facts
}

/// The end of what output.log has of a wake-up, for one whose agent nobody can be asked about.
pub(crate) fn words_in_log(files: &PodFiles, n: u32) -> Option<String> {
    let mut file = files.open(&files.layout().output(), OpenKind::Read).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))
        .ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (header, footer) = (format!("--- wake-up {n} "), format!("--- wake-up {n} ended: "));
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| line.starts_with(&header) && !line.starts_with(&footer);
    let begin = lines.iter().rposition(begins).map_or(0, |at| at + 1);
    let behind = lines[begin..]
        .iter()
        .take_while(|line| !line.starts_with("--- wake-up "));
    let said = behind.copied().collect::<Vec<_>>().join("\n");
    let said = &said[said.ceil_char_boundary(said.len().saturating_sub(LAST_WORDS))..];
    (!said.trim().is_empty()).then(|| format!("(from output.log)\n{said}"))
}

//! What the demo shows at its end: how each wake-up was judged, and where everything lies.

use std::path::Path;

use pod_core::{Declaration, ExitStatus, PodLayout, PodRecord, WakeResult};
use pod_reconcile::PodFiles;

use crate::demo::relative;
use crate::fault::Stop;
use crate::table::Table;
use crate::{ui, words};

/// Prints both.
pub(crate) fn print(record: &PodRecord, root: &Path) -> Result<(), Stop> {
    let files = PodFiles::new(&record.project, &record.id);
    let mut table = Table::new(&["WAKE-UP", "DECLARED", "EVENTS", "EXIT", "TOOK", "VERDICT"]);
    for entry in &record.wake_ups {
        let result = files.result(entry.n, &record.id);
        let [declared, events, exit] = layers(result.as_ref());
        table.row([
            entry.n.to_string(),
            declared,
            events,
            exit,
            words::took(entry),
            entry.verdict.to_string(),
        ]);
    }
    ui::answer(
        "\nHow each wake-up was judged: by its handoff first, then by its events, then by its exit\n\n",
    )?;
    ui::answer(&indented(&table.draw(None)))?;
    ui::answer("\nWhere everything lies\n\n")?;
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    ui::answer(&indented(&places(&files, record, &root)))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// The three layers of evidence, each in a word.
fn layers(result: Option<&WakeResult>) -> [String; 3] {
    let Some(result) = result else {
        return ["-", "-", "-"].map(str::to_owned);
    };
    let declared = match &result.declaration {
        Declaration::NotWritten => "nothing".to_owned(),
        Declaration::More => "rotating".to_owned(),
        Declaration::Done => "done".to_owned(),
        Declaration::Malformed(_) => "malformed".to_owned(),
    };
    let events = format!("{}, {} records", result.events.terminal, result.events.records);
    let exit = match result.entry.exit.as_ref().map(|exit| &exit.status) {
        Some(ExitStatus::Code(code)) => format!("code {code}"),
        Some(ExitStatus::Signal(name)) => name.clone(),
        None => "-".to_owned(),
    };
    [declared, events, exit]
}

fn places(files: &PodFiles, record: &PodRecord, root: &Path) -> String {
    let layout: &PodLayout = files.layout();
    let wakeup = layout.wakeup(record.wake_up_count);
    let project = Path::new(&record.project);
    let places = [
        (
            root.join("home/registry/pods")
                .join(format!("{}.json", record.id)),
            "the record: state, outcomes, policy",
        ),
        (root.join("home/agents.toml"), "which agents there are"),
        (project.join("hello.txt"), "the work itself"),
        (layout.handoff(), "what a session leaves for the next one"),
        (layout.tasks(), "the plan, as boxes"),
        (layout.decisions(), "what was decided, and why"),
        (layout.output(), "what the agent said"),
        (wakeup.join("prompt.md"), "what it was told"),
        (wakeup.join("events.jsonl"), "its own records, byte for byte"),
        (
            wakeup.join("result.json"),
            "the verdict, with all three layers of evidence",
        ),
    ];
    let mut table = Table::new(&["FILE", "IS"]);
    for (path, is) in places.iter().filter(|(path, _)| path.exists()) {
        table.row([
            relative(path, root).to_string_lossy().into_owned(),
            (*is).to_owned(),
        ]);
    }
    table.draw(None)
}

//! `podctl handoff`: an agent's last act.

use std::path::Path;

use pod_core::{PodId, PodRecord, Token};
use pod_disk::Durability;
use pod_reconcile::PodFiles;

use crate::args::{Handoff, Status};
use crate::context::{self, Context, Source};
use crate::fault::{Ended, Exit, Fault};
use crate::ui;

const CANNOT: &str = "cannot hand off";

/// Writes the handoff of the wake-up that this runs in.
pub(crate) fn run(context: &Context, args: &Handoff) -> Ended {
    let wake_up = own(context, CANNOT)?;
    let summary = match (&args.summary, &args.file) {
        (Some(summary), _) => summary.clone(),
        (None, Some(file)) => Source::of_file(file).read_any("the summary")?,
        (None, None) => String::new(),
    };
    if summary.trim().is_empty() {
        ui::note("there is no summary: the next wake-up will not know what was done");
    }
    wake_up.hand_off(args.status, &summary)?;
    Ok(Exit::Done)
}

/// The wake-up that this runs in.
pub(crate) struct Own {
    pub(crate) record: PodRecord,
    files: PodFiles,
}

/// Finds the wake-up that this runs in, and that it is the one that its pod has claimed now. `cannot` is what
/// fails if there is none.
pub(crate) fn own(context: &Context, cannot: &str) -> Result<Own, Fault> {
    let outside = |cause: &str| outside(cannot, cause);
    let (id, token) = own_wake_up(cannot)?;
    let record = context
        .registry()?
        .read(&id)
        .map_err(|error| Fault::of(cannot, &error))?;
    is_current(&record, &token).map_err(|cause| outside(&cause))?;
    let files = PodFiles::new(&record.project, &id);
    let docs = context::variable("AGENTS_POD_DOCS_DIR").unwrap_or_default();
    if Path::new(&docs) != files.layout().docs() {
        return Err(outside("AGENTS_POD_DOCS_DIR is not the pod's own directory"));
    }
    Ok(Own { record, files })
}

impl Own {
    /// Writes HANDOFF.md.
    pub(crate) fn hand_off(&self, status: Status, summary: &str) -> Result<(), Fault> {
        let files = &self.files;
        let text = text(status, summary);
        // An agent that cleaned its project of what git ignores took the documents along.
        let made = files.create_dirs(&files.layout().docs());
        let written =
            made.and_then(|()| files.write(&files.layout().handoff(), text.as_bytes(), Durability::Durable));
        written.map_err(|error| Fault::of(CANNOT, &error))
    }

    /// Its pod's files.
    pub(crate) fn files(&self) -> &PodFiles {
        &self.files
    }

    /// Where its documents lie.
    pub(crate) fn docs(&self) -> std::path::PathBuf {
        self.files.layout().docs()
    }
}

fn outside(cannot: &str, cause: &str) -> Fault {
    Fault::new(
        cannot,
        "it is for the agent of a wake-up: run it inside the one that it is about",
    )
    .caused_by(cause)
}

fn own_wake_up(cannot: &str) -> Result<(PodId, Token), Fault> {
    let outside = |cause: &str| outside(cannot, cause);
    let text = |name: &str| {
        let value = context::variable(name).and_then(|value| value.into_string().ok());
        value.ok_or_else(|| outside(&format!("{name} is not set, so this is no wake-up")))
    };
    let id = text("AGENTS_POD_POD_ID")?;
    let id = id
        .parse()
        .map_err(|error| outside("AGENTS_POD_POD_ID names no pod").because(&error))?;
    Ok((id, Token::from_text(&text("AGENTS_POD_WAKE_TOKEN")?)))
}

fn is_current(record: &PodRecord, token: &Token) -> Result<(), String> {
    match record.wake() {
        Some(current) if current.token == *token => Ok(()),
        Some(_) => Err(format!("another wake-up of pod `{}` runs now", record.id)),
        None => Err(format!("no wake-up of pod `{}` is running", record.id)),
    }
}

fn text(status: Status, summary: &str) -> String {
    let status = match status {
        Status::Rotating => "rotating",
        Status::Done => "done",
    };
    format!("status: {status}\n\n{}\n", summary.trim())
}

#[cfg(test)]
mod tests {
    use pod_core::{HandoffHead, parse_handoff};

    use crate::words::tests::record;

    use super::*;

    #[test]
    fn what_is_written_is_what_the_wrapper_reads() {
        let read = |status, summary| parse_handoff(text(status, summary).as_bytes());
        assert_eq!(read(Status::Done, "status: rotating\n"), HandoffHead::Done);
        assert_eq!(read(Status::Rotating, ""), HandoffHead::Rotating);
    }

    #[test]
    fn a_pod_that_sleeps_has_nothing_to_hand_off() {
        let why = is_current(&record(), &Token::from_text("t")).unwrap_err();
        assert_eq!(why, "no wake-up of pod `fix-login-7k2m` is running");
    }
}

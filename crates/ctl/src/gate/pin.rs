//! Pins the gates of a project.

use std::path::Path;

use pod_checkpoints::Repository;
use pod_config::{GATES_FILE, parse_gates};
use pod_core::GateState;
use pod_reconcile::GATES_FILE_LIMIT;

use crate::context;
use crate::fault::Fault;
use crate::wave::LOOK;

/// What `agents-pod.toml` of a project pins; `None` where it is missing or defines no gate.
pub(crate) fn pin(project: &Path, cannot: &str) -> Result<Option<GateState>, Fault> {
    let bytes = pod_disk::read_below(project, Path::new(GATES_FILE), GATES_FILE_LIMIT);
    let Some(bytes) = bytes.map_err(|error| Fault::of(cannot, &error))? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| Fault::new(cannot, format!("write {GATES_FILE} in UTF-8")).because(&error))?;
    let definitions = parse_gates(&text)
        .map_err(|error| Fault::new(cannot, error.hint()).caused_by(format!("{GATES_FILE}: {error}")))?;
    if definitions.gates.is_empty() {
        return Ok(None);
    }
    let found = Repository::find(project, &LOOK).map_err(|error| Fault::of(cannot, &error))?;
    let Some(repository) = found else {
        let why = format!("{GATES_FILE} defines gates, and the project is no git repository");
        return Err(Fault::new(cannot, "run `git init`: gates compare content by git").caused_by(why));
    };
    let hooks = repository.hooks().map_err(|error| Fault::of(cannot, &error))?;
    let base = repository.head().map(str::to_owned);
    Ok(Some(GateState::pinned(text, base, hooks, context::now())))
}

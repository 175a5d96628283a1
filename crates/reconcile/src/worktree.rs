//! Looks at the worktree of a gated pod, and reads what its gates have left.

use std::path::Path;
use std::time::Duration;

use pod_checkpoints::{Content, Repository};
use pod_config::{GATES_FILE, parse_gates};
use pod_core::{
    GateDefinitions, GateEvidence, GateMode, GateState, PodRecord, Scope, Token, ValidationStatus, Validity,
    Violation, ViolationKind, WorktreeCheckpoint, WorktreeFile, error_chain,
};
use pod_disk::{DiskError, LockMode};
use sha2::{Digest as _, Sha256};

use crate::aftermath::look;
use crate::files::{PodFiles, now};

/// How long a look may take, and waits for another one.
const LOOK_LIMIT: Duration = Duration::from_secs(60);

/// No `agents-pod.toml` is longer.
pub const GATES_FILE_LIMIT: u64 = 1 << 20;

/// Gates as they were pinned, read.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// What the file says.
    pub definitions: GateDefinitions,
    /// Its scope, which can be asked.
    pub scope: Scope,
}

impl Pinned {
    /// Reads what a record has pinned. It was read before it was pinned, by another version perhaps.
    pub fn of(state: &GateState) -> Result<Self, String> {
        let definitions = parse_gates(&state.toml).map_err(|error| error.to_string())?;
        let scope = Scope::new(definitions.scope.clone()).map_err(|error| error.to_string())?;
        Ok(Self { definitions, scope })
    }
}

/// A worktree as it is.
#[derive(Debug, Clone)]
pub struct WorktreeLook {
    /// Its content, or why it could not be read.
    pub content: Result<Content, String>,
    /// What it may not be.
    pub violations: Vec<Violation>,
    /// The same for the same content under the same pin and hooks.
    pub id: Option<String>,
}

impl WorktreeLook {
    fn unknown(why: String) -> Self {
        Self {
            content: Err(why),
            violations: Vec::new(),
            id: None,
        }
    }

    /// The content, if it could be read.
    pub fn diff_hash(&self) -> Option<&str> {
        self.content
            .as_ref()
            .ok()
            .map(|content| content.diff_hash.as_str())
    }

    /// Whether it keeps to its scope.
    pub fn validity(&self) -> Validity {
        match &self.content {
            Err(_) => Validity::Unknown,
            Ok(_) if self.violations.is_empty() => Validity::Valid,
            Ok(_) => Validity::Invalid,
        }
    }

    /// What is kept of the look, before it is compared with the one before.
    pub fn checkpoint(&self) -> WorktreeCheckpoint {
        WorktreeCheckpoint {
            checkpoint_id: self.id.clone(),
            diff_hash: self.diff_hash().map(str::to_owned),
            head_sha: self
                .content
                .as_ref()
                .ok()
                .and_then(|content| content.head.clone()),
            validation_status: match self.validity() {
                Validity::Valid => ValidationStatus::Valid,
                Validity::Invalid => ValidationStatus::Invalid,
                Validity::Unknown => ValidationStatus::Unknown,
            },
            violations: self.violations.clone(),
            net_new_worktree_change: None,
            at: now(),
        }
    }
}

/// Looks at a pod's worktree. Looks of one pod wait for each other; nothing of the user's is touched.
pub fn look_at_worktree(files: &PodFiles, state: &GateState, token: Option<&Token>) -> WorktreeLook {
    let looked = look_now(files, state, token);
    looked.unwrap_or_else(WorktreeLook::unknown)
}

fn look_now(files: &PodFiles, state: &GateState, token: Option<&Token>) -> Result<WorktreeLook, String> {
    let layout = files.layout();
    let project = layout.project();
    let pinned = Pinned::of(state)?;
    let disk = |error: DiskError| error_chain(&error);
    files
        .ensure_base()
        .and_then(|()| files.create_dirs(&layout.gates()))
        .map_err(disk)?;
    let lock = layout.below(&layout.gates().join("look.lock"));
    let _held = pod_disk::lock_below(project, &lock, LockMode::Exclusive, LOOK_LIMIT)
        .map_err(|error| error_chain(&error))?;
    let git = |error: pod_checkpoints::GitError| error_chain(&error);
    let repository = Repository::find(project, &look(LOOK_LIMIT, token)).map_err(git)?;
    let repository = repository.ok_or("the project is no git repository")?;
    let index = layout.gates().join("git-index");
    let content = repository.content(&index, state.base.as_deref()).map_err(git)?;
    let hooks = repository.hooks().map_err(git)?;
    let file = pod_disk::read_below(project, Path::new(GATES_FILE), GATES_FILE_LIMIT);
    // One that cannot be read is not what was pinned.
    let same_file = file.is_ok_and(|bytes| bytes.as_deref() == Some(state.toml.as_bytes()));
    let mut violations = Vec::new();
    for (path, shown) in &content.changed {
        if path.as_path() != Path::new(GATES_FILE) {
            violations.extend(pinned.scope.violation(path, shown));
        }
    }
    if !same_file {
        violations.push(Violation {
            path: GATES_FILE.to_owned(),
            rule: "it differs from what was pinned; `podctl gate reload` pins it anew".to_owned(),
            reason: ViolationKind::GateDefinitionChanged,
        });
    }
    if hooks != state.hooks {
        violations.push(Violation {
            path: ".git/hooks".to_owned(),
            rule: "hooks, or core.hooksPath, differ from what was pinned".to_owned(),
            reason: ViolationKind::GitHooksChanged,
        });
    }
    let mut hasher = Sha256::new();
    for part in [&content.diff_hash, &state.toml, &hooks, &format!("{same_file}")] {
        hasher.update(Sha256::digest(part));
    }
    let id = hasher
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(WorktreeLook {
        content: Ok(content),
        violations,
        id: Some(id),
    })
}

/// The evidence of a gate. One that makes no sense is none: the gate is run again.
pub fn gate_evidence(files: &PodFiles, mode: GateMode) -> Option<GateEvidence> {
    hashed_evidence(files, mode).map(|(evidence, _)| evidence)
}

/// The same with the hash of its file, by which a record knows it again.
pub fn hashed_evidence(files: &PodFiles, mode: GateMode) -> Option<(GateEvidence, String)> {
    let bytes = files.read(&files.layout().latest_gate(mode)).ok().flatten()?;
    let evidence: GateEvidence = serde_json::from_slice(&bytes).ok()?;
    let hash = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    (evidence.mode == mode).then_some((evidence, hash))
}

/// The worktree as the newest wake-up up to `n` left it, if that is known.
pub fn worktree_before(files: &PodFiles, record: &PodRecord) -> Option<WorktreeCheckpoint> {
    let n = record.last()?.n;
    let bytes = files.read(&files.layout().worktree(n)).ok().flatten()?;
    let file: WorktreeFile = serde_json::from_slice(&bytes).ok()?;
    Some(file.after)
}

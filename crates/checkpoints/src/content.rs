//! The content of a worktree against a base: what a gate's evidence is bound to.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::git::{GitError, Look};
use crate::repository::Repository;
use crate::snapshot::Large;

/// How long a repository within the repository is looked at.
const NESTED_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Larger files are hashed, and not put into the object store.
const STORED: u64 = 10 << 20;

/// Settings that change what git takes for the content of a file, or which files it sees: git-config(1).
const BLINDING: &str = "^(filter\\..*|core\\.(autocrlf|eol|safecrlf|attributesfile|excludesfile|symlinks|filemode|sparsecheckout|worktree))$";

/// So much of a hook is looked at.
const HOOK_LIMIT: u64 = 1 << 20;

/// What a project's files are, compared with a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The hash of all that differs; of nothing it is the SHA-256 of nothing. Index and commits do not count.
    pub diff_hash: String,
    /// The paths that differ, relative to the project, and as people see them.
    pub changed: Vec<(PathBuf, String)>,
    /// HEAD.
    pub head: Option<String>,
}

impl Content {
    /// Whether anything differs from the base.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }
}

impl Repository {
    /// Looks at content, mode bits, symlinks and submodule commits of all tracked and untracked files below the
    /// project that are not ignored, compared with the commit `base` (`None`: with nothing). `index` is ours alone
    /// meanwhile.
    pub fn content(&self, index: &Path, base: Option<&str>) -> Result<Content, GitError> {
        let snapshot = self.snapshot(index, Large::Hash(STORED))?;
        let base = match base {
            Some(base) => format!("{base}^{{tree}}"),
            None => self.empty_tree()?,
        };
        let mut args: Vec<OsString> = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"]
            .map(OsString::from)
            .into();
        if !self.below.as_os_str().is_empty() {
            let mut relative = OsString::from("--relative=");
            relative.push(&self.below);
            args.push(relative);
        }
        args.extend([base.into(), snapshot.tree.into()]);
        let raw = self.git.run(args)?;
        let mut hasher = Sha256::new();
        hasher.update(&raw);
        // What cannot be read is not what it was.
        for path in &snapshot.left_out {
            hasher.update(b"left out ");
            hasher.update(path);
            hasher.update([0]);
            // A repository within counts by its own moment, which a change of anything in it moves.
            let place = self.top.join(OsStr::from_bytes(path));
            if place.is_dir() {
                let look = Look {
                    limit: NESTED_LIMIT,
                    mark: None,
                };
                hasher.update(
                    crate::worktree(&place, &look).map_or([0; 32], |found| found.fingerprint.bytes()),
                );
            }
        }
        let fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let paths = fields.filter(|field| !field.starts_with(b":"));
        let paths = paths.map(<[u8]>::to_vec);
        let below = self.below.as_os_str().as_bytes();
        let left_out = snapshot.left_out.iter().map(|path| {
            let path = path.strip_prefix(below).unwrap_or(path);
            path.strip_prefix(b"/").unwrap_or(path).to_vec()
        });
        let shown = |path: Vec<u8>| {
            (
                PathBuf::from(OsString::from_vec(path.clone())),
                bytes_shown(&path),
            )
        };
        Ok(Content {
            diff_hash: hex(hasher),
            changed: paths.chain(left_out).map(shown).collect(),
            head: self.head().map(str::to_owned),
        })
    }

    /// A hash of the repository's hooks, of where it looks for them, and of all settings by which git could show other
    /// content than there is: filters, line ends, attributes and ignored files that are no part of the content. It
    /// changes with every change of one.
    pub fn hooks(&self) -> Result<String, GitError> {
        let mut hasher = Sha256::new();
        let places = self
            .git
            .run(["config", "--show-scope", "-z", "--get-all", "core.hooksPath"]);
        let places = match places {
            Ok(said) => said,
            Err(error) if error.code() == Some(1) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut fields = places.split(|byte| *byte == 0);
        let common = self.git.run(["rev-parse", "--git-common-dir"])?;
        let common = common.strip_suffix(b"\n").unwrap_or(&common);
        let mut dirs = vec![self.top.join(OsStr::from_bytes(common)).join("hooks")];
        while let (Some(scope), Some(place)) = (fields.next(), fields.next()) {
            // Ours, by which none of them runs.
            if scope == b"command" {
                continue;
            }
            hasher.update(place);
            hasher.update([0]);
            dirs.push(self.top.join(OsStr::from_bytes(place)));
        }
        for dir in dirs {
            hash_dir(&dir, &mut hasher);
        }
        for file in ["info/attributes", "info/exclude", "info/sparse-checkout"] {
            hasher.update(file);
            hash_file(&self.top.join(OsStr::from_bytes(common)).join(file), &mut hasher);
        }
        let shown = self
            .git
            .run(["config", "--show-scope", "-z", "--get-regexp", BLINDING]);
        let shown = match shown {
            Ok(said) => said,
            Err(error) if error.code() == Some(1) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut fields = shown.split(|byte| *byte == 0);
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            if scope != b"command" {
                hasher.update(setting);
                hasher.update([0]);
            }
        }
        Ok(hex(hasher))
    }
}

fn hash_dir(dir: &Path, hasher: &mut Sha256) {
    let mut names: Vec<OsString> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        // git's own examples, which it never runs.
        .filter(|name| !name.as_bytes().ends_with(b".sample"))
        .collect();
    names.sort();
    for name in names {
        let place = dir.join(&name);
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hash_file(&place, hasher);
    }
}

fn hash_file(place: &Path, hasher: &mut Sha256) {
    let Ok(found) = fs::metadata(place) else { return };
    hasher.update(found.permissions().mode().to_le_bytes());
    let mut bytes = Vec::new();
    if found.is_file()
        && let Ok(file) = fs::File::open(place)
        && file.take(HOOK_LIMIT).read_to_end(&mut bytes).is_ok()
    {
        hasher.update(Sha256::digest(&bytes));
    }
}

/// A path for people: bytes that are no UTF-8 as `\xNN`, controls escaped.
pub(crate) fn bytes_shown(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(&pod_core::quoted(chunk.valid(), 4096));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn hex(hasher: Sha256) -> String {
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;

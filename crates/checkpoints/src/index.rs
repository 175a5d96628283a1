//! A git index of our own, kept between two uses where an agent may write too.
//!
//! Each use has a directory of its own with a name that nobody knows before: a git of somebody who was killed may
//! still write to the one that he had, and nothing that was planted beside it is opened. What is kept between two
//! uses says by its name from which tree it started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The base of an index that started from nothing.
const UNBORN: &str = "unborn";

/// Our index, while it is used.
#[derive(Debug)]
pub(crate) struct OwnIndex {
    dir: TempDir,
    kept: PathBuf,
    base: Option<String>,
}

impl OwnIndex {
    /// Takes what was kept at `kept`, if anything was and it is a file.
    pub(crate) fn take(kept: &Path) -> io::Result<Self> {
        let parent = kept.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = kept.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let leftover = format!(".{}.", name.to_string_lossy());
        let mut index = Self {
            dir: tempfile::Builder::new()
                .prefix(&format!("{leftover}{}.", std::process::id()))
                .tempdir_in(parent)?,
            kept: kept.to_owned(),
            base: None,
        };
        let own = format!("{}-", name.to_string_lossy());
        for entry in fs::read_dir(parent)?.flatten() {
            let file = entry.file_name();
            let Some(text) = file.to_str() else { continue };
            if let Some(base) = text.strip_prefix(&own) {
                if index.base.is_none() && is_base(base) && index.adopt(&entry.path()) {
                    index.base = Some(base.to_owned());
                } else {
                    remove(&entry.path());
                }
            } else if text.strip_prefix(&leftover).is_some_and(is_of_the_dead) {
                remove(&entry.path());
            }
        }
        Ok(index)
    }

    /// The index that git is to use.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("index")
    }

    /// Whether it knows of nothing yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.base.is_none()
    }

    /// Whether it started from this tree (`None`: from nothing).
    pub(crate) fn started_from(&self, tree: Option<&str>) -> bool {
        self.base.as_deref() == Some(tree.unwrap_or(UNBORN))
    }

    /// Notes from which tree it starts.
    pub(crate) fn start_from(&mut self, tree: Option<&str>) {
        self.base = Some(tree.unwrap_or(UNBORN).to_owned());
    }

    /// Forgets everything.
    pub(crate) fn start_over(&mut self) {
        self.base = None;
        remove(&self.path());
        remove(&self.dir.path().join("index.lock"));
    }

    /// Keeps it for the next use. Where that fails it is made anew then.
    pub(crate) fn keep(self) {
        if let Some(base) = &self.base {
            let mut name = self.kept.as_os_str().to_owned();
            name.push(format!("-{base}"));
            let _kept = fs::rename(self.path(), name);
        }
    }

    fn adopt(&self, found: &Path) -> bool {
        let own = self.path();
        if fs::rename(found, &own).is_err() {
            return false;
        }
        let is_file = fs::symlink_metadata(&own).is_ok_and(|found| found.is_file());
        if !is_file {
            remove(&own);
        }
        is_file
    }
}

fn is_base(text: &str) -> bool {
    text == UNBORN || (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether the rest of a leftover's name begins with the pid of a process that is gone.
fn is_of_the_dead(rest: &str) -> bool {
    let pid = rest.split('.').next().and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// Removes whatever has this name, and follows nothing. What stays shows at the next step.
fn remove(place: &Path) {
    let _removed = match fs::symlink_metadata(place) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(_) => return,
    };
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_planted_is_removed_and_neither_followed_nor_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("git-index");
        let (tree, secret) = ("a".repeat(40), dir.path().join("secret"));
        fs::write(&secret, "theirs").unwrap();
        let named = |suffix: &str| dir.path().join(format!("git-index-{suffix}"));
        symlink(&secret, named(&tree)).unwrap();
        fs::create_dir_all(named("b").join("deep")).unwrap();
        fs::create_dir(dir.path().join(".git-index.4194305.x")).unwrap();
        let index = OwnIndex::take(&kept).unwrap();
        assert!(index.is_fresh() && !index.path().exists());
        index.keep();
        assert_eq!(fs::read(&secret).unwrap(), b"theirs");
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, ["secret"]);
        let mut index = OwnIndex::take(&kept).unwrap();
        fs::write(index.path(), "index").unwrap();
        index.start_from(Some(&tree));
        index.keep();
        let index = OwnIndex::take(&kept).unwrap();
        assert!(index.started_from(Some(&tree)) && fs::read(index.path()).unwrap() == b"index");
        assert!(
            OwnIndex::take(&kept).unwrap().is_fresh(),
            "it is used by one at a time"
        );
    }
}

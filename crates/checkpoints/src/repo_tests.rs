//! A repository for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pod_core::ByteSize;

use crate::{Look, Repository, Saving};

/// A look that has time.
pub(crate) const LOOK: Look = Look {
    limit: Duration::from_secs(60),
    mark: None,
};

pub(crate) struct Repo {
    dir: tempfile::TempDir,
}

impl Repo {
    /// A repository with a commit, and hooks that would leave a trace.
    pub(crate) fn new() -> Self {
        let repo = Self::unborn();
        repo.write("tracked", "one\n");
        repo.write("gone", "one\n");
        repo.write("hidden", "one\n");
        repo.write("dir/file", "one\n");
        repo.write(".gitignore", "*.log\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "one"]);
        for hook in [
            "post-index-change",
            "reference-transaction",
            "post-commit",
            "pre-commit",
        ] {
            let file = repo.path().join(".git/hooks").join(hook);
            fs::write(&file, "#!/bin/sh\necho ran >> .git/hook-ran\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        repo
    }

    pub(crate) fn unborn() -> Self {
        let repo = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.org",
                "-c",
                "core.hooksPath=/dev/null",
            ])
            .args(args)
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    /// Adds another repository as the submodule `sub`, and commits that.
    pub(crate) fn add_submodule(&self, other: &Self) {
        let url = other.path().to_str().unwrap();
        let allowed = "protocol.file.allow=always";
        self.git(&["-c", allowed, "submodule", "add", "-q", url, "sub"]);
        self.git(&["commit", "-qm", "with a submodule"]);
    }

    pub(crate) fn save_in(&self, project: &Path, n: u32) -> Saving {
        let repository = Repository::find(project, &LOOK)
            .unwrap()
            .expect("it is a repository");
        let index = self.path().join(".agents-pod/git-index");
        crate::ensure_base(self.path()).unwrap();
        repository
            .save_work(&"p".parse().unwrap(), n, &index, ByteSize(1024))
            .unwrap()
    }

    pub(crate) fn save(&self, n: u32) -> Saving {
        self.save_in(self.path(), n)
    }

    /// What the ref of wake-up `n` holds, by name.
    pub(crate) fn kept(&self, n: u32) -> Vec<String> {
        let names = self.git(&["ls-tree", "-r", "--name-only", &format!("refs/agents-pod/p/{n}")]);
        names.lines().map(str::to_owned).collect()
    }

    pub(crate) fn content(&self, n: u32, name: &str) -> String {
        self.git(&["cat-file", "blob", &format!("refs/agents-pod/p/{n}:{name}")])
    }
}

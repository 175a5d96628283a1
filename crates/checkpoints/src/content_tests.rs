use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::Content;
use crate::Repository;
use crate::repo_tests::{LOOK, Repo};

const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Repo {
    fn look(&self, project: &Path, base: Option<&str>) -> Content {
        let repository = Repository::find(project, &LOOK)
            .unwrap()
            .expect("it is a repository");
        crate::ensure_base(project).unwrap();
        repository
            .content(&self.path().join(".git/our-index"), base)
            .unwrap()
    }

    fn hash(&self, base: &str) -> String {
        self.look(self.path(), Some(base)).diff_hash
    }

    fn hooks(&self) -> String {
        Repository::find(self.path(), &LOOK)
            .unwrap()
            .unwrap()
            .hooks()
            .unwrap()
    }
}

#[test]
fn the_hash_is_of_the_content_and_comes_back_with_it() {
    let repo = Repo::new();
    let base = repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(repo.hash(&base), NOTHING);
    repo.write("tracked", "two\n");
    let edited = repo.hash(&base);
    assert_ne!(edited, NOTHING);
    repo.git(&["add", "."]);
    assert_eq!(repo.hash(&base), edited, "the index does not count");
    repo.git(&["commit", "-qm", "two"]);
    assert_eq!(
        repo.hash(&base),
        edited,
        "a commit of the same content does not count"
    );
    let mode =
        |mode| fs::set_permissions(repo.path().join("tracked"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    assert_ne!(repo.hash(&base), edited, "a mode bit counts");
    mode(0o644);
    repo.write("noise.log", "ignored\n");
    assert_eq!(repo.hash(&base), edited, "what is ignored does not count");
    fs::remove_file(repo.path().join("hidden")).unwrap();
    symlink("tracked", repo.path().join("hidden")).unwrap();
    assert_ne!(repo.hash(&base), edited, "a symlink counts");
    repo.git(&["checkout", "-q", &base, "--", "."]);
    assert_eq!(repo.hash(&base), NOTHING, "undone is as it was");
    assert!(!repo.path().join(".git/hook-ran").exists());
}

#[test]
fn what_is_ignored_from_now_on_does_not_count_any_more() {
    let repo = Repo::new();
    let base = repo.git(&["rev-parse", "HEAD"]);
    repo.write(".git/info/exclude", "");
    let pinned = repo.hooks();
    repo.write("later", "x");
    assert_ne!(repo.hash(&base), NOTHING);
    repo.write(".git/info/exclude", "later\n");
    assert_eq!(repo.hash(&base), NOTHING);
    assert_ne!(repo.hooks(), pinned, "hiding a file that way is seen");
    repo.git(&["add", "-f", "later"]);
    assert_ne!(repo.hash(&base), NOTHING, "the user tracks it");
}

#[test]
fn large_odd_and_nested_files_count_and_paths_are_those_of_the_project() {
    let repo = Repo::new();
    let base = repo.git(&["rev-parse", "HEAD"]);
    let large = fs::File::create(repo.path().join("dir/large")).unwrap();
    large.set_len(50 << 20).unwrap();
    fs::write(
        repo.path().join("dir").join(OsStr::from_bytes(b"new\nline \xff")),
        "x",
    )
    .unwrap();
    symlink(".", repo.path().join("dir/loop")).unwrap();
    let content = repo.look(&repo.path().join("dir"), Some(&base));
    let shown: Vec<&str> = content.changed.iter().map(|(_, shown)| shown.as_str()).collect();
    assert_eq!(shown, ["large", "loop", "new\\x0aline \\xff"]);
    let stored = repo.git(&["count-objects", "-v"]);
    let size = stored
        .lines()
        .find_map(|line| line.strip_prefix("size: "))
        .unwrap();
    assert!(size.parse::<u64>().unwrap() < 1000, "it is not stored: {stored}");
    fs::File::options()
        .write(true)
        .open(repo.path().join("dir/large"))
        .unwrap()
        .set_len((50 << 20) - 1)
        .unwrap();
    assert_ne!(
        repo.look(&repo.path().join("dir"), Some(&base)).diff_hash,
        content.diff_hash
    );
    repo.write("tracked", "outside\n");
    let before = repo.look(&repo.path().join("dir"), Some(&base));
    repo.write("tracked", "outside again\n");
    assert_eq!(repo.look(&repo.path().join("dir"), Some(&base)), before);
}

#[test]
fn a_submodule_counts_by_its_commit_and_nothing_is_a_base_too() {
    let (repo, other) = (Repo::new(), Repo::new());
    repo.add_submodule(&other);
    let base = repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(repo.hash(&base), NOTHING);
    let moved = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ])
        .current_dir(repo.path().join("sub"))
        .status()
        .unwrap();
    assert!(moved.success());
    assert_ne!(repo.hash(&base), NOTHING);
    let all = repo.look(repo.path(), None);
    assert!(all.changed.len() > 4 && !all.is_empty());
}

#[test]
fn hooks_and_their_place_are_watched() {
    let repo = Repo::new();
    let before = repo.hooks();
    assert_eq!(before, repo.hooks());
    fs::write(repo.path().join(".git/hooks/pre-push.sample"), "x").unwrap();
    assert_eq!(before, repo.hooks(), "an example is no hook");
    fs::write(repo.path().join(".git/hooks/pre-push"), "x").unwrap();
    let more = repo.hooks();
    assert_ne!(before, more);
    for (key, value) in [
        ("core.autocrlf", "input"),
        ("filter.x.clean", "cat"),
        ("core.fileMode", "false"),
    ] {
        let before = repo.hooks();
        repo.git(&["config", key, value]);
        assert_ne!(before, repo.hooks(), "{key}");
    }
    let before = repo.hooks();
    repo.write(".git/info/attributes", "* filter=x\n");
    assert_ne!(before, repo.hooks());
    repo.git(&["config", "core.hooksPath", "other"]);
    assert_ne!(more, repo.hooks());
    let elsewhere = repo.hooks();
    repo.write("other/pre-commit", "x");
    assert_ne!(elsewhere, repo.hooks());
}

#[test]
fn a_repository_within_the_repository_counts_and_so_does_what_an_id_stands_for() {
    let repo = Repo::new();
    let base = repo.git(&["rev-parse", "HEAD"]);
    repo.write("nested/file", "one");
    let within = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
        assert!(
            git.current_dir(repo.path().join("nested"))
                .status()
                .unwrap()
                .success()
        );
    };
    within(&["init", "-q"]);
    within(&["add", "."]);
    within(&["commit", "-qm", "one"]);
    let first = repo.look(repo.path(), Some(&base));
    assert_eq!(first.changed.len(), 1, "{first:?}");
    assert_eq!(repo.hash(&base), first.diff_hash);
    within(&["commit", "-q", "--allow-empty", "-m", "two"]);
    let second = repo.hash(&base);
    assert_ne!(second, first.diff_hash);
    repo.write("nested/file", "another");
    assert_ne!(second, repo.hash(&base));
    repo.write("tracked", "two");
    repo.git(&["commit", "-qam", "two"]);
    let changed = repo.look(repo.path(), Some(&base)).changed.len();
    repo.git(&["replace", &base, "HEAD"]);
    assert_eq!(repo.look(repo.path(), Some(&base)).changed.len(), changed);
}

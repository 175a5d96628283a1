use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::Duration;

use super::*;
use crate::Look;
use crate::repo_tests::{LOOK, Repo};

fn left_out(saving: &Saving) -> Vec<String> {
    match saving {
        Saving::Nothing { left_out } | Saving::Saved(SavedWork::Kept { left_out, .. }) => left_out.clone(),
        Saving::Saved(other) => panic!("{other:?}"),
    }
}

#[test]
fn every_edit_is_kept_and_nothing_of_the_users_is_touched() {
    let repo = Repo::new();
    repo.git(&["update-index", "--skip-worktree", "hidden"]);
    repo.write("stashed", "x");
    repo.git(&["stash", "-qu"]);
    repo.write("hidden", "edited behind a bit\n");
    repo.write("tracked", "two\n");
    fs::remove_file(repo.path().join("gone")).unwrap();
    fs::remove_dir_all(repo.path().join("dir")).unwrap();
    repo.write("dir", "a file now\n");
    repo.write("new/deep é\n", "new\n");
    repo.write("noise.log", "ignored\n");
    repo.write("forced.log", "tracked by the user\n");
    repo.git(&["add", "-f", "forced.log"]);
    fs::write(repo.path().join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    symlink("/etc/passwd", repo.path().join("link")).unwrap();
    repo.write("tool", "#!/bin/sh\n");
    fs::set_permissions(repo.path().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let state = || {
        let files = [
            "index",
            "HEAD",
            "refs/heads/main",
            "refs/stash",
            "logs/refs/stash",
        ];
        files.map(|name| fs::read(repo.path().join(".git").join(name)).unwrap())
    };
    let (before, status) = (state(), repo.git(&["status", "--porcelain"]));
    let saving = repo.save(3);
    assert_eq!(before, state());
    assert!(!repo.path().join(".git/hook-ran").exists(), "a hook ran");
    assert_eq!(status, repo.git(&["status", "--porcelain"]));
    assert!(left_out(&saving).is_empty(), "{saving:?}");
    assert_eq!(repo.content(3, "tracked"), "two");
    assert_eq!(repo.content(3, "hidden"), "edited behind a bit");
    assert_eq!(repo.content(3, "dir"), "a file now");
    assert_eq!(repo.content(3, "link"), "/etc/passwd");
    assert_eq!(repo.content(3, "forced.log"), "tracked by the user");
    let kept = repo.kept(3);
    assert!(
        !kept.iter().any(|name| name == "gone" || name == "noise.log"),
        "{kept:?}"
    );
    assert!(kept.iter().any(|name| name.contains("deep")) && kept.iter().any(|name| name.contains("377")));
    let modes = repo.git(&["ls-tree", "refs/agents-pod/p/3", "tool", "link"]);
    assert!(modes.contains("100755") && modes.contains("120000"), "{modes}");
    let parent = repo.git(&["rev-parse", "refs/agents-pod/p/3^"]);
    assert_eq!(parent, repo.git(&["rev-parse", "HEAD"]));
    let by = repo.git(&["log", "-1", "--format=%an <%ae>", "refs/agents-pod/p/3"]);
    assert_eq!(by, "agents-pod <agents-pod@localhost>");
}

#[test]
fn what_is_too_large_or_a_repository_of_its_own_is_left_out_by_name() {
    let repo = Repo::new();
    repo.write("big", &"x".repeat(1025));
    repo.write("just", &"x".repeat(1024));
    repo.write("tracked", &"y".repeat(2000));
    repo.write("nested/file", "x");
    let nested = repo.path().join("nested");
    let made = Command::new("git")
        .args(["init", "-q"])
        .current_dir(&nested)
        .status()
        .unwrap();
    assert!(made.success());
    let saving = repo.save(1);
    assert_eq!(left_out(&saving), ["big", "nested/", "tracked"]);
    assert_eq!(repo.content(1, "just").len(), 1024);
    assert_eq!(repo.content(1, "tracked"), "one", "it stays as HEAD has it");
    let message = repo.git(&["log", "-1", "--format=%B", "refs/agents-pod/p/1"]);
    assert!(
        message.contains("Left out:\n  big\n  nested/\n  tracked"),
        "{message}"
    );
}

#[test]
fn a_clean_tree_makes_no_ref_and_an_index_of_ours_follows_head() {
    let repo = Repo::new();
    assert_eq!(repo.save(1), Saving::Nothing { left_out: vec![] });
    repo.write("tracked", "two\n");
    assert!(matches!(repo.save(2), Saving::Saved(_)));
    repo.git(&["commit", "-qam", "two"]);
    assert_eq!(repo.save(3), Saving::Nothing { left_out: vec![] });
    repo.write("forced.log", "ignored, and committed all the same\n");
    repo.git(&["add", "-f", "forced.log"]);
    repo.git(&["commit", "-qm", "three"]);
    assert_eq!(repo.save(3), Saving::Nothing { left_out: vec![] });
    repo.git(&["reset", "-q", "--hard", "HEAD^"]);
    repo.git(&["reset", "-q", "--hard", "HEAD^"]);
    repo.write("more", "x");
    assert!(matches!(repo.save(4), Saving::Saved(_)));
    assert_eq!(repo.content(4, "tracked"), "one");
    assert_eq!(
        repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents-pod/"])
            .lines()
            .count(),
        2
    );
    // A torn index of ours is nothing but a lost memory.
    let place = repo.path().join(".agents-pod");
    let kept = fs::read_dir(&place).unwrap().flatten().map(|entry| entry.path());
    let kept = kept
        .filter(|path| path.to_string_lossy().contains("git-index-"))
        .collect::<Vec<_>>();
    assert_eq!(kept.len(), 1, "one is kept: {kept:?}");
    fs::write(&kept[0], "torn").unwrap();
    assert!(matches!(repo.save(5), Saving::Saved(_)));
    assert_eq!(repo.kept(5), repo.kept(4));
}

#[test]
fn one_awkward_path_does_not_cost_the_others() {
    let repo = Repo::new();
    repo.write(
        ".gitattributes",
        "*.bin filter=broken\n*.u working-tree-encoding=UTF-16\n",
    );
    repo.write("a.bin", "as it is\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "attributes"]);
    repo.git(&["config", "filter.broken.clean", "exit 3"]);
    repo.git(&["config", "filter.broken.required", "true"]);
    repo.write("a.bin", "edited\n");
    repo.write("b.bin", "new\n");
    repo.write("c.u", "no BOM\n");
    fs::remove_dir_all(repo.path().join("dir")).unwrap();
    symlink("/nowhere", repo.path().join("dir")).unwrap();
    fs::remove_file(repo.path().join("gone")).unwrap();
    repo.write("gone/inside", "a directory now\n");
    repo.write("precious", "x\n");
    assert!(left_out(&repo.save(1)).is_empty());
    for (name, content) in [
        ("a.bin", "edited"),
        ("b.bin", "new"),
        ("c.u", "no BOM"),
        ("dir", "/nowhere"),
        ("gone/inside", "a directory now"),
        ("precious", "x"),
    ] {
        assert_eq!(repo.content(1, name), content, "{name}");
    }
}

#[test]
fn a_filter_that_never_ends_costs_time_and_no_work() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.bin filter=slow\n");
    repo.git(&["config", "filter.slow.clean", "sleep 600"]);
    repo.write("a.bin", "new\n");
    let look = Look {
        limit: Duration::from_secs(2),
        mark: None,
    };
    let repository = Repository::find(repo.path(), &look).unwrap().unwrap();
    crate::ensure_base(repo.path()).unwrap();
    let index = repo.path().join(".agents-pod/git-index");
    let saved = repository
        .save_work(&"p".parse().unwrap(), 1, &index, ByteSize(1024))
        .unwrap();
    assert!(matches!(saved, Saving::Saved(_)));
    assert_eq!(repo.content(1, "a.bin"), "new");
}

#[test]
fn what_a_sparse_checkout_keeps_away_is_no_edit() {
    let repo = Repo::new();
    repo.write("other/file", "one\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "two"]);
    repo.git(&["sparse-checkout", "set", "dir"]);
    assert!(!repo.path().join("other/file").exists());
    assert_eq!(repo.save(1), Saving::Nothing { left_out: vec![] });
    repo.write("dir/file", "two\n");
    assert!(matches!(repo.save(2), Saving::Saved(_)));
    assert_eq!(
        (repo.content(2, "other/file"), repo.content(2, "dir/file")),
        ("one".into(), "two".into())
    );
}

#[test]
fn settings_that_hide_edits_do_not_hide_them_from_us() {
    let repo = Repo::new();
    for setting in ["core.ignoreStat", "core.splitIndex", "core.untrackedCache"] {
        repo.git(&["config", setting, "true"]);
    }
    for (n, text) in [(1, "two\n"), (2, "two\nthree\n")] {
        repo.write("tracked", text);
        repo.save(n);
        assert_eq!(repo.content(n, "tracked"), text.trim_end());
    }
}

#[test]
fn a_file_that_has_grown_is_left_out_and_not_kept_as_it_was() {
    let repo = Repo::new();
    repo.write("grows", "small\n");
    repo.save(1);
    assert_eq!(repo.content(1, "grows"), "small");
    repo.write("grows", &"x".repeat(2000));
    assert_eq!(
        repo.save(2),
        Saving::Nothing {
            left_out: vec!["grows".into()]
        }
    );
    repo.write("tracked", &"y".repeat(2000));
    repo.write("more", "x");
    assert_eq!(left_out(&repo.save(3)), ["grows", "tracked"]);
    assert_eq!(repo.content(3, "tracked"), "one");
    assert!(!repo.kept(3).contains(&"grows".to_owned()));
}

#[test]
fn what_is_ours_is_nobodys_work() {
    let repo = Repo::new();
    crate::ensure_base(repo.path()).unwrap();
    repo.write(".agents-pod/.gitignore", "");
    repo.write(".agents-pod/p/wrapper.json", "{\"token\":\"secret\"}");
    assert_eq!(repo.save(1), Saving::Nothing { left_out: vec![] });
}

#[test]
fn a_repository_without_a_commit_and_a_project_below_the_top() {
    let repo = Repo::unborn();
    assert_eq!(repo.save(1), Saving::Nothing { left_out: vec![] });
    repo.write("first", "x\n");
    assert!(matches!(repo.save(2), Saving::Saved(_)));
    assert_eq!(repo.kept(2), ["first"]);
    let repo = Repo::new();
    repo.write("tracked", "outside\n");
    repo.write("dir/file", "inside\n");
    repo.write("dir/new", "inside\n");
    assert!(matches!(
        repo.save_in(&repo.path().join("dir"), 1),
        Saving::Saved(_)
    ));
    assert_eq!(
        repo.content(1, "tracked"),
        "one",
        "what lies outside the project is not its work"
    );
    assert_eq!(repo.content(1, "dir/file"), "inside");
    assert!(repo.kept(1).contains(&"dir/new".to_owned()));
}

#[test]
fn a_submodule_is_named_and_its_commit_kept() {
    let (repo, other) = (Repo::new(), Repo::new());
    repo.add_submodule(&other);
    repo.write("sub/tracked", "edited within\n");
    assert_eq!(left_out(&repo.save(1)), ["sub"]);
}

#[test]
fn what_is_no_repository_is_none() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Repository::find(dir.path(), &LOOK).unwrap().is_none());
    fs::write(dir.path().join(".git"), "gitdir: /no/such/place\n").unwrap();
    assert!(matches!(Repository::find(dir.path(), &LOOK), Ok(None)));
}

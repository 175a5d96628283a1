use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(secs * 1000)
}

fn wave(root: &Path) -> Wave {
    Wave::at(root, "7".parse().unwrap())
}

fn checkpoint(sub: &str, secs: i64, payload: &str) -> SubCheckpoint {
    SubCheckpoint::new("7".parse().unwrap(), sub.parse().unwrap(), at(secs), payload).unwrap()
}

#[test]
fn the_environment_beats_the_place_and_has_to_make_sense() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, deep) = (dir.path().join("r"), dir.path().join("r/a/b"));
    fs::create_dir_all(&deep).unwrap();
    assert_eq!(find_root(None, &deep).unwrap(), deep);
    fs::write(repo.join(".git"), "gitdir: elsewhere").unwrap();
    assert_eq!(find_root(None, &deep).unwrap(), repo);
    fs::create_dir(repo.join("a/.agents-pod")).unwrap();
    assert_eq!(find_root(None, &deep).unwrap(), repo.join("a"));
    assert_eq!(
        find_root(Some(dir.path().as_os_str()), &deep).unwrap(),
        dir.path()
    );
    for wrong in ["relative", "/no/such/place", "/etc/passwd"] {
        assert!(find_root(Some(OsStr::new(wrong)), &deep).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_skipped_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let wave = wave(dir.path());
    assert!(!wave.exists().unwrap() && wave.scan().unwrap() == Found::default());
    wave.write(&checkpoint("good", 1, "{}")).unwrap();
    let place = dir.path().join(wave.layout.dir());
    symlink(
        wave.file(&"good".parse().unwrap()),
        place.join("subagent-link.checkpoint.json"),
    )
    .unwrap();
    fs::copy(
        wave.file(&"good".parse().unwrap()),
        place.join("subagent-other.checkpoint.json"),
    )
    .unwrap();
    fs::write(place.join("subagent-torn.checkpoint.json"), "{").unwrap();
    fs::write(place.join("subagent-a.b.checkpoint.json"), "{}").unwrap();
    fs::write(place.join("subagent-good.checkpoint.json.bak"), "{}").unwrap();
    let found = wave.scan().unwrap();
    assert_eq!(found.checkpoints.len(), 1);
    assert_eq!(found.warnings.len(), 5, "{:#?}", found.warnings);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(wave.file(&"good".parse().unwrap()))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_wave_that_is_a_symlink_is_refused() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(dir.path().join(".agents-pod/waves")).unwrap();
    symlink(outside.path(), dir.path().join(".agents-pod/waves/wave-7")).unwrap();
    let wave = wave(dir.path());
    assert!(wave.write(&checkpoint("a", 1, "{}")).is_err());
    assert!(wave.scan().is_err() && wave.complete(&"a".parse().unwrap()).is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_drain_takes_what_is_newer_and_nothing_twice() {
    let (parent, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (wave(parent.path()), wave(tree.path()));
    assert_eq!(here.drain(tree.path()).unwrap(), Drained::default());
    there.write(&checkpoint("only-there", 1, r#"{"k":1}"#)).unwrap();
    there.write(&checkpoint("older-there", 1, r#"{"k":1}"#)).unwrap();
    there.write(&checkpoint("newer-there", 9, r#"{"k":9}"#)).unwrap();
    here.write(&checkpoint("older-there", 5, r#"{"k":5}"#)).unwrap();
    here.write(&checkpoint("newer-there", 5, r#"{"k":5}"#)).unwrap();
    let first = here.drain(tree.path()).unwrap();
    assert_eq!(
        (first.drained, first.kept, first.warnings.len()),
        (2, 1, 1),
        "{first:?}"
    );
    let of = |sub: &str| here.load(&sub.parse().unwrap()).unwrap().unwrap().at;
    assert_eq!(
        (of("only-there"), of("older-there"), of("newer-there")),
        (at(1), at(5), at(9))
    );
    let again = here.drain(tree.path()).unwrap();
    assert_eq!((again.drained, again.kept), (0, 3));
    let same = fs::read(here.file(&"newer-there".parse().unwrap())).unwrap();
    assert_eq!(
        same,
        fs::read(there.file(&"newer-there".parse().unwrap())).unwrap()
    );
    assert!(matches!(
        here.drain(parent.path()),
        Err(WaveError::SameRoot { .. })
    ));
}

#[test]
fn what_a_newer_version_wrote_is_kept_and_carried_along() {
    let (parent, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (wave(parent.path()), wave(tree.path()));
    let sub: SubId = "s".parse().unwrap();
    there.write(&checkpoint("s", 1, "{}")).unwrap();
    let newer = fs::read_to_string(there.file(&sub))
        .unwrap()
        .replace("version\":1", "version\":2");
    fs::write(there.file(&sub), &newer).unwrap();
    assert_eq!(here.drain(tree.path()).unwrap().drained, 1);
    assert_eq!(fs::read_to_string(here.file(&sub)).unwrap(), newer);
    assert!(here.write(&checkpoint("s", 5, "{}")).is_err());
    there.write(&checkpoint("t", 1, "{}")).unwrap();
    assert_eq!(fs::read_to_string(here.file(&sub)).unwrap(), newer);
}

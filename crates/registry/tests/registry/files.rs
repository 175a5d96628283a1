//! One process and files of every kind: good, broken, newer, foreign, set aside.

use std::convert::Infallible;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pod_registry::{Cache, Fault, ReadError, RegistryError, UpdateError};

use crate::support::{LONG, Place, create, face, id, record};

fn age(file: &std::path::Path) {
    let past = SystemTime::now() - Duration::from_secs(3600);
    File::options()
        .append(true)
        .open(file)
        .unwrap()
        .set_modified(past)
        .unwrap();
}

#[test]
fn a_record_is_created_changed_and_removed() {
    let place = Place::new();
    let registry = &place.registry;
    assert!(matches!(registry.read(&id("a")), Err(ReadError::Missing { .. })));
    create(registry, "a", "goal");
    assert_eq!(registry.read(&id("a")).unwrap(), record("a", "goal"));
    let mode = fs::metadata(registry.home().pod(&id("a")))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let locked = registry.lock(&id("a"), LONG).unwrap();
    assert!(matches!(
        locked.create(&record("a", "x")),
        Err(RegistryError::Exists { .. })
    ));
    assert!(matches!(
        locked.write(&record("b", "x")),
        Err(RegistryError::Foreign { .. })
    ));
    locked.write(&record("a", "other")).unwrap();
    assert_eq!(locked.read().unwrap().goal, "other");
    locked.remove().unwrap();
    locked.remove().unwrap();
    let gone = locked.write(&record("a", "ghost"));
    assert!(matches!(
        gone,
        Err(RegistryError::Read(ReadError::Missing { .. }))
    ));
    assert_eq!(face(registry), "");
}

#[test]
fn an_update_that_changes_nothing_or_refuses_writes_nothing() {
    let place = Place::new();
    let registry = &place.registry;
    create(registry, "a", "goal");
    let file = registry.home().pod(&id("a"));
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
    let before = inode();
    assert_eq!(
        registry
            .update(&id("a"), LONG, |_| Ok::<_, Infallible>(7))
            .unwrap(),
        7
    );
    let refused = registry.update(&id("a"), LONG, |record| {
        record.goal = "half done".into();
        Err::<(), _>("no")
    });
    assert!(matches!(refused, Err(UpdateError::Refused("no"))));
    assert_eq!(
        (inode(), registry.read(&id("a")).unwrap().goal),
        (before, "goal".to_owned())
    );
    let missing = registry.update(&id("b"), LONG, |_| Ok::<_, Infallible>(()));
    assert!(matches!(
        missing,
        Err(UpdateError::Read(ReadError::Missing { .. }))
    ));
}

#[test]
fn one_broken_record_stops_no_other() {
    let place = Place::new();
    let registry = &place.registry;
    create(registry, "good", "goal");
    let whole = fs::read(registry.home().pod(&id("good"))).unwrap();
    place.plant("empty", b"");
    place.plant("garbage", &[0xff, 0xfe, 0, 1]);
    place.plant("torn", &whole[..whole.len() / 2]);
    place.plant("trailing", &[whole.as_slice(), b"}"].concat());
    place.plant("wrong", &whole);
    place.plant("newer", br#"{"schemaVersion":2,"id":"newer"}"#);
    fs::create_dir(registry.home().pod(&id("dir"))).unwrap();
    fs::write(registry.home().pods().join("No Id.json"), &whole).unwrap();
    fs::write(registry.home().pods().join(".good.json.Ab12"), "leftover").unwrap();
    fs::write(registry.home().pods().join("notes.txt"), "of a person").unwrap();
    let expected = "good: goal\nNo Id: Stranger\ndir: Disk\nempty: Broken\ngarbage: Broken\nnewer: Newer\n\
                    torn: Broken\ntrailing: Broken\nwrong: Broken\n";
    assert_eq!(face(registry), expected);
    let Err(ReadError::Unreadable { byte, file, .. }) = registry.read(&id("trailing")) else {
        panic!()
    };
    assert_eq!(
        (byte, file),
        (whole.len() as u64, registry.home().pod(&id("trailing")))
    );
    let error = registry.read(&id("empty")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is not a readable record: it is empty at byte 0"),
        "{error}"
    );
    assert!(error.hint().contains("empty.json"));
}

#[test]
fn what_is_broken_or_newer_is_not_written_over() {
    let place = Place::new();
    let registry = &place.registry;
    for (name, bytes) in [
        ("newer", &br#"{"schemaVersion":2,"id":"newer"}"#[..]),
        ("torn", b"{"),
        ("empty", b""),
    ] {
        let file = place.plant(name, bytes);
        let changed = registry.update(&id(name), LONG, |_| Ok::<_, Infallible>(()));
        assert!(matches!(changed, Err(UpdateError::Read(_))), "{name}");
        let locked = registry.lock(&id(name), LONG).unwrap();
        assert!(
            matches!(locked.write(&record(name, "x")), Err(RegistryError::Read(_))),
            "{name}"
        );
        assert!(
            matches!(
                locked.create(&record(name, "x")),
                Err(RegistryError::Exists { .. })
            ),
            "{name}"
        );
        assert_eq!(fs::read(file).unwrap(), bytes);
    }
}

#[test]
fn a_broken_record_is_set_aside_and_its_id_stays_taken() {
    let place = Place::new();
    let registry = &place.registry;
    place.plant("a", b"{torn");
    let locked = registry.lock(&id("a"), LONG).unwrap();
    let first = locked.quarantine().unwrap();
    assert_eq!(fs::read(&first).unwrap(), b"{torn");
    assert_eq!(face(registry), "a: SetAside\n");
    assert!(matches!(
        locked.create(&record("a", "x")),
        Err(RegistryError::SetAside { .. })
    ));
    let Err(ReadError::Unreadable { file, why, .. }) = locked.read() else {
        panic!()
    };
    assert_eq!(file, first);
    assert!(why.starts_with("it was set aside: "), "{why}");
    // It is not set aside twice, and a second broken file of the name does not displace it.
    assert!(matches!(
        locked.quarantine(),
        Err(RegistryError::Read(ReadError::Missing { .. }))
    ));
    place.plant("a", b"");
    assert_ne!(locked.quarantine().unwrap(), first);
    assert_eq!(registry.list().unwrap().unreadable.len(), 2);
}

#[test]
fn what_can_be_read_or_is_newer_is_not_set_aside() {
    let place = Place::new();
    let registry = &place.registry;
    create(registry, "a", "goal");
    place.plant("newer", br#"{"schemaVersion":9}"#);
    let locked = registry.lock(&id("a"), LONG).unwrap();
    assert!(matches!(
        locked.quarantine(),
        Err(RegistryError::NotBroken { .. })
    ));
    drop(locked);
    let locked = registry.lock(&id("newer"), LONG).unwrap();
    assert!(matches!(
        locked.quarantine(),
        Err(RegistryError::Read(ReadError::Newer { version: 9, .. }))
    ));
    assert_eq!(face(registry), "a: goal\nnewer: Newer\n");
}

#[test]
fn a_cached_listing_reads_what_changed_and_nothing_else() {
    let place = Place::new();
    let registry = &place.registry;
    for name in ["a", "b", "c"] {
        create(registry, name, "old");
        age(&registry.home().pod(&id(name)));
    }
    let mut cache = Cache::default();
    let first = registry.list_cached(&mut cache).unwrap().records;
    registry
        .lock(&id("a"), LONG)
        .unwrap()
        .write(&record("a", "new"))
        .unwrap();
    registry.lock(&id("b"), LONG).unwrap().remove().unwrap();
    place.plant("broken", b"");
    let second = registry.list_cached(&mut cache).unwrap();
    let goals: Vec<&str> = second.records.iter().map(|record| record.goal.as_str()).collect();
    assert_eq!(goals, ["new", "old"]);
    assert!(Arc::ptr_eq(&first[2], &second.records[1]));
    assert_eq!(
        (second.unreadable.len(), second.unreadable[0].fault),
        (1, Fault::Broken)
    );
}

#[test]
fn a_record_that_was_just_written_is_not_remembered() {
    let place = Place::new();
    create(&place.registry, "a", "goal");
    let file = place.registry.home().pod(&id("a"));
    // As far in the future as no clock moves during the test: near enough to `now` to be doubtful.
    let near = SystemTime::now() + Duration::from_millis(100);
    File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(near)
        .unwrap();
    let mut cache = Cache::default();
    let first = place.registry.list_cached(&mut cache).unwrap().records;
    let second = place.registry.list_cached(&mut cache).unwrap().records;
    assert!(!Arc::ptr_eq(&first[0], &second[0]));
}

#[test]
fn leftovers_of_killed_writers_are_cleared_and_records_are_not() {
    let place = Place::new();
    create(&place.registry, "a", "goal");
    fs::write(place.registry.home().pods().join(".a.json.Ab12"), "half").unwrap();
    let all = place.registry.lock_all(LONG).unwrap();
    assert_eq!(
        (all.clear_leftovers().unwrap(), all.clear_leftovers().unwrap()),
        (1, 0)
    );
    assert_eq!(face(&place.registry), "a: goal\n");
}

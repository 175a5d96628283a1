//! A file system with no room left.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::process::Command;

use pod_core::HomeLayout;
use pod_registry::{Registry, UpdateError};

use crate::support::{LONG, create, face, id};

struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        let mounted = mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(at)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).status().ok();
    }
}

#[test]
fn a_full_disk_refuses_the_change_keeps_every_record_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = Tmpfs::mount(directory.path()) else {
        println!("skipped: only root may mount a small file system");
        return;
    };
    let registry = Registry::open(HomeLayout::new(directory.path().join("home"))).unwrap();
    create(&registry, "a", "goal");
    create(&registry, "b", "goal");
    let filler = directory.path().join("filler");
    let filled = fs::write(&filler, vec![0; 64 << 10]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let before = face(&registry);
    let grow = || {
        registry.update(&id("a"), LONG, |record| {
            record.goal = "longer ".repeat(100);
            Ok::<_, Infallible>(())
        })
    };
    let Err(UpdateError::Registry(error)) = grow() else {
        panic!("there was room")
    };
    assert!(error.is_full(), "{error}");
    assert!(error.hint().contains("free some space"), "{}", error.hint());
    let names = fs::read_dir(registry.home().pods()).unwrap().count();
    assert_eq!((face(&registry), names), (before, 2));
    // A new podd may start on it and see everything.
    assert_eq!(
        Registry::open(registry.home().clone())
            .unwrap()
            .list()
            .unwrap()
            .records
            .len(),
        2
    );
    fs::remove_file(&filler).unwrap();
    grow().unwrap();
    drop(disk);
}

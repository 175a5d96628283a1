//! A small file system of its own, for tests of a full disk.

use std::fs;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A mounted tmpfs, which goes with this value.
#[derive(Debug)]
pub struct Tmpfs {
    place: PathBuf,
}

impl Tmpfs {
    /// Mounts one of so many bytes at `place`; `None` where this user may not mount.
    pub fn mount(place: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir_all(place).expect("the mount point can be made");
        let options = format!("size={bytes},mode=0700");
        match mount(
            Some("tmpfs"),
            place,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        ) {
            Ok(()) => Some(Self {
                place: place.to_owned(),
            }),
            Err(Errno::EPERM | Errno::EACCES) => None,
            Err(error) => panic!("cannot mount a tmpfs at {}: {error}", place.display()),
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // A failure leaves a mount behind, which is no reason to fail what was tested.
        umount2(&self.place, MntFlags::MNT_DETACH).ok();
    }
}

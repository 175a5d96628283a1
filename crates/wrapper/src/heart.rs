//! The heartbeat: a file whose modification time proves that the wrapper lives.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pod_disk::OpenKind;
use pod_reconcile::PodFiles;

use pod_reconcile::now;

/// Proves that the wrapper lives, and nothing about the agent.
///
/// It writes over bytes that were allocated when it began, so it beats on a full disk as well.
#[derive(Debug)]
pub(crate) struct Heart {
    files: PodFiles,
    file: RefCell<Option<File>>,
    pub(crate) interval: Duration,
}

impl Heart {
    pub(crate) fn new(files: &PodFiles, interval: Duration) -> Self {
        let heart = Self {
            files: files.clone(),
            file: RefCell::new(None),
            interval,
        };
        heart.beat();
        heart
    }

    /// A beat that fails is one that podd misses: there is nothing else to do about it.
    pub(crate) fn beat(&self) {
        let mut file = self.file.borrow_mut();
        if !file.as_ref().is_some_and(|file| self.is_in_place(file)) {
            *file = self.open();
        }
        let Some(file) = &*file else { return };
        let written = file.write_all_at(format!("{}\n", now().as_millis()).as_bytes(), 0);
        if written.is_err() {
            // The first beat of all, on a disk that has become full: the time is what counts.
            let _stamped = file.set_modified(std::time::SystemTime::now());
        }
    }

    /// Whether the file is still where podd looks: an agent may clean its project of what git ignores.
    fn is_in_place(&self, file: &File) -> bool {
        let place = self.files.stat(&self.files.layout().heartbeat()).ok().flatten();
        place.is_some_and(|place| file.metadata().is_ok_and(|own| own.ino() == place.inode))
    }

    fn open(&self) -> Option<File> {
        let layout = self.files.layout();
        let made = self
            .files
            .ensure_base()
            .and_then(|()| self.files.create_dirs(layout.root()));
        made.and_then(|()| self.files.open(&layout.heartbeat(), OpenKind::Overwrite))
            .ok()
    }

    /// Does something that may take longer than an interval, beating meanwhile.
    pub(crate) fn while_beating<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let (done, wait) = mpsc::channel();
            scope.spawn(move || {
                // Nobody waits any more only if we are gone.
                let _sent = done.send(work());
            });
            self.wait_for(&wait)
        })
    }

    /// Waits for what another thread does, beating meanwhile.
    pub(crate) fn wait_for<T>(&self, work: &mpsc::Receiver<T>) -> T {
        loop {
            match work.recv_timeout(self.interval) {
                Ok(value) => return value,
                Err(RecvTimeoutError::Timeout) => self.beat(),
                Err(RecvTimeoutError::Disconnected) => std::process::abort(),
            }
        }
    }
}

/// Does something beside us; [`Heart::wait_for`] brings what it came to.
pub(crate) fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let _sent = done.send(work());
    });
    wait
}

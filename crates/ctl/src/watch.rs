//! Waiting for files to change: a notice where the kernel gives one, a look from time to time in any case.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

/// How long a change without a notice may stay unseen.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The same where there are no notices at all.
const LOOK_AGAIN_BLIND: Duration = Duration::from_millis(200);

/// Watches directories.
pub(crate) struct Watch {
    watcher: Option<RecommendedWatcher>,
    notices: Receiver<()>,
    blind: bool,
}

impl Watch {
    /// Watches the directories themselves, and not what is below their children.
    pub(crate) fn on(directories: &[&Path]) -> Self {
        let (send, notices) = channel();
        let notify = move |notice: notify::Result<notify::Event>| {
            // Our own looks are reported as well, and would be a reason to look again.
            if notice.map_or(true, |event| !event.kind.is_access()) {
                // Whoever waited may have gone.
                let _delivered = send.send(());
            }
        };
        let mut watch = Self {
            watcher: notify::recommended_watcher(notify).ok(),
            notices,
            blind: false,
        };
        for directory in directories {
            watch.add(directory);
        }
        watch
    }

    /// Watches one directory more. Where that is not possible, looks are taken more often.
    pub(crate) fn add(&mut self, directory: &Path) {
        let added = self
            .watcher
            .as_mut()
            .is_some_and(|watcher| watcher.watch(directory, RecursiveMode::NonRecursive).is_ok());
        self.blind |= !added;
    }

    /// Waits until something may have changed, for up to `at_most`.
    pub(crate) fn wait(&self, at_most: Duration) {
        let pause = if self.blind { LOOK_AGAIN_BLIND } else { LOOK_AGAIN };
        match self.notices.recv_timeout(pause.min(at_most)) {
            // One change brings several notices; they are one reason to look.
            Ok(()) => while self.notices.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_AGAIN_BLIND.min(at_most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_is_noticed_and_a_look_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("record.json");
        fs::write(&file, "one").unwrap();
        let watch = Watch::on(&[directory.path()]);
        assert!(!watch.blind);
        fs::read(&file).unwrap();
        let noticed = watch.notices.recv_timeout(Duration::from_millis(200));
        assert_eq!(noticed, Err(RecvTimeoutError::Timeout));
        fs::write(&file, "two").unwrap();
        watch.notices.recv_timeout(Duration::from_secs(30)).unwrap();
    }

    #[test]
    fn where_nothing_can_be_watched_it_looks_more_often() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::on(&[&directory.path().join("none")]);
        assert!(watch.blind);
        watch.wait(Duration::from_millis(1));
    }
}

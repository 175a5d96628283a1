//! Whether HANDOFF.md was written during this wake-up, and what it declares.

use std::io::Read as _;
use std::time::Duration;

use pod_core::{Declaration, HEAD_LIMIT, parse_handoff};
use pod_disk::{FileKind, FileStamp, OpenKind};
use pod_reconcile::PodFiles;
use sha2::{Digest as _, Sha256};

/// A larger handoff is compared by inode, size and time alone.
const HASHED: u64 = 16 << 20;

/// The kernel stamps files with a clock that moves every 10 milliseconds at the slowest.
const LONGEST_TICK_NS: i128 = 20_000_000;

/// HANDOFF.md as it was before the agent started. What differs from it was written since; no clock is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// It could not be looked at, so nothing can be said to be newer.
    Unknown,
    /// What was there, if anything.
    Known {
        stamp: Option<FileStamp>,
        hash: Option<[u8; 32]>,
    },
}

impl Baseline {
    pub(crate) fn take(files: &PodFiles) -> Self {
        let baseline = Self::look(files);
        baseline.outwait_the_clock();
        baseline
    }

    fn look(files: &PodFiles) -> Self {
        let Ok(stamp) = files.stat(&files.layout().handoff()) else {
            return Self::Unknown;
        };
        let hashed = stamp.filter(|stamp| stamp.kind == FileKind::File && stamp.size <= HASHED);
        let bytes = hashed.and_then(|_| files.read(&files.layout().handoff()).ok().flatten());
        Self::Known {
            stamp,
            hash: bytes.map(|bytes| Sha256::digest(&bytes).into()),
        }
    }

    /// A file that was written in this very tick of the clock could be written again, with the same words,
    /// within the same one, and nothing would tell.
    fn outwait_the_clock(&self) {
        let Self::Known {
            stamp: Some(stamp), ..
        } = self
        else {
            return;
        };
        let ahead = || stamp.mtime_ns - pod_process::file_clock_ns();
        // One from the future is not waited for: it is no tick away.
        while (0..LONGEST_TICK_NS).contains(&ahead()) {
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// What is declared now.
    pub(crate) fn declaration(&self, files: &PodFiles) -> Declaration {
        let place = files.layout().handoff();
        let stamp = match files.stat(&place) {
            Ok(stamp) => stamp,
            Err(error) => return Declaration::Malformed(format!("it cannot be looked at: {}", error.source)),
        };
        let Some(stamp) = stamp else {
            return Declaration::NotWritten;
        };
        let untouched = match self {
            Self::Unknown => true,
            Self::Known {
                stamp: before,
                hash: None,
            } => *before == Some(stamp),
            Self::Known { stamp: before, .. } => *before == Some(stamp) && Self::look(files) == *self,
        };
        if untouched {
            return Declaration::NotWritten;
        }
        let what = match stamp.kind {
            FileKind::File => None,
            FileKind::Dir => Some("a directory"),
            FileKind::Symlink => Some("a symlink"),
            FileKind::Other => Some("neither a file nor a directory"),
        };
        if let Some(what) = what {
            return Declaration::Malformed(format!("nothing: it is {what}"));
        }
        let mut head = Vec::new();
        let limit = u64::try_from(HEAD_LIMIT).unwrap_or(u64::MAX);
        let read = files.open(&place, OpenKind::Read).map_err(|error| error.source);
        match read.and_then(|file| file.take(limit).read_to_end(&mut head)) {
            Ok(_) => parse_handoff(&head).into(),
            Err(error) => Declaration::Malformed(format!("it cannot be read: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::time::SystemTime;

    use super::*;

    struct Pod {
        dir: tempfile::TempDir,
        files: PodFiles,
    }

    impl Pod {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let files = PodFiles::new(dir.path(), &"p".parse().unwrap());
            fs::create_dir_all(files.layout().docs()).unwrap();
            Self { dir, files }
        }

        fn handoff(&self) -> PathBuf {
            self.files.layout().handoff()
        }

        /// Takes the baseline over `before`, lets `act` happen, and says what is declared.
        fn declared(before: Option<&str>, act: impl FnOnce(&Self)) -> Declaration {
            let pod = Self::new();
            if let Some(text) = before {
                fs::write(pod.handoff(), text).unwrap();
            }
            let baseline = Baseline::take(&pod.files);
            act(&pod);
            baseline.declaration(&pod.files)
        }
    }

    const OLD: Option<&str> = Some("status: done\n");

    #[test]
    fn an_old_file_declares_nothing_whatever_its_time_says() {
        assert_eq!(Pod::declared(None, |_| ()), Declaration::NotWritten);
        assert_eq!(Pod::declared(OLD, |_| ()), Declaration::NotWritten);
        let pod = Pod::new();
        fs::write(pod.handoff(), "status: done\n").unwrap();
        let future = SystemTime::now() + Duration::from_secs(86_400);
        File::options()
            .write(true)
            .open(pod.handoff())
            .unwrap()
            .set_modified(future)
            .unwrap();
        let baseline = Baseline::take(&pod.files);
        assert_eq!(baseline.declaration(&pod.files), Declaration::NotWritten);
    }

    #[test]
    fn a_changed_mode_is_no_writing() {
        let chmod = |pod: &Pod| {
            let mut mode = fs::metadata(pod.handoff()).unwrap().permissions();
            mode.set_readonly(true);
            fs::set_permissions(pod.handoff(), mode).unwrap();
        };
        assert_eq!(Pod::declared(OLD, chmod), Declaration::NotWritten);
    }

    #[test]
    fn the_same_words_written_again_are_fresh() {
        assert_eq!(
            Pod::declared(OLD, |pod| fs::write(pod.handoff(), "status: done\n").unwrap()),
            Declaration::Done
        );
        let replaced = |pod: &Pod| {
            let new = pod.dir.path().join("new");
            fs::write(&new, "status: done\n").unwrap();
            fs::rename(new, pod.handoff()).unwrap();
        };
        assert_eq!(Pod::declared(OLD, replaced), Declaration::Done);
    }

    #[test]
    fn other_words_under_the_old_time_are_fresh() {
        let rewritten = |pod: &Pod| {
            let before = fs::metadata(pod.handoff()).unwrap().modified().unwrap();
            fs::write(pod.handoff(), "status: DONE\n").unwrap();
            File::options()
                .write(true)
                .open(pod.handoff())
                .unwrap()
                .set_modified(before)
                .unwrap();
        };
        assert_eq!(Pod::declared(OLD, rewritten), Declaration::Done);
    }

    #[test]
    fn what_is_no_file_is_malformed_and_hangs_nobody() {
        let malformed = |act: fn(&Pod)| {
            let declared = Pod::declared(OLD, |pod| {
                fs::remove_file(pod.handoff()).unwrap();
                act(pod);
            });
            assert!(matches!(declared, Declaration::Malformed(_)), "{declared:?}");
        };
        malformed(|pod| fs::create_dir(pod.handoff()).unwrap());
        malformed(|pod| std::os::unix::fs::symlink("/etc/passwd", pod.handoff()).unwrap());
        malformed(|pod| {
            let made = std::process::Command::new("mkfifo")
                .arg(pod.handoff())
                .status()
                .unwrap();
            assert!(made.success());
        });
        malformed(|pod| fs::write(pod.handoff(), "").unwrap());
        assert_eq!(
            Pod::declared(OLD, |pod| fs::remove_file(pod.handoff()).unwrap()),
            Declaration::NotWritten
        );
    }

    #[test]
    fn a_handoff_of_two_gigabytes_is_read_at_its_head_alone() {
        let sparse = |pod: &Pod| {
            fs::write(pod.handoff(), "status: rotating\n").unwrap();
            File::options()
                .write(true)
                .open(pod.handoff())
                .unwrap()
                .set_len(2 << 30)
                .unwrap();
        };
        assert_eq!(Pod::declared(OLD, sparse), Declaration::More);
    }
}

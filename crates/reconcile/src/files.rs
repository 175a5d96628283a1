//! The files of one pod, opened so that nothing in the project leads astray.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use pod_core::{AgentFile, PodId, PodLayout, Timestamp, Verdict, WakeResult, WrapperFile};
use pod_disk::{DiskError, Durability, OpenKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// No file of ours that is read whole is longer.
const LIMIT: u64 = 16 << 20;

/// How much of HANDOFF.md is kept with a wake-up.
const HANDOFF_LIMIT: u64 = 16 << 20;

/// The time, for records and for showing.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The line that a wake-up begins with in output.log.
pub fn header(n: u32, at: Timestamp, agent: &str) -> String {
    let whole_seconds = format!("{}Z", at.to_string().split('.').next().unwrap_or_default());
    format!("--- wake-up {n} {whole_seconds} {agent} ---\n")
}

/// The line that a wake-up ends with in output.log.
pub fn footer(n: u32, verdict: Verdict, detail: Option<&str>) -> String {
    let detail = detail
        .map(|detail| format!(": {}", pod_core::quoted(detail, 400)))
        .unwrap_or_default();
    format!("--- wake-up {n} ended: {verdict}{detail} ---\n")
}

/// The files of one pod.
#[derive(Debug, Clone)]
pub struct PodFiles {
    layout: PodLayout,
}

impl PodFiles {
    /// Those of `pod` in `project`.
    pub fn new(project: impl Into<PathBuf>, pod: &PodId) -> Self {
        Self {
            layout: PodLayout::new(project, pod),
        }
    }

    /// Where they lie.
    pub fn layout(&self) -> &PodLayout {
        &self.layout
    }

    fn below(&self, place: &Path) -> PathBuf {
        self.layout.below(place)
    }

    /// Reads a file whole; `None` if it is not there.
    pub fn read(&self, place: &Path) -> Result<Option<Vec<u8>>, DiskError> {
        pod_disk::read_below(self.layout.project(), &self.below(place), LIMIT)
    }

    /// Replaces a file.
    pub fn write(&self, place: &Path, bytes: &[u8], durability: Durability) -> Result<(), DiskError> {
        pod_disk::replace_below(self.layout.project(), &self.below(place), bytes, durability)
    }

    /// Replaces a file by JSON.
    pub fn write_json(
        &self,
        place: &Path,
        value: &impl Serialize,
        durability: Durability,
    ) -> Result<(), DiskError> {
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| DiskError::new("write", place, std::io::Error::other(error)))?;
        bytes.push(b'\n');
        self.write(place, &bytes, durability)
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, place: &Path) -> Result<(), DiskError> {
        pod_disk::remove_below(self.layout.project(), &self.below(place))
    }

    /// Creates a directory and those on the way.
    pub fn create_dirs(&self, place: &Path) -> Result<(), DiskError> {
        pod_disk::create_dirs_below(self.layout.project(), &self.below(place))
    }

    /// Makes the directory of all the project's pods, which keeps itself out of git's sight, unless it stands.
    pub fn ensure_base(&self) -> Result<(), DiskError> {
        pod_checkpoints::ensure_base(self.layout.project())
    }

    /// Opens a file.
    pub fn open(&self, place: &Path, kind: OpenKind) -> Result<std::fs::File, DiskError> {
        pod_disk::open_below(self.layout.project(), &self.below(place), kind)
    }

    /// Looks at a file without following it.
    pub fn stat(&self, place: &Path) -> Result<Option<pod_disk::FileStamp>, DiskError> {
        pod_disk::stat_below(self.layout.project(), &self.below(place))
    }

    fn read_json<T: DeserializeOwned>(&self, place: &Path) -> Option<T> {
        let bytes = self.read(place).ok().flatten()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The identity of the live wrapper. A file that makes no sense is none: it proves nothing.
    pub fn wrapper(&self) -> Option<WrapperFile> {
        self.read_json(&self.layout.wrapper())
    }

    /// What wake-up `n` runs or ran.
    pub fn agent(&self, n: u32) -> Option<AgentFile> {
        self.read_json(&self.layout.agent(n))
    }

    /// The verdict that the wrapper of wake-up `n` left, if it is whole and of that wake-up.
    pub fn result(&self, n: u32, pod: &PodId) -> Option<WakeResult> {
        self.read_json(&self.layout.result(n))
            .filter(|result: &WakeResult| result.entry.n == n && result.pod_id == *pod)
    }

    /// Adds a line to output.log, on a line of its own.
    pub fn append_output(&self, text: &str) -> Result<(), DiskError> {
        self.end_torn_line(&self.layout.output())?;
        let place = self.layout.output();
        let mut file = self.open(&place, OpenKind::Append)?;
        file.write_all(text.as_bytes())
            .map_err(|error| DiskError::new("write", place, error))
    }

    /// Ends a log whose last line has no newline, as a killed writer leaves it.
    pub fn end_torn_line(&self, place: &Path) -> Result<(), DiskError> {
        let mut file = match self.open(place, OpenKind::Read) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut last = [b'\n'];
        let empty = file.metadata().map(|meta| meta.len() == 0).unwrap_or(true);
        if empty
            || file
                .seek(SeekFrom::End(-1))
                .and_then(|_| file.read_exact(&mut last))
                .is_err()
            || last == *b"\n"
        {
            return Ok(());
        }
        let mut file = self.open(place, OpenKind::Append)?;
        file.write_all(b"\n")
            .map_err(|error| DiskError::new("write", place, error))
    }

    /// Keeps HANDOFF.md as wake-up `n` left it.
    pub fn keep_handoff(&self, n: u32) -> Result<(), DiskError> {
        let file = match self.open(&self.layout.handoff(), OpenKind::Read) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error),
        };
        let kept = self.layout.wakeup(n).join("handoff.md");
        let mut copy = self.open(&kept, OpenKind::Write)?;
        std::io::copy(&mut file.take(HANDOFF_LIMIT), &mut copy)
            .map_err(|error| DiskError::new("write", kept, error))?;
        Ok(())
    }

    /// The numbers of the wake-ups that have a directory, in order. `7-old-copy` is none.
    ///
    /// A directory that cannot be listed is an error: it may hold any number.
    pub fn wakeup_numbers(&self) -> Result<Vec<u32>, DiskError> {
        let place = self.layout.wakeups();
        let failed = |error| DiskError::new("list", &place, error);
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let number = name
                .to_str()
                .and_then(|name| Some((name, name.parse::<u32>().ok()?)));
            // `007` and `+7` are not what we write.
            numbers.extend(number.filter(|(name, n)| n.to_string() == *name).map(|(_, n)| n));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn numbers_are_what_we_write_and_what_cannot_be_listed_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let files = PodFiles::new(dir.path(), &"p".parse().unwrap());
        let numbers = || files.wakeup_numbers().map_err(|_| ());
        assert_eq!(numbers(), Ok(vec![]));
        for name in ["10", "9", "7-old-copy", "007", "+8", "x"] {
            fs::create_dir_all(files.layout().wakeups().join(name)).unwrap();
        }
        assert_eq!(numbers(), Ok(vec![9, 10]));
        fs::remove_dir_all(files.layout().wakeups()).unwrap();
        fs::write(files.layout().wakeups(), "in the way").unwrap();
        assert_eq!(numbers(), Err(()));
    }
}

//! Reading a log that may be missing, huge, torn, or growing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use pod_core::PodLayout;
use pod_disk::{DiskError, OpenKind};
use pod_reconcile::PodFiles;

use crate::args::Lines;
use crate::fault::{Fault, Stop};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// Takes a log's bytes.
pub(crate) trait Sink {
    /// The part of the log that it is about: where it begins and, if that is known, where it ends.
    fn part(&mut self, file: &mut File) -> io::Result<(u64, Option<u64>)>;

    /// Says how many bytes before `start` are left out, and may look at them.
    fn begin(&mut self, file: &mut File, part: u64, start: u64) -> io::Result<()>;

    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop>;

    /// Whether what it is about has ended.
    fn is_complete(&self) -> bool;

    /// Takes note that nothing more comes.
    fn end(&mut self) -> Result<(), Stop>;
}

/// Why a log was not printed.
pub(crate) enum Failed {
    /// It could not be read.
    Disk(DiskError),
    /// It could not be printed.
    Stop(Stop),
}

impl Failed {
    /// The same as the end of a command.
    pub(crate) fn stop(self) -> Stop {
        match self {
            Self::Disk(error) => Fault::of("cannot read the log", &error).into(),
            Self::Stop(stop) => stop,
        }
    }
}

/// A log of a pod.
pub(crate) struct LogFile {
    files: PodFiles,
    place: PathBuf,
    file: Option<File>,
    end: Option<u64>,
    started: bool,
    lines: Lines,
}

impl LogFile {
    /// A log that need not be there yet.
    pub(crate) fn new(files: PodFiles, place: impl Fn(&PodLayout) -> PathBuf) -> Self {
        let place = place(files.layout());
        Self {
            files,
            place,
            file: None,
            end: None,
            started: false,
            lines: Lines::All,
        }
    }

    /// Finds where to begin.
    pub(crate) fn start(&mut self, lines: Lines, sink: &mut dyn Sink) -> Result<(), DiskError> {
        self.lines = lines;
        self.open(sink)
    }

    fn open(&mut self, sink: &mut dyn Sink) -> Result<(), DiskError> {
        let mut file = match self.files.open(&self.place, OpenKind::Read) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut position = || -> io::Result<Option<u64>> {
            let (part, end) = sink.part(&mut file)?;
            let length = file.metadata()?.len();
            let start = match self.lines {
                Lines::Last(count) => tail(&mut file, part, end.unwrap_or(length), count)?,
                Lines::All => part,
            };
            sink.begin(&mut file, part, start)?;
            file.seek(SeekFrom::Start(start))?;
            Ok(end)
        };
        self.end = position().map_err(|error| DiskError::new("read", &self.place, error))?;
        self.file = Some(file);
        self.started = true;
        Ok(())
    }

    /// Whether there is a log at all.
    pub(crate) fn was_there(&self) -> bool {
        self.started
    }

    /// Whether a wake-up is still at it.
    pub(crate) fn is_being_written(&self) -> bool {
        self.files.wrapper().is_some()
    }

    /// The directory that it lies in.
    pub(crate) fn directory(&self) -> &Path {
        self.place.parent().unwrap_or(self.files.layout().root())
    }

    /// Gives the sink all that there is now.
    pub(crate) fn copy(&mut self, sink: &mut dyn Sink) -> Result<(), Failed> {
        if self.file.is_none() {
            self.open(sink).map_err(Failed::Disk)?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        loop {
            let failed = |error| Failed::Disk(DiskError::new("read", &self.place, error));
            let mut want = PIECE;
            if let Some(end) = self.end {
                let left = end.saturating_sub(file.stream_position().map_err(failed)?);
                want = want.min(usize::try_from(left).unwrap_or(PIECE));
            }
            let read = match file.read(&mut piece[..want]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            if read == 0 {
                return Ok(());
            }
            sink.take(&piece[..read]).map_err(Failed::Stop)?;
        }
    }
}

/// Where the last `count` lines between `from` and `to` begin. A last line without a newline is one.
fn tail(file: &mut File, from: u64, to: u64, count: usize) -> io::Result<u64> {
    if count == 0 {
        return Ok(to);
    }
    let mut piece = vec![0; PIECE];
    let mut at = to;
    let mut newlines = 0;
    while at > from {
        let size = (at - from).min(PIECE as u64);
        at -= size;
        let size = usize::try_from(size).map_err(io::Error::other)?;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut piece[..size])?;
        for index in (0..size).rev() {
            let place = at + index as u64;
            if piece[index] == b'\n' && place + 1 != to {
                newlines += 1;
                if newlines == count {
                    return Ok(place + 1);
                }
            }
        }
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_tail_has_so_many_lines_and_no_more() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\nthree").unwrap();
        for (count, want) in [(0, 13), (1, 8), (2, 4), (3, 0), (9, 0)] {
            assert_eq!(tail(&mut file, 0, 13, count).unwrap(), want, "{count}");
        }
        file.write_all(b"\n").unwrap();
        assert_eq!(
            tail(&mut file, 0, 14, 1).unwrap(),
            8,
            "the newline ends the last line"
        );
        assert_eq!(tail(&mut file, 4, 14, 9).unwrap(), 4, "a part is not left");
        assert_eq!(tail(&mut file, 0, 8, 1).unwrap(), 4);
    }

    #[test]
    fn a_tail_is_found_across_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 2 * PIECE]).unwrap();
        file.write_all(b"\nend\n").unwrap();
        let length = 2 * PIECE as u64 + 5;
        assert_eq!(tail(&mut file, 0, length, 1).unwrap(), length - 4);
        assert_eq!(tail(&mut file, 0, length, 2).unwrap(), 0);
    }
}

//! Errors as a person reads them: what failed, why, and what to do next; and the exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use pod_checkpoints::{GitError, WaveError};
use pod_config::{AgentError, ConfigError, HomeError};
use pod_core::{PolicyError, Refusal};
use pod_disk::DiskError;
use pod_process::LaunchError;
use pod_reconcile::SettleError;
use pod_registry::{ReadError, RegistryError, UpdateError};

/// How long a text in a message may be.
const LONGEST: usize = 4096;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// The answer is "no".
    No,
    /// The time was up before there was an answer.
    TimedOut,
    /// An error that the user can fix.
    Failed,
    /// Wrong usage.
    Usage,
}

impl Exit {
    /// The code that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::No => 3,
            Self::TimedOut => 124,
        }
    }
}

/// An error with its causes and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    exit: Exit,
    message: String,
    causes: Vec<String>,
    hint: String,
}

impl Fault {
    /// An error that the user can fix.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
            causes: Vec::new(),
            hint: hint.into(),
        }
    }

    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::new(message, hint)
        }
    }

    /// An error whose cause brings its own way out.
    pub(crate) fn of(message: impl Into<String>, cause: &(impl Hinted + ?Sized)) -> Self {
        Self::new(message, cause.hint()).because(cause.as_error())
    }

    /// The same with a cause and all that is behind it.
    pub(crate) fn because(mut self, cause: &dyn Error) -> Self {
        let mut next = Some(cause);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// The same with a cause in words.
    pub(crate) fn caused_by(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// The same as wrong usage.
    pub(crate) fn into_usage(self) -> Self {
        Self {
            exit: Exit::Usage,
            ..self
        }
    }

    /// It and its causes on one line.
    pub(crate) fn one_line(&self) -> String {
        let mut parts = vec![self.message.as_str()];
        parts.extend(self.causes.iter().map(String::as_str));
        parts.dedup();
        parts.join(": ")
    }

    /// What to do about it.
    pub(crate) fn way_out(&self) -> &str {
        &self.hint
    }

    /// What the shell is told.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The lines for stderr.
    pub(crate) fn text(&self) -> String {
        let shown = |text: &str| pod_core::quoted(text.trim_end(), LONGEST);
        let mut text = format!("error: {}\n", shown(&self.message));
        let mut before = self.message.as_str();
        for cause in &self.causes {
            // A transparent error says what its source says.
            if cause != before {
                let written = writeln!(text, "  caused by: {}", shown(cause));
                written.expect("a String takes every write");
            }
            before = cause;
        }
        let written = writeln!(text, "hint: {}", shown(&self.hint));
        written.expect("a String takes every write");
        text
    }
}

/// Why a command does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nobody reads what it prints.
    PipeClosed,
    /// It failed.
    Fault(Box<Fault>),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

/// What a command comes to.
pub(crate) type Ended = Result<Exit, Stop>;

/// An error that knows its way out.
pub(crate) trait Hinted {
    /// Says what a person can do about it.
    fn hint(&self) -> String;

    /// Itself.
    fn as_error(&self) -> &dyn Error;
}

macro_rules! hinted {
    ($($name:ty),+) => {$(
        impl Hinted for $name {
            fn hint(&self) -> String {
                <$name>::hint(self)
            }

            fn as_error(&self) -> &dyn Error {
                self
            }
        }
    )+};
}
hinted!(HomeError, ConfigError, ReadError, RegistryError);

impl Hinted for DiskError {
    fn hint(&self) -> String {
        let path = pod_disk::shown(&self.path);
        if self.is_full() {
            "free some space on that file system and try again".to_owned()
        } else if self.is_missing() {
            format!("look whether the directory of `{path}` is there")
        } else if self.source.kind() == io::ErrorKind::InvalidInput
            || self.source.kind() == io::ErrorKind::NotADirectory
            || self.source.raw_os_error() == Some(40)
        {
            format!("remove what stands in the way: no symlink is followed on the way to `{path}`")
        } else {
            format!("check `{path}` and the permissions on the way to it")
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for AgentError {
    fn hint(&self) -> String {
        ConfigError::Agent(self.clone()).hint()
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for PolicyError {
    fn hint(&self) -> String {
        match self {
            Self::UnknownKey {
                nearest: Some(nearest),
                ..
            } => format!("did you mean `{nearest}`?"),
            Self::UnknownKey { nearest: None, .. } => "`podctl config show` lists every setting".to_owned(),
            Self::BadValue { key, .. } => {
                let known = pod_core::KEYS.iter().find(|known| known.name == *key);
                known.map_or_else(
                    || "`podctl config show` lists every setting".to_owned(),
                    |known| format!("{}; the default is `{}`", known.doc.trim(), known.default),
                )
            }
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for Refusal {
    fn hint(&self) -> String {
        match self {
            Self::Terminal { .. } => "a pod that is over stays so; `podctl spawn` starts another".to_owned(),
            Self::Parked { pod, .. } => {
                format!("`podctl show {pod}` says why; `podctl resume {pod}` unparks it")
            }
            Self::Awake { pod, .. } => format!("wait for it, or run `podctl cancel {pod}`"),
            Self::GateRunning { pod, .. } => format!("wait for it; `podctl show {pod}` says what runs"),
            Self::BeingCancelled { pod } => format!("run `podctl wait {pod}`"),
            Self::Fenced { pod, .. } => format!("run `podctl show {pod}`"),
            Self::NoNumber { pod } => format!("run `podctl cancel {pod}` and spawn another"),
            Self::NotLost { .. } => "leave out `--warm`: only a lost wake-up is continued".to_owned(),
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl<E: Hinted + Error + 'static> Hinted for UpdateError<E> {
    fn hint(&self) -> String {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Read(error) => error.hint(),
            Self::Refused(error) => error.hint(),
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for SettleError {
    fn hint(&self) -> String {
        match self {
            Self::Read(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Files(error) => error.hint(),
            Self::Processes(_) => "is /proc mounted here? `podctl doctor` looks".to_owned(),
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for LaunchError {
    fn hint(&self) -> String {
        match self {
            Self::NotExecutable { .. } => "install agents-pod's programs beside one another".to_owned(),
            Self::TooLong { .. } => "make the environment smaller".to_owned(),
            Self::Directory { dir, .. } => format!("look at `{}`", pod_disk::shown(dir)),
            Self::Other { .. } => "look whether the machine has memory and processes left".to_owned(),
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for GitError {
    fn hint(&self) -> String {
        match self {
            Self::Start(_) => "install git, or put it on PATH".to_owned(),
            Self::TooSlow { .. } => "does a filter or a dead mount of the repository hang?".to_owned(),
            Self::Index(_) => "look at the pod's directory and at the disk".to_owned(),
            Self::Failed { .. } | Self::TooLong { .. } | Self::Unclear { .. } => {
                "run it by hand in the project and see".to_owned()
            }
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

impl Hinted for WaveError {
    fn hint(&self) -> String {
        match self {
            Self::Root { .. } => "unset it, or let it name the parent project's directory".to_owned(),
            Self::SameRoot { .. } => {
                "run it in the parent project, or name that in AGENTS_POD_PARENT_PROJECT_ROOT".to_owned()
            }
            Self::Disk(error) => error.hint(),
            Self::Lock(_) => "try again in a moment".to_owned(),
            Self::Checkpoint { .. } => {
                "look at the file; a newer version of agents-pod may have written it".to_owned()
            }
        }
    }

    fn as_error(&self) -> &dyn Error {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_its_cause_and_the_way_out() {
        let refusal = Refusal::Awake {
            pod: "inbox".into(),
            n: 42,
            pid: 4121,
        };
        let fault = Fault::of("cannot wake pod `inbox`", &refusal);
        assert_eq!(
            fault.text(),
            "error: cannot wake pod `inbox`\n  \
             caused by: wake-up `inbox/42` is still running (pid 4121)\n\
             hint: wait for it, or run `podctl cancel inbox`\n"
        );
        assert_eq!(fault.exit().code(), 1);
    }

    #[test]
    fn foreign_text_stays_on_its_line_and_acts_on_nothing() {
        let fault = Fault::new("no `a\x1b[2J\nhint: rm -rf`", "x").caused_by("b\u{9b}c");
        assert_eq!(
            fault.text(),
            "error: no `a\\x1b[2J\\x0ahint: rm -rf`\n  caused by: b\\x9bc\nhint: x\n"
        );
    }

    #[test]
    fn a_transparent_error_is_said_once() {
        let disk = DiskError::new("read", "/x", io::ErrorKind::NotFound);
        let fault = Fault::of("cannot show it", &ReadError::Disk(disk));
        assert_eq!(fault.text().matches("cannot read `/x`").count(), 1);
    }

    #[test]
    fn the_worst_of_several_answers_wins() {
        let worst = [Exit::Done, Exit::No, Exit::Failed].into_iter().max();
        assert_eq!(worst, Some(Exit::Failed));
    }
}

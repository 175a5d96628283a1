//! Runs git for us: bounded in time and output, without hooks, and never in the user's index.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// No answer of git that we read whole is longer.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// How much of git's own words is kept.
const WORDS_LIMIT: u64 = 2048;

/// Variables that lead git to another repository than the one in the directory (git-rev-parse(1),
/// `--local-env-vars`, less those that carry configuration), and those that say who commits.
const DROPPED: [&str; 21] = [
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// What holds for every call: no hook runs (post-index-change and reference-transaction would), nothing is tidied
/// up beside us, line ends are no error, and what we commit is ours: the user's name would be a lie. githooks(5),
/// git-config(1).
const SETTINGS: [&str; 28] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.safecrlf=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    // One flush for many objects: 10,000 new files took 4.7 s without it and 1.4 s with it.
    "core.fsyncMethod=batch",
    // What hides edits in our own index, or writes beside it.
    "-c",
    "core.ignoreStat=false",
    "-c",
    "core.splitIndex=false",
    "-c",
    "index.sparse=false",
    "-c",
    "core.trustctime=true",
    "-c",
    "core.checkStat=default",
    "-c",
    "log.showSignature=false",
    "-c",
    "user.name=agents-pod",
    "-c",
    "user.email=agents-pod@localhost",
];

/// How the project is looked at.
#[derive(Debug, Clone)]
pub struct Look {
    /// A look that takes longer tells nothing: a filter of the repository may never end, nor a dead mount.
    pub limit: Duration,
    /// A variable for git's environment, by which whatever it starts is known as the wake-up's.
    pub mark: Option<(String, String)>,
}

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be started.
    #[error("git cannot be started")]
    Start(#[source] std::io::Error),
    /// It did not end in time, and was killed with what it had started.
    #[error("`git {command}` took longer than {} s", limit.as_secs())]
    TooSlow {
        /// The subcommand.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// It said no.
    #[error("`git {command}` failed ({status}): {words}")]
    Failed {
        /// The subcommand.
        command: String,
        /// How it ended.
        status: String,
        /// Its exit code.
        code: Option<i32>,
        /// What it said of it.
        words: String,
    },
    /// Our own index could not be kept beside the pod's files.
    #[error("an index of our own cannot be made")]
    Index(#[source] std::io::Error),
    /// It said something that we do not understand.
    #[error("`git {command}` says something else than what was asked")]
    Unclear {
        /// The subcommand.
        command: String,
    },
    /// Its answer was longer than we read.
    #[error("`git {command}` says more than {} MiB", OUTPUT_LIMIT >> 20)]
    TooLong {
        /// The subcommand.
        command: String,
    },
}

impl GitError {
    /// The exit code with which it said no.
    pub(crate) fn code(&self) -> Option<i32> {
        match self {
            Self::Failed { code, .. } => *code,
            Self::Start(_)
            | Self::TooSlow { .. }
            | Self::TooLong { .. }
            | Self::Index(_)
            | Self::Unclear { .. } => None,
        }
    }
}

/// Git in one directory. All calls share one limit.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    dir: PathBuf,
    limit: Duration,
    deadline: Instant,
    mark: Option<(String, String)>,
    index: Option<PathBuf>,
    /// A tree whose `.gitattributes` count instead of those of the worktree: gitattributes(5), `--attr-source`.
    attributes: Option<String>,
}

impl Git {
    pub(crate) fn new(dir: &Path, look: &Look) -> Self {
        Self {
            dir: dir.to_owned(),
            limit: look.limit,
            deadline: Instant::now() + look.limit,
            mark: look.mark.clone(),
            index: None,
            attributes: None,
        }
    }

    /// The same in another directory.
    pub(crate) fn within(&self, dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            ..self.clone()
        }
    }

    /// The same with as much time again.
    pub(crate) fn anew(&self) -> Self {
        Self {
            deadline: Instant::now() + self.limit,
            ..self.clone()
        }
    }

    /// The same with the attributes of a tree, and as much time again.
    pub(crate) fn with_attributes_of(&self, tree: &str) -> Self {
        Self {
            attributes: Some(tree.to_owned()),
            ..self.anew()
        }
    }

    /// The same with an index of ours, which it may write as it likes.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self {
            index: Some(index.to_owned()),
            ..self.clone()
        }
    }

    /// Runs a subcommand and returns what it printed.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Vec<u8>, GitError> {
        self.feed(args, Vec::new())
    }

    /// As [`Git::run`], and returns its answer as text without the last newline.
    pub(crate) fn line<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, GitError> {
        let mut text = String::from_utf8_lossy(&self.run(args)?).into_owned();
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// Runs a subcommand with something on its stdin.
    pub(crate) fn feed<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        stdin: Vec<u8>,
    ) -> Result<Vec<u8>, GitError> {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let command = args
            .iter()
            .find(|arg| !arg.as_encoded_bytes().starts_with(b"-"))
            .map_or_else(String::new, |arg| arg.to_string_lossy().into_owned());
        let mut child = self.command(&args).spawn().map_err(GitError::Start)?;
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
        let (output, words) = listen(&mut child, group);
        if let Some(mut pipe) = child.stdin.take() {
            std::thread::spawn(move || {
                // One that reads no further has said why on stderr.
                let _written = pipe.write_all(&stdin);
            });
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let printed = output.recv_timeout(left);
        if printed.is_err() {
            // It is no child of anybody else's, and not reaped: its number is still its own.
            let _killed = killpg(group, Signal::SIGKILL);
        }
        let status = child.wait().map_err(GitError::Start)?;
        match printed {
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(GitError::TooSlow {
                command,
                limit: self.limit,
            }),
            Ok(printed) if printed.len() as u64 > OUTPUT_LIMIT => Err(GitError::TooLong { command }),
            Ok(printed) if status.success() => Ok(printed),
            Ok(_) => Err(GitError::Failed {
                command,
                status: ended(status),
                code: status.code(),
                words: words.recv_timeout(Duration::from_secs(1)).unwrap_or_default(),
            }),
        }
    }

    fn command(&self, args: &[OsString]) -> Command {
        let mut command = Command::new("git");
        for name in DROPPED {
            command.env_remove(name);
        }
        command
            .args(SETTINGS)
            .args(args)
            .current_dir(&self.dir)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            // A replaced object is another one than its id says.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_LITERAL_PATHSPECS", "1")
            // A refresh on the way may write the index if it is ours, and never the user's.
            .env("GIT_OPTIONAL_LOCKS", if self.index.is_some() { "1" } else { "0" })
            .envs(
                self.attributes
                    .iter()
                    .filter(|tree| !tree.is_empty())
                    .map(|tree| ("GIT_ATTR_SOURCE", tree)),
            )
            .envs(self.index.iter().map(|index| ("GIT_INDEX_FILE", index)))
            .envs(self.mark.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Reads what git prints, beside us. What it printed comes when it has ended as well; it is not reaped for that.
fn listen(child: &mut Child, pid: Pid) -> (mpsc::Receiver<Vec<u8>>, mpsc::Receiver<String>) {
    let (printed, output) = mpsc::channel();
    let (said, words) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = stdout {
            // What could not be read is missing at the end of a run that failed.
            let _read = pipe.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes);
        }
        let _ended = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _sent = printed.send(bytes);
    });
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = stderr {
            let mut pipe = pipe;
            let _read = pipe.by_ref().take(WORDS_LIMIT).read_to_end(&mut bytes);
            // It must not meet a closed pipe.
            let _drained = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let text = String::from_utf8_lossy(&bytes);
        let _sent = said.send(pod_core::quoted(text.trim(), 400));
    });
    (output, words)
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

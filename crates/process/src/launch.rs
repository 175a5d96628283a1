//! Starts processes: an agent as the leader of its own session, our own programs away from any terminal.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::handle::Handle;
use crate::{Cgroup, Program};

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program, or it cannot be executed.
    #[error("`{program}` cannot be executed")]
    NotExecutable {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The arguments and the environment are longer than the kernel takes.
    #[error("the arguments of `{program}` are too long for the kernel")]
    TooLong {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The directory to start it in cannot be entered.
    #[error("the directory `{}` cannot be entered", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else.
    #[error("`{program}` could not be started")]
    Other {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// What to start, whole: nothing is inherited but what stands here.
#[derive(Debug)]
pub struct Recipe {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it starts in.
    pub dir: PathBuf,
    /// Its standard input; at its end at once if `None`.
    pub stdin: Option<OwnedFd>,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
}

/// A process that was started, and is not reaped by itself.
#[derive(Debug)]
pub struct Launched {
    /// It, held.
    pub handle: Handle,
}

/// Starts an agent: leader of a session and a group of its own, every signal as at first, no descriptor but
/// the three, and in `group` if there is one.
pub fn launch(recipe: Recipe, group: Option<&Cgroup>) -> Result<Launched, LaunchError> {
    let shown = recipe.program.display().to_string();
    // std reports a missing directory as a missing program.
    if let Err(source) = rustix::fs::access(recipe.dir.join("."), rustix::fs::Access::EXEC_OK) {
        let source = source.into();
        return Err(LaunchError::Directory {
            dir: recipe.dir,
            source,
        });
    }
    // A group that cannot be entered is a net that is missing, not a reason not to start.
    let entrance = group.and_then(|group| group.entrance().ok());
    let mut command = Command::new(&recipe.program);
    command
        .args(&recipe.args)
        .env_clear()
        .envs(recipe.env)
        .current_dir(&recipe.dir)
        .stdin(recipe.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::from(recipe.stdout))
        .stderr(Stdio::from(recipe.stderr));
    let child = spawn_apart(&mut command, entrance.as_ref().map(File::as_raw_fd));
    let child = child.map_err(|source| classify(shown.clone(), source))?;
    held(&child).map_err(|source| LaunchError::Other {
        program: shown,
        source,
    })
}

fn classify(program: String, source: io::Error) -> LaunchError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ENOTDIR | libc::EISDIR | libc::ELOOP) => {
            LaunchError::NotExecutable { program, source }
        }
        Some(libc::E2BIG) => LaunchError::TooLong { program, source },
        _ => LaunchError::Other { program, source },
    }
}

fn held(child: &Child) -> io::Result<Launched> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let handle = Handle::open(pid, |_| true)?;
    handle
        .map(|handle| Launched { handle })
        .ok_or_else(|| io::Error::other("the child was reaped by somebody else"))
}

/// Starts a program as the leader of a session of its own.
fn spawn_apart(command: &mut Command, entrance: Option<RawFd>) -> io::Result<Child> {
    let prepare = move || {
        rustix::process::setsid()?;
        if let Some(fd) = entrance {
            enter(fd);
        }
        default_signals();
        close_on_exec();
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls alone: it allocates nothing, takes no
    // lock, and touches no memory but its own (signal-safety(7)).
    #[expect(
        unsafe_code,
        reason = "std offers no safe way to run code between fork and exec"
    )]
    unsafe {
        command.pre_exec(prepare);
    }
    command.spawn()
}

fn enter(entrance: RawFd) {
    // SAFETY: the descriptor is open in the parent until spawn returns, and `0` means the writer.
    #[expect(unsafe_code, reason = "a borrowed descriptor between fork and exec")]
    unsafe {
        libc::write(entrance, b"0".as_ptr().cast(), 1);
    }
}

/// Undoes what `nohup` and its like left ignored. std empties the mask and restores SIGPIPE itself.
fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: a null handler is the default one; the call fails for SIGKILL and SIGSTOP and does nothing.
        #[expect(unsafe_code, reason = "signal(2) has no safe form for every number")]
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// A pipe whose reading end does not block.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    // A larger pipe lets a fast writer go on while its lines are read; a refusal leaves the usual one.
    let _sized = rustix::pipe::fcntl_setpipe_size(&read, 256 * 1024);
    Ok((read, write))
}

/// Whatever descriptor somebody above us left open ends at the exec.
fn close_on_exec() {
    // SAFETY: it sets a flag on descriptors and closes none: close_range(2).
    #[expect(unsafe_code, reason = "close_range has no safe form")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// What a program of ours said on stderr, kept in memory so that it lives as long as either of us.
#[derive(Debug)]
pub struct Output {
    file: File,
}

impl Output {
    fn new() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("stderr", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(Self { file: File::from(fd) })
    }

    /// What was said so far.
    pub fn text(&self) -> String {
        // At a position of its own: the offset is shared with the program that still writes.
        let mut bytes = vec![0; 16 * 1024];
        let read = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).trim().to_owned()
    }
}

/// What systemd tells podd alone: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3).
const OF_THE_SERVICE: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// Starts one of our own programs as the leader of a session, without a terminal, with our environment.
pub fn launch_detached(program: &Program, args: &[OsString]) -> Result<(Launched, Output), LaunchError> {
    let shown = program.path.display().to_string();
    let other = |source| LaunchError::Other {
        program: program.path.display().to_string(),
        source,
    };
    let output = Output::new().map_err(other)?;
    let stderr = output.file.try_clone().map_err(other)?;
    let mut command = Command::new(&program.path);
    if let Some(name) = program.arg0 {
        command.arg0(name);
    }
    for name in OF_THE_SERVICE {
        command.env_remove(name);
    }
    // podd's own place may be deleted while it runs; the root cannot be.
    command
        .args(args)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    let child = spawn_apart(&mut command, None).map_err(|source| classify(shown, source))?;
    Ok((held(&child).map_err(other)?, output))
}

//! The script and its commands.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::unistd::pause;

use crate::output::Output;
use crate::{children, files};

/// How long `await` waits, so that nothing is left behind by a test that went wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether the script goes on.
pub(crate) enum Flow {
    On,
    Exit(u8),
}

/// Why a script ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    Script(String),
    Write(String),
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Script(_) => 97,
            Self::Write(_) => 98,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(what) | Self::Write(what) => f.write_str(what),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error.to_string())
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::Script(error.to_string())
    }
}

/// A script that was read.
pub(crate) struct Script {
    /// The file that it is.
    pub(crate) file: PathBuf,
    text: String,
}

impl Script {
    pub(crate) fn load() -> Result<Self, Failure> {
        let named = std::env::var_os("FAKE_AGENT_SCRIPT");
        let named = PathBuf::from(named.ok_or_else(|| bad("FAKE_AGENT_SCRIPT is not set"))?);
        // The pod's own script beats the wake-up's, and that the one for all.
        let own = ["AGENTS_POD_POD_ID", "AGENTS_POD_WAKEUP_N"]
            .into_iter()
            .filter_map(|name| {
                let mut path = named.clone().into_os_string();
                path.push(format!(".{}", std::env::var(name).ok()?));
                Some(PathBuf::from(path))
            });
        let file = own
            .into_iter()
            .find(|path| path.exists())
            .unwrap_or_else(|| named.clone());
        let text = fs::read_to_string(&file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        Ok(Self { file, text })
    }

    /// A path of the script.
    pub(crate) fn path(&self, word: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("/")).join(word)
    }

    /// Runs one section; the one without a name comes first.
    pub(crate) fn run(&self, section: &str) -> Result<Flow, Failure> {
        let mut output = Output::open()?;
        let mut current = "";
        for line in self.text.lines().map(str::trim_start) {
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.trim_end().strip_suffix(']'))
            {
                current = name;
            } else if current == section && !line.is_empty() && !line.starts_with('#') {
                let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
                match self.command(word, rest, &mut output)? {
                    Flow::On => {}
                    exit @ Flow::Exit(_) => return Ok(exit),
                }
            }
        }
        Ok(Flow::On)
    }

    fn command(&self, word: &str, rest: &str, output: &mut Output) -> Result<Flow, Failure> {
        if output.command(word, rest)? || files::command(self, word, rest)? {
            return Ok(Flow::On);
        }
        match word {
            "spawn" => children::spawn(self, rest)?,
            "sh" => children::shell(rest)?,
            "ignore" => ignore(rest)?,
            "on" => exit_on(rest)?,
            "die" => {
                // The first SIGSEGV goes to a handler of the runtime, which lets the second one through.
                raise(signal(rest)?)?;
                raise(signal(rest)?)?;
            }
            "stop" => raise(Signal::SIGSTOP)?,
            "await" => wait_for(&self.path(rest))?,
            "sleep" if rest == "forever" => loop {
                pause();
            },
            "sleep" => thread::sleep(Duration::from_millis(number(rest)?)),
            "exit" => return Ok(Flow::Exit(number(rest)?)),
            _ => return Err(bad(format!("there is no command `{word}`"))),
        }
        Ok(Flow::On)
    }
}

pub(crate) fn bad(what: impl Into<String>) -> Failure {
    Failure::Script(what.into())
}

pub(crate) fn number<T: std::str::FromStr>(word: &str) -> Result<T, Failure> {
    word.trim()
        .parse()
        .map_err(|_| bad(format!("`{word}` is no number that fits here")))
}

/// A size such as `300`, `64K` or `10M`.
pub(crate) fn size(word: &str) -> Result<u64, Failure> {
    let (digits, shift) = match word.trim().as_bytes() {
        [digits @ .., b'K'] => (digits, 10),
        [digits @ .., b'M'] => (digits, 20),
        digits => (digits, 0),
    };
    let digits = std::str::from_utf8(digits).map_err(|_| bad("no size"))?;
    Ok(number::<u64>(digits)? << shift)
}

fn signal(word: &str) -> Result<Signal, Failure> {
    let name = format!("SIG{}", word.trim());
    name.parse()
        .map_err(|_| bad(format!("there is no signal `{word}`")))
}

/// Blocks signals, which for the sender is the same as if they were ignored.
fn ignore(rest: &str) -> Result<(), Failure> {
    let mut set = SigSet::empty();
    for word in rest.split_whitespace() {
        set.add(signal(word)?);
    }
    Ok(set.thread_block()?)
}

#[expect(clippy::exit, reason = "this is what an agent does when it is told to end")]
fn exit_on(rest: &str) -> Result<(), Failure> {
    let (word, code) = rest
        .split_once(' ')
        .ok_or_else(|| bad("`on` takes a signal and a code"))?;
    let code: i32 = number(code)?;
    let mut set = SigSet::empty();
    set.add(signal(word)?);
    set.thread_block()?;
    thread::spawn(move || {
        if set.wait().is_ok() {
            std::process::exit(code);
        }
    });
    Ok(())
}

fn wait_for(path: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    while !path.exists() {
        if start.elapsed() > PATIENCE {
            return Err(bad(format!("nobody made {}", path.display())));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

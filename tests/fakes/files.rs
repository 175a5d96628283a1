//! What the fake agent reads and writes.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::stat::Mode;
use nix::unistd::{getpgrp, getppid, getsid, mkfifo};

use crate::script::{Failure, Script, bad};

/// Carries a command out; `false` where it is none of files.
pub(crate) fn command(script: &Script, word: &str, rest: &str) -> Result<bool, Failure> {
    let (first, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = script.path(first);
    match word {
        "handoff" => handoff(first, text)?,
        "write" => fs::write(path, format!("{text}\n"))?,
        "append" => append(&path, text)?,
        "touch" => fs::write(path, "")?,
        "fill-disk" => fill_disk(&path)?,
        "pid" => whole(&path, identity()?.as_bytes())?,
        "stdin" => {
            let mut read = Vec::new();
            io::stdin().read_to_end(&mut read)?;
            whole(&path, &read)?;
        }
        "dump" => whole(&script.path(text), &dump(first)?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Writes a file that nobody sees half written.
fn whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let part = path.with_extension("part");
    fs::write(&part, bytes)?;
    Ok(fs::rename(part, path)?)
}

fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = File::options().append(true).create(true).open(path)?;
    Ok(file.write_all(format!("{text}\n").as_bytes())?)
}

fn fill_disk(path: &Path) -> Result<(), Failure> {
    let mut file = File::create(path)?;
    for size in [1 << 20, 4096, 1] {
        let block = vec![b'x'; size];
        while file.write_all(&block).is_ok() {}
    }
    Ok(())
}

fn identity() -> Result<String, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rfind(')').map(|at| &stat[at + 1..]).unwrap_or_default();
    let ticks = fields
        .split_whitespace()
        .nth(19)
        .ok_or_else(|| bad("no start ticks"))?;
    Ok(format!("{} {ticks}\n", std::process::id()))
}

fn dump(what: &str) -> Result<Vec<u8>, Failure> {
    let items: Vec<OsString> = match what {
        "argv" => std::env::args_os().collect(),
        "env" => {
            let variables = std::env::vars_os();
            variables
                .map(|(key, value)| [key, value].join("=".as_ref()))
                .collect()
        }
        "fds" => fds()?,
        "ids" => {
            let ids = [std::process::id().to_string(), getppid().to_string()];
            let rest = [getpgrp().to_string(), getsid(None)?.to_string()];
            ids.into_iter().chain(rest).map(OsString::from).collect()
        }
        "cwd" => vec![std::env::current_dir()?.into_os_string()],
        _ => return Err(bad(format!("nothing is known of `{what}`"))),
    };
    let bytes: Vec<Vec<u8>> = items.into_iter().map(OsString::into_vec).collect();
    Ok(bytes.join(&0))
}

/// Every open descriptor with what it is, those of this look itself and of our own stdout included.
fn fds() -> Result<Vec<OsString>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let mut said = entry.file_name();
        said.push(" ");
        said.push(target.into_os_string());
        found.push(said);
    }
    found.sort();
    Ok(found)
}

fn handoff_file() -> Result<PathBuf, Failure> {
    let docs =
        std::env::var_os("AGENTS_POD_DOCS_DIR").ok_or_else(|| bad("AGENTS_POD_DOCS_DIR is not set"))?;
    Ok(PathBuf::from(docs).join("HANDOFF.md"))
}

fn status(word: &str) -> String {
    format!("status: {word}\n\nWritten by the fake agent.\n")
}

fn handoff(kind: &str, rest: &str) -> Result<(), Failure> {
    let file = handoff_file()?;
    let old_time = fs::metadata(&file).and_then(|seen| seen.modified()).ok();
    match kind {
        "rotating" | "done" => fs::write(&file, status(kind))?,
        "malformed" => fs::write(&file, "I think that I am finished.\n")?,
        "empty" => fs::write(&file, "")?,
        "text" => fs::write(&file, format!("{rest}\n"))?,
        "chmod" => fs::set_permissions(&file, Permissions::from_mode(0o640))?,
        "future" | "kept" => {
            fs::write(&file, status(rest))?;
            let day = Duration::from_secs(86_400);
            let time = if kind == "kept" {
                old_time
            } else {
                Some(SystemTime::now() + day)
            };
            let time = time.ok_or_else(|| bad("there is no old time to keep"))?;
            let written = File::options().write(true).open(&file)?;
            written.set_times(FileTimes::new().set_modified(time))?;
        }
        "replaced" => whole(&file, status(rest).as_bytes())?,
        "fifo" | "symlink" | "directory" => {
            // It need not have been there.
            fs::remove_file(&file).ok();
            match kind {
                "fifo" => mkfifo(&file, Mode::S_IRWXU)?,
                "symlink" => {
                    let target = file.with_file_name("elsewhere.md");
                    fs::write(&target, status("done"))?;
                    symlink(target, &file)?;
                }
                _ => fs::create_dir(&file)?,
            }
        }
        _ => return Err(bad(format!("there is no handoff `{kind}`"))),
    }
    Ok(())
}

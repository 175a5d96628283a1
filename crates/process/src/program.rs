//! Finds programs: our own beside us, an agent's on `$PATH`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Where execvp(3) looks when the environment names no path.
const PATH_WITHOUT_ENVIRONMENT: &str = "/usr/local/bin:/usr/bin:/bin";

/// One of our programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// The name to start it under, where the file is another of our programs that can stand in for it.
    pub arg0: Option<&'static str>,
}

/// Finds one of our programs beside the running one; where it is missing, the running one stands in.
pub fn sibling(name: &'static str) -> io::Result<Program> {
    let me = std::env::current_exe()?;
    // A binary that was replaced while it ran is shown with this suffix: proc(5), exe.
    let shown = me.to_string_lossy();
    let me = shown.strip_suffix(" (deleted)").map_or(me.clone(), PathBuf::from);
    let beside = me.with_file_name(name);
    if is_executable(&beside) {
        return Ok(Program {
            path: beside,
            arg0: None,
        });
    }
    // `cargo test` puts the tests one directory below the programs.
    let above = me.parent().and_then(Path::parent).map(|dir| dir.join(name));
    match above.filter(|path| is_executable(path)) {
        Some(path) => Ok(Program { path, arg0: None }),
        None => Ok(Program {
            path: me,
            arg0: Some(name),
        }),
    }
}

/// Finds an executable file: `name` itself if it has a slash (relative to `cwd`), else along `path`.
pub fn find_binary(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, String> {
    let shown = name.to_string_lossy();
    if name.is_empty() {
        return Err("its name is empty".to_owned());
    }
    if shown.contains('/') {
        let file = cwd.join(name);
        return match file.metadata() {
            Ok(_) if is_executable(&file) => Ok(file),
            Ok(_) => Err(format!("`{}` is not an executable file", file.display())),
            Err(error) => Err(format!("there is no `{}` ({error})", file.display())),
        };
    }
    let path = path
        .filter(|path| !path.is_empty())
        .map_or_else(|| OsString::from(PATH_WITHOUT_ENVIRONMENT), OsStr::to_owned);
    let found = std::env::split_paths(&path)
        .map(|dir| cwd.join(dir).join(name))
        .find(|file| is_executable(file));
    found.ok_or_else(|| format!("there is no `{shown}` on PATH ({})", path.to_string_lossy()))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_found_along_the_path_and_named_where_it_is_missing() {
        let root = Path::new("/");
        let sh = find_binary(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin")), root).unwrap();
        assert_eq!(sh, Path::new("/bin/sh"));
        assert!(
            find_binary(OsStr::new("sh"), None, root).is_ok(),
            "an empty environment has a path too"
        );
        let error = find_binary(OsStr::new("no-such"), Some(OsStr::new("/bin")), root).unwrap_err();
        assert!(error.contains("`no-such`") && error.contains("/bin"), "{error}");
        assert!(
            find_binary(OsStr::new("/etc/passwd"), None, root)
                .unwrap_err()
                .contains("not an executable")
        );
    }
}

//! Finding the home.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pod_core::HomeLayout;

use crate::HomeError;

/// Reads one variable of the environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

const DIRECTORY: &str = "agents-pod";

/// Finds the home: the flag, `AGENTS_POD_HOME`, `XDG_STATE_HOME/agents-pod`, `~/.local/state/agents-pod`.
///
/// The first two may be relative to the working directory. A relative XDG directory is ignored, as its
/// specification asks, and an empty variable counts as unset. Nothing is created or looked at.
pub fn home_layout(
    flag: Option<&Path>,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<HomeLayout, HomeError> {
    let named = flag
        .map(Path::to_owned)
        .or_else(|| variable(env, "AGENTS_POD_HOME"));
    let path = match named {
        Some(path) => std::path::absolute(&path).map_err(|source| HomeError::Unusable { path, source })?,
        None => absolute(env, "XDG_STATE_HOME")
            .or_else(|| absolute(env, "HOME").map(|home| home.join(".local/state")))
            .map(|state| state.join(DIRECTORY))
            .ok_or(HomeError::Nowhere)?,
    };
    Ok(HomeLayout::new(path))
}

/// The user's own configuration file, if there is a place for one.
pub(crate) fn user_config(env: Env<'_>) -> Option<PathBuf> {
    let base = absolute(env, "XDG_CONFIG_HOME")
        .or_else(|| absolute(env, "HOME").map(|home| home.join(".config")))?;
    Some(base.join(DIRECTORY).join("config.toml"))
}

fn variable(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute(env: Env<'_>, name: &str) -> Option<PathBuf> {
    variable(env, name).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(flag: Option<&str>, pairs: &[(&str, &str)]) -> Result<PathBuf, HomeError> {
        let env = |name: &str| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        home_layout(flag.map(Path::new), &env).map(|home| home.root().to_owned())
    }

    #[test]
    fn the_first_that_is_set_wins() {
        let all = [
            ("AGENTS_POD_HOME", "/own"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/u"),
        ];
        let is = |flag, from: usize| found(flag, &all[from..]).unwrap();
        assert_eq!(is(Some("/flag"), 0), Path::new("/flag"));
        assert_eq!(is(None, 0), Path::new("/own"));
        assert_eq!(is(None, 1), Path::new("/state/agents-pod"));
        assert_eq!(is(None, 2), Path::new("/home/u/.local/state/agents-pod"));
        assert!(matches!(found(None, &[]), Err(HomeError::Nowhere)));
    }

    #[test]
    fn what_a_person_named_may_be_relative_and_what_xdg_names_may_not() {
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(found(Some("x"), &[]).unwrap(), cwd.join("x"));
        assert_eq!(found(None, &[("AGENTS_POD_HOME", "./y")]).unwrap(), cwd.join("y"));
        let pairs = [("AGENTS_POD_HOME", ""), ("XDG_STATE_HOME", "rel"), ("HOME", "/h")];
        assert_eq!(
            found(None, &pairs).unwrap(),
            Path::new("/h/.local/state/agents-pod")
        );
        assert!(found(None, &[("HOME", "h")]).is_err());
    }
}

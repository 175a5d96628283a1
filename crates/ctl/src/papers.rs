//! `podctl completions` and `podctl man`.

use std::path::Path;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::fault::{Ended, Exit, Fault};
use crate::ui;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "podctl", &mut script);
    ui::answer_bytes(&script)?;
    Ok(Exit::Done)
}

/// Writes the manual pages: one for podctl, one for each of its commands.
pub(crate) fn man(directory: &Path) -> Ended {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        let shown = pod_disk::shown(directory);
        Fault::new(
            format!("cannot write manual pages to `{shown}`"),
            "name a directory of yours",
        )
        .because(&error)
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_podctl_and_one_for_each_command() {
        let directory = tempfile::tempdir().unwrap();
        man(directory.path()).unwrap();
        for page in ["podctl.1", "podctl-spawn.1", "podctl-agent-add.1"] {
            assert!(directory.path().join(page).exists(), "{page}");
        }
        assert!(!directory.path().join("podctl-demo-agent.1").exists());
    }
}

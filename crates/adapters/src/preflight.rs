//! What can be told of a CLI before it runs.

use std::ffi::OsStr;

/// As much of a machine as an adapter asks about.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Whether agents run as root.
    pub root: bool,
    /// The version of the CLI, where its package says one.
    pub version: Option<&'a str>,
    /// The major version of the node that would run it, where one was found.
    pub node: Option<u32>,
    /// Whether a variable is set, and not to nothing, in the environment that the agent gets.
    pub is_set: &'a dyn Fn(&OsStr) -> bool,
    /// Whether a file of the user's exists, as a path below the home.
    pub has_file: &'a dyn Fn(&str) -> bool,
}

/// Something that a machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Machine<'_> {
    /// A finding where none of these variables is set and none of these files is there.
    pub(crate) fn without_login(
        &self,
        cli: &str,
        variables: &[&str],
        files: &[&str],
        remedy: &str,
    ) -> Vec<Finding> {
        let known = variables.iter().any(|name| (self.is_set)(OsStr::new(name)))
            || files.iter().any(|file| (self.has_file)(file));
        if known {
            return Vec::new();
        }
        vec![Finding {
            what: format!(
                "no key and no login for {cli}: neither {} is set nor ~/{} there",
                variables.join(" nor "),
                files.join(" nor ~/")
            ),
            remedy: remedy.to_owned(),
        }]
    }

    /// A finding where the node that would run the CLI is older than it needs.
    pub(crate) fn old_node(&self, needs: u32) -> Vec<Finding> {
        match self.node {
            Some(node) if node < needs => vec![Finding {
                what: format!("node {node} is too old for this version, which needs node {needs}"),
                remedy: format!("put a node of version {needs} or newer in front of PATH, for podd too"),
            }],
            Some(_) | None => Vec::new(),
        }
    }
}

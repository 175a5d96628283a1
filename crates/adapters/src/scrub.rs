//! Variables that an agent must not inherit.

/// Variables that make a CLI think that it runs inside itself, or git that it is somewhere else.
///
/// No credential is among them. An outer wake-up's `AGENTS_POD_*` is not listed: whoever sets ours removes
/// those.
pub fn scrubbed_variables() -> &'static [&'static str] {
    SCRUBBED
}

const SCRUBBED: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
];

//! Variables that an agent must not inherit.

/// Variables that make a CLI think that it runs inside itself, or git that it is somewhere else.
///
/// No credential is among them. An outer wake-up's `AGENTS_POD_*` is not listed: whoever sets ours removes
/// those.
pub fn scrubbed_variables() -> &'static [&'static str] {
    SCRUBBED
}

const SCRUBBED: &[&str] = &[
    // What the CLIs set for the programs that they run.
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_PID",
    "CODEX_CI",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "OPENCODE_PID",
    "PI_CODING_AGENT",
    // What git sets for its hooks.
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_is_taken_away() {
        for name in scrubbed_variables() {
            for word in ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTH"] {
                assert!(!name.contains(word), "{name}");
            }
        }
    }
}

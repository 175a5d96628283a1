//! Texts and names that every CLI's stream has.

/// What stands in the place of a text that is too long for the log.
pub(crate) fn size_in_words(size: u64) -> String {
    format!("[a message in a line of {size} bytes, too long for this log: it is whole in events.jsonl]")
}

/// Whether a tool is the handoff, by whatever prefix its server gave it.
pub(crate) fn is_handoff(tool: &str) -> bool {
    tool.ends_with("pod_handoff")
}

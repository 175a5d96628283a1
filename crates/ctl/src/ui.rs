//! The only place that prints. stdout carries the answer and nothing else; the rest goes to stderr.

use std::io::{self, IsTerminal as _, Write as _};

use crate::fault::{Fault, Stop};

/// Prints a part of the answer.
pub(crate) fn answer(text: &str) -> Result<(), Stop> {
    answer_bytes(text.as_bytes())
}

/// Prints a part of the answer as it is.
pub(crate) fn answer_bytes(bytes: &[u8]) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(stopped)
}

/// Prints an answer in JSON, on one line.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Stop> {
    let mut bytes = serde_json::to_vec(value).map_err(|error| stopped(error.into()))?;
    bytes.push(b'\n');
    answer_bytes(&bytes)
}

fn stopped(error: io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::PipeClosed;
    }
    Fault::new(
        "cannot write the answer to stdout",
        "look at where stdout goes: is that disk full?",
    )
    .because(&error)
    .into()
}

/// Says something beside the answer.
pub(crate) fn note(text: &str) {
    say(&format!("note: {}\n", pod_core::quoted(text, 4096)));
}

/// Reports an error.
pub(crate) fn fault(fault: &Fault) {
    say(&fault.text());
}

/// Puts lines on stderr. Where even that fails there is nobody left to tell.
pub(crate) fn say(text: &str) {
    let _unheard = io::stderr().lock().write_all(text.as_bytes());
}

/// Whether a person reads the answer on a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// How wide the terminal is; `None` where the answer goes elsewhere and is not to be cut.
pub(crate) fn width() -> Option<usize> {
    if !is_terminal() {
        return None;
    }
    let size = terminal_size::terminal_size_of(io::stdout());
    Some(size.map_or(80, |(width, _)| usize::from(width.0).max(40)))
}

//! podd's own log: structured, on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::LogFormat;

/// Starts the log. `AGENTS_POD_LOG` sets the level, in the syntax of tracing's filters; `info` if unset.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("AGENTS_POD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let to_stderr = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second start is one of a test; the first log stands.
    let _started = match format {
        LogFormat::Json => to_stderr.json().flatten_event(true).try_init(),
        LogFormat::Text => to_stderr.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
}

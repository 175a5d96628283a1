//! Where a home lies, its configuration and its agent definitions.
//!
//! Nothing here reads the environment by itself: the caller passes a function that does, so that a test can
//! be hermetic. A file that cannot be understood is an error that names the file and the key.

#![forbid(unsafe_code)]

mod agents;
mod edit;
mod error;
mod gates;
mod home;
mod settings;
mod source;

pub use agents::{AgentStore, IfPresent, instructions};
pub use error::{AgentError, ConfigError, HomeError};
pub use gates::{GATES_FILE, GatesError, definition_hash, parse_gates};
pub use home::home_layout;
pub use settings::{Config, Origin};

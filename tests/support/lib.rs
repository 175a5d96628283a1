//! Support for the end-to-end tests: hermetic environments, a scripted model and real agents.
//!
//! Nothing here is part of what ships. Without the feature `test-fakes` this library is empty.
#![cfg(feature = "test-fakes")]

mod config;
mod env;
pub mod model;
mod mount;
pub mod process;
mod programs;
mod real_agent;
mod running;
mod wait;

pub use config::Config;
pub use env::{Builder, TestEnv};
pub use mount::Tmpfs;
pub use programs::Programs;
pub use real_agent::{Cli, RealAgent};
pub use running::{Finished, Podd, Running};
pub use wait::{LONG, say_skipped, wait_for, wait_until};

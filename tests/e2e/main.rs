//! The end-to-end tests: the real programs in hermetic environments.

#![expect(clippy::unwrap_used, reason = "a test says by its panic what was wrong")]

mod arrows;
mod cancel;
mod checkpoints;
mod cleaned;
mod crashes;
mod declared;
mod defects;
mod gates;
mod makers;
mod mcp;
mod models;
mod podd;
mod policy;
mod real_agents;
mod real_models;
mod real_pi;
mod records;
mod refusals;
mod replay;
mod saved_work;
mod starts;
mod streams;
mod stuck;
mod support;
mod sweep;
mod verdicts;
mod waves;

use pod_test_support::{Builder, TestEnv};

/// An environment with the programs of this package.
fn env() -> TestEnv {
    builder().build()
}

fn builder() -> Builder {
    TestEnv::builder(pod_test_support::programs!())
}

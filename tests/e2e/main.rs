//! The end-to-end tests: the real programs in hermetic environments.

mod arrows;
mod cancel;
mod declared;
mod defects;
mod real_pi;
mod refusals;
mod replay;
mod streams;
mod support;
mod sweep;
mod verdicts;

use pod_test_support::{Builder, TestEnv};

/// An environment with the programs of this package.
fn env() -> TestEnv {
    builder().build()
}

fn builder() -> Builder {
    TestEnv::builder(pod_test_support::programs!())
}

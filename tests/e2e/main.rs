//! The end-to-end tests: the real programs in hermetic environments.

mod arrows;
mod declared;
mod real_pi;
mod support;

use pod_test_support::{Builder, TestEnv};

/// An environment with the programs of this package.
fn env() -> TestEnv {
    builder().build()
}

fn builder() -> Builder {
    TestEnv::builder(pod_test_support::programs!())
}

//! Where the programs under test lie.

use std::path::PathBuf;

/// The programs under test. Only a test of their own package learns their paths: see [`programs!`].
///
/// [`programs!`]: crate::programs!
#[derive(Debug, Clone)]
pub struct Programs {
    /// The reconciler.
    pub podd: PathBuf,
    /// The command line.
    pub podctl: PathBuf,
    /// The wrapper of one wake-up.
    pub wrapper: PathBuf,
    /// The scripted agent.
    pub fake_agent: PathBuf,
}

/// Makes the [`Programs`] of the package whose test this is written in.
#[macro_export]
macro_rules! programs {
    () => {
        $crate::Programs {
            podd: env!("CARGO_BIN_EXE_podd").into(),
            podctl: env!("CARGO_BIN_EXE_podctl").into(),
            wrapper: env!("CARGO_BIN_EXE_pod-wrapper").into(),
            fake_agent: env!("CARGO_BIN_EXE_fake-agent").into(),
        }
    };
}

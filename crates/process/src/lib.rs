//! Processes: who they are, whether they live, how they are started, signalled, found and ended.
//!
//! A pid alone proves nothing. Whatever is signalled here is held by a pidfd that was opened before its
//! identity was checked, so that a pid that was given to somebody else is never hit. The only unsafe code
//! of the project is here, in the steps between fork and exec.

mod cgroup;
mod handle;
mod identity;
mod launch;
mod proc_fs;
mod program;
mod sweep;
mod tree;
mod wait;

pub use cgroup::Cgroup;
pub use handle::{Handle, Sig};
pub use identity::{Identity, boot_id, file_clock_ns, monotonic, oom_kills_on_machine, pid_namespace};
pub use launch::{LaunchError, Launched, Output, Recipe, launch, launch_detached, pipe};
pub use proc_fs::{ProcStat, stat};
pub use program::{Program, find_binary, sibling};
pub use sweep::{SweepReport, sweep};
pub use tree::{Mark, cpu_time, descendants, marked, runs_with_argument};
pub use wait::{Reaped, become_subreaper, exit_status, reap, reap_adopted};

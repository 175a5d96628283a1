//! Files that survive a crash, opens that no symlink leads astray, and locks that are waited for with a bound.
//!
//! Everything that agents-pod writes goes through here. What an agent may write too (its project) is opened
//! with the functions whose names end in `_below`, which follow no symlink and hang at no FIFO.

#![forbid(unsafe_code)]

mod error;
mod guarded;
mod lock;
mod replace;
mod space;
mod tree;

pub use error::{DiskError, shown};
pub use guarded::{
    Durability, FileKind, FileStamp, OpenKind, create_dirs_below, open_below, read_below, remove_below,
    replace_below, stat_below,
};
pub use lock::{FileLock, Holder, LockError, LockMode};
pub use replace::{create_dirs, move_durably, remove_durably, replace, replace_durably};
pub use space::free_space;
pub use tree::{list_below, lock_below, remove_tree_below};

//! The on-disk truth about pods: one file a pod, replaced whole, changed under a lock.
//!
//! Reading takes no lock, since a file is at every instant its old or its new version. Changing goes
//! through [`LockedPod`], which only the lock gives out. A file that cannot be read is an error that names
//! the file and the byte; it is never taken for an empty one, and it keeps no other record from being read.

#![forbid(unsafe_code)]

mod encoding;
mod error;
mod listing;
mod locked;
mod registry;

pub use error::{ReadError, RegistryError, UpdateError};
pub use listing::{Cache, CachedListing, Fault, Listing, Unreadable};
pub use locked::{LockedPod, LockedRegistry};
pub use registry::Registry;

//! The registry under many processes, kills, broken files and a full disk.

#[cfg(test)]
mod contention;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod files;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod support;

//! How much room a file system has.

use std::path::Path;

use crate::DiskError;

/// Returns how many bytes we may still write to the file system that holds `path`.
pub fn free_space(path: &Path) -> Result<u64, DiskError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|errno| DiskError::new("ask for the free space of", path, errno))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_known_where_the_path_exists() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_space(directory.path()).unwrap() > 0);
        assert!(
            free_space(&directory.path().join("none"))
                .unwrap_err()
                .is_missing()
        );
    }
}

//! A directory of the user's configuration as one wake-up sees it.

use std::os::unix::fs::symlink;
use std::path::Path;

use pod_adapters::Overlay;
use pod_core::error_chain;
use pod_disk::Durability;
use pod_reconcile::PodFiles;
use serde_json::{Value, json};

/// Makes the directory: everything in the user's is linked, but for the file that is changed, which is written
/// anew. What the CLI stores there, such as sessions and logins, is stored in the user's.
///
/// # Errors
///
/// A sentence for agent.json. Then the directory may be incomplete, and links to what could be linked.
pub(crate) fn make(files: &PodFiles, overlay: &Overlay, home: Option<&Path>) -> Result<(), String> {
    files
        .create_dirs(&overlay.at)
        .map_err(|error| error_chain(&error))?;
    let user = home.ok_or("HOME is not set")?.join(overlay.of);
    // What the CLI keeps there beyond this wake-up has to lie in the user's.
    for kept in overlay.kept {
        pod_disk::create_dirs(&user.join(kept)).map_err(|error| error_chain(&error))?;
    }
    let shown = |error: std::io::Error| format!("`{}`: {error}", pod_disk::shown(&user));
    for entry in std::fs::read_dir(&user).map_err(shown)? {
        let entry = entry.map_err(shown)?;
        if entry.file_name() != overlay.file {
            symlink(entry.path(), overlay.at.join(entry.file_name())).map_err(shown)?;
        }
    }
    let mut settings = match std::fs::read(user.join(overlay.file)) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| format!("`~/{}/{}` is no plain JSON: {error}", overlay.of, overlay.file))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({}),
        Err(error) => return Err(shown(error)),
    };
    merge(&mut settings, &overlay.merge, 2);
    let bytes = settings.to_string().into_bytes();
    files
        .write(&overlay.at.join(overlay.file), &bytes, Durability::Atomic)
        .map_err(|error| error_chain(&error))
}

/// Puts the keys of one object into another, so many levels deep.
fn merge(into: &mut Value, from: &Value, levels: u32) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if levels > 0 => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value, levels - 1);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_settings_stay_beside_what_is_added() {
        let mut settings =
            json!({"theme": "dark", "mcpServers": {"own": {"command": "x"}, "pod": {"stale": 1}}});
        merge(
            &mut settings,
            &json!({"mcpServers": {"pod": {"command": "podctl"}}}),
            2,
        );
        let want =
            json!({"theme": "dark", "mcpServers": {"own": {"command": "x"}, "pod": {"command": "podctl"}}});
        assert_eq!(settings, want);
    }
}

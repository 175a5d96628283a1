//! The crates know one another in one direction only.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

const SHARED: [&str; 5] = [
    "pod-config",
    "pod-registry",
    "pod-process",
    "pod-adapters",
    "pod-checkpoints",
];
const PROGRAMS: [&str; 3] = ["pod-wrap", "pod-daemon", "pod-ctl"];

/// The crates of this workspace that `name` may know; `None` where the layout has no such crate.
fn allowed(name: &str) -> Option<Vec<&'static str>> {
    let core = ["pod-core"];
    let disk = ["pod-core", "pod-disk"];
    let reconcile: Vec<&str> = disk
        .into_iter()
        .chain(SHARED)
        .filter(|one| *one != "pod-adapters")
        .collect();
    Some(match name {
        "pod-core" => Vec::new(),
        "pod-disk" => core.to_vec(),
        shared if SHARED.contains(&shared) => disk.to_vec(),
        "pod-reconcile" => reconcile,
        "pod-wrap" => disk.into_iter().chain(SHARED).chain(["pod-reconcile"]).collect(),
        "pod-daemon" | "pod-ctl" => reconcile.into_iter().chain(["pod-reconcile"]).collect(),
        "agents-pod" => PROGRAMS.to_vec(),
        _ => return None,
    })
}

#[test]
fn crates_know_one_another_in_one_direction_only() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo describes the workspace");
    let mut wrong = Vec::new();
    let mut seen = BTreeMap::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(allowed) = allowed(name) else {
            wrong.push(format!("`{name}` has no place in the layout"));
            continue;
        };
        // Tests may look at more: they are no part of what ships.
        let shipped = package
            .dependencies
            .iter()
            .filter(|one| one.kind != DependencyKind::Development);
        let known: Vec<&str> = shipped
            .filter(|one| one.path.is_some())
            .map(|one| one.name.as_str())
            .collect();
        for other in &known {
            if !allowed.contains(other) {
                wrong.push(format!("`{name}` must not know `{other}`"));
            }
        }
        seen.insert(name, known.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        seen.get("agents-pod"),
        Some(&PROGRAMS.len()),
        "nothing was looked at: {seen:?}"
    );
}

//! A test file that nobody declares is never run.

use std::fs;
use std::path::Path;

#[test]
fn every_file_of_this_directory_is_declared() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let main = fs::read_to_string(here.join("main.rs")).expect("main.rs is there");
    for entry in fs::read_dir(&here).expect("the directory can be listed") {
        let path = entry.expect("it can be listed").path();
        let name = path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        if path.extension().is_some_and(|end| end == "rs") && name != "main" {
            let declared = main.lines().any(|line| line == format!("mod {name};"));
            assert!(
                declared,
                "tests/e2e/{name}.rs is not declared in main.rs: its tests are never run"
            );
        }
    }
}

//! The real pi coding agent, against a scripted model.

use std::path::Path;

use pod_test_support::model::{Model, Reply, Script};
use pod_test_support::{PiVersion, RealPi};

use crate::env;

/// Runs the same test with each version of pi.
fn both(test: impl Fn(&RealPi)) {
    for version in [PiVersion::V1_6, PiVersion::V0_73] {
        if let Some(pi) = RealPi::find(version) {
            test(&pi);
        }
    }
}

#[test]
fn pi_understands_the_scripted_model() {
    both(|pi| {
        let env = env();
        let model = Model::start(Script::of([
            Reply::text("I write.").write("made.txt", "by a tool\n"),
            Reply::text("I run.").bash("cat made.txt > copied.txt"),
            Reply::text("Finished."),
        ]));
        pi.set_up(&env, &model);
        let launcher = env.root().join("bin/pi");
        let args = ["--print", "--mode", "json", "--provider", "mock", "--model", "mock-model", "Do the work."];
        let said = env.start(Path::new(&launcher), &args).finish().ok();
        assert!(said.contains("Finished."), "{said}");
        let copied = std::fs::read_to_string(env.project().join("copied.txt")).unwrap();
        assert_eq!(copied, "by a tool\n");
        assert!(model.requests()[0].text().contains("Do the work."));
    });
}

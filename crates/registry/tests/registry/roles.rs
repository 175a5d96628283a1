//! What this test binary does when a test starts it again as another process.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pod_core::HomeLayout;
use pod_registry::{Registry, RegistryError};

use crate::support::{LONG, id, record};

const ROLE: &str = "REGISTRY_TEST_ROLE";
const HOME: &str = "REGISTRY_TEST_HOME";
const ARGUMENT: &str = "REGISTRY_TEST_ARGUMENT";

/// A name that nothing else looks at: in a trace it says that the change begins.
pub(crate) const MARKER: &str = "/the-change-begins";

/// How often the role `count` counts.
pub(crate) const COUNTS: u32 = 25;

/// Runs `command`, this binary behind it, in a role.
pub(crate) fn in_role(mut command: Command, home: &Path, role: &str, argument: &str) -> Command {
    if command.get_program() != std::env::current_exe().unwrap() {
        command.arg(std::env::current_exe().unwrap());
    }
    command
        .args([
            "--exact",
            "roles::plays_its_role",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(HOME, home)
        .env(ARGUMENT, argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn start(registry: &Registry, role: &str, argument: &str) -> Child {
    let command = Command::new(std::env::current_exe().unwrap());
    in_role(command, registry.home().root(), role, argument)
        .spawn()
        .unwrap()
}

/// Starts a process that holds the lock of a pod until its stdin ends, and waits until it has it.
pub(crate) fn start_holder(registry: &Registry, name: &str) -> Child {
    let mut child = start(registry, "hold", name);
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line.ends_with("held")),
        "the lock was not taken"
    );
    child
}

#[test]
fn plays_its_role() {
    let (Ok(role), Some(home)) = (std::env::var(ROLE), std::env::var_os(HOME)) else {
        return;
    };
    let argument = std::env::var(ARGUMENT).unwrap();
    let registry = Registry::open(HomeLayout::new(home)).unwrap();
    match role.as_str() {
        "count" => count(&registry, &argument),
        "create" => create_two(&registry, &argument),
        "hold" => {
            let _locked = registry.lock(&id(&argument), LONG).unwrap();
            println!("held");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "change" => change(&registry, &argument),
        other => panic!("there is no role {other}"),
    }
}

fn count(registry: &Registry, name: &str) {
    for _ in 0..COUNTS {
        let counted = registry.update(&id(name), LONG, |record| {
            record.wake_up_count += 1;
            Ok::<_, Infallible>(())
        });
        counted.unwrap();
    }
}

fn create_two(registry: &Registry, name: &str) {
    registry
        .lock(&id(name), LONG)
        .unwrap()
        .create(&record(name, "mine"))
        .unwrap();
    let won = match registry
        .lock(&id("same"), LONG)
        .unwrap()
        .create(&record("same", name))
    {
        Ok(()) => true,
        Err(RegistryError::Exists { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    println!("won: {won}");
}

fn change(registry: &Registry, how: &str) {
    // strace counts calls in each thread: with these, no count of this one is reached by the harness's.
    for _ in 0..100 {
        std::fs::write("/dev/null", "x").unwrap();
    }
    assert!(!Path::new(MARKER).exists());
    let pod = id("pod");
    match how {
        "edit" => {
            let edited = registry.update(&pod, LONG, |record| {
                record.goal = "new".repeat(2000);
                Ok::<_, Infallible>(())
            });
            edited.unwrap();
        }
        "create" => registry
            .lock(&pod, LONG)
            .unwrap()
            .create(&record("pod", "created"))
            .unwrap(),
        "remove" => registry.lock(&pod, LONG).unwrap().remove().unwrap(),
        "quarantine" => drop(registry.lock(&pod, LONG).unwrap().quarantine().unwrap()),
        other => panic!("there is no change {other}"),
    }
}

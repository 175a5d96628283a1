//! What the doctor finds in the pods.

use std::path::Path;

use pod_core::{Liveness, PodRecord, PodState};

use super::Check;

/// Looks for wake-ups that died, and for projects that are gone.
pub(super) fn look(records: &[PodRecord], checks: &mut Vec<Check>) {
    for record in records.iter().filter(|record| !record.state.is_terminal()) {
        checks.extend(wake_up(record));
        checks.extend(project(record));
        checks.extend(survivors(record));
    }
}

fn wake_up(record: &PodRecord) -> Option<Check> {
    if record.state != PodState::Active {
        return None;
    }
    let n = record.wake().map_or(record.wake_up_count, |current| current.n);
    let check = format!("wake-up {}/{n}", record.id);
    match pod_reconcile::liveness_of(record) {
        Liveness::Alive => None,
        Liveness::Dead { .. } => {
            let hint = format!(
                "podd settles it at its next pass, and so does `podctl wake {}`",
                record.id
            );
            Some(Check::bad(check, "its wrapper is dead", hint))
        }
        Liveness::Unknown(why) => {
            let hint = "look where it was started: another container of the same home may be running it";
            Some(Check::bad(
                check,
                format!("it cannot be told whether it lives: {why}"),
                hint,
            ))
        }
    }
}

fn project(record: &PodRecord) -> Option<Check> {
    let gone = !Path::new(&record.project).is_dir();
    gone.then(|| {
        Check::bad(
            format!("project of {}", record.id),
            format!("there is no directory `{}`", record.project),
            format!("put it back, or give the pod up: podctl cancel {}", record.id),
        )
    })
}

fn survivors(record: &PodRecord) -> Option<Check> {
    let alive = pod_reconcile::living_survivors(record);
    (!alive.is_empty()).then(|| {
        Check::bad(
            format!("survivors of {}", record.id),
            format!("processes of its last wake-up resist SIGKILL: {alive:?}"),
            "they hang in the kernel, often on a dead mount; see `ps -o pid,stat,wchan,cmd`",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::words::tests::record;

    use super::*;

    #[test]
    fn a_gone_project_and_a_dead_wrapper_are_found() {
        let mut pod = record();
        pod.project = "/no/such/directory".into();
        pod.state = PodState::Active;
        let mut checks = Vec::new();
        look(&[pod.clone()], &mut checks);
        let names: Vec<&str> = checks.iter().map(|check| check.check.as_str()).collect();
        assert_eq!(names, ["wake-up fix-login-7k2m/0", "project of fix-login-7k2m"]);
        pod.state = PodState::Done;
        checks.clear();
        look(&[pod], &mut checks);
        assert!(checks.is_empty());
    }
}

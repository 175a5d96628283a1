//! Finds the processes of a wake-up.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use crate::handle::Handle;
use crate::proc_fs::{ProcStat, is_gone, pids, stat};

/// The live descendants of a process, nearest first, without itself.
///
/// While a subreaper lives, everything that was ever started below it is among them, in whatever session or
/// group: prctl(2), PR_SET_CHILD_SUBREAPER. The walk costs what the tree is large, not the machine.
pub fn descendants(root: i32) -> io::Result<Vec<ProcStat>> {
    // A kernel without CONFIG_PROC_CHILDREN has no such files, which must not look like no children.
    if !std::path::Path::new("/proc/thread-self/children").exists() {
        return descendants_by_parent(root);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for pid in children(parent)? {
            if let Some(child) = stat(pid)? {
                found.push(child);
                open.push(pid);
            }
        }
    }
    Ok(found)
}

fn descendants_by_parent(root: i32) -> io::Result<Vec<ProcStat>> {
    let mut all = Vec::new();
    for pid in pids()? {
        all.extend(stat(pid)?);
    }
    let parents: BTreeMap<i32, i32> = all.iter().map(|found| (found.pid, found.ppid)).collect();
    all.retain(|found| found.ppid == root || is_below(found.pid, &parents, |ancestor| ancestor == root));
    Ok(all)
}

fn children(parent: i32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    let tasks = match fs::read_dir(format!("/proc/{parent}/task")) {
        Ok(tasks) => tasks,
        Err(error) if is_gone(&error) => return Ok(found),
        Err(error) => return Err(error),
    };
    for task in tasks {
        let file = match task {
            Ok(task) => task.path().join("children"),
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        match fs::read_to_string(file) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<i32>().ok()),
            ),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// CPU time of the live descendants of a process and of what they reaped.
pub fn cpu_time(root: i32) -> io::Result<Duration> {
    Ok(descendants(root)?.iter().map(|found| found.cpu).sum())
}

/// What marks the processes of a wake-up whose wrapper has died.
#[derive(Debug, Clone)]
pub struct Mark {
    /// `NAME=value` of the wake-up's token in the environment.
    pub variable: String,
    /// The session, and so the group, that the agent led; only where the agent's own start is proven to lie
    /// behind it.
    pub session: Option<i32>,
}

/// Finds every process on the machine that carries a mark, and the descendants of those that do.
///
/// A process whose environment cannot be read (another user's) is passed over: it may not be signalled
/// either. We ourselves are never among them.
pub fn marked(mark: &Mark) -> io::Result<Vec<Handle>> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let mut held = BTreeMap::new();
    let mut parents = BTreeMap::new();
    for pid in pids()?.into_iter().filter(|pid| *pid != me) {
        let Some(handle) = Handle::open(pid, ProcStat::is_live)? else {
            continue;
        };
        // Read behind the opening: what is read belongs to what is held, or the process is gone.
        let Some(found) = stat(pid)?.filter(|found| found.start_ticks == handle.start_ticks()) else {
            continue;
        };
        parents.insert(pid, found.ppid);
        let in_session = mark
            .session
            .is_some_and(|sid| found.sid == sid || found.pgid == sid);
        if in_session || has_variable(pid, &mark.variable) {
            held.insert(pid, handle);
        }
    }
    let below: Vec<i32> = parents
        .keys()
        .copied()
        .filter(|pid| !held.contains_key(pid))
        .collect();
    for pid in below {
        let same = |found: &ProcStat| found.is_live() && parents.get(&pid) == Some(&found.ppid);
        if is_below(pid, &parents, |ancestor| held.contains_key(&ancestor))
            && let Some(handle) = Handle::open(pid, same)?
        {
            held.insert(pid, handle);
        }
    }
    Ok(held.into_values().collect())
}

fn is_below(pid: i32, parents: &BTreeMap<i32, i32>, marked: impl Fn(i32) -> bool) -> bool {
    let mut at = pid;
    // A pid that was reused while /proc was read could close a ring.
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(parent) if marked(*parent) => return true,
            Some(parent) if *parent > 1 => at = *parent,
            Some(_) | None => return false,
        }
    }
    false
}

/// Whether a program runs that was started under `name` with `argument` among its arguments. What cannot be
/// looked at may be one.
pub fn runs_with_argument(name: &str, argument: &str) -> bool {
    let Ok(pids) = pids() else { return true };
    pids.into_iter().any(|pid| {
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
            return false;
        };
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        let named = program.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes());
        named && words.any(|word| word == argument.as_bytes())
    })
}

fn has_variable(pid: i32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|entry| entry == variable.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_descendants() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 600 & wait"])
            .spawn()
            .unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let pids = |found: Vec<ProcStat>| {
            let mut pids: Vec<i32> = found.iter().map(|found| found.pid).collect();
            pids.sort_unstable();
            pids
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while descendants(me).unwrap().len() < 2 {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(
            pids(descendants(me).unwrap()),
            pids(descendants_by_parent(me).unwrap())
        );
        for found in descendants(me).unwrap() {
            let process = Handle::of(found.pid, found.start_ticks).unwrap().unwrap();
            process.signal(crate::Sig::KILL).unwrap();
        }
        child.wait().unwrap();
    }
}

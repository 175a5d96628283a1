//! What the doctor finds in the machine.

use std::path::Path;

use pod_core::{ByteSize, PoddLimits};
use pod_process::Cgroup;

use super::Check;
use crate::context::{self, Context};

/// Looks at disk, memory, control groups and lingering.
pub(super) fn look(context: &Context, checks: &mut Vec<Check>) {
    let limits = context.config().map(|config| config.podd).unwrap_or_default();
    checks.extend(disk(context, &limits));
    checks.extend(memory(&limits));
    checks.push(control_group());
    checks.extend(lingering());
}

fn enough(check: &str, free: u64, least: ByteSize, key: &str, what: &str) -> Check {
    let free_mib = free >> 20;
    if free >= least.0 {
        return Check::good(check, format!("{free_mib} MiB free"));
    }
    let hint = format!("free some {what}, or lower {key} under `[podd]` in config.toml");
    Check::bad(
        check,
        format!("{free_mib} MiB free, less than {key} {least}: nothing starts"),
        hint,
    )
}

fn disk(context: &Context, limits: &PoddLimits) -> Option<Check> {
    let there = context.home().root().ancestors().find(|place| place.exists())?;
    let free = pod_disk::free_space(there).ok()?;
    Some(enough("disk", free, limits.min_free_disk, "minFreeDisk", "space"))
}

fn memory(limits: &PoddLimits) -> Option<Check> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let free = available(&text)?;
    Some(enough(
        "memory",
        free,
        limits.min_free_memory,
        "minFreeMemory",
        "memory",
    ))
}

/// What /proc/meminfo calls available, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn control_group() -> Check {
    match Cgroup::create(&format!("agents-pod-doctor-{}", std::process::id())) {
        Some(group) => {
            group.remove();
            Check::good("cgroup", "each wake-up gets a control group of its own")
        }
        // It is one net of several, and in many containers nobody can have it.
        None => Check::good(
            "cgroup",
            "none can be made here: wake-ups are ended by descent, session and token; podd under systemd with \
             Delegate=yes has them",
        ),
    }
}

/// A user unit ends with the login, unless its user lingers.
fn lingering() -> Option<Check> {
    let base = context::variable("XDG_CONFIG_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| Some(Path::new(&context::variable("HOME")?).join(".config")))?;
    if !base.join("systemd/user/podd.service").exists() {
        return None;
    }
    let user = context::variable("USER")?.into_string().ok()?;
    if Path::new("/var/lib/systemd/linger").join(&user).exists() {
        return Some(Check::good(
            "lingering",
            format!("podd's unit goes on when {user} logs out"),
        ));
    }
    let detail = format!("podd's unit ends when {user} logs out, and wake-ups with it");
    Some(Check::bad(
        "lingering",
        detail,
        format!("loginctl enable-linger {user}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_table() {
        let table = "MemTotal:       8000000 kB\nMemAvailable:    4096 kB\n";
        assert_eq!(available(table), Some(4 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn too_little_names_the_key() {
        let check = enough("disk", 5 << 20, ByteSize::mib(1024), "minFreeDisk", "space");
        assert!(
            !check.ok && check.detail.contains("5 MiB free, less than minFreeDisk 1GiB"),
            "{check:?}"
        );
        assert!(enough("disk", 1 << 30, ByteSize::mib(1024), "minFreeDisk", "space").ok);
    }
}

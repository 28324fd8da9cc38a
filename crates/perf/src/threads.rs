//! Processes and their threads, as /proc shows them.

use crate::error::PerfError;
use std::fs;

/// Of `flags` in /proc/PID/stat: a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Numbers of a process's threads; none if it is gone.
pub fn of(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(number).collect()
}

/// Whether there is such a process.
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}/stat")).unwrap_or(false)
}

/// Whether `pid` is a process that can be sampled.
pub fn check(pid: u32) -> Result<(), PerfError> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let stat = stat.map_err(|_| PerfError::NoProcess { pid })?;
    // A process's number, not one of its other threads'.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    if let Some(process) = group.filter(|&group: &u32| group != pid) {
        return Err(PerfError::Thread { tid: pid, pid: process });
    }
    match state(&stat) {
        Some((_, flags)) if flags & KERNEL_THREAD != 0 => Err(PerfError::KernelThread { pid }),
        // While other threads run, only the first one has ended.
        Some(('Z' | 'X', _)) if of(pid).len() <= 1 => Err(PerfError::Ended { pid }),
        _ => Ok(()),
    }
}

/// The third and the ninth field of /proc/PID/stat; the second one, the name in parentheses, may
/// hold anything.
fn state(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(5)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_there_and_others_are_told_apart() {
        let me = std::process::id();
        assert!(exists(me) && of(me).contains(&me));
        check(me).unwrap();
        assert!(matches!(check(u32::MAX - 1), Err(PerfError::NoProcess { .. })));
        let other = of(me).into_iter().find(|&tid| tid != me).expect("the test's own thread");
        assert!(matches!(check(other), Err(PerfError::Thread { pid, .. }) if pid == me));
        // The kernel's first thread, if it can be seen.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
            assert!(matches!(check(2), Err(PerfError::KernelThread { pid: 2 })));
        }
    }

    #[test]
    fn state_and_flags_are_found_behind_any_name() {
        assert_eq!(state("2 (a) b) c) S 0 0 0 0 -1 2129984 0"), Some(('S', 2_129_984)));
        assert_eq!(state("2"), None);
    }
}

//! A process's threads as the kernel lists them.
//!
//! Some are the kernel's own: io_uring works off requests in threads that belong to the process but
//! never run its code. They share nothing that could be seen, come and go as the kernel likes, and
//! no plan places them.

use std::fs;
use std::path::PathBuf;

/// How the kernel names its workers: these and a number.
const WORKERS: [&str; 2] = ["iou-wrk-", "iou-sqp-"];
/// Flags of a task (`PF_IO_WORKER`, and `PF_USER_WORKER` since Linux 6.4; include/linux/sched.h).
const KERNELS: u64 = 0x10 | 0x4000;

/// A process's threads with their names, the initial one first, then in order of their start;
/// without the kernel's own.
pub fn tasks(pid: u32) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found: Vec<(bool, u64, u32, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let tid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = Stat::read(entry.path())?;
            let own = stat.flags & KERNELS == 0;
            own.then_some((tid != pid, stat.start, tid, stat.name))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(.., tid, name)| (tid, name)).collect()
}

/// Whether a thread with this name is the kernel's; by the name alone where it is gone already.
pub fn is_kernels(pid: u32, tid: u32, name: &str) -> bool {
    let number = WORKERS.iter().find_map(|worker| name.strip_prefix(worker));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        && Stat::read(format!("/proc/{pid}/task/{tid}").into())
            .is_none_or(|stat| stat.flags & KERNELS != 0)
}

/// What a thread's `stat` says.
struct Stat {
    name: String,
    flags: u64,
    start: u64,
}

impl Stat {
    fn read(folder: PathBuf) -> Option<Self> {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // The name, in parentheses, may hold anything.
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let field = |number: usize| after.split_whitespace().nth(number)?.parse().ok();
        Some(Self { name: name.to_owned(), flags: field(6)?, start: field(19)? })
    }
}

#[cfg(test)]
mod tests {
    use super::is_kernels;

    #[test]
    fn a_name_makes_no_thread_the_kernels() {
        let name = "iou-wrk-7".to_string();
        let named = std::thread::Builder::new().name(name.clone()).spawn(move || {
            // SAFETY: no preconditions.
            let tid = unsafe { libc::gettid() } as u32;
            is_kernels(std::process::id(), tid, &name)
        });
        assert!(!named.unwrap().join().unwrap());
        // Not there any more: there are no such numbers.
        assert!(is_kernels(u32::MAX, u32::MAX, "iou-sqp-12"));
        assert!(!is_kernels(u32::MAX, u32::MAX, "iou-wrk-pool"));
        assert!(!is_kernels(u32::MAX, u32::MAX, "worker"));
    }
}

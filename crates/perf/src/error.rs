//! Why events cannot be opened, in sentences that say what to do.

use std::io;
use thiserror::Error;

/// Why sampling cannot begin.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PerfError {
    #[error("there is no process {pid}")]
    NoProcess { pid: u32 },
    #[error("{tid} is a thread of process {pid}; sample all of its threads with --pid {pid}")]
    Thread { tid: u32, pid: u32 },
    #[error("process {pid} has ended, and its parent has not waited for it yet")]
    Ended { pid: u32 },
    #[error("process {pid} is a thread of the kernel; only programs can be sampled")]
    KernelThread { pid: u32 },
    #[error(
        "process {pid} belongs to another user or may not be looked at; run threadtalk as that user, as \
         root, or with CAP_PERFMON and CAP_SYS_PTRACE: sudo setcap \
         cap_perfmon,cap_sys_ptrace+ep \"$(command -v threadtalk)\""
    )]
    NotYours { pid: u32 },
    #[error(
        "the kernel does not let this user sample programs (perf_event_paranoid is {level}); allow it \
         with: sudo sysctl kernel.perf_event_paranoid=2"
    )]
    Paranoid { level: i32 },
    #[error(
        "the kernel refuses the event '{event}' ({error}) though perf_event_paranoid is {level}: a seccomp \
         filter or a security module forbids perf_event_open; in a container allow it with --cap-add \
         PERFMON or --security-opt seccomp=unconfined"
    )]
    Forbidden { event: String, level: i32, error: io::Error },
    #[error(
        "this kernel has no perf_event_open (CONFIG_PERF_EVENTS), or a seccomp filter hides it; use a \
         kernel with it, or record exactly, without --sample"
    )]
    NoPerfEvents,
    #[error(
        "the event '{event}' does not exist on this machine ({error}); 'threadtalk doctor' lists what does"
    )]
    NoEvent { event: String, error: io::Error },
    #[error(
        "no debug register is free for '{event}': each thread has four, and a debugger or another perf uses them; \
         end that, or sample another event"
    )]
    NoRegister { event: String },
    #[error(
        "following {threads} threads on {cpus} processors needs {needed} open files, and the limit is \
         {limit}; raise it with: ulimit -n {needed}"
    )]
    Files { threads: usize, cpus: usize, needed: usize, limit: u64 },
    #[error(
        "the kernel gives no memory for the rings of '{event}' ({error}); raise the limit with: sudo sysctl \
         kernel.perf_event_mlock_kb=2048, or end other uses of perf"
    )]
    Locked { event: String, error: io::Error },
    #[error("cannot sample '{event}': {error}")]
    Other { event: String, error: io::Error },
}

/// The setting of the kernel that says who may sample; −1 … 2, on Debian and Ubuntu up to 4.
pub fn paranoid_level() -> Option<i32> {
    let path = "/proc/sys/kernel/perf_event_paranoid";
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl PerfError {
    /// The command that would change it, if there is one.
    pub fn remedy(&self) -> Option<String> {
        let command = match self {
            Self::Paranoid { .. } => "sudo sysctl kernel.perf_event_paranoid=2",
            Self::Locked { .. } => "sudo sysctl kernel.perf_event_mlock_kb=2048",
            Self::Forbidden { .. } => {
                "docker run --cap-add PERFMON --security-opt seccomp=unconfined ..."
            }
            Self::NotYours { .. } => {
                "sudo setcap cap_perfmon,cap_sys_ptrace+ep \"$(command -v threadtalk)\""
            }
            Self::Files { .. } => "ulimit -n 65536",
            _ => return None,
        };
        Some(command.to_string())
    }

    /// What a failed attempt to open `event` for process `pid` (0: ourselves) means.
    pub(crate) fn opening(event: &str, pid: u32, error: io::Error) -> Self {
        let event = event.to_string();
        match error.raw_os_error().unwrap_or_default() {
            libc::ESRCH => Self::NoProcess { pid },
            libc::ENOSYS => Self::NoPerfEvents,
            libc::EACCES | libc::EPERM => Self::refused(event, pid, error),
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL => {
                Self::NoEvent { event, error }
            }
            libc::ENOSPC => Self::NoRegister { event },
            libc::EMFILE | libc::ENFILE => Self::Files {
                threads: 1,
                cpus: 1,
                needed: 4096,
                limit: crate::sys::FileLimit::now(),
            },
            _ => Self::Other { event, error },
        }
    }

    fn refused(event: String, pid: u32, error: io::Error) -> Self {
        let level = paranoid_level().unwrap_or(2);
        let may_look = pid == 0 || pid == std::process::id() || is_readable(pid);
        match Refusal::of(level, may_look, is_privileged()) {
            Refusal::NotYours => Self::NotYours { pid },
            Refusal::Paranoid => Self::Paranoid { level },
            Refusal::Forbidden => Self::Forbidden { event, level, error },
        }
    }
}

/// Why we may not open an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    NotYours,
    Paranoid,
    Forbidden,
}

impl Refusal {
    /// Another user's process comes first, because no level lets any user but root look into those.
    fn of(level: i32, may_look: bool, privileged: bool) -> Self {
        match may_look {
            false => Self::NotYours,
            true if level > 2 && !privileged => Self::Paranoid,
            true => Self::Forbidden,
        }
    }
}

/// Whether we are root; capabilities are seen by what works.
fn is_privileged() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Whether we may look at a process: the same rule as for its events.
fn is_readable(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn no_level_is_to_blame_for_another_users_process() {
        assert_eq!(Refusal::of(3, false, false), Refusal::NotYours);
        assert_eq!(Refusal::of(3, true, false), Refusal::Paranoid);
        assert_eq!(Refusal::of(2, true, false), Refusal::Forbidden);
        assert_eq!(Refusal::of(4, true, true), Refusal::Forbidden);
    }
}

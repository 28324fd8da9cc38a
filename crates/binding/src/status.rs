//! `/proc/PID/status`: name, threads, and the CPUs that the kernel and the cpuset allow.

use std::path::{Path, PathBuf};
use std::{fs, io};
use types::CpuSet;

/// The lines of `/proc/PID/status` (or of a task's) that concern binding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskStatus {
    /// Name of the task (`comm`), at most 15 bytes.
    pub name: String,
    /// One letter: R running, S sleeping, Z ended but not waited for, …
    pub state: Option<char>,
    /// Process.
    pub tgid: i32,
    /// Thread.
    pub pid: i32,
    /// Parent process.
    pub parent: i32,
    /// Threads of the process.
    pub threads: u32,
    /// CPUs on which the task may run, by P#.
    pub cpus_allowed: CpuSet,
    /// How often the task gave its CPU up to wait.
    pub voluntary_switches: u64,
    /// How often another task took its CPU.
    pub involuntary_switches: u64,
}

/// Why a status could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StatusError {
    #[error("process or thread {id} does not exist (any more)")]
    Gone { id: i32 },
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} has an unexpected line '{line}'", path.display())]
    Malformed { path: PathBuf, line: String },
}

impl TaskStatus {
    /// Reads the status of process `pid`, which is that of its initial thread.
    ///
    /// # Errors
    /// Fails when the process is gone, or its status file cannot be read or understood.
    pub fn of_process(pid: i32) -> Result<Self, StatusError> {
        Self::read(pid, PathBuf::from(format!("/proc/{pid}/status")))
    }

    /// Reads the status of thread `tid` of process `pid`.
    ///
    /// # Errors
    /// Fails when the thread is gone, or its status file cannot be read or understood.
    pub fn of_thread(pid: i32, tid: i32) -> Result<Self, StatusError> {
        Self::read(tid, PathBuf::from(format!("/proc/{pid}/task/{tid}/status")))
    }

    fn read(id: i32, path: PathBuf) -> Result<Self, StatusError> {
        match fs::read(&path) {
            Ok(bytes) => Self::parse(&String::from_utf8_lossy(&bytes), &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StatusError::Gone { id }),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                Err(StatusError::Gone { id })
            }
            Err(error) => Err(StatusError::Unreadable { path, error }),
        }
    }

    /// Reads the text of a status file; `path` is only for messages.
    ///
    /// # Errors
    /// Fails when a line has a value of the wrong kind.
    pub fn parse(text: &str, path: &Path) -> Result<Self, StatusError> {
        let mut status = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            let malformed =
                || StatusError::Malformed { path: path.to_path_buf(), line: line.to_string() };
            match key {
                "Name" => status.name = value.to_string(),
                "State" => status.state = value.chars().next(),
                "Tgid" => status.tgid = value.parse().map_err(|_| malformed())?,
                "Pid" => status.pid = value.parse().map_err(|_| malformed())?,
                "PPid" => status.parent = value.parse().map_err(|_| malformed())?,
                "Threads" => status.threads = value.parse().map_err(|_| malformed())?,
                "Cpus_allowed_list" => {
                    status.cpus_allowed = CpuSet::parse_list(value).map_err(|_| malformed())?;
                }
                "voluntary_ctxt_switches" => {
                    status.voluntary_switches = value.parse().map_err(|_| malformed())?;
                }
                "nonvoluntary_ctxt_switches" => {
                    status.involuntary_switches = value.parse().map_err(|_| malformed())?;
                }
                _ => {}
            }
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_line_by_line() {
        let text = "Name:\tpool: 3\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t100\nPid:\t103\n\
                    PPid:\t1\nThreads:\t9\nCpus_allowed:\tff0f\nCpus_allowed_list:\t0-3,8-15\n\
                    voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t5\n";
        let status = TaskStatus::parse(text, Path::new("/proc/100/task/103/status")).unwrap();
        assert_eq!(status.name, "pool: 3");
        assert_eq!(status.state, Some('S'));
        assert_eq!((status.tgid, status.pid, status.parent, status.threads), (100, 103, 1, 9));
        assert_eq!(status.cpus_allowed.to_string(), "0-3,8-15");
        assert_eq!((status.voluntary_switches, status.involuntary_switches), (12, 5));
    }

    #[test]
    fn a_malformed_line_is_named() {
        let error = TaskStatus::parse("Threads:\tmany\n", Path::new("/proc/7/status")).unwrap_err();
        assert_eq!(error.to_string(), "/proc/7/status has an unexpected line 'Threads:\tmany'");
    }

    #[test]
    fn our_own_status_agrees_with_the_system_call() {
        let pid = std::process::id() as i32;
        let tid = std::thread::spawn(move || {
            // SAFETY: gettid has no preconditions.
            let tid = unsafe { libc::gettid() };
            let status = TaskStatus::of_thread(pid, tid).unwrap();
            assert_eq!(status.cpus_allowed, crate::own_affinity().unwrap());
            assert_eq!((status.tgid, status.pid), (pid, tid));
            tid
        })
        .join()
        .unwrap();
        assert_ne!(tid, pid);
        assert!(matches!(TaskStatus::of_process(i32::MAX - 1), Err(StatusError::Gone { .. })));
    }
}

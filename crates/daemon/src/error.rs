//! Why nothing can be looked after.

use std::io;
use std::path::PathBuf;

/// Sentences that say what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DaemonError {
    #[error("process {pid} does not exist (any more) in this pid namespace")]
    NoProcess { pid: u32 },
    #[error("{pid} is a thread of process {process}; name the process")]
    Thread { pid: u32, process: u32 },
    #[error("process {pid} ({name}) is a thread of the kernel, which no plan places")]
    Kernels { pid: u32, name: String },
    #[error("that is this process itself; name another one")]
    Ourselves,
    #[error("there is no cgroup '{}'; name a folder below /sys/fs/cgroup", path.display())]
    NoCgroup { path: PathBuf },
    #[error("there is no user '{name}'")]
    NoUser { name: String },
    #[error(
        "not permitted to bind threads of process {pid}: it belongs to another user; run as that \
         user or with CAP_SYS_NICE"
    )]
    NotPermitted { pid: u32 },
    #[error(
        "threadtalk auto already looks after these processes (process {pid}); end it with \
         'threadtalk auto --stop', or see what it does with 'threadtalk auto --status'"
    )]
    Twice { pid: u32 },
    #[error("cannot keep the journal {}: {error}; nothing is bound without it", path.display())]
    Journal { path: PathBuf, error: io::Error },
    #[error("cannot create the log {}: {error}", path.display())]
    NewLog { path: PathBuf, error: io::Error },
    #[error("cannot go on with the log: {0}; make room for it, or leave out --log")]
    Log(io::Error),
    #[error("the metric {what} cannot be read: {why}")]
    Metric { what: String, why: String },
    #[error(
        "windows of exact recording are for programs that are started here: write the program after \
         --, or leave out --sense windows"
    )]
    NoWindows,
    #[error("{0}")]
    Machine(String),
    #[error(transparent)]
    Recorder(#[from] recorder::RecorderError),
}

//! Why a program was not started, or gave no profile. One sentence each, with what to do.

use std::io;
use std::path::PathBuf;

/// Exit code for failures of our own, as `env` and `timeout` have it.
pub const EXIT_OWN_FAILURE: i32 = 125;
/// Exit code for a command that is there but cannot be executed.
pub const EXIT_NOT_EXECUTABLE: i32 = 126;
/// Exit code for a command that is not there.
pub const EXIT_NOT_FOUND: i32 = 127;

/// A failure of recording or launching.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecorderError {
    #[error("{0}")]
    Windows(#[from] windows::Trouble),
    #[error("no command given; write it after '--', like: threadtalk record -- ./program args")]
    NoCommand,
    #[error("{command}: command not found{hint}")]
    NotFound { command: String, hint: String },
    #[error("{}: cannot be executed: {reason}", path.display())]
    NotExecutable { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    /// `can_sample`: nothing can be injected, but it can be sampled from outside, which `reason`
    /// does not say.
    Unsupported { path: PathBuf, reason: String, can_sample: bool },
    #[error(
        "cannot find {name}: looked in {places}; build it with 'make build', or set \
         THREADTALK_LIB_DIR to the folder that has it"
    )]
    LibraryMissing { name: &'static str, places: String },
    #[error(
        "the path of {} contains a space or colon, which LD_PRELOAD cannot carry; install Threadtalk \
         in a folder without them or set THREADTALK_LIB_DIR",
        path.display()
    )]
    LibraryPath { path: PathBuf },
    #[error(
        "cannot see where threadtalk itself lies ({0}): /proc is not mounted here, which recording needs; mount it \
         with: mount -t proc proc /proc"
    )]
    NoProc(io::Error),
    #[error("cannot set up the shared memory of the {what}: {error}{hint}")]
    SharedMemory { what: &'static str, error: io::Error, hint: &'static str },
    #[error("cannot read the recording back: {0}")]
    ReadBack(io::Error),
    #[error("cannot start {}: {error}", path.display())]
    Spawn { path: PathBuf, error: io::Error },
    #[error("cannot wait for the program: {0}")]
    Wait(io::Error),
    #[error("nothing was recorded: {reason} (the program {ended})")]
    NothingRecorded { reason: String, ended: String },
    #[error("{bytes} is not a block size; choose a power of two between 16 and 1048576 bytes")]
    BlockSize { bytes: u64 },
    #[error(
        "accesses to pages can be counted with blocks of 64 bytes only, not of {bytes}; leave out \
         --pages, or choose --block 64"
    )]
    BlockSizeWithPages { bytes: u64 },
    #[error(transparent)]
    Perf(#[from] perf::PerfError),
    #[error("nothing can be sampled here: {why}")]
    NothingToSample { why: String },
    #[error("process {pid} is this threadtalk itself; name another one with --pid")]
    OwnProcess { pid: u32 },
    #[error("the plan cannot be used here: {0}")]
    Plan(String),
}

impl RecorderError {
    /// The same, and `how` after it where the program can be sampled from outside.
    pub fn or_sample(self, how: &str) -> Self {
        match self {
            Self::Unsupported { path, reason, can_sample: true } => {
                let reason = format!("{reason}; {how}");
                Self::Unsupported { path, reason, can_sample: false }
            }
            other => other,
        }
    }

    /// Whether the program cannot be recorded, but sampled from outside.
    pub fn can_sample(&self) -> bool {
        matches!(self, Self::Unsupported { can_sample: true, .. })
    }

    /// The exit code that belongs to this failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => EXIT_NOT_FOUND,
            Self::NotExecutable { .. } => EXIT_NOT_EXECUTABLE,
            Self::Spawn { error, .. } if error.raw_os_error() == Some(libc::ENOEXEC) => {
                EXIT_NOT_EXECUTABLE
            }
            _ => EXIT_OWN_FAILURE,
        }
    }
}

//! Threads of a recorded program and how they are recognised in another run.

use alloc::string::String;
use core::fmt;

/// Dense logical id of a thread in spawn order; 0 is the initial thread. Never reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// The id as an index into per-thread tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

/// What makes a thread the same thread in another run of the program.
///
/// Creation order alone breaks as soon as a runtime starts helper threads, so a thread is known by
/// its start routine, the thread that created it, and its ordinal among the threads that this
/// parent started with this routine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadIdentity {
    /// Module file name and offset of the start routine in it, `libgomp.so.1.0.0+0x1d940`;
    /// empty for the initial thread.
    pub start_routine: String,
    /// Logical id of the creating thread; `None` for the initial thread.
    pub parent: Option<ThreadId>,
    /// 0-based count of earlier threads with the same parent and start routine.
    pub ordinal: u32,
    /// Last name the thread carried (`/proc/PID/task/TID/comm`), for people and as a last resort.
    pub name: String,
}

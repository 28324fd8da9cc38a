//! What becomes of a system call: parts of [`syscalls`](crate::syscalls) and those below say it.

/// What becomes of a system call.
pub enum Outcome {
    /// The kernel shall do it, from the code cache.
    Native,
    /// It has been done, with this result.
    Done(i64),
    /// It has been done, and the thread continues natively at this address.
    Leave(i64, u64),
}

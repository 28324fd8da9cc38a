//! Which system calls mean nothing to the agent.
//!
//! Neighbours: `syscalls` carries out the others; threads that run natively make these where they
//! are ([`native`](crate::native)).

use crate::layouts::SYSTEM_CALLS;
use crate::sys;

/// Calls that `syscalls` carries out, or looks at.
pub const OWN_CALLS: [u64; 27] = [
    sys::MMAP,
    sys::MPROTECT,
    sys::MUNMAP,
    sys::BRK,
    sys::RT_SIGACTION,
    sys::RT_SIGRETURN,
    sys::MREMAP,
    sys::MADVISE,
    sys::SHMAT,
    sys::SHMDT,
    sys::CLONE,
    sys::FORK,
    sys::VFORK,
    sys::EXECVE,
    sys::EXIT,
    sys::PRCTL,
    sys::ARCH_PRCTL,
    sys::EXIT_GROUP,
    sys::EXECVEAT,
    sys::PKEY_MPROTECT,
    sys::CLONE3,
    sys::RSEQ,
    sys::SECCOMP,
    sys::GETRLIMIT,
    sys::SETRLIMIT,
    sys::PRLIMIT64,
    sys::MLOCKALL,
];

/// 1 for each system call that means nothing to the agent, so that a thread that is away may make
/// it and go on natively: it changes nothing that must be known, nor what its way back rests on.
#[unsafe(no_mangle)]
static tt_plain: [u8; SYSTEM_CALLS] = {
    // After ptrace(), a tracer may see the signals of native time.
    const ALSO_NOT: [u64; 5] =
        [sys::RT_SIGPROCMASK, sys::SIGALTSTACK, sys::WAIT4, sys::WAITID, sys::PTRACE];
    let mut table = [1; SYSTEM_CALLS];
    let mut k = 0;
    while k < OWN_CALLS.len() + ALSO_NOT.len() {
        let number = match k.checked_sub(OWN_CALLS.len()) {
            None => OWN_CALLS[k],
            Some(k) => ALSO_NOT[k],
        };
        table[number as usize] = 0;
        k += 1;
    }
    table
};

/// Whether the call means nothing to the agent.
pub fn is_plain(number: u32) -> bool {
    tt_plain.get(number as usize) == Some(&1)
}

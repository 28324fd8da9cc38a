//! seccomp: the program restricts the system calls of a thread.
//!
//! Before it does, the agent takes what it may need later; afterwards `filter` says what is left.

use super::Outcome;
use crate::dispatch::runtime;
use crate::filter::{self, Answer, Instruction};
use crate::program;
use crate::session;
use crate::sys;
use crate::thread;
use crate::windows;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use engine::control;
use wire::session::life;

/// Set aside for the heap.
const HEAP_BYTES: usize = 64 << 20;
const FLAG_TSYNC: u64 = 1;

/// prctl(PR_SET_SECCOMP, mode, program).
pub fn prctl(a: [u64; 6]) -> Outcome {
    const STRICT: u64 = 1;
    const FILTER: u64 = 2;
    match a[1] {
        STRICT => strict(),
        FILTER => install(a[2], 0),
        _ => Outcome::Native,
    }
}

/// seccomp(operation, flags, program).
pub fn seccomp(a: [u64; 6]) -> Outcome {
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    match u64::from(a[0] as u32) {
        SET_MODE_STRICT => strict(),
        SET_MODE_FILTER => install(a[2], u64::from(a[1] as u32)),
        _ => Outcome::Native,
    }
}

/// The kernel takes away the thread's clock with the calls.
fn strict() -> Outcome {
    windows::forget_clock();
    prepare();
    filter::add_strict();
    Outcome::Native
}

/// The call itself is made in the code cache, where a signal that comes meanwhile needs nothing of
/// the agent's afterwards; so the filter counts from now on. Should the kernel refuse it, the agent
/// is more careful than it would have to be.
fn install(program: u64, flags: u64) -> Outcome {
    let Some(code) = instructions(program) else {
        // Asking what the kernel can do, or nothing that it would take.
        return Outcome::Native;
    };
    prepare();
    filter::add_program(code);
    if flags & FLAG_TSYNC != 0 {
        share();
    }
    Outcome::Native
}

/// The instructions of the `struct sock_fprog` at `program`, if there are any that the kernel may
/// take.
fn instructions(program: u64) -> Option<Vec<Instruction>> {
    const MAX_INSTRUCTIONS: usize = 4096;
    let [length, code] = program::words(program)?;
    let length = usize::from(length as u16);
    if !(1..=MAX_INSTRUCTIONS).contains(&length) {
        return None;
    }
    let mut bytes = vec![0; length * size_of::<Instruction>()];
    let got = program::bytes(code, &mut bytes);
    let each = bytes.chunks_exact(size_of::<Instruction>());
    (got == bytes.len()).then(|| each.map(Instruction::from_bytes).collect())
}

/// All threads have the calling thread's filters now.
fn share() {
    // SAFETY: the calling thread is attached.
    let own = unsafe { thread::current(thread::own_page()) }.filters;
    for id in 0..session::header().threads.load(Ordering::Relaxed) as usize {
        let page = session::page(id);
        // SAFETY: within the session.
        if unsafe { (*page).life.load(Ordering::Relaxed) } == life::ALIVE {
            // SAFETY: set before the thread was alive; records live forever.
            let record = unsafe { thread::field(page as u64, control::THREAD) };
            if record != 0 {
                // SAFETY: as above.
                unsafe { thread::current(page as u64) }.filters = own;
            }
        }
    }
}

/// Takes memory for the heap and for translations of all code that there is.
fn prepare() {
    crate::HEAP.set_aside(HEAP_BYTES);
    thread::make_ready();
    runtime().map_regions();
}

const SHARED_FIXED: u64 = sys::MAP_SHARED | sys::MAP_NORESERVE | sys::MAP_FIXED;
const PRIVATE: u64 = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
const READ_WRITE: u64 = sys::PROT_READ | sys::PROT_WRITE;

/// Whether a fork's child may do what it takes to record itself.
pub fn allows_fork() -> bool {
    let mapped = |flags| (sys::MMAP, [0, 4096, READ_WRITE, flags, 3, 0]);
    !filter::any()
        || filter::allows(&[
            mapped(SHARED_FIXED),
            mapped(PRIVATE | sys::MAP_FIXED_NOREPLACE),
            mapped(PRIVATE | sys::MAP_FIXED),
            (sys::MREMAP, [4096, 0, 4096, 1, 0, 0]),
            (sys::MUNMAP, [4096, 4096, 0, 0, 0, 0]),
            (sys::GETPID, [0; 6]),
        ])
}

/// Whether a program executed now, under the same filters, may do what the agent does from its
/// start on: it will not know the filters, so none of its calls may be a deadly one.
pub fn allows_start() -> bool {
    const WITH_CODE: u64 = READ_WRITE | sys::PROT_EXEC;
    if !filter::any() {
        return true;
    }
    let harmless = [
        sys::ACCESS,
        sys::CLOCK_GETTIME,
        sys::FCNTL,
        sys::FGETXATTR,
        sys::GETEGID,
        sys::GETEUID,
        sys::GETGID,
        sys::GETTID,
        sys::GETUID,
        sys::MEMBARRIER,
        sys::MINCORE,
        sys::MREMAP,
        sys::OPENAT,
        sys::PREAD64,
        sys::PRCTL,
        sys::READLINK,
        sys::RT_SIGACTION,
        sys::RT_TGSIGQUEUEINFO,
        sys::SCHED_YIELD,
        sys::TGKILL,
    ];
    let needed = [
        (sys::OPEN, [0; 6]),
        (sys::FSTAT, [3, 0, 0, 0, 0, 0]),
        (sys::READ, [3, 0, 4096, 0, 0, 0]),
        (sys::CLOSE, [3, 0, 0, 0, 0, 0]),
        (sys::GETPID, [0; 6]),
        (sys::MADVISE, [4096, 4096, 16, 0, 0, 0]),
        (sys::MUNMAP, [4096, 4096, 0, 0, 0, 0]),
        (sys::ARCH_PRCTL, [0x1001, 4096, 0, 0, 0, 0]),
        (sys::RT_SIGPROCMASK, [2, 4096, 0, 8, 0, 0]),
        (sys::FUTEX, [4096, 6 | sys::FUTEX_PRIVATE, 0, 4096, 0, 0]),
        (sys::FUTEX, [4096, 7 | sys::FUTEX_PRIVATE, 0, 0, 0, 0]),
        (sys::MMAP, [0, 4096, READ_WRITE, SHARED_FIXED, 3, 0]),
        (sys::MMAP, [0, 4096, WITH_CODE, PRIVATE | sys::MAP_FIXED_NOREPLACE, !0, 0]),
    ];
    filter::allows(&needed)
        && harmless.iter().all(|number| filter::answer(*number, &[0; 6]) != Answer::Deadly)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many instructions are found in a `struct sock_fprog` (linux/filter.h).
    fn count(length: u16, code: u64) -> Option<usize> {
        // The compiler's padding is of no meaning.
        let program = [0xdead_beef_0000 | u64::from(length), code];
        instructions(program.as_ptr() as u64).map(|found| found.len())
    }

    #[test]
    fn filters_are_read_if_the_kernel_may_take_them() {
        let code = vec![0u64; 4096];
        let at = code.as_ptr() as u64;
        // BPF_MAXINSNS is 4096.
        for (length, expected) in [(0, None), (1, Some(1)), (4096, Some(4096)), (4097, None)] {
            assert_eq!(count(length, at), expected, "{length}");
        }
        assert_eq!(count(1, 0), None);
        assert!(instructions(0).is_none() && instructions(8).is_none());
    }

    #[test]
    fn a_filter_that_ends_in_memory_that_is_not_there_is_none() {
        const PAGE: u64 = 4096;
        let at = sys::anonymous(2 * PAGE).unwrap();
        // SAFETY: the second page of the test's memory.
        unsafe { sys::unmap(at + PAGE, PAGE, sys::MAP_PRIVATE) };
        assert_eq!(count(2, at + PAGE - 16), Some(2));
        assert_eq!(count(3, at + PAGE - 16), None);
        // SAFETY: mapped above.
        unsafe { sys::unmap(at, PAGE, sys::MAP_PRIVATE) };
    }
}

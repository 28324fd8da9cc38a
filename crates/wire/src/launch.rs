//! A plan as the launch shim sees it, and what the shim reports back.
//!
//! Layout of the memfd that the launcher creates, all offsets constant:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], one page |
//! | [`STRANGERS_OFFSET`] | [`MAX_STRANGERS`] × [`Stranger`]: threads that the plan does not know |
//! | [`SLOTS_OFFSET`] | [`Header::slots`] × [`Slot`], one page each |
//!
//! The launcher fills everything above the "written by the shim" lines before the program starts.
//! CPU numbers are operating-system numbers (P#). Masks are bit sets as `sched_setaffinity` takes
//! them.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// First eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTLAUNCH");
/// Changes with every change of this layout. 1: first version. 2: [`Header::watch`],
/// [`life::WATCHED`]. 3: stacks.
pub const VERSION: u32 = 3;
/// Environment variable that tells the shim where the plan is: a path to open.
pub const ENV: &str = "THREADTALK_LAUNCH";
/// Added where otherwise an odd number of variables would be taken out again: see
/// `injected::environment`.
pub const EVEN: &str = "THREADTALK_LAUNCH_EVEN";

/// Page size assumed by the layout, bytes.
pub const PAGE: u64 = 4096;
/// 64-bit words of a mask: 8,192 CPUs, the most that Linux can be configured for.
pub const MASK_WORDS: usize = 128;
/// Most threads outside the plan that are listed one by one; more are only counted.
pub const MAX_STRANGERS: usize = 256;
/// Most slots of a plan: as many threads as an exact recording can tell apart.
pub const MAX_SLOTS: usize = 65_534;

/// Where the threads outside the plan begin, bytes.
pub const STRANGERS_OFFSET: u64 = PAGE;
/// Where the slots begin, bytes.
pub const SLOTS_OFFSET: u64 = STRANGERS_OFFSET + (MAX_STRANGERS * size_of::<Stranger>()) as u64;

/// Size of the memfd for a plan of `slots` slots, bytes.
pub const fn bytes(slots: usize) -> u64 {
    SLOTS_OFFSET + slots as u64 * PAGE
}

/// No slot, no parent.
pub const NONE: u32 = u32::MAX;

/// What the shim says about itself in [`Header::state`].
pub mod state {
    /// The shim never ran: static program, or the loader ignored it.
    pub const NOT_LOADED: u32 = 0;
    /// The shim watches the program's threads.
    pub const RUNNING: u32 = 1;
    /// The shim is of another version than the launcher and does nothing.
    pub const VERSION_MISMATCH: u32 = 2;
}

/// First page.
#[repr(C, align(4096))]
pub struct Header {
    // Written by the launcher.
    /// Marks the memory as a plan.
    pub magic: AtomicU64,
    /// Version of the layout.
    pub version: AtomicU32,
    /// Number of slots.
    pub slots: AtomicU32,
    /// 1: the OpenMP runtime binds the threads; the shim binds none and only reads back.
    pub watch: AtomicU32,

    // Written by the shim.
    /// One of [`state`].
    pub state: AtomicU32,
    /// Process in which the shim runs.
    pub pid: AtomicU32,
    /// Threads created so far besides the initial one.
    pub created: AtomicU32,
    /// Threads that matched no slot; the first [`MAX_STRANGERS`] are listed.
    pub strangers: AtomicU32,
    /// `execve` in the launched process that the shim followed.
    pub execs: AtomicU32,
    /// Threads counted in `strangers` that were recognised by their name afterwards.
    pub recognised: AtomicU32,
    /// Mask of the process before anything was bound: what unmatched threads get.
    pub original: [AtomicU64; MASK_WORDS],
}

/// What became of a slot, in [`Slot::life`].
pub mod life {
    /// No thread has matched.
    pub const WAITING: u32 = 0;
    /// A thread has matched and is about to be bound.
    pub const TAKEN: u32 = 1;
    /// The thread was bound as planned.
    pub const BOUND: u32 = 2;
    /// The program set an affinity of its own for this thread; that is in force.
    pub const PROGRAMS_OWN: u32 = 3;
    /// The kernel refused; [`super::Slot::error`] says why.
    pub const FAILED: u32 = 4;
    /// A thread has matched, and the OpenMP runtime binds it ([`super::Header::watch`]).
    pub const WATCHED: u32 = 5;
}

/// One planned thread.
#[repr(C, align(4096))]
pub struct Slot {
    // Written by the launcher.
    /// Offset of the start routine in its file; meaningful when `module` is not empty.
    pub offset: AtomicU64,
    /// Logical id in the plan.
    pub thread: AtomicU32,
    /// PU to run on, P#.
    pub pu_os: AtomicU32,
    /// Logical id of the creating thread, or [`NONE`].
    pub parent: AtomicU32,
    /// 0-based count of earlier threads with this parent and start routine.
    pub ordinal: AtomicU32,
    /// 1: the plan has no identity for this thread; it is matched as the `thread`-th created.
    pub by_order: AtomicU32,
    /// Kernel's mode of the thread's stack; 0: as it is.
    pub stack_mode: AtomicU32,
    /// 1: `name` is the thread's own (not the program's default one) and may identify it.
    pub name_identifies: AtomicU32,
    /// Nodes of the stack, as bits.
    pub stack_nodes: AtomicU64,
    /// File name (no folders) of the module of the start routine, NUL-padded.
    pub module: [u8; 256],
    /// Name in the recorded run, NUL-padded.
    pub name: [u8; 16],

    // Written by the shim.
    /// Life of the thread that matched.
    pub life: AtomicU32,
    /// Kernel thread id of the thread that matched.
    pub tid: AtomicU32,
    /// errno of a refused binding.
    pub error: AtomicU32,
    /// Threads that asked for this slot's group (parent, routine) so far; kept in the first slot of
    /// the group.
    pub seen: AtomicU32,
    /// 1 once the thread has ended and `last` holds its final binding.
    pub ended: AtomicU32,
    /// errno of the stack's policy.
    pub stack_error: AtomicU32,
    /// Where the stack begins and its bytes; 0: it has no policy of ours.
    pub stack_start: AtomicU64,
    /// See `stack_start`.
    pub stack_bytes: AtomicU64,
    /// Pages of the stack on those nodes, and on others, when the thread or the program ended.
    pub stack_as_planned: AtomicU64,
    /// See `stack_as_planned`.
    pub stack_elsewhere: AtomicU64,
    /// Address of the thread's `pthread_t`.
    pub handle: AtomicU64,
    /// CLOCK_MONOTONIC when the thread matched, ns.
    pub matched_ns: AtomicI64,
    /// Name seen last, NUL-padded.
    pub seen_name: [AtomicU64; 2],
    /// The mask that the thread would have without us; what the program is shown.
    pub wished: [AtomicU64; MASK_WORDS],
    /// Read back from the kernel right after binding.
    pub first: [AtomicU64; MASK_WORDS],
    /// Read back when the thread or the program ended.
    pub last: [AtomicU64; MASK_WORDS],
}

/// A thread that matched no slot and keeps the mask it would have had.
#[repr(C)]
pub struct Stranger {
    /// Offset of the start routine in its file.
    pub offset: AtomicU64,
    /// Kernel thread id.
    pub tid: AtomicU32,
    /// Logical id of the creating thread, or [`NONE`] when that is a stranger itself.
    pub parent: AtomicU32,
    /// Name seen last, NUL-padded.
    pub seen_name: [AtomicU64; 2],
    /// File name of the module of the start routine, cut at 95 bytes, NUL-padded.
    pub module: [AtomicU64; 12],
}

const _: () = assert!(size_of::<Header>() as u64 == PAGE);
const _: () = assert!(size_of::<Slot>() as u64 == PAGE);
const _: () = assert!(size_of::<Stranger>() == 128);
const _: () = assert!(SLOTS_OFFSET.is_multiple_of(PAGE));

/// Whether these file names, NUL-padded, are of versions of the same shared library:
/// `libgomp.so.1` and `libgomp.so.1.0.0`.
pub fn is_same_library(a: &[u8], b: &[u8]) -> bool {
    let stem = |name: &[u8]| name.windows(3).position(|part| part == b".so");
    match (stem(a), stem(b)) {
        (Some(in_a), Some(in_b)) => in_a > 0 && a.get(..in_a) == b.get(..in_b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_library_are_the_same_library() {
        assert!(is_same_library(b"libgomp.so.1\0", b"libgomp.so.1.0.0\0"));
        assert!(is_same_library(b"libx.so\0", b"libx.so.2\0"));
        assert!(!is_same_library(b"libgomp.so.1\0", b"libgom.so.1\0"));
        assert!(!is_same_library(b"app\0", b"app\0") && !is_same_library(b".so", b".so"));
    }
}

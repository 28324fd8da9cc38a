//! Frames of functions on the stacks of threads, in a session.
//!
//! Frames are noted where a thread creates another one, and where call paths are looked at
//! ([`paths`](crate::paths)): those of functions that are still running, whose variables other
//! threads may use. With debug information, they name variables on stacks.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Most frames of a process; what comes later is left out.
pub const MAX_FRAMES: usize = 1 << 14;

/// The frame of a function that is running. Stacks do not overlap, so that addresses say whose
/// it is.
#[repr(C)]
pub struct StackFrame {
    /// Address of the instruction that it is at, or inside the call that it has made.
    pub code: AtomicU64,
    /// The stack pointer there, with nothing pushed for the call.
    pub low: AtomicU64,
    /// The register %rbp there.
    pub rbp: AtomicU64,
    /// The stack pointer before it was called (DWARF's canonical frame address).
    pub end: AtomicU64,
    /// The first and the last thread that was created while it was running, as logical ids plus
    /// one; 0: none is known.
    pub created: [AtomicU32; 2],
}

const _: () = assert!(size_of::<StackFrame>() == 40);

//! Whether the calling thread is in our code: what is called there may allocate, or be interrupted
//! by a handler that does.

use core::arch::{asm, global_asm};
use core::cell::Cell;

// Not `thread_local!`: as a part of what every thread begins with, it is found by one instruction,
// and never allocated.
global_asm!(
    ".pushsection .tbss.threadtalk_allocations, \"awT\", @nobits",
    ".p2align 3",
    ".globl threadtalk_allocations_busy",
    ".hidden threadtalk_allocations_busy",
    ".type threadtalk_allocations_busy, @object",
    ".size threadtalk_allocations_busy, 8",
    "threadtalk_allocations_busy:",
    ".zero 8",
    ".popsection",
);

#[inline(always)]
fn here() -> &'static Cell<u64> {
    let address: *const Cell<u64>;
    // SAFETY: the offset of the object from the thread's base, whose own address is its first
    // word. The thread lives as long as its code runs.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + threadtalk_allocations_busy@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, pure, readonly),
        );
        &*address
    }
}

/// Enters our code; false where the thread is there already.
#[inline(always)]
pub fn enter() -> bool {
    here().replace(1) == 0
}

/// Leaves it.
#[inline(always)]
pub fn leave() {
    here().set(0);
}

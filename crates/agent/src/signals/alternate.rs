//! Where the frames of handlers lie that run on a stack for handlers (sigaltstack).
//!
//! The kernel begins that stack anew whenever a signal finds the stack pointer elsewhere, as it is
//! while a handler runs the agent's code on the agent's stack. The frame of that signal, which is
//! only deferred, would lie over the frame of the running handler. So a handler's frame is moved
//! down by its length, and no handler uses what lies above it.
//!
//! The stack may also be one of the agent's, for signals that bring a thread back from native time
//! (`native.rs`), while the program has none. Then the frame is moved to where the kernel would
//! have put it: the next such signal begins that stack anew.
//!
//! Neighbour: `signals.rs`, which delivers.

use super::Context;
use crate::thread;

/// Bytes of a frame before the context: the return address.
const RETURN_ADDRESS: u64 = 8;
/// Frames may get longer: by alignment, and by state that the thread has not used yet.
const SLACK: u64 = 192;
/// What a handler must be left with; smaller stacks stay as they are.
const LEFT: u64 = 4096;

/// What the kernel leaves free below the stack pointer.
const RED_ZONE: u64 = 128;
/// Bytes that the floating-point state in a frame is aligned to.
const ALIGNMENT: u64 = 64;

/// Moves the frame down if the kernel has begun the program's stack for handlers with it, or to the
/// stack that the program was on if it lies on the agent's. Says by how many bytes: context and
/// siginfo lie lower by so much, modulo 2^64. To be called by the thread with this page.
pub fn make_room(context: &mut Context, stack_pointer: u64, page: u64) -> u64 {
    // SAFETY: the calling thread's page.
    let ours = unsafe { thread::current(page) }.stack_for_native();
    let (start, end) = (context.0 as u64 - RETURN_ADDRESS, ours.0 + ours.1);
    let (top, bytes) = if (ours.0..end).contains(&start) {
        let distance = end.wrapping_sub(stack_pointer - RED_ZONE);
        (end, distance.wrapping_add(ALIGNMENT - 1) & !(ALIGNMENT - 1))
    } else if let Some(bytes) = room(context, stack_pointer) {
        (top(context), bytes)
    } else {
        return 0;
    };
    // SAFETY: the frame, and unused stack: what the kernel would have used, or what `room` has
    // found to be long enough.
    unsafe {
        let to = start.wrapping_sub(bytes) as *mut u8;
        core::ptr::copy(start as *const u8, to, (top - start) as usize);
    }
    *context = Context((context.0 as u64).wrapping_sub(bytes) as *mut u64);
    let state = context.get(Context::FLOATING_POINT);
    if state != 0 {
        context.set(Context::FLOATING_POINT, state.wrapping_sub(bytes));
    }
    bytes
}

/// End of the program's stack for handlers.
fn top(context: &Context) -> u64 {
    context.get(Context::STACK) + context.get(Context::STACK_BYTES)
}

/// By how much the frame is to be moved on the program's own stack for handlers.
fn room(context: &Context, stack_pointer: u64) -> Option<u64> {
    let (bottom, bytes) = (context.get(Context::STACK), context.get(Context::STACK_BYTES));
    // Not with SS_DISABLE, and not with SS_AUTODISARM: then the kernel uses the stack once.
    let flags = context.get(Context::STACK_FLAGS) as u32;
    let within = |address: u64| address > bottom && address - bottom <= bytes;
    let start = context.0 as u64 - RETURN_ADDRESS;
    if flags != 0 || within(stack_pointer) || !within(start) {
        return None;
    }
    let length = top(context) - start;
    let room = (length + SLACK).next_multiple_of(ALIGNMENT);
    (length + room + LEFT <= bytes).then_some(room)
}

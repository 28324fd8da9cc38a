//! Room at the top of the stack that a program has for its handlers (sigaltstack).
//!
//! The kernel begins that stack anew whenever a signal finds the stack pointer elsewhere, as it is
//! while a handler runs the agent's code on the agent's stack. The frame of that signal, which is
//! only deferred, would lie over the frame of the running handler. So a handler's frame is moved
//! down by its length, and no handler uses what lies above it.
//!
//! Neighbour: `signals.rs`, which delivers.

use super::Context;

/// Bytes of a frame before the context: the return address.
const RETURN_ADDRESS: u64 = 8;
/// Frames may get longer: by alignment, and by state that the thread has not used yet.
const SLACK: u64 = 192;
/// What a handler must be left with; smaller stacks stay as they are.
const LEFT: u64 = 4096;

/// Moves the frame down if the kernel has begun the program's stack with it, and says by how many
/// bytes: context and siginfo lie lower by so much.
pub fn make_room(context: &mut Context, stack_pointer: u64) -> u64 {
    let Some(bytes) = room(context, stack_pointer) else { return 0 };
    let start = context.0 as u64 - RETURN_ADDRESS;
    let length = top(context) - start;
    // SAFETY: the frame and the unused stack below it; `room` has seen that they are large enough.
    unsafe {
        core::ptr::copy(start as *const u8, (start - bytes) as *mut u8, length as usize);
    }
    let moved = (context.0 as u64 - bytes) as *mut u64;
    *context = Context(moved);
    let state = context.get(Context::FLOATING_POINT);
    if state != 0 {
        context.set(Context::FLOATING_POINT, state - bytes);
    }
    bytes
}

/// End of the program's stack for handlers.
fn top(context: &Context) -> u64 {
    context.get(Context::STACK) + context.get(Context::STACK_BYTES)
}

/// By how much the frame is to be moved; a multiple of 64, as the state in it is aligned.
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
    let room = (length + SLACK).next_multiple_of(64);
    (length + room + LEFT <= bytes).then_some(room)
}

//! Calls that allocate, of which something is not known yet.

use wire::objects::FRAMES;

unsafe extern "C" {
    // In `slow/allocations.h`.
    fn tt_unknown_return(thread: u64) -> u64;
    fn tt_unknown_rule(thread: u64) -> u64;
}

/// A call that allocates has begun in this thread, of which something is not known: where it
/// returns to, or what leads up the stack from there.
#[unsafe(no_mangle)]
extern "C" fn tt_make_known(thread: u64) {
    let mut runtime = crate::dispatch::runtime();
    // SAFETY: the calling thread's record.
    let back = unsafe { tt_unknown_return(thread) };
    if back != 0 {
        runtime.hook_return(back);
    }
    for _ in 0..FRAMES {
        // SAFETY: as above.
        match unsafe { tt_unknown_rule(thread) } {
            0 => break,
            address => runtime.modules.add_rule(address),
        }
    }
}

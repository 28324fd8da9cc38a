//! Which standard streams were closed when we were started, so that programs find them closed, too.
//!
//! Rust's runtime opens `/dev/null` in their place before `main`, from which a program would read
//! an end instead of an error, and into which it would write without noticing. So we look before.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bit k: descriptor k was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Runs before Rust's runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        // SAFETY: plain numbers.
        let closed = |descriptor| unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0;
        let bits =
            (0..=2).filter(|&descriptor| closed(descriptor)).map(|descriptor| 1 << descriptor);
        CLOSED.store(bits.sum(), Relaxed);
    }
    at_start
};

/// In the new process, where it inherits our streams. Async-signal-safe.
pub fn close_again() {
    let closed = CLOSED.load(Relaxed);
    for descriptor in 0..=2 {
        if closed >> descriptor & 1 != 0 {
            // SAFETY: the runtime's descriptor, which nothing in the new process uses any more.
            unsafe { libc::close(descriptor) };
        }
    }
}

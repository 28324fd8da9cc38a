//! Where handlers work: a stack, because the program's may have little room left or be watched
//! itself, and a decoder, which is too large for each thread to have one.
//!
//! A handler takes the first bench that is free, so that few are ever used and those are warm. It
//! is never waited for: with none free the sample is left out.

use access::{Describer, Reconstructor};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Handlers that may work at once.
const BENCHES: usize = 16;
const STACK_BYTES: usize = 64 << 10;
/// Addresses of code that a decoder remembers.
const ADDRESSES: usize = 1024;

/// A place to work at.
pub struct Bench {
    taken: AtomicU32,
    inner: UnsafeCell<Inner>,
}

struct Inner {
    /// Lowest address of the stack; 0: not made yet.
    stack: usize,
    decoder: Option<Reconstructor>,
    describer: Option<Describer>,
}

// SAFETY: only the thread that has taken a bench touches what is in it.
unsafe impl Sync for Bench {}

static ALL: [Bench; BENCHES] = [const {
    Bench {
        taken: AtomicU32::new(0),
        inner: UnsafeCell::new(Inner { stack: 0, decoder: None, describer: None }),
    }
}; BENCHES];

/// A bench that this handler has taken.
pub struct Taken(&'static Bench);

impl Taken {
    /// Takes a free one. A forked child finds those taken for good that its parent's other threads
    /// were working at.
    pub fn take() -> Option<Self> {
        let free = ALL.iter().find(|bench| {
            bench.taken.load(Relaxed) == 0
                && bench.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        });
        let taken = Self(free?);
        // SAFETY: taken.
        let inner = unsafe { &mut *taken.0.inner.get() };
        if inner.stack == 0 {
            inner.stack = injected::heap::map(STACK_BYTES)?;
        }
        Some(taken)
    }

    /// The decoder, made at first use. To be used on the bench's own stack.
    pub fn decoder(&mut self) -> &mut Reconstructor {
        // SAFETY: taken.
        let inner = unsafe { &mut *self.0.inner.get() };
        inner.decoder.get_or_insert_with(|| Reconstructor::new(ADDRESSES))
    }

    /// Reads single instructions. To be used on the bench's own stack.
    pub fn describer(&mut self) -> &mut Describer {
        // SAFETY: taken.
        let inner = unsafe { &mut *self.0.inner.get() };
        inner.describer.get_or_insert_with(Describer::default)
    }

    /// The upper end of its stack.
    pub fn stack_top(&self) -> usize {
        // SAFETY: taken.
        unsafe { (*self.0.inner.get()).stack + STACK_BYTES }
    }
}

/// Calls `function` with `argument` on another stack.
///
/// # Safety
/// `top` is the upper end of a stack that nothing else uses and that is large enough, and
/// `argument` what `function` wants.
pub unsafe fn on_stack(
    top: usize,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: as the caller vouches; r12 is preserved by the function.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.store(0, Release);
    }
}

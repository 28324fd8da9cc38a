//! Memory that will soon be needed is fetched ahead.
//!
//! What is kept of lines and pages is about as large as the memory of the program, and accessed in
//! the program's order: without this, most of the time is spent waiting for it.

/// Accesses whose memory is fetched at a time.
pub const AT_ONCE: usize = 64;

/// Has the processor fetch a value into its caches.
#[inline]
pub fn fetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, and every processor of this architecture has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

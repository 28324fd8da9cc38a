//! The allocation functions behind ours, and what serves until they are known.
//!
//! They are looked up when the first of ours is called, which may be before any library is
//! initialised. Looking up may itself allocate: that is served from a small memory of our own, of
//! which nothing is given back.

use crate::busy;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

/// An allocation function behind ours.
pub struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn find(&self) {
        // SAFETY: a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Release);
    }

    /// Null where there is none, or none is known yet.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Acquire);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        find();
        self.address.load(Acquire)
    }
}

/// `malloc`.
pub static MALLOC: Function = Function::new(c"malloc");
/// `calloc`.
pub static CALLOC: Function = Function::new(c"calloc");
/// `realloc`.
pub static REALLOC: Function = Function::new(c"realloc");
/// `reallocarray`.
pub static REALLOCARRAY: Function = Function::new(c"reallocarray");
/// `free`.
pub static FREE: Function = Function::new(c"free");
/// `aligned_alloc`.
pub static ALIGNED_ALLOC: Function = Function::new(c"aligned_alloc");
/// `memalign`.
pub static MEMALIGN: Function = Function::new(c"memalign");
/// `posix_memalign`.
pub static POSIX_MEMALIGN: Function = Function::new(c"posix_memalign");
/// `valloc`.
pub static VALLOC: Function = Function::new(c"valloc");
/// `pvalloc`.
pub static PVALLOC: Function = Function::new(c"pvalloc");
/// `mmap`.
pub static MMAP: Function = Function::new(c"mmap");
/// `munmap`.
pub static MUNMAP: Function = Function::new(c"munmap");
/// `mremap`.
pub static MREMAP: Function = Function::new(c"mremap");
/// `malloc_usable_size`.
pub static MALLOC_USABLE_SIZE: Function = Function::new(c"malloc_usable_size");

/// The function as this type, as `Option`.
#[macro_export]
macro_rules! real {
    ($function:ident as $type:ty) => {
        // SAFETY: a function of an allocator, whose type is as stdlib.h declares; a null address is
        // `None`.
        unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, Option<$type>>(
                $crate::real::$function.address(),
            )
        }
    };
}
pub use real;

/// Looks all of them up; true once they are there.
pub fn find() -> bool {
    let all = [
        &CALLOC,
        &REALLOC,
        &REALLOCARRAY,
        &FREE,
        &ALIGNED_ALLOC,
        &MEMALIGN,
        &POSIX_MEMALIGN,
        &VALLOC,
        &PVALLOC,
        &MMAP,
        &MUNMAP,
        &MREMAP,
        &MALLOC_USABLE_SIZE,
        &MALLOC,
    ];
    // Entered from the look-up itself.
    if !busy::enter() {
        return false;
    }
    let missing = |function: &&&Function| function.address.load(Acquire).is_null();
    all.iter().filter(missing).for_each(|function| function.find());
    busy::leave();
    !MALLOC.address.load(Acquire).is_null() && !FREE.address.load(Acquire).is_null()
}

type Malloc = unsafe extern "C" fn(usize) -> *mut u8;
type Free = unsafe extern "C" fn(*mut u8);

/// What `probe` goes on to, and how often it was called.
static BEHIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static PROBED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn probe(bytes: usize) -> *mut u8 {
    PROBED.fetch_add(1, Relaxed);
    // SAFETY: set before.
    let behind = unsafe { core::mem::transmute::<*mut c_void, Malloc>(BEHIND.load(Acquire)) };
    // SAFETY: the program's own call.
    unsafe { behind(bytes) }
}

/// Whether the program has an allocator of its own, so that its calls do not come to us. While
/// there is one thread.
pub fn is_own() -> bool {
    // SAFETY: NUL-terminated names.
    let (malloc, free) = unsafe {
        let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (find(c"malloc"), find(c"free"))
    };
    if malloc.is_null() || free.is_null() {
        return true;
    }
    let behind = MALLOC.address.load(Acquire);
    BEHIND.store(behind, Release);
    MALLOC.address.store(probe as Malloc as *mut c_void, Release);
    // SAFETY: functions of the program's allocator.
    unsafe {
        let block = core::mem::transmute::<*mut c_void, Malloc>(malloc)(1);
        core::mem::transmute::<*mut c_void, Free>(free)(block);
    }
    MALLOC.address.store(behind, Release);
    PROBED.load(Relaxed) == 0
}

const EARLY_BYTES: usize = 64 << 10;

#[repr(C, align(16))]
struct Early(UnsafeCell<[u8; EARLY_BYTES]>);

// SAFETY: each part is given to one allocation.
unsafe impl Sync for Early {}

static EARLY: Early = Early(UnsafeCell::new([0; EARLY_BYTES]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroes from our own memory, while functions are looked up; null where that is full.
#[cold]
pub fn early(bytes: usize) -> *mut u8 {
    // The size comes before each block.
    let Some(whole) = bytes.checked_add(16).and_then(|b| b.checked_next_multiple_of(16)) else {
        return core::ptr::null_mut();
    };
    let fits = |used: usize| Some(used.checked_add(whole)?).filter(|end| *end <= EARLY_BYTES);
    let Ok(start) = EARLY_USED.fetch_update(Relaxed, Relaxed, fits) else {
        return core::ptr::null_mut();
    };
    // SAFETY: within the memory, and only ours.
    unsafe {
        let at = EARLY.0.get().cast::<u8>().add(start);
        at.cast::<usize>().write(bytes);
        at.add(16)
    }
}

/// Whether a block is of that memory.
#[inline(always)]
pub fn is_early(block: *mut u8) -> bool {
    (block as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_BYTES
}

/// Bytes of such a block.
///
/// # Safety
/// [`is_early`] says so.
#[cold]
pub unsafe fn early_bytes(block: *mut u8) -> usize {
    // SAFETY: `early` has written it.
    unsafe { block.sub(16).cast::<usize>().read() }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn early_blocks_are_zeroes_that_lie_apart_until_the_memory_is_full() {
        // What does not fit takes nothing away.
        assert!(early(EARLY_BYTES).is_null() && early(usize::MAX - 64).is_null());
        let mut all = Vec::new();
        for bytes in [0, 1, 15, 16, 17, 1000] {
            let block = early(bytes);
            assert!(is_early(block) && block.addr().is_multiple_of(16));
            // SAFETY: a block of that memory.
            unsafe {
                assert_eq!(early_bytes(block), bytes);
                assert!((0..bytes).all(|k| block.add(k).read() == 0));
                block.write_bytes(0xff, bytes);
            }
            all.push((block.addr(), bytes));
        }
        let rest = (0..).map(|_| early(48)).take_while(|block| !block.is_null());
        all.extend(rest.map(|block| (block.addr(), 48)));
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 + 16 <= pair[1].0));
        let (last, start) = (all[all.len() - 1], EARLY.0.get().addr());
        assert!(last.0 + 48 <= start + EARLY_BYTES && last.0 + 48 + 64 > start + EARLY_BYTES);
        // SAFETY: as above.
        assert!(all.iter().all(|(at, bytes)| unsafe { early_bytes(*at as *mut u8) } == *bytes));
        for bytes in [EARLY_BYTES, usize::MAX - 31, usize::MAX - 15, usize::MAX] {
            assert!(early(bytes).is_null());
        }
    }

    #[test]
    fn blocks_of_others_are_not_early_ones() {
        let (local, start) = (0_u8, EARLY.0.get().addr());
        let beside = [0, start - 1, start + EARLY_BYTES, usize::MAX];
        assert!(!beside.iter().any(|at| is_early(*at as *mut u8)));
        assert!(!is_early((&raw const local).cast_mut()));
        assert!(is_early(start as *mut u8) && is_early((start + EARLY_BYTES - 1) as *mut u8));
    }
}

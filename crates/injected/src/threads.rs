//! `pthread_create` and `thrd_create`: every thread passes here before the program's routine runs.
//!
//! [`thread_hooks!`](crate::thread_hooks) defines them for a library, which says by [`Threads`]
//! what it does. The frames of `posix_thread` and `c11_thread` stay below the program's;
//! `pthread_exit` and cancellation unwind through them, so they are `C-unwind` and hold nothing to
//! drop.

use crate::starts::Pool;
use core::ffi::{c_int, c_void};
use libc::{pthread_attr_t, pthread_t};

/// Start routine of a POSIX thread.
pub type PosixRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
/// Start routine of a C11 thread.
pub type C11Routine = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
/// `pthread_create`.
pub type PosixCreate =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, PosixRoutine, *mut c_void) -> c_int;
/// `thrd_create`.
pub type C11Create = unsafe extern "C" fn(*mut pthread_t, C11Routine, *mut c_void) -> c_int;
/// `thrd_error` of `<threads.h>`.
pub const THRD_ERROR: c_int = 2;

/// A thread that is being created.
#[derive(Clone, Copy)]
pub struct Start<T> {
    /// The program's start routine, of whichever kind its creator knows.
    pub routine: *mut c_void,
    argument: *mut c_void,
    /// What the library wants to know of it.
    pub told: T,
}

// SAFETY: what the pointers are for is the business of the new thread alone.
unsafe impl<T: Send> Send for Start<T> {}

/// What a library does when threads are created.
pub trait Threads: Sized + 'static {
    /// What the new thread is told.
    type Told: Copy + Send;

    /// The library's pool of them.
    fn pool() -> &'static Pool<Start<Self::Told>>;

    /// A thread is about to be created; `None`: it does not concern the library.
    ///
    /// # Safety
    /// `attributes` is null or valid.
    unsafe fn creating(routine: usize, attributes: *const pthread_attr_t) -> Option<Self::Told>;

    /// It was created, or could not be.
    fn created(told: Self::Told, succeeded: bool);

    /// The new thread is there.
    fn arrive(start: &Start<Self::Told>);
}

/// Creates a thread by `create`, which gets `arriving` and its argument, or `routine` and
/// `argument`.
///
/// # Safety
/// `attributes` is null or valid.
unsafe fn create<T: Threads, R>(
    (routine, argument): (R, *mut c_void),
    address: *mut c_void,
    attributes: *const pthread_attr_t,
    arriving: R,
    create: impl FnOnce(R, *mut c_void) -> c_int,
) -> c_int {
    // SAFETY: as the caller vouches.
    let Some(told) = (unsafe { T::creating(address as usize, attributes) }) else {
        return create(routine, argument);
    };
    let start = T::pool().put(Start { routine: address, argument, told });
    let result = create(arriving, start);
    if result != 0 {
        // SAFETY: no thread was created, so no other thread takes it.
        unsafe { T::pool().take(start) };
    }
    T::created(told, result == 0);
    result
}

/// # Safety
/// As for `pthread_create`, which `next` is.
pub unsafe fn posix<T: Threads>(
    next: PosixCreate,
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: PosixRoutine,
    argument: *mut c_void,
) -> c_int {
    let address = routine as *mut c_void;
    // SAFETY: the program's own call, maybe with our routine around its own.
    unsafe {
        create::<T, _>(
            (routine, argument),
            address,
            attributes,
            posix_thread::<T>,
            |routine, argument| next(thread, attributes, routine, argument),
        )
    }
}

/// # Safety
/// As for `thrd_create`, which `next` is.
pub unsafe fn c11<T: Threads>(
    next: C11Create,
    thread: *mut pthread_t,
    routine: C11Routine,
    argument: *mut c_void,
) -> c_int {
    let (address, none) = (routine as *mut c_void, core::ptr::null());
    // SAFETY: the program's own call, maybe with our routine around its own.
    unsafe {
        create::<T, _>((routine, argument), address, none, c11_thread::<T>, |routine, argument| {
            next(thread, routine, argument)
        })
    }
}

unsafe extern "C-unwind" fn posix_thread<T: Threads>(start: *mut c_void) -> *mut c_void {
    // SAFETY: what `create` above has passed.
    let start = unsafe { T::pool().take(start) };
    T::arrive(&start);
    // SAFETY: the routine that the program passed to `pthread_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, PosixRoutine>(start.routine);
        routine(start.argument)
    }
}

unsafe extern "C-unwind" fn c11_thread<T: Threads>(start: *mut c_void) -> c_int {
    // SAFETY: what `create` above has passed.
    let start = unsafe { T::pool().take(start) };
    T::arrive(&start);
    // SAFETY: the routine that the program passed to `thrd_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, C11Routine>(start.routine);
        routine(start.argument)
    }
}

/// Defines the hooks of a library that implements [`Threads`] for `$ours`.
#[macro_export]
macro_rules! thread_hooks {
    ($ours:ty) => {
        /// # Safety
        /// As for `pthread_create`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            routine: $crate::threads::PosixRoutine,
            argument: *mut core::ffi::c_void,
        ) -> core::ffi::c_int {
            let next = $crate::next!(c"pthread_create": $crate::threads::PosixCreate);
            let Some(next) = next else { return libc::ENOSYS };
            // SAFETY: the program's own arguments.
            unsafe {
                $crate::threads::posix::<$ours>(next, thread, attributes, routine, argument)
            }
        }

        /// # Safety
        /// As for `thrd_create`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn thrd_create(
            thread: *mut libc::pthread_t,
            routine: $crate::threads::C11Routine,
            argument: *mut core::ffi::c_void,
        ) -> core::ffi::c_int {
            let next = $crate::next!(c"thrd_create": $crate::threads::C11Create);
            let Some(next) = next else { return $crate::threads::THRD_ERROR };
            // SAFETY: the program's own arguments.
            unsafe { $crate::threads::c11::<$ours>(next, thread, routine, argument) }
        }
    };
}

//! `pthread_create` and `thrd_create`: every thread passes here before the program's routine runs.
//!
//! The frames of `posix_thread` and `c11_thread` stay below the program's; `pthread_exit` and
//! cancellation unwind through them, so they are `C-unwind` and hold nothing to drop.

use crate::{session, thread};
use core::ffi::{c_int, c_void};
use injected::next;
use injected::starts::Pool;
use libc::{pthread_attr_t, pthread_t};

type PosixRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type C11Routine = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type PosixCreate =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, PosixRoutine, *mut c_void) -> c_int;
type C11Create = unsafe extern "C" fn(*mut pthread_t, C11Routine, *mut c_void) -> c_int;
/// `thrd_error` of `<threads.h>`.
const THRD_ERROR: c_int = 2;

/// A thread that is being created.
#[derive(Clone, Copy)]
struct Start {
    /// The program's start routine, of whichever kind its creator knows.
    routine: *mut c_void,
    argument: *mut c_void,
    /// Its creator thinks that it blocks SIGTRAP; so will the new thread.
    blocks: bool,
}

// SAFETY: what the pointers are for is the business of the new thread alone.
unsafe impl Send for Start {}

static STARTS: Pool<Start> = Pool::new();

fn start(routine: *mut c_void, argument: *mut c_void) -> *mut c_void {
    let blocks = thread::with(|thread| thread.blocks.get());
    STARTS.put(Start { routine, argument, blocks })
}

/// # Safety
/// As for `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: PosixRoutine,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"pthread_create": PosixCreate) else { return libc::ENOSYS };
    if session::get().is_none() {
        // SAFETY: the program's own call.
        return unsafe { next(thread, attributes, routine, argument) };
    }
    let start = start(routine as *mut c_void, argument);
    // SAFETY: the program's own call with our routine around its own.
    let result = unsafe { next(thread, attributes, posix_thread, start) };
    if result != 0 {
        // SAFETY: no thread was created, so nobody else takes it.
        unsafe { STARTS.take(start) };
    }
    result
}

/// # Safety
/// As for `thrd_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    routine: C11Routine,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"thrd_create": C11Create) else { return THRD_ERROR };
    if session::get().is_none() {
        // SAFETY: the program's own call.
        return unsafe { next(thread, routine, argument) };
    }
    let start = start(routine as *mut c_void, argument);
    // SAFETY: the program's own call with our routine around its own.
    let result = unsafe { next(thread, c11_thread, start) };
    if result != 0 {
        // SAFETY: no thread was created, so nobody else takes it.
        unsafe { STARTS.take(start) };
    }
    result
}

unsafe extern "C-unwind" fn posix_thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` above has passed.
    let start = unsafe { STARTS.take(start) };
    arrive(&start);
    // SAFETY: the routine that the program passed to `pthread_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, PosixRoutine>(start.routine);
        routine(start.argument)
    }
}

unsafe extern "C-unwind" fn c11_thread(start: *mut c_void) -> c_int {
    // SAFETY: what `thrd_create` above has passed.
    let start = unsafe { STARTS.take(start) };
    arrive(&start);
    // SAFETY: the routine that the program passed to `thrd_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, C11Routine>(start.routine);
        routine(start.argument)
    }
}

fn arrive(start: &Start) {
    thread::with(|thread| thread.blocks.set(start.blocks));
    thread::begin();
}

//! A recording for unit tests: a real one, as the recorder makes it, and empty.

use super::{Place, header, reset};
use crate::counting;
use crate::pages;
use crate::sys;
use core::sync::atomic::Ordering;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::vec::Vec;
use wire::pages::known;
use wire::session::{self, Header};

/// log2 of the bytes of a block in it.
pub const BLOCK_SHIFT: u32 = 6;

/// The file and a path to it.
static OPENED: OnceLock<(File, Vec<u8>)> = OnceLock::new();

/// The recording in that mode, for one test at a time: most of what tests look at is one for all.
pub fn recording(mode: u32) -> MutexGuard<'static, ()> {
    static HELD: Mutex<()> = Mutex::new(());
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    OPENED.get_or_init(create);
    reset();
    for field in [&header().trace_ways, &header().pages, &header().objects] {
        field.store(0, Ordering::Relaxed);
    }
    header().block_shift.store(BLOCK_SHIFT, Ordering::Relaxed);
    header().mode.store(mode, Ordering::Relaxed);
    counting::prepare();
    pages::prepare();
    held
}

/// Where it is. Only after [`recording`].
pub fn place() -> Place<'static> {
    Place { path: &OPENED.get().unwrap().1, segment: 0, parent: u32::MAX }
}

/// Its file.
pub fn file() -> &'static File {
    &OPENED.get().unwrap().0
}

fn create() -> (File, Vec<u8>) {
    const MEMFD_CREATE: u64 = 319;
    // SAFETY: a name that ends with NUL.
    let fd = unsafe { sys::call(MEMFD_CREATE, [c"test".as_ptr() as u64, 0, 0, 0, 0, 0]) };
    // SAFETY: a new descriptor.
    let file = unsafe { File::from_raw_fd(fd as i32) };
    file.set_len(session::FILE_BYTES).unwrap();
    // SAFETY: a new mapping, of which all fields are atomic.
    let first = unsafe {
        let at = sys::map(0, session::PAGE, super::READ_WRITE, super::SHARED, fd, 0).unwrap();
        &*(at as *const Header)
    };
    for (field, value) in [
        (&first.version, session::VERSION),
        (&first.block_shift, BLOCK_SHIFT),
        (&first.mode, session::mode::MATRIX),
        // Only then is all of a segment mapped.
        (&first.pages, known::COUNTED),
        (&first.segments, 1),
    ] {
        field.store(value, Ordering::Relaxed);
    }
    first.magic.store(session::MAGIC, Ordering::Relaxed);
    let path = std::format!("/proc/self/fd/{fd}").into_bytes();
    super::open(&Place { path: &path, segment: 0, parent: u32::MAX }).unwrap();
    (file, path)
}

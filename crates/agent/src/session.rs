//! The recording: the memory that the recorder owns, mapped into the program.

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::session::{self, Header, Module, ThreadPage};

/// Address of the mapped session; 0 = none.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Maps the session at `path` (NUL-terminated) if it is one of ours.
///
/// # Safety
/// `path` must be a NUL-terminated string.
pub unsafe fn open(path: *const u8) -> Option<&'static Header> {
    const O_RDWR_CLOEXEC: u64 = 0o2000002;
    // SAFETY: forwarded.
    let fd = unsafe { sys::call(sys::OPEN, [path as u64, O_RDWR_CLOEXEC, 0, 0, 0, 0]) };
    if fd < 0 {
        return None;
    }
    let flags = sys::MAP_SHARED | sys::MAP_NORESERVE;
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    // SAFETY: new mappings at places that the kernel chooses; the first tells what the file is.
    let base = unsafe {
        let head = sys::map(0, session::PAGE, protection, flags, fd, 0);
        let ok = head.is_some_and(|h| check(&*(h as *const Header)));
        let all =
            if ok { sys::map(0, session::SESSION_BYTES, protection, flags, fd, 0) } else { None };
        if let (Some(h), true, None) = (head, ok, all) {
            (*(h as *const Header)).failure.store(session::failure::NO_SHADOW, Ordering::Relaxed);
            (*(h as *const Header)).state.store(session::state::FAILED, Ordering::Relaxed);
        }
        sys::call(sys::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        all
    };
    BASE.store(base?, Ordering::Relaxed);
    Some(header())
}

fn check(header: &Header) -> bool {
    if header.magic.load(Ordering::Relaxed) != session::MAGIC {
        return false;
    }
    let same = header.version.load(Ordering::Relaxed) == session::VERSION;
    if !same {
        header.failure.store(session::failure::VERSION, Ordering::Relaxed);
        header.state.store(session::state::FAILED, Ordering::Relaxed);
    }
    same
}

/// The session's header. Only after [`open`].
pub fn header() -> &'static Header {
    // SAFETY: mapped by `open` for the life of the process; all fields are atomic.
    unsafe { &*(BASE.load(Ordering::Relaxed) as *const Header) }
}

/// The page of the thread with logical id `id`.
pub fn page(id: usize) -> *mut ThreadPage {
    (BASE.load(Ordering::Relaxed) + session::thread_offset(id)) as *mut ThreadPage
}

/// The row of a thread.
pub fn row(kind: usize, id: usize) -> *mut u64 {
    (BASE.load(Ordering::Relaxed) + session::row_offset(kind, id)) as *mut u64
}

/// The `index`th module record.
pub fn module(index: usize) -> *mut Module {
    let offset = session::MODULES_OFFSET + (index * size_of::<Module>()) as u64;
    (BASE.load(Ordering::Relaxed) + offset) as *mut Module
}

/// Forgets everything recorded so far: the process has executed another program.
pub fn reset() {
    const MADV_REMOVE: u64 = 9;
    let start = BASE.load(Ordering::Relaxed) + session::MODULES_OFFSET;
    let bytes = session::SESSION_BYTES - session::MODULES_OFFSET;
    // SAFETY: punches a hole into our own file; nothing refers to its contents yet.
    unsafe { sys::call(sys::MADVISE, [start, bytes, MADV_REMOVE, 0, 0, 0]) };
    let h = header();
    h.threads.store(0, Ordering::Relaxed);
    h.modules.store(0, Ordering::Relaxed);
}

/// In a fork's child: puts private memory where the recorder's is, so that the child cannot write
/// into its parent's recording.
pub fn detach() {
    let base = BASE.load(Ordering::Relaxed);
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    // SAFETY: replaces our own mapping; the caller has copied the page it lives on.
    unsafe {
        sys::map(base, session::SESSION_BYTES, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0)
    };
}

//! How watching begins: a process attaches when the library is loaded, and a forked child takes a
//! segment of its own.
//!
//! Neighbour: `session` is what there is afterwards.

use crate::hooks::confinement;
use crate::session::{self, Session, TRACES};
use crate::{HEAP, code, descriptors, handler, thread};
use core::sync::atomic::Ordering::*;
use injected::raw;
use wire::watch::{BYTES, Header, MAGIC, VERSION, reason, state};

/// Maps the memory that the environment names, takes our traces out of the environment, and starts
/// to watch.
pub fn attach() {
    let memory = TRACES.path().and_then(map);
    TRACES.clean();
    let Some(header) = memory else { return };
    session::open(header);
    confinement::find_next();
    let modules = code::note_modules();
    // SAFETY: a handler that only touches our own state.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    let parent = raw::pid();
    if let Some(session) = session::take_segment(parent) {
        begin(session, modules.go);
    }
}

/// The whole memory; it takes address space only.
fn map(path: &core::ffi::CStr) -> Option<*mut Header> {
    let at = libc::AT_FDCWD as isize as usize;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { raw::raw(libc::SYS_openat, at, path.as_ptr() as usize, flags, 0) };
    if fd < 0 {
        return None;
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping wherever the kernel likes.
    let base =
        unsafe { raw::raw6(libc::SYS_mmap, 0, BYTES as usize, access, shared, fd as usize, 0) };
    raw::close(fd as i32);
    if base <= 0 {
        return None;
    }
    let header = base as *mut Header;
    // SAFETY: mapped just now; the recorder's file is as long as its version says, and its first
    // page is the header in all of them.
    (unsafe { (*header).magic.load(Relaxed) } == MAGIC).then_some(header)
}

/// The first moment in this program.
fn begin(session: Session, go: bool) {
    let why = match session.header.version.load(Relaxed) {
        VERSION if go => Some(reason::GO),
        VERSION if !has_room() => {
            session::note(session, reason::NO_ROOM);
            return session::unmap();
        }
        VERSION => {
            decode_once();
            handler::install().err()
        }
        _ => {
            return session.segment.state.store(state::VERSION_MISMATCH, Release);
        }
    };
    if let Some(why) = why {
        return session::note(session, why);
    }
    session::watch(session);
    thread::begin();
}

/// Makes the decoder build its tables now. It would build them in the first handler that decodes,
/// and handlers of other threads would spin until that is done. A real-time thread would spin for
/// ever if it kept the builder from running.
fn decode_once() {
    const NOP: [u8; 1] = [0x90];
    let _ = access::decode(&mut access::Describer::default(), 0, &NOP);
}

/// Limits of the address space, and of the data in it, below which the program gets all of it: what
/// we take could be what it lacks in the end.
const AMPLE: [(u32, u64); 2] = [(libc::RLIMIT_AS, 2 << 30), (libc::RLIMIT_DATA, 512 << 20)];

/// Whether there is room for what watching needs.
fn has_room() -> bool {
    let ample = |&(of, least): &(u32, u64)| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid pointer.
        let known = unsafe {
            let into = &raw mut limit as usize;
            raw::raw(libc::SYS_prlimit64, 0, of as usize, 0, into) == 0
        };
        !known || limit.rlim_cur >= least
    };
    // A failed allocation aborts the process, so what handlers need is there before they are.
    AMPLE.iter().all(ample) && HEAP.prepare()
}

/// A forked child is watched by itself, or not at all.
unsafe extern "C" fn in_forked_child() {
    let (watched, parent) = session::forked();
    descriptors::close_all(!session::is_confined());
    thread::forget();
    if !watched || !session::follows() {
        return;
    }
    if let Some(session) = session::take_segment(parent) {
        session::watch(session);
        thread::begin();
    }
}

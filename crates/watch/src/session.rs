//! The memory that the recorder owns, and this process's segment of it.
//!
//! A process attaches when the library is loaded; a forked child takes a segment of its own.
//! Whatever makes watching impossible or unwelcome ends it for the process ([`step_back`]), and the
//! segment says why.

use crate::hooks::confinement;
use crate::{HEAP, code, descriptors, handler, thread};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use injected::Traces;
use injected::raw::{self, now_ns};
use wire::watch::{
    BYTES, Header, MAGIC, RECORDS, Record, SEGMENTS, Segment, VERSION, reason, segment_offset,
    state,
};

/// What tells us about the memory, and what has brought us in.
pub static TRACES: Traces =
    Traces::new(b"THREADTALK_WATCH=", c"THREADTALK_WATCH_EVEN=", b"libthreadtalk_watch.so");

static WATCHING: AtomicU32 = AtomicU32::new(0);
static HEADER: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());
static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(core::ptr::null_mut());
/// The process that the segment belongs to.
static PID: AtomicU32 = AtomicU32::new(0);
/// Seccomp's mode when we came.
static SECCOMP: AtomicU32 = AtomicU32::new(0);

/// This process's part of the session.
#[derive(Clone, Copy)]
pub struct Session {
    pub header: &'static Header,
    pub segment: &'static Segment,
    pub records: &'static [Record],
}

/// The session, while this process is watched.
pub fn get() -> Option<Session> {
    if WATCHING.load(Acquire) == 0 { None } else { mapped() }
}

/// The session of a process that is watched or was.
fn mapped() -> Option<Session> {
    let (header, segment) = (HEADER.load(Acquire), SEGMENT.load(Acquire));
    if header.is_null() || segment.is_null() {
        return None;
    }
    // SAFETY: both lie in the mapping of `attach`, which is for good; what they hold is plain data
    // with atomic fields, and the records follow their segment.
    unsafe {
        let records = segment.add(1).cast::<Record>();
        let records = core::slice::from_raw_parts(records, RECORDS);
        Some(Session { header: &*header, segment: &*segment, records })
    }
}

/// Whether the segment belongs to the calling process: not in a child that was forked past us, nor
/// in one that shares our memory until it executes another program.
pub fn is_own() -> bool {
    PID.load(Relaxed) == raw::pid()
}

/// Whether a program that is executed by this process is to be watched.
pub fn goes_on() -> bool {
    !HEADER.load(Acquire).is_null() && (is_own() || follows())
}

/// Whether children are to be watched.
pub fn follows() -> bool {
    let header = HEADER.load(Acquire);
    // SAFETY: as in `mapped`.
    !header.is_null() && unsafe { (*header).follow.load(Relaxed) } == 1
}

/// Maps the memory that the environment names, takes our traces out of the environment, and starts
/// to watch.
pub fn attach() {
    let memory = TRACES.path().and_then(map);
    TRACES.clean();
    let Some(header) = memory else { return };
    HEADER.store(header, Release);
    confinement::find_next();
    let modules = code::note_modules();
    SECCOMP.store(seccomp_mode(), Relaxed);
    // SAFETY: a handler that only touches our own state.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    let parent = raw::pid();
    if let Some(session) = take_segment(parent) {
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

/// Takes the next segment for this process. `parent`: see [`Segment::parent`].
fn take_segment(parent: u32) -> Option<Session> {
    let header = HEADER.load(Acquire);
    // SAFETY: as in `mapped`.
    let taken = unsafe { (*header).taken.fetch_add(1, AcqRel) } as usize;
    if taken >= SEGMENTS {
        return None;
    }
    // SAFETY: within the mapping.
    let of =
        |k: usize| unsafe { header.cast::<u8>().add(segment_offset(k) as usize).cast::<Segment>() };
    let pid = raw::pid();
    for earlier in 0..taken {
        // SAFETY: as in `mapped`.
        let earlier = unsafe { &*of(earlier) };
        if earlier.pid.load(Acquire) == pid {
            earlier.left.store(1, Release);
        }
    }
    PID.store(pid, Relaxed);
    SEGMENT.store(of(taken), Release);
    let session = mapped()?;
    session.segment.parent.store(parent, Relaxed);
    session.segment.began_ns.store(now_ns(), Relaxed);
    session.segment.fewest_registers.store(u32::MAX, Relaxed);
    session.segment.pid.store(pid, Release);
    Some(session)
}

/// The first moment in this program.
fn begin(session: Session, go: bool) {
    let why = match session.header.version.load(Relaxed) {
        VERSION if go => Some(reason::GO),
        VERSION if !has_room() => {
            note(session, reason::NO_ROOM);
            return unmap();
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
        return note(session, why);
    }
    session.segment.state.store(state::WATCHING, Release);
    WATCHING.store(1, Release);
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

/// Gives the program back what the memory takes of its address space. Only while no thread watches.
fn unmap() {
    SEGMENT.store(core::ptr::null_mut(), Release);
    let base = HEADER.swap(core::ptr::null_mut(), AcqRel);
    // SAFETY: the mapping of `attach`, which no thread uses any more.
    unsafe { raw::raw(libc::SYS_munmap, base as usize, BYTES as usize, 0, 0) };
}

fn note(session: Session, why: u32) {
    session.segment.reason.store(why, Relaxed);
    session.segment.state.store(state::STEPPED_BACK, Release);
}

/// Ends watching for this process: nothing of ours is armed afterwards.
pub fn step_back(why: u32) {
    leave(why, why != reason::SECCOMP);
}

/// The same while whatever the program is about to do is not done yet.
pub fn step_back_before(why: u32) {
    leave(why, true);
}

/// `may_call`: system calls of ours cannot be the program's end.
fn leave(why: u32, may_call: bool) {
    let Some(session) = mapped().filter(|_| WATCHING.load(Acquire) == 1 && is_own()) else {
        return;
    };
    if WATCHING.swap(0, AcqRel) == 0 {
        return;
    }
    note(session, why);
    descriptors::close_all(may_call);
}

/// A forked child is watched by itself, or not at all.
unsafe extern "C" fn in_forked_child() {
    let watched = WATCHING.swap(0, AcqRel) == 1;
    let parent = PID.load(Relaxed);
    descriptors::close_all(!is_confined());
    thread::forget();
    if !watched || !follows() {
        return;
    }
    if let Some(session) = take_segment(parent) {
        session.segment.state.store(state::WATCHING, Release);
        WATCHING.store(1, Release);
        thread::begin();
    }
}

/// Whether the program has forbidden itself system calls since we came: ours could be its death.
pub fn is_confined() -> bool {
    seccomp_mode() != SECCOMP.load(Relaxed)
}

fn seccomp_mode() -> u32 {
    // SAFETY: plain numbers.
    unsafe { raw::raw(libc::SYS_prctl, libc::PR_GET_SECCOMP as usize, 0, 0, 0) as u32 }
}

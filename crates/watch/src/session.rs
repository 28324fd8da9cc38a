//! The memory that the recorder owns, and this process's segment of it, while it is watched.
//!
//! Whatever makes watching impossible or unwelcome ends it for the process ([`step_back`]), and the
//! segment says why. Neighbour: `attach` maps the memory and begins.

use crate::descriptors;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use injected::Traces;
use injected::raw::{self, now_ns};
use wire::watch::{
    BYTES, Header, RECORDS, Record, SEGMENTS, Segment, reason, segment_offset, state,
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

/// Takes over the memory of a whole mapping.
pub fn open(header: *mut Header) {
    HEADER.store(header, Release);
    SECCOMP.store(seccomp_mode(), Relaxed);
}

/// Begins to watch.
pub fn watch(session: Session) {
    session.segment.state.store(state::WATCHING, Release);
    WATCHING.store(1, Release);
}

/// In a forked child: whether its parent was watched, and the parent's process id. Watching has
/// ended then.
pub fn forked() -> (bool, u32) {
    (WATCHING.swap(0, AcqRel) == 1, PID.load(Relaxed))
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

/// Takes the next segment for this process. `parent`: see [`Segment::parent`].
pub fn take_segment(parent: u32) -> Option<Session> {
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

/// Gives the program back what the memory takes of its address space. Only while no thread watches.
pub fn unmap() {
    SEGMENT.store(core::ptr::null_mut(), Release);
    let base = HEADER.swap(core::ptr::null_mut(), AcqRel);
    // SAFETY: the mapping of `attach`, which no thread uses any more.
    unsafe { raw::raw(libc::SYS_munmap, base as usize, BYTES as usize, 0, 0) };
}

/// Says in the segment why this process is not watched.
pub fn note(session: Session, why: u32) {
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

/// Whether the program has forbidden itself system calls since we came: ours could be its death.
pub fn is_confined() -> bool {
    seccomp_mode() != SECCOMP.load(Relaxed)
}

fn seccomp_mode() -> u32 {
    // SAFETY: plain numbers.
    unsafe { raw::raw(libc::SYS_prctl, libc::PR_GET_SECCOMP as usize, 0, 0, 0) as u32 }
}

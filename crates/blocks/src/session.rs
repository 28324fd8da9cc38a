//! The memory that the recorder owns, and this process's segment of it.
//!
//! A process attaches when the library is loaded. A forked child takes a segment of its own with
//! its first block that begins or ends: most children execute another program before.

use crate::{HEAP, groups, live, pace};
use allocations::lock::Lock;
use allocations::{busy, chain, real};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use injected::Traces;
use injected::raw::{self, now_ns};
use wire::blocks::{
    GROUPS, GROUPS_OFFSET, Header, MAGIC, RECORDS, RECORDS_OFFSET, Record, SEGMENT_BYTES, SEGMENTS,
    Segment, VERSION, segment_offset, state,
};
use wire::objects::{Group, OTHERS};

/// What tells us about the memory, and what has brought us in.
pub static TRACES: Traces =
    Traces::new(b"THREADTALK_BLOCKS=", c"THREADTALK_BLOCKS_EVEN=", b"libthreadtalk_blocks.so");

/// 1: allocations of this process are followed.
static FOLLOWING: AtomicU32 = AtomicU32::new(0);
static HEADER: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());
/// This process's segment; null in a forked child that has none yet.
static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(core::ptr::null_mut());
/// The parent's, from which a forked child copies groups.
static PARENTS: AtomicPtr<Segment> = AtomicPtr::new(core::ptr::null_mut());
/// The process that forked this one, or this one.
static PARENT: AtomicU32 = AtomicU32::new(0);
/// The process whose memory this is; in a child of vfork still the parent.
static PID: AtomicU32 = AtomicU32::new(0);
/// When the process began, or its program; CLOCK_MONOTONIC, ns.
static FORKED_NS: AtomicU64 = AtomicU64::new(0);
static TAKING: Lock = Lock::new();

/// This process's part of the session.
#[derive(Clone, Copy)]
pub struct Session {
    pub segment: &'static Segment,
    pub groups: &'static [Group],
    pub records: &'static [Record],
}

/// Whether allocations are followed.
#[inline(always)]
pub fn is_on() -> bool {
    FOLLOWING.load(Relaxed) != 0
}

/// The session, while this process is followed. A forked child takes its segment here.
pub fn get() -> Option<Session> {
    if !is_on() {
        return None;
    }
    let segment = SEGMENT.load(Acquire);
    if segment.is_null() {
        return TAKING.with(take_segment).flatten();
    }
    Some(session(segment))
}

fn session(segment: *mut Segment) -> Session {
    let bytes = segment.cast::<u8>();
    // SAFETY: a segment that was mapped for good; all of it is plain data with
    // atomic fields.
    unsafe {
        let groups = bytes.add(GROUPS_OFFSET as usize).cast::<Group>();
        let records = bytes.add(RECORDS_OFFSET as usize).cast::<Record>();
        Session {
            segment: &*segment,
            groups: core::slice::from_raw_parts(groups, GROUPS),
            records: core::slice::from_raw_parts(records, RECORDS),
        }
    }
}

fn header() -> Option<&'static Header> {
    // SAFETY: null, or the mapping of `attach`, which is for good.
    unsafe { HEADER.load(Acquire).as_ref() }
}

/// Whether children are to be followed.
pub fn follows() -> bool {
    header().is_some_and(|header| header.follow.load(Relaxed) == 1)
}

/// Whether a program that replaces this one is to be followed: that of the process which the
/// recorder has started, and those of children that are.
pub fn goes_on() -> bool {
    header().is_some() && (follows() || PARENT.load(Relaxed) == raw::pid())
}

/// Maps the memory that the environment names, takes our traces out of the environment, and begins
/// to follow.
pub fn attach() {
    let memory = TRACES.path().and_then(map);
    TRACES.clean();
    let Some(header) = memory else { return };
    HEADER.store(header, Release);
    let pid = raw::pid();
    PARENT.store(pid, Relaxed);
    PID.store(pid, Relaxed);
    // SAFETY: a handler that only touches our own state.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    FORKED_NS.store(now_ns() as u64, Relaxed);
    let ready = real::find() && HEAP.prepare() && live::prepare();
    let Some(session) = take_segment().filter(|_| ready) else { return };
    if real::is_own() {
        return session.segment.state.store(state::OWN_ALLOCATOR, Release);
    }
    chain::prepare();
    session.segment.state.store(state::FOLLOWING, Release);
    FOLLOWING.store(1, Release);
}

/// Least address space that a program must be allowed: what we take could be what it lacks.
const AMPLE: u64 = 2 << 30;

/// The path of the memory, which the program may overwrite in its environment.
struct Path(UnsafeCell<[u8; 64]>);

// SAFETY: written in `attach`, while there is one thread.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; 64]));

/// Maps a part of the memory for good.
fn map_part(offset: u64, bytes: u64) -> Option<*mut u8> {
    let at = libc::AT_FDCWD as isize as usize;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { raw::raw(libc::SYS_openat, at, PATH.0.get() as usize, flags, 0) };
    if fd < 0 {
        return None;
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
    let (bytes, offset) = (bytes as usize, offset as usize);
    // SAFETY: a new mapping wherever the kernel likes.
    let base = unsafe { raw::raw6(libc::SYS_mmap, 0, bytes, access, shared, fd as usize, offset) };
    raw::close(fd as i32);
    (base > 0).then_some(base as *mut u8)
}

/// The header.
fn map(path: &CStr) -> Option<*mut Header> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer.
    let known = unsafe {
        let into = &raw mut limit as usize;
        raw::raw(libc::SYS_prlimit64, 0, libc::RLIMIT_AS as usize, 0, into) == 0
    };
    let path = path.to_bytes_with_nul();
    // SAFETY: see `Path`.
    let kept = unsafe { &mut *PATH.0.get() };
    if known && limit.rlim_cur < AMPLE || path.len() > kept.len() {
        return None;
    }
    kept[..path.len()].copy_from_slice(path);
    let header = map_part(0, size_of::<Header>() as u64)?.cast::<Header>();
    // SAFETY: mapped just now; the first page is the header in all versions.
    let (magic, version) =
        unsafe { ((*header).magic.load(Relaxed), (*header).version.load(Relaxed)) };
    (magic == MAGIC && version == VERSION).then_some(header)
}

/// Takes the next segment for this process; a forked child's has its parent's groups.
fn take_segment() -> Option<Session> {
    let known = SEGMENT.load(Acquire);
    if !known.is_null() {
        return Some(session(known));
    }
    let taken = header()?.taken.fetch_add(1, AcqRel) as usize;
    let segment = match taken < SEGMENTS {
        true => map_part(segment_offset(taken), SEGMENT_BYTES),
        false => None,
    };
    let Some(segment) = segment.map(<*mut u8>::cast::<Segment>) else {
        FOLLOWING.store(0, Release);
        return None;
    };
    let own = session(segment);
    own.segment.parent.store(PARENT.load(Relaxed), Relaxed);
    own.segment.began_ns.store(FORKED_NS.load(Relaxed).max(1), Relaxed);
    let parents = PARENTS.load(Acquire);
    let first = if parents.is_null() { OTHERS + 1 } else { groups::copy(session(parents), own) };
    own.segment.groups.store(first, Release);
    if !parents.is_null() {
        own.segment.state.store(state::FOLLOWING, Release);
    }
    own.segment.pid.store(raw::pid(), Release);
    SEGMENT.store(segment, Release);
    Some(own)
}

/// A forked child is followed by itself, or not at all.
unsafe extern "C" fn in_forked_child() {
    if !is_on() {
        return;
    }
    FORKED_NS.store(now_ns() as u64, Relaxed);
    PARENT.store(PID.swap(raw::pid(), Relaxed), Relaxed);
    pace::Thread::here().forget();
    busy::leave();
    for lock in [&TAKING, &groups::LOCK, &chain::LOCK] {
        lock.break_open();
    }
    if !follows() {
        return FOLLOWING.store(0, Release);
    }
    let segment = SEGMENT.swap(core::ptr::null_mut(), AcqRel);
    if !segment.is_null() {
        PARENTS.store(segment, Release);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A session of a test's own.
    pub fn made() -> Session {
        let base = injected::heap::map(SEGMENT_BYTES as usize).unwrap();
        session(base as *mut Segment)
    }
}

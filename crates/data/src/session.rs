//! The memory that the launcher owns: the plan's data, and what became of it.
//!
//! Neighbour: `attach` begins and ends the plan for a process.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use injected::raw::{raw, raw6};
use injected::{Traces, policies};
use wire::data::{
    BLOCKS, BLOCKS_OFFSET, Block, Entry, Header, JOBS, JOBS_OFFSET, Job, MAGIC, PAGE, REQUESTS,
    REQUESTS_OFFSET, Range, Request, Site, TABLES_OFFSET, VERSION, bytes, entries_offset,
    ranges_offset, scaled, state,
};

/// What tells us about the memory, and what has brought us in.
pub static TRACES: Traces =
    Traces::new(b"THREADTALK_DATA=", c"THREADTALK_DATA_EVEN=", b"libthreadtalk_data.so");

/// Null where there is none, and in a forked child.
static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());
/// What it points to.
struct Place(UnsafeCell<MaybeUninit<Memory>>);

// SAFETY: written while the library attaches (one thread), before `MEMORY` points to it.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));
/// Bit d - 1: blocks whose sizes have d binary digits may be in the plan.
static DIGITS: AtomicU64 = AtomicU64::new(0);
/// 1: the program may have forbidden itself system calls that we need.
static FILTERED: AtomicU32 = AtomicU32::new(0);

/// The launcher's memory, for good.
pub type Session = &'static Memory;

/// Its parts.
pub struct Memory {
    pub header: &'static Header,
    pub requests: &'static [Request],
    pub blocks: &'static [Block],
    pub jobs: &'static [Job],
    pub sites: &'static [Site],
    pub entries: &'static [Entry],
    pub ranges: &'static [Range],
}

impl Memory {
    /// The ranges of an entry.
    fn ranges_of(&self, entry: &Entry) -> &'static [Range] {
        let first = entry.first.load(Relaxed) as usize;
        self.ranges.get(first..first + entry.count.load(Relaxed) as usize).unwrap_or(&[])
    }

    /// The plan's ranges of an object, scaled to its size in pages. Each has the offsets of its
    /// first byte and of its end from the object's first page.
    pub fn parts_of(
        &self,
        entry: &Entry,
        pages: u64,
    ) -> impl Iterator<Item = (&'static Range, u64, u64)> + Clone {
        let planned = entry.bytes.load(Relaxed);
        self.ranges_of(entry).iter().map(move |range| {
            let start = range.offset.load(Relaxed);
            let end = start.saturating_add(range.bytes.load(Relaxed));
            (range, scaled(start, planned, pages), scaled(end, planned, pages))
        })
    }

    /// Whether the calling thread has a policy that is neither the kernel's usual one nor ours.
    pub fn has_own_policy(&self) -> bool {
        let ours = self.header.rest_mode.load(Relaxed);
        policies::own().is_some_and(|mode| mode & 0xff != policies::mode::DEFAULT && mode != ours)
    }
}

/// The session of this process, if its data is to be placed.
#[inline(always)]
pub fn get() -> Option<Session> {
    // SAFETY: null, or what `map_open` has filled, for good.
    unsafe { MEMORY.load(Acquire).as_ref() }
}

/// # Safety
/// `base` is that of a whole mapping.
unsafe fn parts(base: *mut u8) -> Memory {
    // SAFETY: as the caller vouches: all tables lie in the mapping, page-aligned; all types are
    // plain data with atomic fields.
    unsafe {
        let header = &*base.cast::<Header>();
        let count = |number: &AtomicU32| number.load(Relaxed) as usize;
        let (sites, entries) = (count(&header.sites), count(&header.entries));
        let slice = |offset: u64| base.add(offset as usize);
        Memory {
            header,
            requests: core::slice::from_raw_parts(slice(REQUESTS_OFFSET).cast(), REQUESTS),
            blocks: core::slice::from_raw_parts(slice(BLOCKS_OFFSET).cast(), BLOCKS),
            jobs: core::slice::from_raw_parts(slice(JOBS_OFFSET).cast(), JOBS),
            sites: core::slice::from_raw_parts(slice(TABLES_OFFSET).cast(), sites),
            entries: core::slice::from_raw_parts(slice(entries_offset(sites)).cast(), entries),
            ranges: core::slice::from_raw_parts(
                slice(ranges_offset(sites, entries)).cast(),
                count(&header.ranges),
            ),
        }
    }
}

/// Binary digits of a size.
#[inline(always)]
pub fn digits(bytes: usize) -> u32 {
    usize::BITS - (bytes | 1).leading_zeros()
}

/// Whether blocks of this size may be in the plan.
#[inline(always)]
pub fn may_be_planned(bytes: usize) -> bool {
    DIGITS.load(Relaxed) >> (digits(bytes) - 1) & 1 != 0
}

/// Sets which sizes of blocks may be in the plan, by their binary digits: bit d − 1 stands for d
/// digits.
pub fn plan_sizes(digits: u64) {
    DIGITS.store(digits, Release);
}

/// Ends the plan for this process.
pub fn leave() {
    DIGITS.store(0, Release);
    MEMORY.store(core::ptr::null_mut(), Release);
}

/// Whether the program may have forbidden itself system calls since we have begun.
pub fn is_filtered() -> bool {
    FILTERED.load(Relaxed) != 0
}

/// It has.
pub fn filter() {
    FILTERED.store(1, Relaxed);
}

/// Runs `call`, which executes another program, without our policy for the rest of memory.
pub fn without_rest<R>(call: impl FnOnce() -> R) -> R {
    let mode = get().map_or(0, |session| session.header.rest_mode.load(Relaxed));
    let ours = mode != policies::mode::DEFAULT && policies::own() == Some(mode);
    if !ours {
        return call();
    }
    let _ = policies::set_own(policies::mode::DEFAULT, 0);
    let result = call();
    if let Some(session) = get() {
        let _ = policies::set_own(mode, session.header.rest_nodes.load(Relaxed));
    }
    result
}

/// Maps the launcher's file.
pub fn map(path: &CStr) -> Option<Session> {
    let at = libc::AT_FDCWD as isize as usize;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { raw(libc::SYS_openat, at, path.as_ptr() as usize, flags, 0) };
    if fd < 0 {
        return None;
    }
    let found = map_open(fd as usize);
    injected::raw::close(fd as i32);
    found
}

fn map_open(fd: usize) -> Option<Session> {
    let first = map_length(fd, PAGE)?;
    // SAFETY: one page was mapped, and the layout's header is one page in all versions.
    let header = unsafe { &*first.cast::<Header>() };
    let ours = header.magic.load(Acquire) == MAGIC;
    let same = ours && header.version.load(Relaxed) == VERSION;
    if ours && !same {
        header.state.store(state::VERSION_MISMATCH, Release);
    }
    let count = |number: &AtomicU32| number.load(Relaxed) as usize;
    let all = bytes(count(&header.sites), count(&header.entries), count(&header.ranges));
    // SAFETY: the page mapped above; `header` is not used any more.
    unsafe { raw(libc::SYS_munmap, first as usize, PAGE as usize, 0, 0) };
    let base = if same { map_length(fd, all)? } else { return None };
    // SAFETY: a whole mapping, and nobody else is here yet.
    unsafe { (*PLACE.0.get()).write(parts(base)) };
    MEMORY.store(PLACE.0.get().cast(), Release);
    get()
}

fn map_length(fd: usize, length: u64) -> Option<*mut u8> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping wherever the kernel likes.
    let base = unsafe { raw6(libc::SYS_mmap, 0, length as usize, access, shared, fd, 0) };
    (base > 0).then_some(base as *mut u8)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::{MutexGuard, OnceLock};

    /// A piece of a launcher's plan: offset and bytes in pages, nodes, mode.
    pub type Part = (u64, u64, u64, u32);

    fn fill(session: &Memory, entries: &[(u64, &[Part])]) {
        let mut next = 0;
        for (number, (bytes, parts)) in entries.iter().enumerate() {
            let entry = &session.entries[number];
            entry.bytes.store(*bytes, Relaxed);
            entry.first.store(next as u32, Relaxed);
            entry.count.store(parts.len() as u32, Relaxed);
            entry.layout.store(number as u32, Relaxed);
            for (offset, length, nodes, mode) in *parts {
                let range = &session.ranges[next];
                range.offset.store(offset * PAGE, Relaxed);
                range.bytes.store(length * PAGE, Relaxed);
                range.nodes.store(*nodes, Relaxed);
                range.mode.store(*mode, Relaxed);
                next += 1;
            }
        }
    }

    /// A session of a test's own: sites, and entries with their bytes and parts.
    pub fn made(sites: usize, entries: &[(u64, &[Part])]) -> Session {
        let ranges = entries.iter().map(|(_, parts)| parts.len()).sum();
        let base = injected::heap::map(bytes(sites, entries.len(), ranges) as usize).unwrap();
        // SAFETY: mapped just now, for good, with all tables.
        let memory = unsafe {
            let header = &*(base as *const Header);
            header.sites.store(sites as u32, Relaxed);
            header.entries.store(entries.len() as u32, Relaxed);
            header.ranges.store(ranges as u32, Relaxed);
            parts(base as *mut u8)
        };
        fill(&memory, entries);
        Box::leak(Box::new(memory))
    }

    /// A file as the launcher makes it.
    fn file(name: &str, magic: u64, version: u32) -> (std::fs::File, std::ffi::CString) {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(bytes(2, ENTRIES.len(), 8)).unwrap();
        file.write_all_at(&magic.to_le_bytes(), 0).unwrap();
        let numbers = [version, 2, ENTRIES.len() as u32, 8];
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        file.write_all_at(&numbers, 8).unwrap();
        (file, std::ffi::CString::new(path.to_str().unwrap()).unwrap())
    }

    /// Entries of the one session that this process is attached to.
    const ENTRIES: [(u64, &[Part]); 4] = [
        (0, &[(0, 1 << 40, 1, policies::mode::PREFERRED)]),
        (0, &[(0, 16, 1, policies::mode::PREFERRED), (16, 16, 1, policies::mode::INTERLEAVE)]),
        (64 * PAGE, &[(0, 32, 1, policies::mode::PREFERRED), (32, 32, 1, 3)]),
        (0, &[]),
    ];

    /// The session that this process is attached to. The guard keeps other tests from all statics.
    pub fn attached() -> (Session, MutexGuard<'static, ()>) {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        static SESSION: OnceLock<Session> = OnceLock::new();
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let session = SESSION.get_or_init(|| {
            let (file, path) = file("threadtalk-data", MAGIC, VERSION);
            let session = map(&path).unwrap();
            std::fs::remove_file(path.to_str().unwrap()).unwrap();
            drop(file);
            fill(session, &ENTRIES);
            // Where tests run with a policy, it is not the program's own.
            session.header.rest_mode.store(policies::own().unwrap_or(0), Relaxed);
            let ready = [crate::runs::prepare(), crate::records::prepare()];
            assert!(ready == [true; 2] && crate::large::prepare(session));
            session
        });
        (session, alone)
    }

    #[test]
    fn files_of_others_and_of_other_versions_are_refused() {
        let (session, _alone) = attached();
        assert_eq!((session.sites.len(), session.entries.len(), session.ranges.len()), (2, 4, 8));
        let state_of = |magic, version| {
            let (file, path) = file("threadtalk-data-refused", magic, version);
            let mapped = map(&path).is_some();
            let mut word = [0; 4];
            let at = core::mem::offset_of!(Header, state) as u64;
            file.read_exact_at(&mut word, at).unwrap();
            std::fs::remove_file(path.to_str().unwrap()).unwrap();
            (mapped, u32::from_le_bytes(word))
        };
        assert_eq!(state_of(MAGIC, VERSION + 1), (false, state::VERSION_MISMATCH));
        assert_eq!(state_of(MAGIC + 1, VERSION), (false, 0));
        assert!(map(c"/nonexistent/threadtalk").is_none());
        assert!(get().is_some_and(|now| core::ptr::eq(now, session)));
    }

    #[test]
    fn parts_are_scaled_to_the_objects_size_and_lie_side_by_side() {
        let session = made(0, &ENTRIES);
        let parts = |entry: usize, pages| {
            let parts = session.parts_of(&session.entries[entry], pages);
            parts.map(|(_, from, to)| (from / PAGE, to / PAGE)).collect::<Vec<_>>()
        };
        assert_eq!(parts(2, 64), [(0, 32), (32, 64)]);
        assert_eq!(parts(2, 128), [(0, 64), (64, 128)]);
        assert_eq!(parts(2, 101), [(0, 51), (51, 101)]);
        // What is small, or was of unknown size, is not scaled.
        assert_eq!((parts(2, 0), parts(1, 128)), (parts(2, 64), vec![(0, 16), (16, 32)]));
        assert!(parts(3, 64).is_empty());
        // Damaged: beyond the table, or with an end that does not exist.
        session.entries[2].count.store(9, Relaxed);
        assert!(parts(2, 64).is_empty());
        let last = &session.ranges[0];
        last.offset.store(u64::MAX - PAGE + 1, Relaxed);
        last.bytes.store(2 * PAGE, Relaxed);
        assert_eq!(session.parts_of(&session.entries[0], 0).last().unwrap().2, u64::MAX);
    }

    #[test]
    fn sizes_are_told_apart_by_their_binary_digits() {
        let sizes = [0, 1, 2, 3, 4, 0xffff, 0x1_0000, usize::MAX];
        assert_eq!(sizes.map(digits), [1, 1, 2, 2, 3, 16, 17, 64]);
        let (_, _alone) = attached();
        plan_sizes(1 << 16 | 1 << 63 | 1);
        assert_eq!(sizes.map(may_be_planned), [true, true, false, false, false, false, true, true]);
        plan_sizes(0);
        assert!(!sizes.iter().any(|size| may_be_planned(*size)));
    }
}

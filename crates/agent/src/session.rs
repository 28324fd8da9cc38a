//! The recording: the memory that the recorder owns, mapped into the program.
//!
//! Each process has a segment of one file, always at the same address in all processes that descend
//! from each other by fork, because translated code and threads' records refer to it. Beside it the
//! header of the first segment stays mapped: it hands out segment numbers and holds the settings.

mod child;
#[cfg(test)]
pub mod testing;

use crate::program;
use crate::shared::area;
use crate::sys;
use crate::windows;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::objects::{Group, Mapping, Zone};
use wire::paths::Path;
use wire::session::{self, Header, Module, ThreadPage, failure, state};
use wire::stacks::StackFrame;

pub use child::Child;

/// Address of the mapped segment; 0 = none.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Address of the first segment's header.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// Bytes of it that are mapped.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Number of the mapped segment.
static SEGMENT: AtomicU32 = AtomicU32::new(0);
/// A number that was taken for a child which then did not come to be, plus one; 0 = none.
static SPARE: AtomicU32 = AtomicU32::new(0);
/// Device and inode of the recording, to know it again.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const READ_WRITE: u64 = sys::PROT_READ | sys::PROT_WRITE;
const SHARED: u64 = sys::MAP_SHARED | sys::MAP_NORESERVE;
const MREMAP_MAYMOVE: u64 = 1;

/// Where a process's recording is, as the environment says it: `PATH`, or `PATH:SEGMENT:PARENT`,
/// and maybe limits after it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub path: &'a [u8],
    pub segment: u32,
    /// Segment of the process that started this one.
    pub parent: u32,
}

impl<'a> Place<'a> {
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let mut parts = text.split(|b| *b == b':');
        let path = parts.next()?;
        let number = |digits: &[u8]| core::str::from_utf8(digits).ok()?.parse().ok();
        match (parts.next(), parts.next()) {
            (None, _) => Some(Place { path, segment: 0, parent: u32::MAX }),
            (Some(k), Some(p)) => Some(Place { path, segment: number(k)?, parent: number(p)? }),
            _ => None,
        }
    }

    fn open(&self) -> Option<u64> {
        const O_RDWR_CLOEXEC: u64 = 0o2000002;
        open_path(&[self.path], O_RDWR_CLOEXEC)
    }

    /// Opens another descriptor of the recorder's to read.
    pub fn open_beside(&self, descriptor: u32) -> Option<u64> {
        const O_CLOEXEC: u64 = 0o2000000;
        let folder = self.path.iter().rposition(|b| *b == b'/')? + 1;
        let name = alloc::format!("{descriptor}");
        open_path(&[&self.path[..folder], name.as_bytes()], O_CLOEXEC)
    }

    /// Whether the recording can be opened here and is the one that this process knows.
    pub fn is_reachable(&self) -> bool {
        let Some(fd) = self.open() else { return false };
        let same = identity(fd) == Some(FILE.each_ref().map(|w| w.load(Ordering::Relaxed)));
        close(fd);
        same
    }
}

/// Opens the path that the parts make.
fn open_path(parts: &[&[u8]], flags: u64) -> Option<u64> {
    let mut path = [0; 256];
    let mut length = 0;
    for part in parts {
        let end = (length + part.len()).min(path.len() - 1);
        path[length..end].copy_from_slice(&part[..end - length]);
        length = end;
    }
    // SAFETY: NUL-terminated.
    u64::try_from(unsafe { sys::call(sys::OPEN, [path.as_ptr() as u64, flags, 0, 0, 0, 0]) }).ok()
}

pub fn close(fd: u64) {
    // SAFETY: our own descriptor.
    unsafe { sys::call(sys::CLOSE, [fd, 0, 0, 0, 0, 0]) };
}

/// Device and inode.
fn identity(fd: u64) -> Option<[u64; 2]> {
    sys::stat_of(fd).map(|stat| stat.identity())
}

/// Bytes of a segment that are used in this recording.
fn bytes_of(first: &Header) -> u64 {
    match first.pages.load(Ordering::Relaxed) {
        0 => session::PAGES_OFFSET,
        _ => session::SESSION_BYTES,
    }
}

/// Bytes of the mapped segment.
fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

fn offset_of_segment(segment: u32) -> u64 {
    u64::from(segment) * session::SEGMENT_BYTES
}

/// Maps the recording at `place` if it is one of ours.
pub fn open(place: &Place<'_>) -> Option<&'static Header> {
    if place.segment >= session::MAX_SEGMENTS {
        return None;
    }
    let fd = place.open()?;
    let mapped = map_file(place, fd);
    close(fd);
    mapped?;
    SEGMENT.store(place.segment, Ordering::Relaxed);
    let header = header();
    if header.magic.load(Ordering::Relaxed) == 0 {
        introduce(header, place.segment, place.parent);
    }
    Some(header)
}

/// Maps the first header and the segment.
fn map_file(place: &Place<'_>, fd: u64) -> Option<()> {
    // SAFETY: new mappings at places that the kernel chooses; the first tells what the file is.
    unsafe {
        let first = sys::map(0, session::PAGE, READ_WRITE, SHARED, fd as i64, 0)?;
        if !check(&*(first as *const Header)) {
            return None;
        }
        FIRST.store(first, Ordering::Relaxed);
        for (word, value) in FILE.iter().zip(identity(fd)?) {
            word.store(value, Ordering::Relaxed);
        }
        let offset = offset_of_segment(place.segment);
        let bytes = bytes_of(&*(first as *const Header));
        BYTES.store(bytes, Ordering::Relaxed);
        let base = windows::map(fd, place.segment)
            .and_then(|()| area::map(fd, (*(first as *const Header)).mode.load(Ordering::Relaxed)))
            .and_then(|()| sys::map_away(bytes, READ_WRITE, SHARED, fd as i64, offset));
        if base.is_none() {
            let header = match place.segment {
                0 => Some(first),
                _ => sys::map(0, session::PAGE, READ_WRITE, SHARED, fd as i64, offset),
            };
            if let Some(header) = header {
                fail(&*(header as *const Header), failure::NO_SHADOW);
            }
        }
        BASE.store(base?, Ordering::Relaxed);
    }
    sys::keep_out_of_dumps(BASE.load(Ordering::Relaxed), bytes());
    Some(())
}

fn fail(header: &Header, why: u32) {
    header.failure.store(why, Ordering::Relaxed);
    header.state.store(state::FAILED, Ordering::Release);
}

fn check(first: &Header) -> bool {
    if first.magic.load(Ordering::Relaxed) != session::MAGIC {
        return false;
    }
    let same = first.version.load(Ordering::Relaxed) == session::VERSION;
    if !same {
        fail(first, failure::VERSION);
    }
    same
}

/// Fills a fresh segment's header with the settings, which are those of the first.
fn introduce(new: &Header, segment: u32, parent: u32) {
    let first = first();
    for (to, from) in [
        (&new.version, &first.version),
        (&new.block_shift, &first.block_shift),
        (&new.disable, &first.disable),
        (&new.cache_kib, &first.cache_kib),
        (&new.mode, &first.mode),
        (&new.trace_ways, &first.trace_ways),
        (&new.trace_lines, &first.trace_lines),
        (&new.follow, &first.follow),
        (&new.event_chunks, &first.event_chunks),
        (&new.cell_chunks, &first.cell_chunks),
        (&new.objects, &first.objects),
        (&new.pages, &first.pages),
        (&new.slice, &first.slice),
        (&new.code_store, &first.code_store),
    ] {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    new.segment.store(segment, Ordering::Relaxed);
    new.parent_segment.store(parent, Ordering::Relaxed);
    new.magic.store(session::MAGIC, Ordering::Release);
}

/// The header of this process's segment. Only after [`open`].
pub fn header() -> &'static Header {
    // SAFETY: mapped by `open` for the life of the process; all fields are atomic or only ours.
    unsafe { &*(BASE.load(Ordering::Relaxed) as *const Header) }
}

/// The header of the first segment. Only after [`open`].
pub fn first() -> &'static Header {
    // SAFETY: as above.
    unsafe { &*(FIRST.load(Ordering::Relaxed) as *const Header) }
}

/// Number of this process's segment.
pub fn segment() -> u32 {
    SEGMENT.load(Ordering::Relaxed)
}

/// Whether `address` lies in the mapped segment.
pub fn contains(address: u64) -> bool {
    let base = BASE.load(Ordering::Relaxed);
    (base..base + bytes()).contains(&address)
}

/// A segment for a child process; `None` when there are too many.
pub fn take_segment() -> Option<u32> {
    if let Some(spare) = SPARE.swap(0, Ordering::Relaxed).checked_sub(1) {
        return Some(spare);
    }
    let most = first().max_segments.load(Ordering::Relaxed).min(session::MAX_SEGMENTS);
    let taken = first()
        .segments
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |k| (k < most).then_some(k + 1));
    if taken.is_err() {
        first().children_beyond.fetch_add(1, Ordering::Relaxed);
    }
    taken.ok()
}

/// The child for which `segment` was taken did not come to be.
pub fn give_back(segment: u32) {
    let next = (segment + 1, segment);
    let last =
        first().segments.compare_exchange(next.0, next.1, Ordering::Relaxed, Ordering::Relaxed);
    if last.is_err() {
        SPARE.store(segment + 1, Ordering::Relaxed);
    }
}

/// The page of the thread with logical id `id`.
pub fn page(id: usize) -> *mut ThreadPage {
    (BASE.load(Ordering::Relaxed) + session::thread_offset(id)) as *mut ThreadPage
}

/// Address of what tells whether the thread with logical id `id` is in a system call.
pub fn calls(id: usize) -> u64 {
    BASE.load(Ordering::Relaxed) + session::calls_offset(id)
}

/// Address of the first chunk of the pool.
pub fn pool() -> u64 {
    BASE.load(Ordering::Relaxed) + session::POOL_OFFSET
}

/// Address of the first group of blocks.
pub fn groups() -> u64 {
    BASE.load(Ordering::Relaxed) + session::GROUPS_OFFSET
}

/// Address of the first zone.
pub fn zones() -> u64 {
    BASE.load(Ordering::Relaxed) + session::ZONES_OFFSET
}

/// Address of the first mapped file.
pub fn mappings() -> u64 {
    BASE.load(Ordering::Relaxed) + session::MAPPINGS_OFFSET
}

/// Address of the first single block.
pub fn blocks() -> u64 {
    BASE.load(Ordering::Relaxed) + session::BLOCKS_OFFSET
}

/// The call path with that number.
pub fn path(number: usize) -> &'static Path {
    let offset = session::PATHS_OFFSET + (number * size_of::<Path>()) as u64;
    // SAFETY: within the session.
    unsafe { &*((BASE.load(Ordering::Relaxed) + offset) as *const Path) }
}

/// The frame on a stack with that number.
pub fn stack_frame(number: usize) -> &'static StackFrame {
    let offset = session::FRAMES_OFFSET + (number * size_of::<StackFrame>()) as u64;
    // SAFETY: within the session.
    unsafe { &*((BASE.load(Ordering::Relaxed) + offset) as *const StackFrame) }
}

/// Address of what says who accesses which page.
pub fn pages() -> u64 {
    BASE.load(Ordering::Relaxed) + session::PAGES_OFFSET
}

/// Address of the trace's first record.
pub fn trace() -> u64 {
    BASE.load(Ordering::Relaxed) + session::TRACE_OFFSET
}

/// Address of `bytes` at `offset` among the translated code to be kept, if there is room.
pub fn code(offset: u64, bytes: u64) -> Option<u64> {
    let end = offset.checked_add(bytes)?;
    (end <= session::CODE_BYTES)
        .then(|| BASE.load(Ordering::Relaxed) + session::CODE_OFFSET + offset)
}

/// The program address of a code site.
pub fn site(number: usize) -> &'static AtomicU64 {
    let address = BASE.load(Ordering::Relaxed) + session::SITES_OFFSET + number as u64 * 8;
    // SAFETY: within the session.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// What one of the tally with that number means.
pub fn meaning(number: usize) -> &'static AtomicU32 {
    let address = BASE.load(Ordering::Relaxed) + session::MEANINGS_OFFSET + number as u64 * 4;
    // SAFETY: within the session.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
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
    // Translated code may be kept: it does not matter which program executed it.
    let bytes = session::CODE_OFFSET - session::MODULES_OFFSET;
    let rest = self::bytes() - session::PAGES_OFFSET;
    for (start, bytes) in [(start, bytes), (pages(), rest)] {
        // SAFETY: punches a hole into our own file; nothing refers to its contents yet.
        unsafe { sys::call(sys::MADVISE, [start, bytes, MADV_REMOVE, 0, 0, 0]) };
    }
    let h = header();
    h.past.store(0, Ordering::Relaxed);
    h.page_accesses_lost.store(0, Ordering::Relaxed);
    for cursor in [&h.threads, &h.modules, &h.tallies, &h.sites, &h.chunks, &h.event_chunks_used] {
        cursor.store(0, Ordering::Relaxed);
    }
    for cursor in [&h.cell_chunks_used, &h.groups, &h.blocks_described, &h.paths, &h.zones] {
        cursor.store(0, Ordering::Relaxed);
    }
    for cursor in [&h.mappings, &h.frames] {
        cursor.store(0, Ordering::Relaxed);
    }
    h.births.store(0, Ordering::Relaxed);
}

/// A child is about to be forked, or has not come to be after all.
pub fn expect_birth(expected: bool) {
    let births = &header().births;
    match expected {
        true => births.fetch_add(1, Ordering::Relaxed),
        false => births.fetch_sub(1, Ordering::Relaxed),
    };
}

/// Waits until no child copies from this segment any more, which a program that is executed will
/// empty. Not for long: a child may have been killed.
pub fn await_births() {
    const PATIENCE_NS: i64 = 200_000_000;
    let patience = sys::now_ns() + PATIENCE_NS;
    while header().births.load(Ordering::Acquire) != 0 && sys::now_ns() < patience {
        sys::rest();
    }
}

/// In a fork's child: puts `segment` where the parent's segment is, with what the inherited code
/// cache refers to: the parent's modules, code sites and what tallies mean. `None` when it cannot
/// be mapped; then the parent's is still there.
pub fn renew(place: &Place<'_>, segment: u32) -> Option<()> {
    let base = BASE.load(Ordering::Relaxed);
    let parent = Inherited::now();
    let view = |(offset, bytes): (u64, u64)| -> Option<u64> {
        let bytes = bytes.next_multiple_of(session::PAGE);
        if bytes == 0 {
            return Some(0);
        }
        // SAFETY: an old size of 0 maps the same shared pages once more, elsewhere.
        let at = unsafe { sys::call(sys::MREMAP, [base + offset, 0, bytes, MREMAP_MAYMOVE, 0, 0]) };
        (at > 0).then_some(at as u64)
    };
    let head = view((0, session::PAGE))?;
    let mut views = parent.parts().map(|_| 0);
    for (at, part) in views.iter_mut().zip(parent.parts()) {
        *at = view(part)?;
    }
    let mapped = map_windows_over(place, segment).and_then(|()| {
        let range = (base, bytes());
        map_over(place, range, offset_of_segment(segment))
    });
    sys::keep_out_of_dumps(BASE.load(Ordering::Relaxed), bytes());
    let unmap = |at, bytes: u64| {
        // SAFETY: a view that was mapped above.
        unsafe { sys::call(sys::MUNMAP, [at, bytes.next_multiple_of(session::PAGE), 0, 0, 0, 0]) }
    };
    // SAFETY: views of the sizes copied; the new segment is mapped and ours.
    unsafe {
        if mapped.is_some() {
            inherit(&*(head as *const Header), segment, &parent);
            for (at, (offset, bytes)) in views.into_iter().zip(parent.parts()) {
                let to = (base + offset) as *mut u8;
                core::ptr::copy_nonoverlapping(at as *const u8, to, bytes as usize);
            }
        }
        (*(head as *const Header)).births.fetch_sub(1, Ordering::Release);
    }
    unmap(head, session::PAGE);
    let used = views.into_iter().zip(parent.parts()).filter(|(at, _)| *at != 0);
    used.for_each(|(at, (_, bytes))| {
        unmap(at, bytes);
    });
    mapped
}

/// How much a fork's child has from its parent's segment.
struct Inherited {
    modules: u32,
    tallies: u32,
    sites: u32,
    groups: u32,
    zones: u32,
    mappings: u32,
}

impl Inherited {
    fn now() -> Self {
        let h = header();
        let [modules, tallies, sites, groups, zones, mappings] =
            [&h.modules, &h.tallies, &h.sites, &h.groups, &h.zones, &h.mappings]
                .map(|cursor| cursor.load(Ordering::Acquire));
        Inherited { modules, tallies, sites, groups, zones, mappings }
    }

    /// Offsets and bytes.
    fn parts(&self) -> [(u64, u64); 6] {
        // Numbers begin at 1.
        let sites = u64::from((self.sites + 1).min(session::MAX_SITES as u32)) * 8;
        [
            (session::MODULES_OFFSET, u64::from(self.modules) * size_of::<Module>() as u64),
            (session::MEANINGS_OFFSET, u64::from(self.tallies) * 4),
            (session::SITES_OFFSET, sites),
            (session::GROUPS_OFFSET, u64::from(self.groups) * size_of::<Group>() as u64),
            (session::ZONES_OFFSET, u64::from(self.zones) * size_of::<Zone>() as u64),
            (session::MAPPINGS_OFFSET, u64::from(self.mappings) * size_of::<Mapping>() as u64),
        ]
    }
}

/// Maps the passing maps of `segment` over those of the present one.
fn map_windows_over(place: &Place<'_>, segment: u32) -> Option<()> {
    if !windows::are_used() {
        return Some(());
    }
    let base = windows::passing_map(0);
    map_over(place, (base, windows::BYTES), windows::offset(segment))?;
    sys::keep_out_of_dumps(base, windows::BYTES);
    Some(())
}

/// Maps what is at `offset` of the recording over another part of it, at an address and of some
/// size: by the recording's path, or, when that is out of reach (another root, another user, no
/// descriptor left), by shifting the mapping in its file.
fn map_over(place: &Place<'_>, (base, bytes): (u64, u64), offset: u64) -> Option<()> {
    const MAP_NONBLOCK: u64 = 0x1_0000;
    let flags = SHARED | sys::MAP_FIXED;
    // SAFETY: replaces our own mapping; nothing in it is in use by the child's only thread.
    unsafe {
        if let Some(fd) = place.open() {
            let same = identity(fd) == Some(FILE.each_ref().map(|w| w.load(Ordering::Relaxed)));
            let mapped =
                same && sys::map(base, bytes, READ_WRITE, flags, fd as i64, offset).is_some();
            close(fd);
            if mapped {
                return Some(());
            }
        }
        // MAP_NONBLOCK: or else the kernel would bring every page in.
        let shift = [base, bytes, 0, offset / session::PAGE, MAP_NONBLOCK, 0];
        (sys::call(sys::REMAP_FILE_PAGES, shift) == 0).then_some(())
    }
}

/// Fills the header of a fork's child.
fn inherit(parent: &Header, segment: u32, shared: &Inherited) {
    SEGMENT.store(segment, Ordering::Relaxed);
    SPARE.store(0, Ordering::Relaxed);
    let new = header();
    introduce(new, segment, parent.segment.load(Ordering::Relaxed));
    new.modules.store(shared.modules, Ordering::Relaxed);
    new.tallies.store(shared.tallies, Ordering::Relaxed);
    new.sites.store(shared.sites, Ordering::Relaxed);
    new.groups.store(shared.groups, Ordering::Relaxed);
    new.zones.store(shared.zones, Ordering::Relaxed);
    new.mappings.store(shared.mappings, Ordering::Relaxed);
    let used = parent.command_bytes.load(Ordering::Relaxed);
    // SAFETY: both headers are mapped; the child's is written by its only thread.
    unsafe {
        let to = &raw mut (*header_mut()).command;
        core::ptr::copy_nonoverlapping(&raw const parent.command, to, 1);
    }
    new.command_bytes.store(used, Ordering::Relaxed);
}

/// Notes the program for which this process leaves its recording.
pub fn set_left_for(path: &[u8]) {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    // SAFETY: the buffer is this process's own; it stays NUL-terminated.
    unsafe {
        let buffer = &mut (*header_mut()).left_for;
        let bytes = path.len().min(buffer.len() - 1);
        buffer.fill(0);
        buffer[..bytes].copy_from_slice(&path[..bytes]);
    }
}

fn header_mut() -> *mut Header {
    BASE.load(Ordering::Relaxed) as *mut Header
}

/// Notes the command line of this process: the strings of the NULL-terminated array at `words`.
pub fn set_command(words: u64) {
    // SAFETY: this process's own header.
    unsafe { write_command(header_mut(), words) };
}

/// # Safety
/// The header must be this process's own.
unsafe fn write_command(header: *mut Header, words: u64) {
    let mut command = [0; session::COMMAND_BYTES];
    let mut used = 0;
    for word in program::pointers(words, program::MAX_STRINGS).unwrap_or_default() {
        let left = &mut command[used..];
        let got = program::bytes(word, left);
        let length = left[..got].iter().position(|byte| *byte == 0).map_or(got, |end| end + 1);
        left[length..].fill(0);
        used += length;
    }
    // SAFETY: forwarded; within the buffer.
    unsafe {
        let buffer = (&raw mut (*header).command).cast::<u8>();
        core::ptr::copy_nonoverlapping(command.as_ptr(), buffer, used);
        (*header).command_bytes.store(used as u32, Ordering::Relaxed);
    }
}

/// In a fork's child: puts private memory where the recorder's is, so that the child cannot write
/// into its parent's recording.
pub fn detach() {
    let base = BASE.load(Ordering::Relaxed);
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    // SAFETY: replaces our own mapping; the caller has copied the page it lives on.
    unsafe { sys::map(base, bytes(), READ_WRITE, flags, -1, 0) };
}

/// Whether this process is the recorded one, rather than a child that shares its memory (vfork).
pub fn is_recorded() -> bool {
    // SAFETY: no arguments.
    let pid = unsafe { sys::call(sys::GETPID, [0; 6]) };
    // A process that may not even ask is hardly one that is about to execute a program.
    pid < 0 || i64::from(header().pid.load(Ordering::Relaxed)) == pid
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

//! Where data goes, as the library sees it that puts it there, and what it reports back.
//!
//! Layout of the memfd that the launcher creates:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], one page |
//! | [`REQUESTS_OFFSET`] | [`REQUESTS`] × [`Request`]: what the library asks the launcher |
//! | [`BLOCKS_OFFSET`] | [`BLOCKS`] × [`Block`]: memory that was placed and is still there |
//! | [`JOBS_OFFSET`] | [`JOBS`] × [`Job`]: static data to be placed |
//! | [`TABLES_OFFSET`] | [`Header::sites`] × [`Site`], then so many [`Entry`], [`Range`] |
//!
//! The plan names allocation sites in words. Only the launcher can read them: the library asks it
//! once for each caller of an allocation function, and once for each chain of calls from one that
//! the plan may mean. The answer is a [`Site`]. Its entries say by the number of the block there
//! which ranges of pages go where.
//!
//! Neighbours: crate `data` is the library, `recorder::data` the launcher;
//! [`launch`](crate::launch) does the same for threads.

use crate::objects::FRAMES;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTDATA\0\0");
/// Changes with every change of this layout.
pub const VERSION: u32 = 3;
/// Environment variable that tells the library where the memory is: a path to open.
pub const ENV: &str = "THREADTALK_DATA";
/// Added where otherwise an odd number of variables would be taken out again: see
/// `injected::environment`.
pub const EVEN: &str = "THREADTALK_DATA_EVEN";

/// Page size assumed by the layout, bytes.
pub const PAGE: u64 = 4096;
/// Nodes are bits of a word: numbers from here on cannot be named.
pub const MAX_NODES: usize = 64;
/// Questions that may be open at once.
pub const REQUESTS: usize = 64;
/// Blocks that are listed at once; further ones are placed, and only looked at when they end.
pub const BLOCKS: usize = 1 << 16;
/// Pieces of static data that are placed at once.
pub const JOBS: usize = 1 << 14;

/// Where requests begin, bytes.
pub const REQUESTS_OFFSET: u64 = PAGE;
/// Where blocks begin, bytes.
pub const BLOCKS_OFFSET: u64 = REQUESTS_OFFSET + whole(REQUESTS * size_of::<Request>());
/// Where jobs begin, bytes.
pub const JOBS_OFFSET: u64 = BLOCKS_OFFSET + whole(BLOCKS * size_of::<Block>());
/// Where sites begin, bytes.
pub const TABLES_OFFSET: u64 = JOBS_OFFSET + whole(JOBS * size_of::<Job>());

const fn whole(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PAGE)
}

/// Where entries begin, bytes.
pub const fn entries_offset(sites: usize) -> u64 {
    TABLES_OFFSET + whole(sites * size_of::<Site>())
}

/// Where ranges begin, bytes.
pub const fn ranges_offset(sites: usize, entries: usize) -> u64 {
    entries_offset(sites) + whole(entries * size_of::<Entry>())
}

/// Size of the memfd, bytes.
pub const fn bytes(sites: usize, entries: usize, ranges: usize) -> u64 {
    ranges_offset(sites, entries) + whole(ranges * size_of::<Range>())
}

/// No site, no entry.
pub const NONE: u32 = u32::MAX;

/// Beside the binary digits of a size: it is that of a mapping, not of a block of the heap.
pub const OF_MAPPING: u32 = 1 << 8;
/// The digits themselves.
pub const DIGITS: u32 = OF_MAPPING - 1;

/// What the library says about itself in [`Header::state`].
pub mod state {
    /// It never ran: static program, or the loader ignored it.
    pub const NOT_LOADED: u32 = 0;
    /// It places the program's data.
    pub const RUNNING: u32 = 1;
    /// It is of another version than the launcher and does nothing.
    pub const VERSION_MISMATCH: u32 = 2;
    /// The program has an allocator that does not call ours; static data is placed.
    pub const OWN_ALLOCATOR: u32 = 3;
    /// The program may have too little address space to place blocks of the heap.
    pub const NO_ROOM: u32 = 4;
}

/// First page.
#[repr(C, align(4096))]
pub struct Header {
    // Written by the launcher.
    /// Marks the memory.
    pub magic: AtomicU64,
    /// Version of the layout.
    pub version: AtomicU32,
    /// Number of sites.
    pub sites: AtomicU32,
    /// Number of entries.
    pub entries: AtomicU32,
    /// Number of ranges.
    pub ranges: AtomicU32,
    /// 1: the plan has static data, so the launcher is asked whenever code was loaded.
    pub statics: AtomicU32,
    /// Kernel's mode of memory that no entry names; 0: as it is.
    pub rest_mode: AtomicU32,
    /// Nodes of that mode.
    pub rest_nodes: AtomicU64,
    /// Bit d - 1 is set if a site has blocks whose sizes have d binary digits.
    pub digits: AtomicU64,
    /// Goes up when the launcher no longer answers.
    pub closed: AtomicU32,

    // Written by the library.
    /// One of [`state`].
    pub state: AtomicU32,
    /// Process in which it runs.
    pub pid: AtomicU32,
    /// Programs that the process has executed so far.
    pub programs: AtomicU32,
    /// Goes up with each request; the launcher waits on it.
    pub asked: AtomicU32,
    /// Questions that were not answered in time.
    pub unanswered: AtomicU32,
    /// errno of the policy for the rest of memory, if it was refused.
    pub rest_error: AtomicU32,
    /// Blocks that were left alone because the thread has a policy of its own.
    pub own_policy: AtomicU64,
    /// How often something was left alone because the program has forbidden itself system calls.
    pub filtered: AtomicU64,
    /// Ranges that were left out because of the kernel's limit of mappings.
    pub mapping_limit: AtomicU64,
    /// Blocks for which there was no address space.
    pub no_space: AtomicU64,
    /// Blocks that want another node than most of their page.
    pub conflicts: AtomicU64,
    /// Pages on which small blocks lie that were moved.
    pub small_pages: AtomicU64,
    /// Small blocks whose pages could not be kept track of.
    pub small_lost: AtomicU64,
    /// Blocks that found no place in the list.
    pub unlisted: AtomicU64,
    /// Forked children, whose data was not placed.
    pub forks: AtomicU32,
    /// Jobs that the library has done.
    pub jobs_done: AtomicU32,
    /// 1 once what is still there at the end has been looked at.
    pub finished: AtomicU32,
    /// The next [`Block`] that is nobody's.
    pub next_block: AtomicU32,
    /// How often the program has set a policy for memory that the plan places.
    pub own_ranges: AtomicU64,
}

/// [`Request::state`].
pub mod request {
    /// Nobody uses it.
    pub const FREE: u32 = 0;
    /// A thread is filling it.
    pub const TAKEN: u32 = 1;
    /// A thread waits for the answer.
    pub const ASKED: u32 = 2;
    /// The answer is there.
    pub const ANSWERED: u32 = 3;
}

/// [`Request::what`].
pub mod what {
    /// May the plan mean code that calls an allocation function at the first frame? Answer: one of
    /// [`super::caller`].
    pub const CALLER: u32 = 0;
    /// Which site is this chain of calls? Answer: its number plus 1, or 0.
    pub const CHAIN: u32 = 1;
    /// Which static data is to be placed, now that code was loaded? Answer: the number of jobs,
    /// from 0.
    pub const LOADED: u32 = 2;
}

/// Answers to [`what::CALLER`].
pub mod caller {
    /// No site of the plan.
    pub const NO: u32 = 0;
    /// A site, if the rest of the chain is right.
    pub const MAYBE: u32 = 1;
    /// A function that allocates for its caller, which is the one to look at.
    pub const PASSES_ON: u32 = 2;
}

/// A question.
#[repr(C)]
pub struct Request {
    /// One of [`request`]; both sides wait on it.
    pub state: AtomicU32,
    /// One of [`what`].
    pub what: AtomicU32,
    /// Binary digits of the block's size, of a mapping with [`OF_MAPPING`].
    pub digits: AtomicU32,
    /// See [`what`].
    pub answer: AtomicU32,
    /// Return addresses, innermost first; 0 = no more.
    pub frames: [AtomicU64; FRAMES],
}

/// Memory that was placed.
#[repr(C)]
pub struct Block {
    /// Its address; 0 = none.
    pub start: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// Its entry.
    pub entry: AtomicU32,
    _pad: AtomicU32,
}

/// Static data to be placed.
#[repr(C)]
pub struct Job {
    /// Address of the object.
    pub start: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// Its entry.
    pub entry: AtomicU32,
    _pad: AtomicU32,
}

/// A place in the program that allocates blocks of about one size.
#[repr(C)]
pub struct Site {
    // Written by the launcher.
    /// Its first entry; those with a number of a block are in order.
    pub first: AtomicU32,
    /// How many entries have a number.
    pub count: AtomicU32,
    /// The entry of all other blocks, or [`NONE`].
    pub others: AtomicU32,
    /// Binary digits of the sizes.
    pub digits: AtomicU32,

    // Written by the library.
    /// Blocks that were allocated there, if any entry has a number.
    pub seen: AtomicU64,
}

/// What the plan says of an object, or of one block of it, and what became of it.
#[repr(C)]
pub struct Entry {
    // Written by the launcher.
    /// Which block of the site.
    pub ordinal: AtomicU64,
    /// Bytes of the object in the recording; 0 = not known.
    pub bytes: AtomicU64,
    /// Its first range.
    pub first: AtomicU32,
    /// Number of ranges.
    pub count: AtomicU32,
    /// Entries with the same number have the same ranges.
    pub layout: AtomicU32,

    // Written by the library.
    /// errno of what the kernel has refused last.
    pub error: AtomicU32,
    /// Blocks that have appeared.
    pub appeared: AtomicU64,
    /// Stretches of memory of which everything could be asked for; further blocks may come to lie
    /// there. None of small blocks.
    pub placed: AtomicU64,
    /// Ranges that the kernel has refused.
    pub refused: AtomicU64,
    /// Of blocks that have ended, or were there at the end.
    pub read: Reading,
}

/// Where pages are that the plan puts somewhere.
#[repr(C)]
pub struct Reading {
    /// Blocks that were looked at.
    pub blocks: AtomicU64,
    /// Their pages that are where the plan says.
    pub as_planned: AtomicU64,
    /// Their pages that are on another node.
    pub elsewhere: AtomicU64,
    /// Their pages that are not in memory: never touched.
    pub absent: AtomicU64,
    /// Pages by node.
    pub on: [AtomicU64; MAX_NODES],
}

/// Adjacent pages that go to the same place.
#[repr(C)]
pub struct Range {
    /// Bytes from the object's first page.
    pub offset: AtomicU64,
    /// Length in bytes, whole pages.
    pub bytes: AtomicU64,
    /// Nodes, as bits.
    pub nodes: AtomicU64,
    /// The kernel's mode.
    pub mode: AtomicU32,
    _pad: AtomicU32,
}

/// Blocks of fewer bytes stay where the program's allocator puts them, and are not divided anew.
pub const MIN_LARGE: u64 = 64 << 10;

/// Scales an offset of the plan to the size that the object has in this run, `pages`; it had
/// `planned` bytes in the recording. Threads that each work on a part of an array work on the same
/// part of a larger one. The offset stays where the sizes are about equal, or one is not known.
pub fn scaled(offset: u64, planned: u64, pages: u64) -> u64 {
    let before = planned.div_ceil(PAGE);
    if planned < MIN_LARGE || pages < MIN_LARGE / PAGE || before.abs_diff(pages) <= 1 {
        return offset;
    }
    let page = u128::from(offset / PAGE) * u128::from(pages) + u128::from(before / 2);
    (page / u128::from(before)) as u64 * PAGE
}

const _: () = assert!(size_of::<Header>() as u64 == PAGE);
const _: () = assert!(size_of::<Request>() == 64);
const _: () = assert!(size_of::<Block>() == 24);
const _: () = assert!(size_of::<Range>() == 32);
const _: () = assert!(size_of::<Entry>() == 56 + 32 + 8 * MAX_NODES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_larger_and_smaller_objects_are_parts_as_well() {
        let planned = 64 * PAGE;
        let at = |page: u64, pages| scaled(page * PAGE, planned, pages) / PAGE;
        assert_eq!([0, 16, 32, 64].map(|page| at(page, 128)), [0, 32, 64, 128]);
        assert_eq!([0, 16, 32, 64].map(|page| at(page, 16)), [0, 4, 8, 16]);
        assert_eq!([16, 48, 64].map(|page| at(page, 70)), [18, 53, 70]);
        // A page more is a header; what is small has no parts.
        assert_eq!((at(16, 65), at(16, 8)), (16, 16));
        assert_eq!(scaled(16 * PAGE, 0, 128), 16 * PAGE);
    }
}

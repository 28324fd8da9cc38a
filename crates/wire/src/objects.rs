//! What the program has allocated, in a session: groups of blocks, and single blocks on which there
//! were events.
//!
//! A *group* is what one place in the program has allocated of about one size: the place is named
//! by return addresses, innermost first. Groups are numbered from 1 in the order in which they
//! appear; [`Event::object`](crate::detail::Event::object) refers to them. Whoever finds no room in
//! the table counts in [`OTHERS`]. Of a block, a record is written when a thread keeps its first
//! event on a line with it, as long as there is room.
//!
//! Files that the program maps while it runs get numbers of groups, too, and a [`Mapping`] each, so
//! that nothing is mixed when other memory comes to lie at their addresses.
//!
//! Events whose line is not kept, and that are in no block, belong to a *zone*: a stretch of memory
//! of 4 KiB or more. The more zones there are, the larger are new ones.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// How many times as long as one that is left out a look at what is allocated takes: threads count
/// so much for each look, and 1 for each that was left out.
pub const HOOK_PARTS: u64 = 4;
/// One look in this many is timed. Calls and returns alternate, so an even number would time only
/// one of the two.
pub const TIMED_HOOKS: u64 = 17;

/// What of allocations is looked at in windows only: bits.
pub mod unfollowed {
    /// Small blocks that are allocated.
    pub const SMALL: u32 = 1;
    /// Large ones, from 2^[`LARGE_SHIFT`](super::LARGE_SHIFT) bytes on.
    pub const LARGE: u32 = 2;
    /// What is freed, where threads run natively: nothing is known of it then. Elsewhere it is
    /// always looked at, as what comes to lie there must not have the old name. Blocks that may be
    /// large are excepted, unless [`LARGE`] is set.
    pub const FREED: u32 = 4;
}

/// Most groups, with the unused number 0.
pub const MAX_GROUPS: usize = 1 << 20;
/// The group of all blocks that found no place in the table.
pub const OTHERS: u32 = 1;
/// Most zones, with the first one, which stands for all that found no place in the table.
pub const MAX_ZONES: usize = 1 << 16;
/// Number of the first zone as an event's object: zones come after groups.
pub const FIRST_ZONE: u32 = MAX_GROUPS as u32;
/// Most blocks of which there are records.
pub const MAX_BLOCKS: usize = 1 << 20;
/// Most files that were mapped, each at one place; the last record stands for all further ones.
pub const MAX_MAPPINGS: usize = 1 << 14;
/// Most bytes of the path of a mapped file.
pub const MAPPING_PATH: usize = 488;
/// Groups whose blocks a thread counts by itself at a time.
pub const MAX_COUNTED: usize = 32;
/// Most return addresses that name a place.
pub const FRAMES: usize = 6;
/// log2 of the smallest size of a block that is no longer looked up by its line.
pub const LARGE_SHIFT: u32 = 12;

/// log2 of the unit of [`Group::lived`] and [`Block::lived`], in ticks of the processor's time
/// stamp counter. A block that lives longer than 2^32 units, a day, seems to live shorter.
pub const LIFE_SHIFT: u32 = 16;
/// A bit of [`Group::lived`]: a thread could not read the clock when a block began or ended.
pub const UNTIMED: u64 = 1 << 63;

/// What has given the memory, in [`Group::by`].
pub mod by {
    /// Not known.
    pub const UNKNOWN: u32 = 0;
    /// malloc and what else takes a number of bytes.
    pub const MALLOC: u32 = 1;
    /// calloc.
    pub const CALLOC: u32 = 2;
    /// realloc, without a block from before.
    pub const REALLOC: u32 = 3;
    /// An aligned form: aligned_alloc, memalign, posix_memalign.
    pub const ALIGNED: u32 = 4;
    /// operator new.
    pub const NEW: u32 = 5;
    /// operator new[].
    pub const NEW_ARRAY: u32 = 6;
    /// mmap: anonymous memory that the program maps for itself.
    pub const MAPPED: u32 = 7;
}

/// What a thread counts of what it allocates and frees.
#[repr(C)]
pub struct Allocating {
    /// How often it was looked at: [`HOOK_PARTS`] for each look, 1 for each that was left out.
    pub hooks: AtomicU64,
    /// How long these looks took, in ticks of the processor's clock, by one in [`TIMED_HOOKS`]; 0:
    /// the thread may not read it.
    pub hook_ticks: AtomicU64,
    /// What does not count in groups yet; of a group at its number modulo [`MAX_COUNTED`].
    pub counted: [Counted; MAX_COUNTED],
}

/// What a thread has counted of a group since it last added that to it. Otherwise threads would
/// take the group's cache line from each other.
#[repr(C)]
pub struct Counted {
    /// The group; 0 = none.
    pub group: AtomicU32,
    /// Blocks that were freed.
    pub freed: AtomicU32,
    /// As [`Group::lived`].
    pub lived: AtomicU64,
    /// As [`Group::bytes`].
    pub bytes: AtomicU64,
    /// Blocks that count in the group already, and that the thread is still to allocate.
    pub left: AtomicU32,
    /// How many it sets aside at a time: twice as many each time, so that it allocates half of them
    /// at least.
    pub together: AtomicU32,
    /// How many of the group come before those that are left.
    pub next: AtomicU64,
}

/// Blocks that one place has allocated, whose sizes have the same number of binary digits.
#[repr(C, align(128))]
pub struct Group {
    /// How many blocks were allocated, with those that threads have set aside for themselves
    /// ([`Counted::left`]). What threads count lies on one cache line.
    pub blocks: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// How many of the blocks were freed; not of those that were mapped.
    pub freed: AtomicU64,
    /// How long these were there, all together, in units of 2^[`LIFE_SHIFT`] ticks, rounded at
    /// random; with [`UNTIMED`] not known.
    pub lived: AtomicU64,
    /// Blocks that a thread had set aside, and did not allocate.
    pub unused: AtomicU64,
    /// Unused.
    pub padding: [u64; 3],
    /// Return addresses, innermost first; 0 = no more are known.
    pub frames: [AtomicU64; FRAMES],
    /// One of [`by`].
    pub by: AtomicU32,
    /// Binary digits of the sizes.
    pub digits: AtomicU32,
    /// In which mapped files the return addresses lie: a hash of their numbers, 0 if in none.
    pub files: AtomicU32,
    /// How many modules had been described when the group appeared: its return addresses lie in
    /// the last one of these that is mapped there.
    pub modules: AtomicU32,
}

/// A block with events on a line that was kept.
#[repr(C)]
pub struct Block {
    /// Its address.
    pub start: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// How many blocks of the group came before it.
    pub ordinal: AtomicU64,
    /// Its group; 0 = the record is not complete.
    pub group: AtomicU32,
    /// Logical id of the thread that allocated it.
    pub thread: AtomicU32,
    /// How long it was there, in units of 2^[`LIFE_SHIFT`] ticks, rounded up; 0 = it was not freed,
    /// or it is not known when it was allocated.
    pub lived: AtomicU64,
}

/// A stretch of memory in which lines were not kept.
#[repr(C)]
pub struct Zone {
    /// Its first address.
    pub start: AtomicU64,
    /// Its bytes, a power of two; 0 = the record is not complete.
    pub bytes: AtomicU64,
}

/// A file that was mapped while the program ran.
#[repr(C)]
pub struct Mapping {
    /// The number that events in it have; 0 = the record is not complete.
    pub group: AtomicU64,
    /// Address of the file's first byte, wherever its mapping begins; `u64::MAX`: mapped shared, at
    /// any address.
    pub base: AtomicU64,
    /// Bytes of the path; 0 = further files.
    pub path_bytes: AtomicU64,
    /// The path, cut.
    pub path: [u8; MAPPING_PATH],
}

const _: () = assert!(size_of::<Mapping>() == 512);
const _: () = assert!(size_of::<Zone>() == 16);
const _: () = assert!(size_of::<Counted>() == 40 && MAX_COUNTED.is_power_of_two());
const _: () = assert!(size_of::<Group>() == 128);
const _: () = assert!(size_of::<Block>() == 40);

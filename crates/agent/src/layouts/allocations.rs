//! What is known of allocations: hooked functions, blocks, and chains of calls.
//!
//! Neighbours: `layouts.rs` shows all of it; `slow/objects.h`, `slow/allocations.h` and
//! `slow/mappings.h` use it.

pub use inspect::functions::how;
pub use inspect::unwind::rule;

use core::sync::atomic::{AtomicU32, AtomicU64};
use wire::objects::FRAMES;

/// The rule for an address that calls return to.
#[allow(dead_code, reason = "C's")]
#[repr(C)]
pub struct Rule {
    pub address: u64,
    /// As [`rule`] says; 0 = not known.
    pub word: u64,
}

/// The tables of allocated blocks: see `slow/objects.h`.
#[repr(C)]
pub struct Blocks {
    /// Addresses of the first chain, and of the first cells.
    pub lines: u64,
    pub pages: u64,
    pub stretches: u64,
    /// Null while blocks are not followed.
    pub records: *mut AllocatedBlock,
    /// Groups by what makes them.
    pub index: *mut AtomicU32,
    /// Return addresses of calls that allocate.
    pub returns: *mut AtomicU64,
    /// What leads from where such calls return to up the stack.
    pub rules: *mut Rule,
    /// Cells of pages and of stretches that say in which mapped file they lie.
    pub mapped_pages: *mut AtomicU32,
    pub mapped_cells: *mut AtomicU32,
    /// The same as the cells of stretches, but null until a file is mapped.
    pub mapped_stretches: *mut AtomicU32,
    /// Bits for addresses at which large blocks began; see [`engine::decode::sieve`].
    pub starts: *mut AtomicU32,
    /// How often code has been unmapped.
    pub code_gone: u64,
    pub used: u64,
    pub most: u64,
    /// Another number in each process that descends from another.
    pub epoch: u64,
    /// Counts what may take away a part of a stack.
    pub unmappings: u64,
}

/// A block, or where one has been.
#[repr(C)]
pub struct AllocatedBlock {
    pub start: u64,
    /// 0: it has been freed.
    pub bytes: u64,
    pub ordinal: u64,
    pub group: u32,
    /// The next in the chain.
    pub next: u32,
    /// Odd while the record changes.
    pub version: u32,
    /// Who has allocated it.
    pub thread: u16,
    /// In which epoch it was described in the session.
    pub described: u16,
    /// When it was allocated, in units of 2^[`wire::objects::LIFE_SHIFT`] ticks; 0 = not known.
    pub born: u32,
    /// Its number among those described in the session; [`NO_NUMBER`]: it is not.
    pub number: u32,
}

/// No number of a described block.
#[allow(dead_code, reason = "C's")]
pub const NO_NUMBER: u32 = u32::MAX;

/// Blocks of a page or stretch: the one that covers its first byte, the one that begins in it.
#[allow(dead_code, reason = "C's")]
#[repr(C)]
pub struct Cover {
    pub covering: u32,
    pub starting: u32,
}

/// Memory that the program has mapped for itself, as one block: see `slow/mappings.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mapping {
    pub start: u64,
    pub bytes: u64,
    /// How many blocks of the group came before.
    pub ordinal: u64,
    pub group: u32,
    /// Who has mapped it.
    pub thread: u32,
}

/// log2 of the chains that a thread keeps: PostgreSQL allocates by way of some hundreds in turn.
pub const CHAIN_BITS: u32 = 9;
/// Words of the stack that tell a chain: return addresses but the first, saved %rbp, and ends of
/// frames.
pub const MAX_TOLD: usize = 3 * FRAMES;

/// A word of the stack that belongs to a chain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Told {
    /// How far above the call's own return address it lies.
    pub above: u32,
    /// Whether it holds an address on the stack.
    pub is_stack: u32,
    /// What it holds; of an address on the stack, how far above that is.
    pub value: u64,
}

/// A chain of calls by which the thread has allocated, as the stack shows it, so that it need not
/// be walked again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Chain {
    /// The innermost return address; 0 = none.
    pub back: u64,
    pub told: [Told; MAX_TOLD],
    pub count: u32,
    /// What the blocks were.
    pub digits: u32,
    pub by: u32,
    pub group: u32,
    /// Whether it goes by what %rbp was when the call began, and how far above that was.
    pub by_frame_pointer: u64,
    pub frame_pointer: u64,
    /// How often code had been unmapped.
    pub code_gone: u64,
}

/// A call of a function that allocates.
#[repr(C)]
pub struct Call {
    /// Where its return address lies.
    pub stack: u64,
    /// Return addresses, its own first.
    pub frames: [u64; FRAMES],
    /// %rbp when it began.
    pub frame_pointer: u64,
    /// The group of the block that it allocates; 0 = not known yet.
    pub new_group: u64,
    pub bytes: u64,
    /// The block that it was given, or where it leaves the result.
    pub old: u64,
    /// The record of that block, as it was.
    pub record: *mut AllocatedBlock,
    pub ordinal: u64,
    pub born: u64,
    pub version: u32,
    pub group: u32,
    /// One of [`how`], and one of [`wire::objects::by`].
    pub how: u32,
    pub by: u32,
}

impl Call {
    pub const NONE: Call = Call {
        stack: 0,
        frames: [0; FRAMES],
        frame_pointer: 0,
        new_group: 0,
        bytes: 0,
        old: 0,
        record: core::ptr::null_mut(),
        ordinal: 0,
        version: 0,
        group: 0,
        born: 0,
        how: 0,
        by: 0,
    };
}

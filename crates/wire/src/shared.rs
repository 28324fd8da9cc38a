//! The shadow of memory that recorded processes share: one for all of them, in the recording's file
//! behind the passing maps.
//!
//! Memory that is shared is told apart by what it is (device and inode of a file, number of a
//! segment, or a number of its own) and by the offset in it. It is divided into *extents*. Each has
//! a place in a table, which is found by a hash of what and where it is, and so each byte of shared
//! memory has one *place* for all processes, whatever their addresses: extent × [`EXTENT_BYTES`] +
//! offset in the extent. A page of a process's memory is numbered by its place.
//!
//! Threads that access such memory are *sharers*: they have numbers of their own across processes.
//!
//! | offset from [`OFFSET`] | what |
//! | --- | --- |
//! | 0 | [`Shared`], one page |
//! | [`SHARERS_OFFSET`] | [`MAX_SHARERS`] × [`Sharer`] |
//! | [`PEERS_OFFSET`] | [`MAX_SEGMENTS`] × [`Peer`] |
//! | [`KEYS_OFFSET`] | [`MAX_EXTENTS`] × u64: hash of what each extent is of, 0 = free |
//! | [`FAR_OFFSET`] | [`FAR_PLACES`] × [`FarReaders`] |
//! | [`BLOCKS_OFFSET`] | [`Block`] for each block of memory |
//! | [`WRITTEN_OFFSET`] | 64 bits for each line: bytes written, where blocks are larger than a line |
//! | [`TRACE_OFFSET`] | the ring of the reference's accesses to shared memory |
//!
//! Nothing here is ever given back, and nothing depends on a process that may have been killed: the
//! lock of a block whose holder does not go on is taken from it.
//!
//! Neighbours: `agent` writes (`slow/shared.h`, `shared.rs`), `recorder` reads sharers.

use crate::session::{ALL_PASSING_BYTES, MAX_SEGMENTS, MAX_THREADS, PAGE, PASSING_OFFSET};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Where it lies in the file.
pub const OFFSET: u64 = PASSING_OFFSET + ALL_PASSING_BYTES;
/// Bytes of it all.
pub const BYTES: u64 = TRACE_OFFSET + crate::trace::BYTES;

/// log2 of the bytes of an extent.
pub const EXTENT_SHIFT: u32 = 24;
/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 1 << EXTENT_SHIFT;
/// Most extents.
pub const MAX_EXTENTS: usize = 1 << 18;
/// Most threads that can be sharers; in a [`Block`] their numbers plus one are 16 bits.
pub const MAX_SHARERS: usize = MAX_THREADS;
/// Sharers that have a bit in each [`Block`]; those beyond read [farther away](FarReaders).
pub const NEAR_SHARERS: u32 = 64;
/// Places for readers beyond.
pub const FAR_PLACES: usize = 1 << 24;

/// Where the sharers begin, bytes.
pub const SHARERS_OFFSET: u64 = PAGE;
/// Where the peers begin, bytes.
pub const PEERS_OFFSET: u64 =
    SHARERS_OFFSET + (MAX_SHARERS as u64 * size_of::<Sharer>() as u64).next_multiple_of(PAGE);
/// Where the table of extents begins, bytes.
pub const KEYS_OFFSET: u64 = PEERS_OFFSET + MAX_SEGMENTS as u64 * size_of::<Peer>() as u64;
/// Where the readers beyond begin, bytes.
pub const FAR_OFFSET: u64 = KEYS_OFFSET + MAX_EXTENTS as u64 * 8;
/// Where the blocks begin, bytes.
pub const BLOCKS_OFFSET: u64 = FAR_OFFSET + FAR_PLACES as u64 * size_of::<FarReaders>() as u64;
/// Bytes of all blocks. Where blocks are small, there are fewer extents.
pub const BLOCKS_BYTES: u64 = 1 << 41;
/// Where the bytes written begin, bytes.
pub const WRITTEN_OFFSET: u64 = BLOCKS_OFFSET + BLOCKS_BYTES;
/// Where the ring begins, bytes.
pub const TRACE_OFFSET: u64 = WRITTEN_OFFSET + (MAX_EXTENTS as u64) * (EXTENT_BYTES / 64) * 8;

/// The address by which the reference knows place 0: beyond all addresses of programs.
pub const TRACE_BASE: u64 = 1 << 47;

/// Extents that there are with blocks of 2^`block_shift` bytes.
pub const fn extents(block_shift: u32) -> usize {
    let bytes = (EXTENT_BYTES >> block_shift) * size_of::<Block>() as u64;
    let most = (BLOCKS_BYTES / bytes) as usize;
    if most < MAX_EXTENTS { most } else { MAX_EXTENTS }
}

/// What is counted for all.
#[repr(C)]
pub struct Shared {
    /// Numbers of sharers given out; may exceed [`MAX_SHARERS`].
    pub sharers: AtomicU32,
    /// Peers that there have been.
    pub peers: AtomicU32,
    /// Numbers given to memory that has no other name.
    pub anonymous: AtomicU64,
    /// Extents for which there was no place: they are treated as each process's own.
    pub extents_refused: AtomicU64,
    /// Reads that found no place among the readers beyond.
    pub reads_forgotten: AtomicU64,
    /// Next record of the ring to be written, and next to be read by the recorder.
    pub trace_head: AtomicU64,
    /// Next record of the ring to be read by the recorder.
    pub trace_tail: AtomicU64,
}

/// Where a process keeps what is known of its own memory: others may access it by process_vm_readv
/// and process_vm_writev. All but the first two are addresses in that process.
#[repr(C)]
pub struct Peer {
    /// Its segment from bit 32 on, and `Header::execs`.
    pub image: AtomicU64,
    /// Its id.
    pub pid: AtomicU32,
    /// Unused.
    pub _pad: AtomicU32,
    /// The shadow word of block 0, and, with sharing told apart, the bytes written in line 0 and
    /// the site of line or block 0.
    pub shadow: AtomicU64,
    /// See above.
    pub written: AtomicU64,
    /// See above.
    pub sites: AtomicU64,
    /// Which memory is shared: by chunks, and by pages; 0 = none is.
    pub chunks: AtomicU64,
    /// See above.
    pub pages: AtomicU64,
    /// The number of the window for which everything has been forgotten.
    pub opened: AtomicU64,
}

/// A thread that has accessed shared memory.
#[repr(C)]
#[derive(Default)]
pub struct Sharer {
    /// Segment of its process.
    pub segment: AtomicU32,
    /// `Header::execs` of its process, by which a program that was replaced is known.
    pub execs: AtomicU32,
    /// Logical id in that process.
    pub thread: AtomicU32,
    /// 1 once the rest is filled in.
    pub known: AtomicU32,
}

/// Who wrote a block last and who has read it since.
#[repr(C)]
pub struct Block {
    /// 0, or the sharer that holds the block (plus one) in the low half, and a number that changes
    /// each time it takes one.
    pub lock: AtomicU32,
    /// The window of which the rest is; in another one it is forgotten.
    pub window: AtomicU32,
    /// Sharers that have read since the last write.
    pub readers: AtomicU64,
    /// The last writer plus one; 0 = none.
    pub writer: AtomicU16,
    /// Sharers beyond that have read: bit k for those whose bank is k modulo 16. Where accessors
    /// count undirected, the accessor before the last, plus one.
    pub far: AtomicU16,
    /// Site of the write that last added bytes, with [`BEGAN_UNSEEN`].
    pub site: AtomicU32,
    /// Bytes of the line that the last writer has written since it took the block, where a block is
    /// no larger than a line.
    pub written: AtomicU64,
}

/// In [`Block::site`]: the writer may have begun before the window.
pub const BEGAN_UNSEEN: u32 = 1 << 31;

/// Readers of a block beyond the first [`NEAR_SHARERS`], 64 of them.
#[repr(C)]
pub struct FarReaders {
    /// Number of the block plus one from [`FAR_BANK_BITS`] on, and the bank (sharer / 64); 0 =
    /// free.
    pub key: AtomicU64,
    /// Those of the bank that have read.
    pub readers: AtomicU64,
}

/// Bits of a bank in [`FarReaders::key`].
pub const FAR_BANK_BITS: u32 = 10;

const _: () = assert!(size_of::<Shared>() as u64 <= PAGE);
const _: () = assert!(size_of::<Block>() == 32);
const _: () = assert!(MAX_SHARERS <= (NEAR_SHARERS as usize) << FAR_BANK_BITS);
const _: () = assert!(BLOCKS_OFFSET.is_multiple_of(PAGE) && KEYS_OFFSET.is_multiple_of(PAGE));

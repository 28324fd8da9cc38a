//! What a thread has counted, in a session's pool of chunks.
//!
//! A thread takes a chunk when its last one is full, and is the only one to write into it: it fills
//! an entry, then raises [`ChunkHead::used`]. Whatever way the process ends, everything up to the
//! last event is here. Readers sum over entries with equal keys: a key may occur more than once.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 1024;
/// Bytes of its head.
pub const HEAD_BYTES: u64 = 64;
/// Entries of each type in a chunk.
pub const CELLS: usize = 60;
/// Entries of events in a chunk.
pub const EVENTS: usize = 15;
/// Entries of returns in a chunk.
pub const RETURNS: usize = 30;

/// The weight of an event that stands for itself alone.
pub const WEIGHT_OF_ONE: u32 = 16;

/// What a chunk holds, in [`ChunkHead::holds`].
pub mod holds {
    /// Nothing: it was never used.
    pub const NOTHING: u32 = 0;
    /// [`Cell`](super::Cell)s.
    pub const CELLS: u32 = 1;
    /// [`Event`](super::Event)s.
    pub const EVENTS: u32 = 2;
    /// [`Returns`](super::Returns).
    pub const RETURNS: u32 = 3;
}

/// Kind of event and of sharing, in [`Cell::kind`] and [`Event::kind`].
///
/// The counting thread is the reader for RAW, the writer for WAW and invalidation; `other` is the
/// last writer, the previous writer and the invalidated reader.
pub mod kind {
    /// Sharing not told apart.
    pub const RAW: u8 = 0;
    /// The bytes read overlap those that the writer has written since it took the block.
    pub const RAW_TRUE: u8 = 1;
    /// RAW with false sharing.
    pub const RAW_FALSE: u8 = 2;
    /// WAW, sharing not told apart.
    pub const WAW: u8 = 3;
    /// The bytes written overlap those that the previous writer has written since it took the
    /// block.
    pub const WAW_TRUE: u8 = 4;
    /// WAW with false sharing.
    pub const WAW_FALSE: u8 = 5;
    /// Invalidation.
    pub const INVALIDATION: u8 = 6;
    /// Undirected pairs of [`mode::UNDIRECTED`](crate::session::mode::UNDIRECTED).
    pub const UNDIRECTED: u8 = 7;
    /// How many there are.
    pub const COUNT: usize = 8;
    /// Added to one of the above: the other thread is one of another process, and `other` is its
    /// number as a [sharer](crate::shared).
    pub const OTHER_PROCESS: u8 = 8;
    /// Added to the kind of an event of a [tracked](crate::windows::TRACKED_OF) block whose last
    /// write came before the window.
    pub const LATE: u8 = 16;
    /// Added to the kind of a [`Cell`](super::Cell) of true sharing, unless it is late: the writer
    /// may have begun to write the block before the window. Without a common byte, it would not be
    /// known whether that is false sharing.
    pub const PARTLY: u8 = 32;
}

/// Class of an event's gap, in [`Event::gap`]: the time from the last write that was seen to the
/// event, in [units](gap::UNIT_SHIFT) of the processor's time stamp counter. Only
/// [tracked](crate::windows::TRACKED_OF) blocks know it.
pub mod gap {
    /// Not known.
    pub const UNKNOWN: u8 = 0;
    /// Up to the first of [`ENDS`].
    pub const FIRST: u8 = 1;
    /// From the last of [`ENDS`] on, within the window.
    pub const LAST: u8 = FIRST + ENDS.len() as u8;
    /// The write came before the window. Added: log2 of how many tracked blocks all threads have
    /// come to since, plus one; 0 = none.
    pub const LATE: u8 = LAST + 1;
    /// How many windows and stretches back it is known how many blocks threads came to in each. For
    /// a write before these, only what came in them is known. Adding up these counts takes
    /// about as long as a slow path.
    pub const KNOWN_BACK: usize = 1 << 9;
    /// Ends of classes, in units: about 40 µs, 0.3 ms and 2.8 ms. In a window, a thread that does
    /// nothing but come to new lines comes to as many in these times as fit the first, the second
    /// and the third level of usual caches.
    pub const ENDS: [u32; 3] = [1 << 7, 1 << 10, 1 << 13];
    /// A unit is 2 to this power of cycles.
    pub const UNIT_SHIFT: u32 = 10;
}

/// How much memory a thread comes to in windows.
#[repr(C)]
pub struct Footprint {
    /// Tracked blocks that it came to for the first time in a window, by the window's age: before
    /// each of [`gap::ENDS`], and after that in warm-ups. Without those that another thread had
    /// written.
    pub touched: [AtomicU64; gap::ENDS.len() + 1],
    /// Windows that it came into, without one that the recording began with.
    pub windows: AtomicU64,
}

/// Start of each chunk.
#[repr(C)]
pub struct ChunkHead {
    /// Logical id of the thread that owns the chunk.
    pub thread: AtomicU32,
    /// One of [`holds`].
    pub holds: AtomicU32,
    /// Entries that count.
    pub used: AtomicU32,
    /// Unused.
    pub _reserved: [u32; 13],
}

/// Events of one kind with one other thread in one time slice.
#[repr(C)]
pub struct Cell {
    /// Number of the time slice.
    pub slice: AtomicU32,
    /// Logical id of the other thread, or its number as a sharer.
    pub other: u16,
    /// One of [`kind`].
    pub kind: u8,
    /// Unused.
    pub _pad: u8,
    /// Number of events.
    pub count: AtomicU64,
}

/// Events of one kind between two code sites on one line of memory, with one other thread.
#[repr(C)]
pub struct Event {
    /// Address of the first byte of the 64-byte line; 0: lines that were too many to keep.
    pub line: u64,
    /// Site of the counting thread's access and of the other thread's write.
    pub own_site: u32,
    /// Site of the other thread's write.
    pub other_site: u32,
    /// Logical id of the other thread.
    pub other: u16,
    /// One of [`kind`].
    pub kind: u8,
    /// One of [`gap`].
    pub gap: u8,
    /// Number of the [group](crate::objects::Group) of the block that the thread's access lies in,
    /// or of the [zone](crate::objects::Zone) if the line is not known; 0 = the line's memory.
    pub object: u32,
    /// Number of events.
    pub count: AtomicU64,
    /// Sum of what each stands for: see [`Header::weights`](crate::session::Header::weights).
    pub weight: AtomicU64,
    /// Bytes of the line that the counting thread accessed, bit i = byte i, over all these events.
    pub own_bytes: AtomicU64,
    /// Bytes of the line that the other thread had written since it took the block.
    pub other_bytes: AtomicU64,
    /// How many of these events [followed](types::streams) another one.
    pub streamed: AtomicU64,
}

/// How often the thread came back to a line, from moments on at which it had just met another
/// thread there.
#[repr(C)]
pub struct Returns {
    /// Address of the first byte of the 64-byte line.
    pub line: u64,
    /// How often it came back.
    pub returns: AtomicU64,
    /// How often of these it wrote there.
    pub writes: AtomicU64,
    /// Instructions that it executed while that was looked at.
    pub instructions: AtomicU64,
}

/// A chunk with all it may hold.
#[repr(C)]
pub union Chunk {
    /// As bytes.
    pub bytes: [u8; CHUNK_BYTES as usize],
    /// As words.
    pub words: [u64; CHUNK_BYTES as usize / 8],
}

const _: () = assert!(size_of::<ChunkHead>() as u64 == HEAD_BYTES);
const _: () = assert!(size_of::<Cell>() == 16);
const _: () = assert!(size_of::<Event>() == 64);
const _: () = assert!(HEAD_BYTES as usize + CELLS * 16 <= CHUNK_BYTES as usize);
const _: () = assert!(HEAD_BYTES as usize + EVENTS * 64 <= CHUNK_BYTES as usize);
const _: () = assert!(size_of::<Returns>() == 32);
const _: () = assert!(HEAD_BYTES as usize + RETURNS * 32 <= CHUNK_BYTES as usize);

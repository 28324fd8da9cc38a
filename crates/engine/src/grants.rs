//! What a thread may do without asking: a byte for each block of memory, in a map of the thread's
//! own.
//!
//! The map lies where %gs points and above. A byte's place is the block's number modulo 2³², which
//! costs nothing: it is what addressing with a 32-bit register does. (The agent sees to it that
//! blocks which share a place are never granted.) Slow paths grant, and take back what other
//! threads' accesses end; translated code only looks.
//!
//! Most accesses cannot be proved to stay in one block. For them there are grants for a block and
//! the one before together, so that one look, at the highest byte, is enough. (Not the one after: a
//! thread that goes through memory has mostly been to the block before. A thread that writes there
//! for the first time since others read it would find no grant for two blocks until it is done with
//! the first.)
//!
//! Neighbours: [`probing`](crate::body::probing) emits the looks; the agent's `slow/grants.h` sets
//! and clears the bits.

/// Reading the block communicates nothing: this thread has read it since it was last written.
pub const READ: u8 = 1;
/// Nor does writing it: it is this thread's alone, and where bytes are told apart, written whole.
pub const WRITE: u8 = 2;
/// [`READ`], for this block and the one before.
pub const READ_PAIR: u8 = 4;
/// [`WRITE`], for this block and the one before.
pub const WRITE_PAIR: u8 = 8;
/// The block is this thread's alone, but not all of it may be written yet.
pub const OWN: u8 = 16;
/// [`READ`], [`WRITE`] and [`OWN`], set aside: what they say holds, but the thread has to ask. No
/// check looks at these.
pub const READ_ASIDE: u8 = 32;
/// See [`READ_ASIDE`].
pub const WRITE_ASIDE: u8 = 64;
/// See [`READ_ASIDE`].
pub const OWN_ASIDE: u8 = 128;

/// Bytes of a map.
pub const BYTES: u64 = 1 << 32;

/// The bit that an access asks for.
pub fn bit(exclusive: bool, pair: bool) -> u8 {
    match (exclusive, pair) {
        (false, false) => READ,
        (false, true) => READ_PAIR,
        (true, false) => WRITE,
        (true, true) => WRITE_PAIR,
    }
}

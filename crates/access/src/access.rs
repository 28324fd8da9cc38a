//! One access to memory.

/// What an access does with its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessKind {
    /// It only reads.
    Load,
    /// It only writes.
    Store,
    /// Reads and writes the same bytes, atomically or not.
    Update,
}

impl AccessKind {
    /// Whether it reads; an update does both.
    pub fn reads(self) -> bool {
        self != Self::Store
    }

    /// Whether it writes; an update does both.
    pub fn writes(self) -> bool {
        self != Self::Load
    }
}

/// One access to memory by one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes, at least 1.
    pub bytes: u32,
    /// Whether it reads, writes or both.
    pub kind: AccessKind,
    /// Address of the instruction that made it: not always the sampled one.
    pub site: u64,
}

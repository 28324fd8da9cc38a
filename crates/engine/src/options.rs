//! What the engine is asked to do.

/// Where a block's shadow word lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shadow {
    /// Word of block b at `base + 8·b` with a base that fits a 32-bit displacement: one instruction.
    Near { base: i32 },
    /// Word of block b at `8·(b + gs:[BANK_BASE8])`: one instruction more, any base, several banks.
    Far,
}

/// Optimisations, each of which can be switched off alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Emit checks and counters; otherwise translate only.
    pub count: bool,
    /// log2 of the block in which communication is counted.
    pub block_shift: u32,
    pub shadow: Shadow,
    /// Use liveness of flags and registers to avoid spills.
    pub liveness: bool,
    /// Drop a check whose block an earlier check of the same superblock covers.
    pub merge: bool,
    /// Check only both ends of a run of accesses that spans at most one block.
    pub group: bool,
    /// Move checks back to where the flags are dead.
    pub hoist: bool,
    /// Version small loops.
    pub loops: bool,
    /// Most instructions and conditional branches in a superblock.
    pub max_instructions: usize,
    pub max_branches: usize,
    /// Iterations of an unchecked loop body.
    pub unroll: usize,
    /// Address of `pthread_create`, whose third argument is kept in gs:START_ROUTINE; 0 = none.
    pub thread_start_hook: u64,
}

/// Bits of `wire::session::Header::disable`.
pub mod disable {
    pub const LIVENESS: u32 = 1;
    pub const MERGE: u32 = 2;
    pub const GROUP: u32 = 4;
    pub const HOIST: u32 = 8;
    pub const LOOPS: u32 = 16;
}

impl Options {
    /// Everything on but what `disabled` (bits of [`disable`]) names.
    pub fn new(block_shift: u32, shadow: Shadow, disabled: u32) -> Self {
        let on = |bit| disabled & bit == 0;
        Self {
            count: true,
            block_shift,
            shadow,
            liveness: on(disable::LIVENESS),
            merge: on(disable::MERGE),
            group: on(disable::GROUP),
            hoist: on(disable::HOIST),
            loops: on(disable::LOOPS),
            max_instructions: 96,
            max_branches: 4,
            unroll: 8,
            thread_start_hook: 0,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> i64 {
        1 << self.block_shift
    }
}

//! What the engine is asked to do.

/// Bits of the addresses that programs have.
pub const ADDRESS_BITS: u32 = 47;

/// What translated code counts, and so which checks it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nothing: translate only.
    Translate,
    /// Instructions, loads and stores; no checks.
    Count,
    /// A read check asks whether this thread has read the block since it was last written, a write
    /// check whether the block is this thread's alone.
    Matrix,
    /// As `Matrix`; a write check also asks whether this thread has written all these bytes since
    /// it took the block.
    Detail,
    /// Every check asks whether this thread alone has ever accessed the block, whether by reading
    /// or writing: every other access counts (thesis, Algorithm 3.1).
    Undirected,
    /// No checks: every access is reported, in program order.
    Trace,
}

/// log2 of the line whose bytes one word of the bytes-written shadow describes.
pub const LINE_SHIFT: u32 = 6;

/// Bits of a code site's number in the shadow's word for the site that wrote a line last. The bits
/// above are not 0 while the block is locked or threads fight for it.
pub const SITE_BITS: u32 = 24;
const _: () = assert!(SITE_BITS == 24, "translated code looks at the bits above as one byte");

/// Code after which the cache is full: more than all but the largest programs have.
const MAX_BYTES: u64 = 512 << 20;

/// Code in all for a cache that is full with so much.
const fn in_all(max_bytes: u64) -> u64 {
    const MIN: u64 = 64 << 20;
    let some = max_bytes.saturating_mul(4);
    if some > MIN { some } else { MIN }
}

/// Optimisations, each of which can be switched off alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What is counted.
    pub mode: Mode,
    /// log2 of the block in which communication is counted.
    pub block_shift: u32,
    /// The processor has BMI2 (shifts by any register).
    pub bmi2: bool,
    /// Use liveness of flags and registers to avoid spills.
    pub liveness: bool,
    /// Drop a check whose block an earlier check of the same superblock covers.
    pub merge: bool,
    /// Check only both ends of a run of accesses that spans at most one block.
    pub group: bool,
    /// Look at the grant of a constant address without a register.
    pub at_once: bool,
    /// Move checks back to where the flags are dead.
    pub hoist: bool,
    /// Leave parked flags where they are until an instruction needs them.
    pub park: bool,
    /// Version small loops.
    pub loops: bool,
    /// Enter versioned loops at their head.
    pub entries: bool,
    /// Let indirect branches remember where they lead.
    pub sites: bool,
    /// Place blocks that indirect branches lead to right behind their pads.
    pub beside: bool,
    /// After this many samples they are sure; see [`sites`](crate::connect::sites).
    pub site_samples: usize,
    /// Count instructions, loads and stores by tallies.
    pub tallies: bool,
    /// Most instructions and conditional branches in a superblock.
    pub max_instructions: usize,
    /// Most conditional branches in a superblock.
    pub max_branches: usize,
    /// Bytes of code after which the cache is full, and flushed.
    pub max_bytes: u64,
    /// Most bytes of code with what threads have not left yet since it was flushed. Threads that
    /// need more run natively.
    pub max_bytes_in_all: u64,
    /// Iterations of an unchecked loop body.
    pub unroll: usize,
    /// Keep blocks for later runs, and use what earlier ones have kept, if the host has a store.
    pub stores: bool,
    /// Count the accesses to each page; see [`pages`](crate::pages).
    pub pages: bool,
    /// Address of the byte that says whether threads shall leave this code; 0 = none. See
    /// [`polls`](crate::body::polls).
    pub poll: i32,
    /// Address of `pthread_create`, whose third argument is kept in gs:START_ROUTINE; 0 = none.
    pub thread_start_hook: u64,
}

/// Bits of `wire::session::Header::disable`.
pub mod disable {
    /// Switches [`Options::liveness`](super::Options::liveness) off.
    pub const LIVENESS: u32 = 1;
    /// Switches [`Options::merge`](super::Options::merge) off.
    pub const MERGE: u32 = 2;
    /// Switches [`Options::group`](super::Options::group) off.
    pub const GROUP: u32 = 4;
    /// Switches [`Options::hoist`](super::Options::hoist) off.
    pub const HOIST: u32 = 8;
    /// Switches [`Options::loops`](super::Options::loops) off.
    pub const LOOPS: u32 = 16;
    /// Switches [`Options::tallies`](super::Options::tallies) off.
    pub const TALLIES: u32 = 32;
    /// Switches [`Options::park`](super::Options::park) off.
    pub const PARK: u32 = 1 << 8;
    /// Switches [`Options::sites`](super::Options::sites) off.
    pub const SITES: u32 = 1 << 9;
    /// Switches [`Options::beside`](super::Options::beside) off.
    pub const BESIDE: u32 = 1 << 10;
    /// Switches [`Options::entries`](super::Options::entries) off.
    pub const ENTRIES: u32 = 1 << 11;
    /// Switches [`Options::at_once`](super::Options::at_once) off.
    pub const AT_ONCE: u32 = 1 << 12;
    /// Pretend that the processor lacks BMI2.
    pub const BMI2: u32 = 1 << 16;
}

impl Options {
    /// Everything on but what `disabled` (bits of [`disable`]) names.
    pub fn new(mode: Mode, block_shift: u32, disabled: u32) -> Self {
        let traces = mode == Mode::Trace;
        let on = |bit| disabled & bit == 0;
        Self {
            mode,
            block_shift,
            bmi2: has_bmi2() && on(disable::BMI2),
            liveness: on(disable::LIVENESS),
            // An access that repeats another counts again.
            merge: on(disable::MERGE) && !traces && mode != Mode::Undirected,
            group: on(disable::GROUP) && !traces,
            at_once: on(disable::AT_ONCE),
            hoist: on(disable::HOIST) && !traces,
            loops: on(disable::LOOPS) && !traces && mode != Mode::Translate,
            entries: on(disable::ENTRIES),
            park: on(disable::PARK),
            sites: on(disable::SITES),
            beside: on(disable::BESIDE),
            site_samples: 8,
            tallies: on(disable::TALLIES),
            max_instructions: 96,
            max_branches: 4,
            max_bytes: MAX_BYTES,
            max_bytes_in_all: in_all(MAX_BYTES),
            unroll: 8,
            stores: false,
            pages: false,
            poll: 0,
            thread_start_hook: 0,
        }
    }

    /// The same with accesses counted by page, where this mode and these blocks allow it.
    #[must_use]
    pub fn with_pages(self) -> Self {
        let checks = matches!(self.mode, Mode::Matrix | Mode::Detail);
        let pages = checks && self.block_shift == crate::pages::BLOCK_SHIFT;
        // Counting needs the number of the block, which a look at once does without.
        Self { pages, at_once: self.at_once && !pages, ..self }
    }

    /// The same without checks, and another byte to poll. What `disabled` does not name is on, if
    /// it was off for the sake of checks.
    #[must_use]
    pub fn without_checks(self, poll: i32, disabled: u32) -> Self {
        let plain = Self::new(Mode::Count, self.block_shift, disabled);
        Self { mode: Mode::Count, poll, loops: plain.loops, tallies: plain.tallies, ..self }
    }

    /// Lets the cache be full with `bytes` bytes; 0 = as many as by default.
    pub fn set_max_bytes(&mut self, bytes: u64) {
        self.max_bytes = if bytes == 0 { MAX_BYTES } else { bytes };
        self.max_bytes_in_all = in_all(self.max_bytes);
    }

    /// Whether anything is counted.
    pub fn counts(&self) -> bool {
        self.mode != Mode::Translate
    }

    /// Whether accesses are checked, or reported.
    pub fn checks(&self) -> bool {
        !matches!(self.mode, Mode::Translate | Mode::Count)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> i64 {
        1 << self.block_shift
    }

    /// Bytes that one check may span: it then touches at most two blocks, and with bytes told apart
    /// at most two lines.
    pub fn window(&self) -> i64 {
        match self.mode {
            Mode::Detail => self.block_bytes().min(1 << LINE_SHIFT),
            _ => self.block_bytes(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_bmi2() -> bool {
    let leaf = |n| core::arch::x86_64::__cpuid_count(n, 0);
    leaf(0).eax >= 7 && leaf(7).ebx >> 8 & 1 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_bmi2() -> bool {
    false
}

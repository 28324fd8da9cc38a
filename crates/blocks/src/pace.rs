//! What each thread has, and which of its allocations are followed.
//!
//! To follow a block costs about as much as to allocate it twice. So up to [`BURST`] blocks of a
//! process are followed one and all, and then no more than [`PER_MS`] in a millisecond of a
//! thread's time: of more, one in 2, 4, 8 and so on, drawn at random. Large blocks are followed
//! always, since what the program does with them takes longer. So are the first ones of each
//! caller, and of each way by which it was called, told apart by the address of its frame and the
//! size: what is allocated once and used for long must not be missed beside what comes and goes.

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// Blocks of a process that are followed before any is left out.
const BURST: u64 = 1 << 13;
/// Blocks of a thread that are followed in a millisecond.
const PER_MS: u64 = 20;
/// Blocks after which a thread looks how fast it is.
const STRETCH: u32 = 256;
/// At least one block in this number is followed.
const MAX: u32 = 1 << 14;
/// Bytes from which on a block is followed always.
pub const LARGE: usize = 64 << 10;

/// State of the calling thread; zeroes at first.
#[repr(C)]
pub struct Thread {
    /// Blocks to leave out before the next one is followed.
    skip: Cell<u32>,
    /// One block in this number is followed; 0: every one.
    every: Cell<u32>,
    /// Followed since `since_ns`.
    followed: Cell<u32>,
    /// CLOCK_MONOTONIC, ns.
    since_ns: Cell<u64>,
    random: Cell<u64>,
    tid: Cell<u32>,
}

const BYTES: usize = 64;
const _: () = assert!(size_of::<Thread>() <= BYTES);

// Not `thread_local!`: as a part of what every thread begins with, it is found by one instruction,
// and never allocated.
global_asm!(
    ".pushsection .tbss.threadtalk_blocks, \"awT\", @nobits",
    ".p2align 6",
    ".globl threadtalk_blocks_thread",
    ".hidden threadtalk_blocks_thread",
    ".type threadtalk_blocks_thread, @object",
    ".size threadtalk_blocks_thread, {bytes}",
    "threadtalk_blocks_thread:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

/// Why a block is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Not,
    /// It stands for those that are left out, too.
    Drawn,
    /// It would have been followed in any case.
    Always,
}

/// Blocks of a caller, and of a way to it, that are followed in any case.
const OF_CALLER: u8 = 250;
const OF_WAY: u8 = 16;

/// How many were followed, by hash of the caller, and of frame and size besides.
static CALLERS: [AtomicU8; 1 << 12] = [const { AtomicU8::new(0) }; 1 << 12];
static WAYS: [AtomicU8; 1 << 14] = [const { AtomicU8::new(0) }; 1 << 14];

#[inline(always)]
fn site(bytes: usize, stack: u64) -> (&'static AtomicU8, &'static AtomicU8) {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    // SAFETY: the word that the call has pushed.
    let caller = unsafe { *(stack as *const u64) }.wrapping_mul(MIX);
    let way = (caller ^ stack ^ (bytes as u64) << 40).wrapping_mul(MIX);
    (&CALLERS[(caller >> 52) as usize], &WAYS[(way >> 50) as usize])
}

/// Whether few blocks were followed of those that are allocated so.
#[inline(always)]
fn is_rare(bytes: usize, stack: u64) -> bool {
    let (caller, way) = site(bytes, stack);
    caller.load(Relaxed) < OF_CALLER || way.load(Relaxed) < OF_WAY
}

fn count_site(bytes: usize, stack: u64) {
    let (caller, way) = site(bytes, stack);
    let up = |count: &AtomicU8| count.store(count.load(Relaxed).saturating_add(1), Relaxed);
    up(caller);
    up(way);
}

static FOLLOWED: AtomicU64 = AtomicU64::new(0);

impl Thread {
    /// That of the calling thread.
    #[inline(always)]
    pub fn here() -> &'static Thread {
        let address: *const Thread;
        // SAFETY: the offset of the object from the thread's base, whose own address is its first
        // word. The thread lives as long as its code runs.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + threadtalk_blocks_thread@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) address,
                options(nostack, pure, readonly),
            );
            &*address
        }
    }

    /// Why the next block, of this size, is followed; `stack` is the address of the
    /// return address.
    #[inline(always)]
    pub fn due(&self, bytes: usize, stack: u64) -> Due {
        let skip = self.skip.get();
        if skip == 0 {
            return Due::Drawn;
        }
        if bytes >= LARGE || is_rare(bytes, stack) {
            return Due::Always;
        }
        self.skip.set(skip - 1);
        Due::Not
    }

    /// Its kernel id.
    pub fn tid(&self) -> u32 {
        if self.tid.get() == 0 {
            self.tid.set(injected::raw::tid());
        }
        self.tid.get()
    }

    /// In a forked child.
    pub fn forget(&self) {
        self.tid.set(0);
    }

    /// Follows a block of this size at this time; returns the number of blocks it stands for.
    pub fn pass(&self, due: Due, (bytes, stack): (usize, u64), now_ns: u64) -> u64 {
        count_site(bytes, stack);
        if due == Due::Always {
            return 1;
        }
        let every = self.every.get().max(1);
        if FOLLOWED.fetch_add(1, Relaxed) < BURST {
            return 1;
        }
        let followed = self.followed.get() + 1;
        self.followed.set(followed);
        if followed >= STRETCH {
            self.adapt(every, now_ns);
        }
        self.skip.set(self.draw());
        u64::from(every)
    }

    /// The drawn block cannot be followed; returns how many it stood for.
    pub fn pass_over(&self) -> u64 {
        let every = self.every.get().max(1).saturating_mul(2).min(MAX);
        self.every.set(every);
        self.skip.set(self.draw());
        u64::from(every / 2)
    }

    fn adapt(&self, every: u32, now_ns: u64) {
        let wanted_ns = u64::from(STRETCH) * 1_000_000 / PER_MS;
        let took_ns = now_ns.saturating_sub(self.since_ns.get());
        let every = match took_ns {
            took if took < wanted_ns => (every * 2).min(MAX),
            took if took > wanted_ns * 4 => (every / 2).max(1),
            _ => every,
        };
        self.every.set(every);
        self.followed.set(0);
        self.since_ns.set(now_ns);
    }

    /// How many to leave out: `every` - 1 in the mean.
    fn draw(&self) -> u32 {
        let every = self.every.get();
        if every <= 1 {
            return 0;
        }
        let mut x = self.random.get() | 1 << 63 | u64::from(self.tid());
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        ((x >> 32) % u64::from(2 * every - 1)) as u32
    }
}

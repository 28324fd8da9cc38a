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
        let every = self.every.get().max(1);
        self.every.set((every * 2).min(MAX));
        self.skip.set(self.draw());
        u64::from(every)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard};

    /// A thread of which nothing is known; what is counted by the process is this test's alone.
    fn fresh(followed: u64) -> (Thread, MutexGuard<'static, ()>) {
        static ALONE: Mutex<()> = Mutex::new(());
        let guard = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        FOLLOWED.store(followed, Relaxed);
        CALLERS.iter().chain(&WAYS).for_each(|count| count.store(0, Relaxed));
        let thread = Thread {
            skip: Cell::new(0),
            every: Cell::new(0),
            followed: Cell::new(0),
            since_ns: Cell::new(0),
            random: Cell::new(0),
            tid: Cell::new(1234),
        };
        (thread, guard)
    }

    /// A stretch of as many followed blocks as make a thread look how fast it is, which ends then.
    fn stretch(thread: &Thread, end_ns: u64) -> u32 {
        let word = 0x40_0000_u64;
        for _ in 0..STRETCH {
            thread.pass(Due::Drawn, (32, &raw const word as u64), end_ns);
        }
        thread.every.get()
    }

    #[test]
    fn the_first_blocks_of_a_process_are_followed_one_and_all() {
        let (thread, _alone) = fresh(0);
        let word = 0x40_0000_u64;
        let stack = &raw const word as u64;
        for _ in 0..BURST {
            assert!(thread.due(32, stack) == Due::Drawn);
            assert_eq!(thread.pass(Due::Drawn, (32, stack), 0), 1);
        }
        assert_eq!((thread.every.get(), thread.followed.get()), (0, 0));
        thread.pass(Due::Drawn, (32, stack), 0);
        assert_eq!(thread.followed.get(), 1);
    }

    #[test]
    fn a_fast_thread_leaves_more_out_and_a_slow_one_less() {
        let (thread, _alone) = fresh(BURST);
        // 256 blocks at 20 a millisecond.
        let wanted_ns = 12_800_000;
        let every = [1, 1, 4, 5, 5]
            .map(|quarters| stretch(&thread, thread.since_ns.get() + wanted_ns * quarters / 4));
        assert_eq!(every, [2, 4, 4, 4, 4]);
        let next = |ns: u64| stretch(&thread, thread.since_ns.get() + ns);
        assert_eq!((next(wanted_ns * 4), next(wanted_ns * 4 + 1)), (4, 2));
        assert_eq!([0; 3].map(|_| next(wanted_ns * 5)), [1, 1, 1]);
        // Never more than one in MAX, also where the clock goes backwards.
        assert_eq!((0..40).map(|_| stretch(&thread, 1)).max(), Some(MAX));
    }

    #[test]
    fn large_and_rare_blocks_are_followed_between_those_that_are_drawn() {
        let (thread, _alone) = fresh(BURST);
        let words = [0x41_0000_u64; 2];
        let stacks = [0, 1].map(|k: usize| &raw const words[k] as u64);
        thread.skip.set(100_000);
        let follow = |bytes, stack| match thread.due(bytes, stack) {
            Due::Always => thread.pass(Due::Always, (bytes, stack), 0) == 1,
            _ => false,
        };
        let caller = (0..1000).filter(|_| follow(32, stacks[0])).count();
        assert_eq!(caller, usize::from(OF_CALLER));
        assert_eq!(thread.skip.get(), 100_000 - 750);
        // Each other way to this caller, which by now is no rare one, is.
        let other = (0..1000).filter(|_| follow(32, stacks[1])).count();
        let size = (0..1000).filter(|_| follow(48, stacks[0])).count();
        assert_eq!((other, size), (usize::from(OF_WAY), usize::from(OF_WAY)));
        // Large ones are in any case; they change nothing of when the next one is drawn.
        let skip = thread.skip.get();
        assert!((0..1000).all(|_| follow(LARGE, stacks[0])));
        assert_eq!((thread.skip.get(), thread.every.get()), (skip, 0));
    }

    #[test]
    fn blocks_that_are_drawn_stand_for_all() {
        for every in [2, 8, 64, 1024] {
            let (thread, _alone) = fresh(BURST);
            thread.every.set(every);
            // Neither fast nor slow.
            let mut now = 0;
            let word = 0x42_0000_u64;
            let stack = &raw const word as u64;
            (0..300).for_each(|_| count_site(32, stack));
            let (mut all, mut stood_for) = (0_u64, 0_u64);
            let mut most = 0;
            while stood_for < 20_000 * u64::from(every) {
                all += 1;
                if thread.due(32, stack) == Due::Drawn {
                    now += 100_000;
                    stood_for += thread.pass(Due::Drawn, (32, stack), now);
                    most = most.max(thread.skip.get());
                }
            }
            assert_eq!(thread.every.get(), every);
            let right = all as f64 / stood_for as f64;
            assert!((0.97..1.03).contains(&right), "one in {every}: {right}");
            assert!(most <= 2 * every - 2, "{most}");
        }
    }

    #[test]
    fn a_drawn_block_that_is_passed_over_makes_others_rarer() {
        let (thread, _alone) = fresh(BURST);
        assert_eq!((thread.pass_over(), thread.every.get()), (1, 2));
        assert_eq!((thread.pass_over(), thread.every.get()), (2, 4));
        assert_eq!((thread.pass_over(), thread.every.get()), (4, 8));
        (0..100).for_each(|_| _ = thread.pass_over());
        assert_eq!((thread.pass_over(), thread.every.get()), (u64::from(MAX), MAX));
    }
}

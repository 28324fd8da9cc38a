//! The calls that led to an allocation: the immediate caller from the stack, exactly; those before
//! by the rules of the unwind tables, never by looking for what may be a return address.

use crate::lock::Lock;
use crate::rules;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Of the tables of rules.
pub static LOCK: Lock = Lock::new();

/// An address on the first thread's stack above all its frames; 0: not known.
static FIRST_TOP: AtomicU64 = AtomicU64::new(0);
/// Stacks are smaller.
const LONGEST: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// Finds what is needed, while there is one thread.
pub fn prepare() {
    // The loader has put the environment above the first frame.
    FIRST_TOP.store(injected::environment::current() as u64, Relaxed);
    rules::prepare();
}

/// Forgets what is known of code, some of which may have been unloaded.
pub fn forget() {
    rules::forget(&LOCK);
}

/// Where an allocation function was entered.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Address of the return address.
    pub stack: u64,
    /// The register as it was.
    pub rbp: u64,
}

/// A word of the stack that led from a frame to the next.
#[derive(Clone, Copy, Default)]
pub struct Told {
    /// From the entry's stack address, bytes.
    above: u32,
    /// The word is an address on the stack: it counts from the entry's, too.
    on_stack: bool,
    value: u64,
}

/// Calls that led to an entry, and the words of the stack that said so: where these are as they
/// were, the calls are the same.
#[derive(Clone, Copy)]
pub struct Trace<const FRAMES: usize> {
    /// Return addresses, innermost first; 0 = no more are known.
    pub frames: [u64; FRAMES],
    /// In the order in which they led outwards, at most three for each frame.
    told: [[Told; 3]; FRAMES],
    told_count: usize,
    /// %rbp from the entry's stack address, if a frame was found by the register itself.
    rbp: Option<u64>,
}

impl<const FRAMES: usize> Trace<FRAMES> {
    /// Nothing.
    pub const NONE: Self = Self {
        frames: [0; FRAMES],
        told: [[Told { above: 0, on_stack: false, value: 0 }; 3]; FRAMES],
        told_count: 0,
        rbp: None,
    };

    fn tell(&mut self, entry: Entry, at: u64, value: u64, on_stack: bool) {
        let value = if on_stack { value.wrapping_sub(entry.stack) } else { value };
        if let Some(told) = self.told.as_flattened_mut().get_mut(self.told_count) {
            *told = Told { above: (at - entry.stack) as u32, on_stack, value };
            self.told_count += 1;
        }
    }

    /// Whether an entry was come to by the same calls.
    #[inline]
    pub fn is_of(&self, entry: Entry) -> bool {
        // SAFETY: the word that the call has pushed.
        if self.frames[0] != unsafe { *(entry.stack as *const u64) }
            || self.rbp.is_some_and(|rbp| entry.rbp.wrapping_sub(entry.stack) != rbp)
        {
            return false;
        }
        // Each word is where it was only if those before it are as they were.
        let told = self.told.as_flattened().get(..self.told_count).unwrap_or(&[]);
        told.iter().all(|told| {
            // SAFETY: a frame of the caller, whose words are the same so far.
            let word = unsafe { *((entry.stack + u64::from(told.above)) as *const u64) };
            let base = if told.on_stack { entry.stack } else { 0 };
            word.wrapping_sub(base) == told.value
        })
    }
}

/// Return addresses of the calls that led to an entry, innermost first; 0 = no more are known.
pub fn of<const FRAMES: usize>(entry: Entry) -> [u64; FRAMES] {
    trace(entry).frames
}

/// The same with the words of the stack that led there.
pub fn trace<const FRAMES: usize>(entry: Entry) -> Trace<FRAMES> {
    let mut trace = Trace::NONE;
    let Entry { mut stack, mut rbp } = entry;
    let mut rbp_at = 0;
    let top = top_above(stack);
    // SAFETY: the word that the call has pushed.
    trace.frames[0] = unsafe { *(stack as *const u64) };
    stack += 8;
    for k in 1..FRAMES {
        let Some(rule) = rules::of(trace.frames[k - 1], &LOCK).filter(|rule| rule.leads_on())
        else {
            break;
        };
        let base = if rule.is_by_rbp() { rbp } else { stack };
        let mut end = base.wrapping_add_signed(rule.offset());
        let end_at = end;
        if rule.is_aligned() {
            let is_word =
                |at: u64| at >= entry.stack && at.saturating_add(8) <= top && at.is_multiple_of(8);
            if !is_word(end_at) || !is_word(base) {
                break;
            }
            // SAFETY: between the entry and the end of the stack.
            end = unsafe { *(end_at as *const u64) };
        }
        if end < stack + 8 || end > top || end % 8 != 0 {
            break;
        }
        match (rule.is_by_rbp(), rbp_at) {
            (false, _) => {}
            (true, 0) => trace.rbp = Some(entry.rbp.wrapping_sub(entry.stack)),
            (true, at) => trace.tell(entry, at, rbp, true),
        }
        if rule.is_aligned() {
            trace.tell(entry, end_at, end, true);
            // SAFETY: as above.
            rbp = unsafe { *(base as *const u64) };
            rbp_at = base;
        } else if let Some(at) = rule.saved() {
            let at = end.wrapping_add_signed(at);
            if at < entry.stack || at + 8 > end || at % 8 != 0 {
                break;
            }
            // SAFETY: between the entry and the end of the stack.
            rbp = unsafe { *(at as *const u64) };
            rbp_at = at;
        }
        // SAFETY: as above.
        let back = unsafe { *((end - 8) as *const u64) };
        if back == 0 {
            break;
        }
        trace.frames[k] = back;
        trace.tell(entry, end - 8, back, false);
        stack = end;
    }
    trace
}

/// An address up to which a stack is there at least: that of the first thread ends above its
/// environment, that of others above what the C library keeps of them, and of a stack that the
/// program has made the rest of a page is there.
fn top_above(stack: u64) -> u64 {
    let own: u64;
    // SAFETY: the thread's base, whose first word is its own address.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) own, options(nostack, pure, readonly));
    }
    let is_above = |top: &u64| *top > stack && *top - stack < LONGEST;
    let tops = [FIRST_TOP.load(Relaxed), own];
    tops.into_iter().filter(is_above).min().unwrap_or((stack | (PAGE - 1)) + 1)
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;

//! The ways by which a thread has come to allocate last: most allocations come by one of them,
//! which takes a few words of the stack to see.

use crate::sites::LOOKED_AT;
use allocations::chain::{Entry, Trace};
use core::arch::{asm, global_asm};
use core::cell::Cell;

/// Ways of a thread that are kept: a power of two.
const WAYS: usize = 8;
/// Bytes of all of them.
const BYTES: usize = WAYS * size_of::<Way>();

// Not `thread_local!`: as a part of what every thread begins with, it is found by one instruction,
// and never allocated.
global_asm!(
    ".pushsection .tbss.threadtalk_data, \"awT\", @nobits",
    ".p2align 6",
    ".globl threadtalk_data_ways",
    ".hidden threadtalk_data_ways",
    ".type threadtalk_data_ways, @object",
    ".size threadtalk_data_ways, {bytes}",
    "threadtalk_data_ways:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

/// A way, and the site that it leads from; zeroes: none.
#[repr(C, align(64))]
pub struct Way {
    /// Digits of the block's size; 0: nothing is kept here.
    digits: Cell<u32>,
    /// Which code was loaded then.
    unloaded: Cell<u32>,
    /// The site plus 1; 0: none.
    site: Cell<u32>,
    trace: Cell<core::mem::MaybeUninit<Trace<LOOKED_AT>>>,
}

/// The place for the way of an entry.
#[inline(always)]
pub fn place(entry: Entry, digits: u32) -> &'static Way {
    let ways: *const Way;
    // SAFETY: the offset of the object from the thread's base, whose own address is its first
    // word. The thread lives as long as its code runs.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + threadtalk_data_ways@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) ways,
            options(nostack, pure, readonly),
        );
        let caller = *(entry.stack as *const u64);
        let mixed = (caller ^ u64::from(digits) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &*ways.add((mixed >> 61) as usize % WAYS)
    }
}

impl Way {
    /// The site, if this is the way by which an entry was come to.
    #[inline(always)]
    pub fn site(&self, entry: Entry, digits: u32, unloaded: u32) -> Option<Option<usize>> {
        if self.digits.get() != digits || self.unloaded.get() != unloaded {
            return None;
        }
        // SAFETY: written before the digits; only this thread is here, and handlers of its signals
        // find it busy.
        let trace = unsafe { (*self.trace.as_ptr()).assume_init_ref() };
        trace.is_of(entry).then(|| (self.site.get() as usize).checked_sub(1))
    }

    /// Keeps a way.
    pub fn keep(&self, trace: Trace<LOOKED_AT>, digits: u32, unloaded: u32, site: Option<usize>) {
        self.digits.set(0);
        self.trace.set(core::mem::MaybeUninit::new(trace));
        self.site.set(site.map_or(0, |site| site as u32 + 1));
        self.unloaded.set(unloaded);
        self.digits.set(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(caller: u64) -> Trace<LOOKED_AT> {
        let mut trace = Trace::NONE;
        trace.frames[0] = caller;
        trace
    }

    #[test]
    fn a_way_is_the_same_only_with_size_caller_and_code() {
        let stack = [0x1111_u64, 0x2222];
        let entry = |k: usize| Entry { stack: &raw const stack[k] as u64, rbp: 0 };
        let way = Way {
            digits: Cell::new(0),
            unloaded: Cell::new(0),
            site: Cell::new(0),
            trace: Cell::new(core::mem::MaybeUninit::uninit()),
        };
        assert_eq!(way.site(entry(0), 5, 0), None);
        way.keep(trace(0x1111), 5, 3, Some(0));
        assert_eq!(way.site(entry(0), 5, 3), Some(Some(0)));
        assert_eq!(way.site(entry(1), 5, 3), None);
        assert_eq!((way.site(entry(0), 6, 3), way.site(entry(0), 5, 4)), (None, None));
        way.keep(trace(0x2222), 6, 3, None);
        assert_eq!((way.site(entry(1), 6, 3), way.site(entry(0), 6, 3)), (Some(None), None));
    }

    #[test]
    fn each_thread_has_ways_of_its_own() {
        let stack = 0x3333_u64;
        let entry = Entry { stack: &raw const stack as u64, rbp: 0 };
        let here = || core::ptr::from_ref(place(entry, 9)).addr();
        let other = std::thread::scope(|scope| {
            place(entry, 9).keep(trace(0x3333), 9, 0, Some(1));
            let other = scope.spawn(|| {
                assert_eq!(place(entry, 9).site(entry, 9, 0), None);
                here()
            });
            other.join().unwrap()
        });
        assert!(here() != other && here() == core::ptr::from_ref(place(entry, 9)).addr());
        assert_eq!(place(entry, 9).site(entry, 9, 0), Some(Some(1)));
    }
}

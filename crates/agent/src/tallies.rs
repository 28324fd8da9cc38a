//! Numbers for the tallies in which translated code counts ([`types::tally`]), and what becomes of
//! a thread's tallies when it exits.
//!
//! What tallies mean stands in the session, so that a recording can be read however it ends. A
//! fork's child goes on in the code that it inherits and so with the same numbers
//! ([`session::renew`]).
//!
//! Neighbours: [`dispatch`](crate::dispatch) asks on behalf of the engine,
//! [`thread`](crate::thread) says when a thread exits.

use crate::lock::Lock;
use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::AddressHash;
use hashbrown::HashMap;
use types::tally::{self, Meaning};
use wire::session::{PAGE, TALLIES_BYTES, ThreadPage};

/// Numbers by the bits of meanings.
static KNOWN: Lock<Option<HashMap<u64, u32, AddressHash>>> = Lock::new(None);

/// The number of the tally with this meaning; `None` when there is none left. Translation holds a
/// lock, so no other thread asks meanwhile.
pub fn number(meaning: Meaning) -> Option<u32> {
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    let bits = u64::from(meaning.bits());
    if let Some(number) = known.get(&bits) {
        return Some(*number);
    }
    let used = &session::header().tallies;
    let number = used.load(Ordering::Relaxed);
    if number as usize >= tally::MAX {
        return None;
    }
    session::meaning(number as usize).store(meaning.bits(), Ordering::Relaxed);
    used.store(number + 1, Ordering::Release);
    known.insert(bits, number);
    Some(number)
}

/// Adds up the tallies of the thread whose page this is and gives their memory back: many threads
/// may come and go.
pub fn fold(page: &ThreadPage) {
    let start = page as *const ThreadPage as u64 - TALLIES_BYTES;
    let used = session::header().tallies.load(Ordering::Acquire) as usize;
    // SAFETY: a thread's tallies lie below its page.
    let tallies = unsafe { core::slice::from_raw_parts(start as *const AtomicU64, used) };
    let tallied = || {
        let meaning = |number| session::meaning(number).load(Ordering::Relaxed);
        let each = tallies.iter().enumerate();
        tally::sum(each.map(|(number, times)| {
            (Meaning::from_bits(meaning(number)), times.load(Ordering::Relaxed))
        }))
    };
    page.fold(tallied, || clear(start, tallies));
}

fn clear(start: u64, tallies: &[AtomicU64]) {
    const MADV_REMOVE: u64 = 9;
    let bytes = (size_of_val(tallies) as u64).next_multiple_of(PAGE);
    // SAFETY: only the thread that exits uses them.
    if unsafe { sys::call(sys::MADVISE, [start, bytes, MADV_REMOVE, 0, 0, 0]) } != 0 {
        tallies.iter().for_each(|tally| tally.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::recording;
    use wire::session::mode;

    fn meaning(instructions: u32) -> Meaning {
        Meaning::new(instructions, 1, 2).unwrap()
    }

    #[test]
    fn what_means_the_same_has_one_number_until_there_are_none_left() {
        let _held = recording(mode::MATRIX);
        *KNOWN.lock() = None;
        assert_eq!([3, 4, 3].map(|k| number(meaning(k))), [Some(0), Some(1), Some(0)]);
        assert_eq!(number(meaning(3).with_checks(1)), Some(2));
        assert_eq!(session::meaning(1).load(Ordering::Relaxed), meaning(4).bits());
        session::header().tallies.store(tally::MAX as u32 - 1, Ordering::Relaxed);
        assert_eq!(number(meaning(5)), Some(tally::MAX as u32 - 1));
        assert_eq!(
            [6, 5, 4].map(|k| number(meaning(k))),
            [None, Some(tally::MAX as u32 - 1), Some(1)]
        );
        assert_eq!(session::header().tallies.load(Ordering::Relaxed), tally::MAX as u32);
        *KNOWN.lock() = None;
    }

    #[test]
    fn a_thread_that_exits_leaves_its_sums_and_no_tallies() {
        let _held = recording(mode::MATRIX);
        *KNOWN.lock() = None;
        let numbers = [meaning(10), meaning(20), Meaning::waited(7)].map(number);
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        let tally_of = |thread: usize, number: usize| {
            let at = session::page(thread) as u64 - TALLIES_BYTES + 8 * number as u64;
            // SAFETY: within the session.
            unsafe { AtomicU64::from_ptr(at as *mut u64) }
        };
        // One tally below zero: code that was left early.
        for (number, times) in [(0, 3), (1, u64::MAX), (2, 2), (3, 99)] {
            tally_of(1, number).store(times, Ordering::Relaxed);
        }
        tally_of(2, 0).store(5, Ordering::Relaxed);
        // SAFETY: within the session; all fields are atomic.
        let page = unsafe { &*session::page(1) };
        page.instructions.store(100, Ordering::Relaxed);
        let sums = || {
            [&page.instructions, &page.loads, &page.stores, &page.waited]
                .map(|sum| sum.load(Ordering::Relaxed))
        };
        for _ in 0..2 {
            fold(page);
            assert_eq!(sums(), [100 + 30 - 20, 2, 4, 14]);
        }
        assert_eq!([0, 1, 2].map(|k| tally_of(1, k).load(Ordering::Relaxed)), [0; 3]);
        assert_eq!(tally_of(2, 0).load(Ordering::Relaxed), 5, "another thread's");
        *KNOWN.lock() = None;
    }
}

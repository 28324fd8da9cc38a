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

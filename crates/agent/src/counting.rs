//! Tells the slow paths (C, in `slow/`) where in the session they count.

use crate::layouts::{
    HANDS_BITS, IDS, Session, TRACE_FILTER_BYTES, tt_hands, tt_mode, tt_pages, tt_session,
    tt_trace_filters, tt_trace_lines, tt_trace_ways,
};
use crate::lock::Lock;
use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};
use engine::AddressHash;
use hashbrown::HashMap;
use wire::objects::MAX_BLOCKS;
use wire::session::{MAX_CHUNKS, MAX_SITES, mode};

unsafe extern "C" {
    fn tt_trace_forget(address: u64, bytes: u64);
    fn tt_trace_copy(from: u64, to: u64, bytes: u64);
}

/// log2 of the largest block whose bytes are told apart: taking a block clears its bytes.
const LARGEST_DETAIL_SHIFT: u32 = 12;

/// Points the slow paths to the session that is open. Before any of them runs, and in a child
/// again.
pub fn prepare() {
    let h = session::header();
    let shift = h.block_shift.load(Ordering::Relaxed);
    if h.mode.load(Ordering::Relaxed) == mode::DETAIL && shift > LARGEST_DETAIL_SHIFT {
        h.mode.store(mode::MATRIX, Ordering::Relaxed);
    }
    let places = Session {
        pool: session::pool(),
        // One clock for all processes.
        slice: &raw const session::first().slice,
        chunks: (&raw const h.chunks).cast_mut(),
        event_chunks_used: (&raw const h.event_chunks_used).cast_mut(),
        cell_chunks_used: (&raw const h.cell_chunks_used).cast_mut(),
        max_chunks: MAX_CHUNKS as u64,
        event_chunks: h.event_chunks.load(Ordering::Relaxed).into(),
        cell_chunks: h.cell_chunks.load(Ordering::Relaxed).into(),
        events_without_site: (&raw const h.events_without_site).cast_mut(),
        cells_late: (&raw const h.cells_late).cast_mut(),
        cells_lost: (&raw const h.cells_lost).cast_mut(),
        trace_head: (&raw const h.trace_head).cast_mut(),
        trace_tail: &raw const h.trace_tail,
        trace: session::trace(),
        deaths: (&raw const *session::first().deaths()).cast_mut(),
        groups: session::groups(),
        groups_used: (&raw const h.groups).cast_mut(),
        zones: session::zones(),
        zones_used: (&raw const h.zones).cast_mut(),
        blocks: session::blocks(),
        blocks_described: (&raw const h.blocks_described).cast_mut(),
        max_blocks: MAX_BLOCKS as u64,
        blocks_unknown: (&raw const h.blocks_unknown).cast_mut(),
        threads: &raw const h.threads,
        modules: &raw const h.modules,
        page_accesses_lost: (&raw const h.page_accesses_lost).cast_mut(),
        meanings: session::meaning(0) as *const AtomicU32 as u64,
        tallies: &raw const h.tallies,
    };
    // SAFETY: no slow path runs yet.
    unsafe {
        tt_session = places;
        tt_mode = h.mode.load(Ordering::Relaxed).into();
    }
}

/// One of [`mode`].
pub fn mode() -> u32 {
    // SAFETY: written only by `prepare`.
    unsafe { tt_mode as u32 }
}

/// Whether accesses are counted by page.
pub fn pages_are_counted() -> bool {
    // SAFETY: written only by `pages::prepare`.
    unsafe { tt_pages != 0 }
}

/// Whether there is a filtered trace.
pub fn is_filtered() -> bool {
    // SAFETY: written only by `prepare_filters`.
    unsafe { tt_trace_ways != 0 }
}

/// Makes room for what filters the trace, if one is wanted; `None` when there is none.
pub fn prepare_filters() -> Option<()> {
    let header = session::header();
    let ways = header.trace_ways.load(Ordering::Relaxed);
    let lines = header.trace_lines.load(Ordering::Relaxed);
    if ways != 0 && matches!(mode(), mode::MATRIX | mode::DETAIL) {
        let filters = sys::anonymous_away(IDS as u64 * TRACE_FILTER_BYTES)?;
        let hands = sys::anonymous_away((size_of::<u16>() as u64) << HANDS_BITS)?;
        // SAFETY: no slow path runs yet.
        unsafe {
            (tt_trace_filters, tt_hands) = (filters, hands);
            (tt_trace_ways, tt_trace_lines) = (ways.into(), lines.into());
        }
    }
    Some(())
}

/// The memory in `start..end` is new: says so in the trace, if there is one.
pub fn forget(start: u64, end: u64) {
    if (mode() == mode::TRACE || is_filtered()) && end > start {
        // SAFETY: the session is open.
        unsafe { tt_trace_forget(start, end - start) };
    }
}

/// What is known of `bytes` at `from` holds for those at `to`: says so in the trace, if there is
/// one. Returns whether the trace is all that need know.
pub fn traced_copy(from: u64, to: u64, bytes: u64) -> bool {
    let traces = mode() == mode::TRACE;
    if traces || is_filtered() {
        // SAFETY: the session is open.
        unsafe { tt_trace_copy(from, to, bytes) };
    }
    traces
}

/// A number for the code site at `pc`; 0 when there is none left or the mode needs no sites.
pub fn site(pc: u64) -> u32 {
    if !matches!(mode(), mode::DETAIL | mode::TRACE) && !pages_are_counted() && !is_filtered() {
        return 0;
    }
    let mut known = KNOWN_SITES.lock();
    if let Some(site) = known.as_ref().and_then(|known| known.get(&pc)) {
        return *site;
    }
    let header = session::header();
    let site = header.sites.load(Ordering::Relaxed) + 1;
    if site as usize >= MAX_SITES {
        return 0;
    }
    session::site(site as usize).store(pc, Ordering::Relaxed);
    // Translation holds a lock, so no other thread has taken this number.
    header.sites.store(site, Ordering::Release);
    if let Some(known) = known.as_mut() {
        known.insert(pc, site);
    }
    site
}

/// Whether there are numbers left for code sites. (Where the mode needs none, they do not run out.)
pub fn has_sites() -> bool {
    session::header().sites.load(Ordering::Relaxed) as usize + 1 < MAX_SITES
}

/// Code sites by their addresses, once code is translated again: there are not enough numbers for a
/// new one each time.
static KNOWN_SITES: Lock<Option<HashMap<u64, u32, AddressHash>>> = Lock::new(None);

/// Code that has been translated is about to be translated again.
pub fn remember_sites() {
    let mut known = KNOWN_SITES.lock();
    if known.is_none() {
        let numbers = 1..=session::header().sites.load(Ordering::Relaxed);
        let site = |number: u32| (session::site(number as usize).load(Ordering::Relaxed), number);
        *known = Some(numbers.map(site).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::recording;

    fn used() -> u32 {
        session::header().sites.load(Ordering::Relaxed)
    }

    #[test]
    fn sites_are_numbered_from_one_on_until_there_are_no_numbers_left() {
        let _held = recording(mode::DETAIL);
        *KNOWN_SITES.lock() = None;
        assert_eq!([site(0x1000), site(0x2000), site(0x1000)], [1, 2, 3]);
        assert_eq!(session::site(2).load(Ordering::Relaxed), 0x2000);
        session::header().sites.store(MAX_SITES as u32 - 2, Ordering::Relaxed);
        assert!(has_sites());
        assert_eq!(site(0x3000), MAX_SITES as u32 - 1);
        assert!(!has_sites());
        assert_eq!((site(0x4000), used()), (0, MAX_SITES as u32 - 1));
    }

    #[test]
    fn code_that_is_translated_again_keeps_its_sites() {
        let _held = recording(mode::TRACE);
        *KNOWN_SITES.lock() = None;
        assert_eq!([site(0x1000), site(0x2000)], [1, 2]);
        remember_sites();
        assert_eq!([site(0x2000), site(0x1000), site(0x3000), site(0x3000)], [2, 1, 3, 3]);
        // Once is enough: what came later is known, too.
        remember_sites();
        assert_eq!((site(0x3000), used()), (3, 3));
        *KNOWN_SITES.lock() = None;
    }

    #[test]
    fn modes_that_tell_no_sites_take_no_numbers() {
        for mode in [mode::TRANSLATE, mode::MATRIX, mode::UNDIRECTED] {
            let _held = recording(mode);
            assert_eq!((site(0x1000), used()), (0, 0));
        }
    }

    #[test]
    fn bytes_of_large_blocks_are_not_told_apart() {
        for (shift, expected) in [(12, mode::DETAIL), (13, mode::MATRIX)] {
            let _held = recording(mode::DETAIL);
            session::header().block_shift.store(shift, Ordering::Relaxed);
            prepare();
            let noted = session::header().mode.load(Ordering::Relaxed);
            assert_eq!((mode(), noted), (expected, expected), "{shift}");
        }
    }
}

//! Blocks of less than 64 KiB: they stay where the program's allocator puts them, and their pages
//! go where most of the blocks on each want to be.
//!
//! A page's wish is decided by majority vote (Boyer and Moore, MJRTY, 1991). Pages are moved, not
//! given a policy, which would split the heap into as many mappings.

use crate::session::{self, Session};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use injected::policies::{self, MAX_PAGES, mode};
use wire::data::Entry;

/// Pages that are kept track of: a power of two; places that are looked at.
const PLACES: usize = 1 << 16;
const NEAR: usize = 8;
const PAGE: u64 = 4096;

/// A page with small blocks.
struct Page {
    /// Its number; 0 = none.
    number: AtomicU64,
    /// The entry of the first block on it.
    entry: AtomicU32,
    /// The node that it goes to, plus 1 from bit 24 on, and the lead of its votes.
    vote: AtomicU32,
}

impl Page {
    /// Counts a vote for a wish (a node plus 1): the wish that led before, 0 if none did, and
    /// whether this one has just taken the lead.
    fn take_vote(&self, wish: u32) -> (u32, bool) {
        loop {
            let known = self.vote.load(Relaxed);
            let (led, lead) = (known >> NODE_SHIFT, known & LEAD);
            let (next, moves) = match led {
                _ if led == wish && lead >= MAX_LEAD => return (led, false),
                _ if led == wish => (known + 1, false),
                _ if led == 0 || lead == 0 => (wish << NODE_SHIFT | 1, true),
                _ => (known - 1, false),
            };
            if self.vote.compare_exchange_weak(known, next, Relaxed, Relaxed).is_ok() {
                return (led, moves);
            }
        }
    }
}

static PAGES: [Page; PLACES] = [const {
    Page { number: AtomicU64::new(0), entry: AtomicU32::new(0), vote: AtomicU32::new(0) }
}; PLACES];

const NODE_SHIFT: u32 = 24;
const LEAD: u32 = (1 << NODE_SHIFT) - 1;
/// A lead that is not counted further: about the blocks that a page has room for. A page that has
/// changed its use can change, and where all agree, nothing is written.
const MAX_LEAD: u32 = 128;

/// A block that the program's allocator has given.
pub fn placed(session: Session, number: u32, block: *mut u8, bytes: usize) {
    let entry = &session.entries[number as usize];
    entry.appeared.fetch_add(1, Relaxed);
    let (start, end) = (block as u64, block as u64 + bytes.max(1) as u64);
    let base = start & !(PAGE - 1);
    for page in (base..end).step_by(PAGE as usize) {
        if let Some(node) = node_of(session, entry, page - base, page / PAGE) {
            let within = page.max(start) as *mut u8;
            vote(session, number, page / PAGE, node, within);
        }
    }
}

/// Where the page at an offset of a block goes.
fn node_of(session: Session, entry: &Entry, offset: u64, number: u64) -> Option<u32> {
    let mut parts = session.parts_of(entry, 0);
    let (range, ..) = parts.find(|(_, start, end)| (*start..*end).contains(&offset))?;
    let nodes = range.nodes.load(Relaxed);
    match range.mode.load(Relaxed) {
        _ if nodes == 0 => None,
        mode::PREFERRED => Some(nodes.trailing_zeros()),
        _ => nth(nodes, number % u64::from(nodes.count_ones())),
    }
}

/// The node with this number among some.
pub fn nth(nodes: u64, number: u64) -> Option<u32> {
    (0..u64::BITS).filter(|node| nodes >> node & 1 != 0).nth(number as usize)
}

/// A block on a page wants it on a node. `within` is an address of the block on the page.
fn vote(session: Session, entry: u32, number: u64, node: u32, within: *mut u8) {
    let Some(page) = page(number) else {
        session.header.small_lost.fetch_add(1, Relaxed);
        return;
    };
    let (was, moves) = page.take_vote(node + 1);
    if moves {
        page.entry.store(entry, Relaxed);
    }
    if was != 0 && was != node + 1 && !moves {
        session.header.conflicts.fetch_add(1, Relaxed);
    }
    if moves && !session::is_filtered() {
        move_page(session, number, node, within);
    }
}

#[cold]
#[inline(never)]
fn move_page(session: Session, number: u64, node: u32, within: *mut u8) {
    // The page must be there to be moved.
    // SAFETY: a byte of a block that the program has not got yet; it keeps its value.
    unsafe { core::sync::atomic::AtomicU8::from_ptr(within) }.fetch_or(0, Relaxed);
    let mut status = [0; MAX_PAGES];
    policies::pages(&[number * PAGE], Some(&[node as i32]), &mut status);
    session.header.small_pages.fetch_add(1, Relaxed);
}

/// The place of a page, taken now if it has none.
fn page(number: u64) -> Option<&'static Page> {
    let first = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    (first..first + NEAR).map(|at| &PAGES[at % PLACES]).find(|page| {
        let known = page.number.load(Relaxed);
        known == number
            || known == 0
                && page.number.compare_exchange(0, number, Relaxed, Relaxed).is_ok_and(|_| true)
            || page.number.load(Relaxed) == number
    })
}

/// The pages that were moved: address, node, and the entry of the first block there.
pub fn pages() -> impl Iterator<Item = (u64, u32, u32)> {
    PAGES.iter().filter_map(|page| {
        let node = (page.vote.load(Relaxed) >> NODE_SHIFT).checked_sub(1)?;
        Some((page.number.load(Relaxed) * PAGE, node, page.entry.load(Relaxed)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::made;

    fn page_of_nobody() -> Page {
        Page { number: AtomicU64::new(0), entry: AtomicU32::new(0), vote: AtomicU32::new(0) }
    }

    #[test]
    fn the_majority_leads_in_the_end() {
        let page = page_of_nobody();
        // The one that led, and whether this one takes the lead.
        assert_eq!(page.take_vote(1), (0, true));
        assert_eq!(page.take_vote(1), (1, false));
        assert_eq!(page.take_vote(2), (1, false));
        assert_eq!(page.take_vote(3), (1, false));
        assert_eq!(page.take_vote(2), (1, true));
        assert_eq!(page.take_vote(2), (2, false));
        assert_eq!(page.vote.load(Relaxed), 2 << NODE_SHIFT | 2);
        for turn in 0..90 {
            page.take_vote(if turn % 3 == 0 { 64 } else { 7 });
        }
        assert_eq!(page.vote.load(Relaxed) >> NODE_SHIFT, 7);
    }

    #[test]
    fn a_long_lead_is_not_counted_further_and_can_be_lost() {
        let page = page_of_nobody();
        (0..1000).for_each(|_| _ = page.take_vote(5));
        assert_eq!(page.vote.load(Relaxed), 5 << NODE_SHIFT | MAX_LEAD);
        let turns = (1..).find(|_| page.take_vote(64) == (5, true));
        assert_eq!(turns, Some(MAX_LEAD + 1));
    }

    #[test]
    fn votes_of_several_threads_are_all_counted() {
        let page = page_of_nobody();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20).for_each(|_| _ = page.take_vote(3)));
            }
        });
        assert_eq!(page.vote.load(Relaxed), 3 << NODE_SHIFT | 80);
    }

    #[test]
    fn nodes_are_counted_from_the_lowest() {
        assert_eq!([0, 1, 2, 3].map(|k| nth(0b1010_0100, k)), [Some(2), Some(5), Some(7), None]);
        assert_eq!((nth(1 << 63, 0), nth(0, 0), nth(1, u64::MAX)), (Some(63), None, None));
    }

    #[test]
    fn the_range_of_the_plan_says_where_a_page_goes() {
        let parts: &[_] = &[(0, 2, 0b1100, mode::PREFERRED), (4, 4, 0b1_0001_0010, mode::WEIGHTED)];
        let session = made(0, &[(0, parts), (0, &[(0, 1, 0, mode::PREFERRED)])]);
        let node = |page: u64, number| node_of(session, &session.entries[0], page * PAGE, number);
        assert_eq!((node(0, 5), node(1, 5), node(2, 5)), (Some(2), Some(2), None));
        // In turns by the number of the page, so that neighbours lie on different nodes.
        assert_eq!([9, 10, 11, 12].map(|k| node(4, k)), [Some(1), Some(4), Some(8), Some(1)]);
        assert_eq!((node(7, 9), node(8, 9)), (Some(1), None));
        assert_eq!(node_of(session, &session.entries[1], 0, 0), None);
    }

    /// The `k`th of the pages that share their places, those with this hash.
    fn with_hash(hash: u64, k: u64) -> u64 {
        // Newton's iteration for the inverse of the factor, modulo 2^64.
        let factor = 0x9e37_79b9_7f4a_7c15_u64;
        let inverse =
            (0..6).fold(1_u64, |x, _| x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x))));
        (hash << 48 | k).wrapping_mul(inverse)
    }

    #[test]
    fn pages_that_find_no_place_are_told_apart_from_those_that_have_one() {
        let all: Vec<_> = (1..=NEAR as u64).map(|k| page(with_hash(0xfffc, k)).unwrap()).collect();
        for (k, place) in all.iter().enumerate() {
            let number = with_hash(0xfffc, k as u64 + 1);
            assert_eq!(place.number.load(Relaxed), number);
            assert!(core::ptr::eq(page(number).unwrap(), *place));
        }
        assert!(page(with_hash(0xfffc, 99)).is_none());
    }

    #[test]
    fn each_page_of_a_block_votes_and_those_that_disagree_are_counted() {
        let at = injected::heap::map(4 * PAGE as usize).unwrap();
        let parts: [&[_]; 2] = [&[(0, 8, 1, mode::PREFERRED)], &[(0, 8, 2, mode::PREFERRED)]];
        let session = made(0, &[(0, parts[0]), (0, parts[1])]);
        let counted = || {
            let h = session.header;
            [&h.small_pages, &h.conflicts, &h.small_lost].map(|count| count.load(Relaxed))
        };
        let block = (at + 4000) as *mut u8;
        // SAFETY: within the mapping.
        unsafe { block.write_bytes(7, 5000) };
        // Up to the end of the second page, which is not the third one's.
        placed(session, 0, block, 2 * PAGE as usize - 4000);
        assert_eq!(counted(), [2, 0, 0]);
        placed(session, 1, block, 1);
        assert_eq!(counted(), [2, 1, 0]);
        placed(session, 1, block, 0);
        assert_eq!(counted(), [3, 1, 0]);
        let known = |page: u64| pages().find(|(address, ..)| *address == at as u64 + page * PAGE);
        assert_eq!(
            [0, 1, 2].map(|page| known(page).map(|(_, node, entry)| (node, entry))),
            [Some((1, 1)), Some((0, 0)), None]
        );
        // SAFETY: within the mapping.
        assert!((0..5000).all(|k| unsafe { block.add(k).read() } == 7));
        assert_eq!(session.entries[1].appeared.load(Relaxed), 2);
    }
}

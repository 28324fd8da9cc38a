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

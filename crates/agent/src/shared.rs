//! Memory that several processes share: where its shadow is, and which pages of this process it is.
//!
//! The shadow lies in the recording's file and is one for all processes (`wire::shared`). A map of
//! this process's pages leads to it. The map is filled when memory is mapped, so that slow paths
//! need only look; a fork's child inherits it, as it does the memory. Files that are mapped shared
//! are known by device, inode and birth, segments of System V by their number, and what has no name
//! gets a number.
//!
//! Neighbours: `slow/shared.h` looks addresses up; `syscalls/memory.rs` and `syscalls/segments.rs`
//! report each mapping that comes or goes; [`mappings`] keeps the map of pages, [`objects`] tells
//! which file or segment a mapping is of.

pub mod area;
pub mod mappings;
pub mod objects;

use crate::counting;
use crate::layouts::{tt_image, tt_opened, tt_shared};
use crate::session;
use crate::shadow::bases;
use crate::sys;
use core::sync::atomic::Ordering;
use wire::session::mode;
use wire::shared::{BLOCKS_OFFSET, BYTES, Block, PEERS_OFFSET, Peer, Shared};

/// Tells the slow paths where it is and which process this is. Before any of them runs, and in a
/// child again.
pub fn begin() {
    let execs = session::header().execs.load(Ordering::Relaxed);
    // SAFETY: no slow path runs yet.
    unsafe {
        tt_shared = area::base();
        tt_image = u64::from(session::segment()) << 32 | u64::from(execs);
    }
}

/// Tells other processes where this one keeps what is known of its memory. Once that is mapped, and
/// in a child again.
pub fn introduce() {
    if !is_used() {
        return;
    }
    let segment = session::segment();
    counters().peers.fetch_max(segment + 1, Ordering::AcqRel);
    let place = at(PEERS_OFFSET) + u64::from(segment) * size_of::<Peer>() as u64;
    // SAFETY: within the shadow; all fields are atomic.
    let peer = unsafe { &*(place as *const Peer) };
    let [chunks, pages] = mappings::places();
    for (field, value) in [
        // SAFETY: written by `begin` only.
        (&peer.image, unsafe { tt_image }),
        (&peer.shadow, bases::base_of(0)),
        (&peer.written, bases::written()),
        (&peer.sites, bases::last_sites()),
        (&peer.chunks, chunks),
        (&peer.pages, pages),
        (&peer.opened, &raw const tt_opened as u64),
    ] {
        field.store(value, Ordering::Relaxed);
    }
    peer.pid.store(sys::pid(), Ordering::Release);
}

/// Forgets what is known of the blocks of some pages.
fn forget(place: u64, bytes: u64) {
    const MADV_REMOVE: u64 = 9;
    const PAGE: u64 = 4096;
    let shift = session::header().block_shift.load(Ordering::Relaxed);
    let of = |place: u64| at(BLOCKS_OFFSET) + (place >> shift) * size_of::<Block>() as u64;
    let (first, last) = (of(place), of(place + bytes));
    let (whole, rest) = (first.next_multiple_of(PAGE).min(last), last & !(PAGE - 1));
    let clear = |from: u64, to: u64| {
        // SAFETY: blocks of the shadow; others may change them meanwhile, as they may the memory.
        unsafe { core::ptr::write_bytes(from as *mut u8, 0, to.saturating_sub(from) as usize) };
    };
    clear(first, whole);
    if whole < rest {
        // SAFETY: punches a hole into the recording's file.
        unsafe { sys::call(sys::MADVISE, [whole, rest - whole, MADV_REMOVE, 0, 0, 0]) };
    }
    clear(rest.max(whole), last);
}

/// Whether there is a shadow.
fn is_used() -> bool {
    area::base() != 0 && counting::mode() != mode::TRANSLATE
}

/// Whether `address` lies in the shadow or in the map of pages.
pub fn contains(address: u64) -> bool {
    let base = area::base();
    base != 0 && (base..base + BYTES).contains(&address) || mappings::contains(address)
}

/// What is counted for all processes.
fn counters() -> &'static Shared {
    // SAFETY: mapped for good if `is_used`, which callers have asked; all fields are atomic.
    unsafe { &*(area::base() as *const Shared) }
}

/// Address of something in the shadow.
fn at(offset: u64) -> u64 {
    area::base() + offset
}

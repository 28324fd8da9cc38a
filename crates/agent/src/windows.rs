//! Windows: the recorder's word for the phase, and the passing map.
//!
//! Neighbours: `slow/windows.h` changes between the maps, [`grants`](crate::grants) gives each
//! thread the passing map.

use crate::layouts::{tt_phase, tt_writes_gs};
use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::session::PASSING_OFFSET;
use wire::windows::{PASSING_BYTES, phase};

const _: () = assert!(PASSING_BYTES == engine::grants::BYTES);

unsafe extern "C" {
    /// In `slow/windows.h`.
    fn tt_begin_windows();
}

/// The phase of a recording without windows.
static ALWAYS: AtomicU32 = AtomicU32::new(phase::word(0, phase::COUNT));
/// Address of the passing map; 0 = there are no windows.
static PASSING: AtomicU64 = AtomicU64::new(0);

/// Whether accesses are observed in windows only.
pub fn are_used() -> bool {
    PASSING.load(Ordering::Relaxed) != 0
}

/// Address of the passing map.
pub fn passing_map() -> u64 {
    PASSING.load(Ordering::Relaxed)
}

/// Maps the passing map from the recording's file, if there are windows. `None` when there is no
/// room.
pub fn map(file: u64) -> Option<()> {
    const PROTECTION: u64 = sys::PROT_READ | sys::PROT_WRITE;
    const FLAGS: u64 = sys::MAP_SHARED | sys::MAP_NORESERVE;
    if session::first().windows.load(Ordering::Relaxed) != 0 {
        let at = sys::map_away(PASSING_BYTES, PROTECTION, FLAGS, file as i64, PASSING_OFFSET)?;
        sys::keep_out_of_dumps(at, PASSING_BYTES);
        PASSING.store(at, Ordering::Relaxed);
    }
    Some(())
}

/// Tells the slow paths where the phase is. Before any of them runs, and in a child again: there is
/// nothing to forget.
pub fn begin() {
    let word = if are_used() { &raw const session::first().phase } else { &raw const ALWAYS };
    // SAFETY: no slow path runs yet.
    unsafe {
        tt_phase = word;
        tt_writes_gs = sys::writes_gs().into();
        tt_begin_windows();
    }
}

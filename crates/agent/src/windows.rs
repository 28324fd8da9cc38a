//! Windows: the recorder's word for the phase, the passing maps, and where threads look which code
//! they shall leave.
//!
//! Neighbours: `slow/windows.h` changes between the maps, [`grants`](crate::grants) gives each
//! thread its passing map.

use crate::layouts::{
    MAX_BANKS, SLOTS, ThreadState, tt_clock_forbidden, tt_large_looks, tt_phase, tt_unfollowed,
    tt_was_light, tt_weights, tt_writes_gs,
};
use crate::{own, session, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::detail::WEIGHT_OF_ONE;
use wire::session::{Header, PAGE, PASSING_OFFSET, PASSING_SEGMENT_BYTES};
use wire::windows::{PASSING_BYTES, leave, phase, used};

const _: () = assert!(PASSING_BYTES == engine::grants::BYTES);

/// Passing maps of all places that threads have.
pub const BYTES: u64 = (MAX_BANKS * SLOTS) as u64 * PASSING_BYTES;
const _: () = assert!(BYTES <= PASSING_SEGMENT_BYTES);

unsafe extern "C" {
    /// In `slow/windows.h`.
    fn tt_begin_windows();
    /// In `slow/returns.h`.
    fn tt_stop_waiting(thread: &mut ThreadState);
}

/// The phase of a recording without windows.
static ALWAYS: AtomicU32 = AtomicU32::new(phase::word(0, phase::COUNT));
/// Where this process's passing maps lie; 0 = there are no windows.
static PASSING: AtomicU64 = AtomicU64::new(0);

/// Address of the two bytes that code polls; 0 = there is no code without checks.
static LEAVE: AtomicU64 = AtomicU64::new(0);

/// Maps the first header's page to `at`, over what is there, for code to poll. Returns where the
/// bytes for code with checks and for code without are.
pub fn map_polled(at: u64) -> Option<[u64; 2]> {
    let shown = show_header(at);
    let bytes = at + core::mem::offset_of!(Header, leave) as u64;
    let of = |byte: usize| bytes + byte as u64;
    shown.then(|| [leave::CHECKED_BYTE, leave::LIGHT_BYTE].map(of))
}

/// Shows the first header's page at `at` once more, over what is there. Whether it is.
pub fn show_header(at: u64) -> bool {
    sys::map_again(core::ptr::from_ref(session::first()) as u64, at, PAGE).is_some()
}

/// There is code without checks, and code polls there.
pub fn begin_light(polled: [u64; 2]) {
    LEAVE.store(polled[0], Ordering::Relaxed);
}

/// Whether a thread that asks for code shall go on without checks.
pub fn is_light() -> bool {
    let at = LEAVE.load(Ordering::Relaxed);
    // SAFETY: mapped for good, and changed by the recorder only.
    let light = at != 0 && unsafe { core::ptr::read_volatile(at as *const u8) } != 0;
    if light {
        // SAFETY: only atomic accesses, here and in C.
        unsafe { AtomicU32::from_ptr(&raw mut tt_was_light) }.store(1, Ordering::Relaxed);
    }
    light
}

/// The calling thread goes on without checks, so it will not notice that it comes back to a line.
pub fn stop_waiting(page: u64) {
    // SAFETY: the calling thread's page.
    let thread = unsafe { own::current(page) };
    // SAFETY: the calling thread's own state, which nothing else refers to.
    unsafe { tt_stop_waiting(&mut thread.state) };
}

/// A thread may be about to lose its right to read the processor's clock. None begins without it:
/// the dynamic loader reads the clock, too.
pub fn forget_clock() {
    // SAFETY: only atomic accesses, here and in C.
    unsafe { AtomicU32::from_ptr(&raw mut tt_clock_forbidden) }.store(1, Ordering::Relaxed);
}

/// The processor's clock, in ticks; 0 if it may not be read.
pub fn clock() -> u64 {
    // SAFETY: only atomic accesses, here and in C.
    let forbidden = unsafe { AtomicU32::from_ptr(&raw mut tt_clock_forbidden) };
    if forbidden.load(Ordering::Relaxed) != 0 {
        return 0;
    }
    // SAFETY: it may be read.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Address of the byte that says whether threads may run the program's own code; 0 = they never
/// may.
pub fn may_go_byte() -> u64 {
    match LEAVE.load(Ordering::Relaxed) {
        0 => 0,
        checked => checked - leave::CHECKED_BYTE as u64 + leave::NATIVE_BYTE as u64,
    }
}

fn used() -> u32 {
    session::first().windows.load(Ordering::Relaxed)
}

/// Whether recording is to cost no more than a budget, so that threads may run natively.
pub fn have_budget() -> bool {
    are_used() && used() == used::BUDGET
}

/// Whether accesses are observed in windows only.
pub fn are_used() -> bool {
    PASSING.load(Ordering::Relaxed) != 0
}

/// Address of one of the process's passing maps.
pub fn passing_map(place: usize) -> u64 {
    PASSING.load(Ordering::Relaxed) + place as u64 * PASSING_BYTES
}

/// Whether `address` lies in them.
pub fn contains(address: u64) -> bool {
    let start = PASSING.load(Ordering::Relaxed);
    start != 0 && (start..start + BYTES).contains(&address)
}

/// Where the passing maps of a process are in the recording's file.
pub fn offset(segment: u32) -> u64 {
    PASSING_OFFSET + u64::from(segment) * PASSING_SEGMENT_BYTES
}

/// Maps the process's passing maps from the recording's file, if there are windows. `None` when
/// there is no room.
pub fn map(file: u64, segment: u32) -> Option<()> {
    const PROTECTION: u64 = sys::PROT_READ | sys::PROT_WRITE;
    const FLAGS: u64 = sys::MAP_SHARED | sys::MAP_NORESERVE;
    if session::first().windows.load(Ordering::Relaxed) != 0 {
        let at = sys::map_away(BYTES, PROTECTION, FLAGS, file as i64, offset(segment))?;
        sys::keep_out_of_dumps(at, BYTES);
        PASSING.store(at, Ordering::Relaxed);
    }
    Some(())
}

/// Tells the slow paths where the phase is. Before any of them runs, and in a child again: there is
/// nothing to forget.
pub fn begin() {
    static FOLLOWED: AtomicU32 = AtomicU32::new(0);
    static NO_LOOKS: AtomicU64 = AtomicU64::new(0);
    static EACH: [AtomicU32; 2] = [const { AtomicU32::new(WEIGHT_OF_ONE) }; 2];
    let first = session::first();
    let (phase, unfollowed, weights) = match are_used() {
        true => (&raw const first.phase, &raw const first.unfollowed, &raw const first.weights[0]),
        false => (&raw const ALWAYS, &raw const FOLLOWED, &raw const EACH[0]),
    };
    let looks = if are_used() { &raw const first.large_looks } else { &raw const NO_LOOKS };
    // SAFETY: no slow path runs yet.
    unsafe {
        (tt_phase, tt_unfollowed, tt_weights) = (phase, unfollowed, weights);
        tt_large_looks = looks.cast_mut();
        tt_writes_gs = sys::writes_gs().into();
        tt_begin_windows();
    }
}

//! Begins and ends of blocks.

use crate::pace::{Due, Thread};
use crate::queue::{self, Note};
use crate::session::{self, Session};
use crate::{groups, live};
use allocations::busy;
use allocations::chain::{self, Entry};
use core::sync::atomic::Ordering::Relaxed;
use wire::blocks::what;

/// CLOCK_MONOTONIC, ns.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs `action` in our code, if the thread is not there already and is followed. The program's
/// errno stays.
fn inside(action: impl FnOnce(&Thread, Session)) {
    let thread = Thread::here();
    if !busy::enter() {
        return;
    }
    if let Some(session) = session::get() {
        action(thread, session);
    }
    busy::leave();
}

/// A block that is due to be followed.
#[cold]
#[inline(never)]
pub fn begins(block: *mut u8, bytes: usize, by: u32, (entry, due): (Entry, Due)) {
    if block.is_null() {
        return;
    }
    inside(|thread, session| {
        let (time_ns, start) = (now_ns(), block as u64);
        if due == Due::Drawn && !queue::has_room(session) {
            session.segment.skipped.fetch_add(thread.pass_over(), Relaxed);
            return;
        }
        let stands_for = thread.pass(due, (bytes, entry.stack), time_ns);
        session.segment.skipped.fetch_add(stands_for - 1, Relaxed);
        let bytes = bytes.max(1) as u64;
        if !live::add(start) {
            session.segment.lost.fetch_add(1, Relaxed);
            return;
        }
        let frames = chain::of(entry);
        let (group, ordinal) = groups::count(session, &frames, bytes, by, stands_for);
        let (what, tid) = (what::BEGINS, thread.tid());
        let note = Note { time_ns, start, bytes, ordinal, what, group, tid };
        if !queue::put(session, &note) {
            live::take(start);
        }
    });
}

/// The block at an address that is followed is about to end.
#[cold]
#[inline(never)]
pub fn ends(block: *mut u8) {
    inside(|thread, session| {
        if live::take(block as u64) {
            put(session, thread, what::ENDS, block as u64, 0);
        }
    });
}

/// The same by `realloc`; false if it was not followed.
pub fn leaves(block: *mut u8) -> bool {
    let mut left = false;
    inside(|thread, session| {
        left = live::take(block as u64);
        if left {
            put(session, thread, what::LEAVES, block as u64, 0);
        }
    });
    left
}

/// `realloc` has taken the thread's block to an address; `bytes` is 0 where it has failed.
pub fn moved(block: *mut u8, bytes: usize) {
    inside(|thread, session| {
        let start = block as u64;
        if live::add(start) && !put(session, thread, what::MOVED, start, bytes as u64) {
            live::take(start);
        }
    });
}

fn put(session: Session, thread: &Thread, what: u32, start: u64, bytes: u64) -> bool {
    let (time_ns, tid) = (now_ns(), thread.tid());
    queue::put(session, &Note { time_ns, start, bytes, ordinal: 0, what, group: 0, tid })
}

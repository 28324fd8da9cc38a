//! Threads' slots, ids and stacks.

use super::*;
use crate::session::testing::recording;
use std::sync::MutexGuard;

/// A recording without threads in that mode.
fn begin(mode: u32) -> MutexGuard<'static, ()> {
    let held = recording(mode);
    let mut registry = REGISTRY.lock();
    registry.slots.clear();
    registry.free_stacks.clear();
    held
}

fn new() -> Box<Thread> {
    prepare(None, 0).unwrap()
}

/// The thread exits, and is not there any more.
fn end(mut thread: Box<Thread>) {
    thread.state.tid = NOBODY;
    thread.exit();
}

#[test]
fn threads_are_known_by_their_slots() {
    let _held = begin(mode::MATRIX);
    for k in 0..3u32 {
        let thread = prepare(k.checked_sub(1), 0x100).unwrap();
        assert_eq!((thread.state.id, thread.slot), (k.into(), Some((0, k as usize))));
        assert_eq!(thread.state.mask, 1 << k);
        assert_eq!(thread.state.own_word, u64::from(k + 1) << WRITER_SHIFT | 1 << k);
        let page = thread.shared();
        let parent = page.parent.load(Ordering::Relaxed);
        assert_eq!((parent, page.life.load(Ordering::Relaxed)), (k.wrapping_sub(1), life::ALIVE));
        // SAFETY: one test at a time.
        let owner = unsafe { tt_slot_owner[0][k as usize] };
        assert_eq!(owner, k);
    }
    assert_eq!(session::header().threads.load(Ordering::Relaxed), 3);
    drop(_held);
    let _held = begin(mode::UNDIRECTED);
    new();
    assert_eq!(new().state.own_word, 2, "undirected words hold nothing but the thread");
}

#[test]
fn a_thread_that_was_not_created_leaves_id_slot_and_stacks() {
    let _held = begin(mode::MATRIX);
    new();
    let thread = new();
    // Tables behind its stacks that are used again must be empty.
    // SAFETY: the thread's own table.
    unsafe { (*thread.state.cells).stamp = 5 };
    thread.abandon();
    assert_eq!(thread.shared().life.load(Ordering::Relaxed), life::UNUSED);
    let next = new();
    assert_eq!((next.state.id, next.slot, next.stacks), (1, Some((0, 1)), thread.stacks));
    // SAFETY: as above.
    assert_eq!(unsafe { (*next.state.cells).stamp }, 0);
}

#[test]
fn slots_of_threads_that_exit_are_taken_only_when_none_is_free() {
    let _held = begin(mode::UNDIRECTED);
    end(new());
    assert_eq!(new().slot, Some((0, 1)));
    for slot in 2..SLOTS {
        assert_eq!(new().slot, Some((0, slot)));
    }
    let next = new();
    assert_eq!((next.slot, next.state.id), (Some((0, 0)), SLOTS as u64));
}

#[test]
fn a_thread_exits_once() {
    let _held = begin(mode::MATRIX);
    let mut thread = new();
    let free = || REGISTRY.lock().free_stacks.iter().filter(|(tid, _)| *tid == 12_345_678).count();
    thread.state.tid = 12_345_678;
    for _ in 0..2 {
        thread.exit();
        assert_eq!((free(), thread.shared().life.load(Ordering::Relaxed)), (1, life::EXITED));
    }
    // A thread that left the code cache for good stays known as that.
    let thread = new();
    thread.shared().life.store(life::DETACHED, Ordering::Relaxed);
    thread.end();
    assert_eq!(thread.shared().life.load(Ordering::Relaxed), life::DETACHED);
    assert!(thread.shared().ended_ns.load(Ordering::Relaxed) > 0);
    REGISTRY.lock().free_stacks.retain(|(tid, _)| *tid != 12_345_678);
}

#[test]
fn without_an_id_no_slot_is_taken() {
    let _held = begin(mode::MATRIX);
    session::header().threads.store(MAX_THREADS as u32 - 1, Ordering::Relaxed);
    assert_eq!(new().state.id, MAX_THREADS as u64 - 1);
    assert!(prepare(None, 0).is_none());
    let free = |slot: &&Slot| **slot == Slot::Free;
    assert_eq!(REGISTRY.lock().slots[0].iter().filter(free).count(), SLOTS - 1);
}

#[test]
fn what_a_thread_has_of_its_own_does_not_overlap() {
    let _held = begin(mode::MATRIX);
    let thread = new();
    // SAFETY: the thread's page.
    let at = |offset| unsafe { field(thread.state.page, offset) };
    let (native, bytes) = thread.stack_for_native();
    let tables =
        [thread.state.cells as u64, thread.state.events as u64, thread.state.chains as u64];
    let parts = [
        (at(control::XSAVE), XSAVE_BYTES),
        (at(control::SIGNAL_STACK) - SIGNAL_STACK_BYTES, SIGNAL_STACK_BYTES),
        (at(control::STACK) - STACK_BYTES, STACK_BYTES),
        (native, bytes),
        (tables[0], CELLS_BYTES),
        (tables[1], EVENTS_BYTES),
        (tables[2], CHAINS_BYTES),
    ];
    for pair in parts.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{parts:x?}");
    }
    assert_eq!(parts[0].0, thread.stacks);
    assert!((parts[1].0..parts[2].0).contains(&(thread.frame_room() as u64)));
    // Stacks are aligned as functions want them, and xsave its room.
    assert!([at(control::SIGNAL_STACK), at(control::STACK)].iter().all(|at| at.is_multiple_of(16)));
    assert!(at(control::XSAVE).is_multiple_of(64));
    assert_eq!(at(control::THREAD), &raw const *thread as u64);
}

#[test]
fn the_record_of_a_process_that_is_gone_serves_the_next() {
    let _held = begin(mode::MATRIX);
    let sharer = || Box::leak(prepare_sharer().unwrap());
    let first = sharer();
    let (page, stacks) = (first.state.page, first.stacks);
    share(first, sys::tid());
    let second = sharer();
    assert_ne!(second.state.page, page, "the first one is still there");
    SHARERS.lock()[0].0 = NOBODY;
    let third = sharer();
    assert_eq!((third.state.page, third.stacks), (page, stacks));
    assert!(SHARERS.lock().is_empty());
}

#[test]
fn a_handler_finds_its_thread_outside_of_calls() {
    let _held = begin(mode::MATRIX);
    let thread = new();
    // SAFETY: within the session.
    let calls = unsafe { AtomicU32::from_ptr(session::calls(0) as *mut u32) };
    for (before, after) in [(7 << 8 | 1, 7 << 8), (6 << 8, 6 << 8)] {
        calls.store(before, Ordering::Relaxed);
        // SAFETY: the thread's page.
        unsafe { leave_call(thread.state.page) };
        assert_eq!(calls.load(Ordering::Relaxed), after);
    }
}

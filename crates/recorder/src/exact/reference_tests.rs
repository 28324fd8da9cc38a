//! Rings filled by threads of the test.

use super::*;
use std::sync::atomic::AtomicU64;
use types::CommKind;
use wire::session::SESSION_BYTES;

fn memory(segments: u64) -> SharedMemory {
    let bytes = (segments - 1) * SEGMENT_BYTES + SESSION_BYTES;
    SharedMemory::create("test", c"test", bytes).unwrap()
}

/// The agent's side of a ring.
struct Writer<'a> {
    header: Mapping<'a, Header>,
    records: Mapping<'a, Access>,
}

impl<'a> Writer<'a> {
    fn new(memory: &'a SharedMemory, segment: u64) -> Self {
        let start = segment * SEGMENT_BYTES;
        let records = memory.map(start + TRACE_OFFSET, RECORDS).unwrap();
        Self { header: memory.map(start, 1).unwrap(), records }
    }

    /// Takes a number and waits for room.
    fn reserve(&self) -> u64 {
        let header = &self.header.records()[0];
        let number = header.trace_head.fetch_add(1, Relaxed);
        while number >= header.trace_tail.load(Acquire) + RECORDS as u64 {
            std::thread::yield_now();
        }
        number
    }

    fn fill(&self, number: u64, thread: u32, what: u32, address: u64) {
        let record = &raw const self.records.records()[number as usize % RECORDS];
        // SAFETY: the record is ours until its turn is set.
        unsafe {
            let record = record.cast_mut();
            (&raw mut (*record).address).write_volatile(address);
            (&raw mut (*record).bytes).write_volatile(8);
            (*record).thread_and_what.store(thread | what << THREAD_BITS, Relaxed);
            (*record).turn.store(number + 1, Release);
        }
    }

    fn write(&self, thread: u32, what: u32, address: u64) {
        self.fill(self.reserve(), thread, what, address);
    }
}

/// Follows while `program` runs.
fn traced(memory: &SharedMemory, program: impl FnOnce()) -> Vec<Traced> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            follow(memory, SessionOptions::default(), &ended, Following::default()).unwrap()
        });
        program();
        ended.store(true, Release);
        follower.join().unwrap()
    })
}

fn raw(traced: &Traced, from: u32, to: u32) -> u64 {
    traced.replayed.matrix(CommKind::Raw).get(ThreadId(from), ThreadId(to))
}

#[test]
fn more_accesses_than_the_ring_holds_arrive_in_order() {
    let memory = memory(1);
    let rounds = RECORDS as u64;
    let result = traced(&memory, || {
        let writer = Writer::new(&memory, 0);
        for round in 0..rounds {
            writer.write(1, what::WRITE, round % 16 * 64);
            writer.write(2, what::READ, round % 16 * 64);
        }
    });
    assert_eq!(result.len(), 1);
    assert_eq!((result[0].replayed.accesses, result[0].missing), (2 * rounds, 0));
    assert_eq!((raw(&result[0], 1, 2), raw(&result[0], 2, 1)), (rounds, 0));
}

#[test]
fn threads_may_write_at_once() {
    let (memory, done) = (memory(1), AtomicU64::new(0));
    let result = traced(&memory, || {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (memory, done) = (&memory, &done);
                scope.spawn(move || {
                    let writer = Writer::new(memory, 0);
                    for k in 0..10_000 {
                        writer.write(thread, what::WRITE, u64::from(thread) * 64 + k % 8 * 8);
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
    });
    assert_eq!(result[0].replayed.accesses, done.into_inner());
    assert_eq!(result[0].replayed.cells.len(), 0, "each has lines of its own");
}

#[test]
fn what_a_killed_program_left_unfilled_is_skipped_and_counted() {
    let memory = memory(1);
    let result = traced(&memory, || {
        let writer = Writer::new(&memory, 0);
        writer.write(1, what::WRITE, 0);
        writer.reserve();
        writer.write(2, what::READ, 0);
        writer.reserve();
    });
    assert_eq!((result[0].replayed.accesses, result[0].missing), (2, 2));
    assert_eq!(raw(&result[0], 1, 2), 1);
}

#[test]
fn a_record_that_is_late_is_waited_for() {
    let memory = memory(1);
    let result = traced(&memory, || {
        let writer = Writer::new(&memory, 0);
        let late = writer.reserve();
        writer.write(2, what::READ, 0);
        std::thread::sleep(Duration::from_millis(50));
        writer.fill(late, 1, what::WRITE, 0);
    });
    assert_eq!((result[0].missing, raw(&result[0], 1, 2)), (0, 1));
}

#[test]
fn threads_that_end_at_execve_do_not_hold_up_the_next_program() {
    let memory = memory(1);
    let result = traced(&memory, || {
        let writer = Writer::new(&memory, 0);
        writer.reserve();
        writer.write(1, what::WRITE, 0);
        writer.reserve();
        writer.header.records()[0].execs.fetch_add(1, Relaxed);
        // More than the ring holds: without skipping, the program would wait for ever.
        for _ in 0..RECORDS {
            writer.write(2, what::READ, 0);
        }
    });
    assert_eq!((result[0].replayed.accesses, result[0].missing), (RECORDS as u64 + 1, 2));
    assert_eq!(raw(&result[0], 1, 2), 1);
}

#[test]
fn each_process_has_a_replay_of_its_own() {
    let memory = memory(2);
    let result = traced(&memory, || {
        let (parent, child) = (Writer::new(&memory, 0), Writer::new(&memory, 1));
        parent.write(1, what::WRITE, 0);
        parent.header.records()[0].segments.store(2, Relaxed);
        child.write(2, what::READ, 0);
        child.write(2, what::WRITE, 0);
        child.write(1, what::READ, 0);
    });
    assert_eq!(result.len(), 2);
    assert_eq!(result[0].replayed.cells.len(), 0);
    assert_eq!(raw(&result[1], 2, 1), 1);
}

#[test]
fn a_program_that_scribbles_on_the_ring_does_no_harm() {
    let memory = memory(1);
    let result = traced(&memory, || {
        let writer = Writer::new(&memory, 0);
        writer.write(1, 77, 0);
        let number = writer.reserve();
        let record = &raw const writer.records.records()[number as usize];
        // SAFETY: no thread reads the record before its turn is set.
        unsafe { (&raw mut (*record.cast_mut()).bytes).write_volatile(u64::MAX) };
        writer.records.records()[number as usize].turn.store(number + 1, Release);
        writer.header.records()[0].trace_head.store(u64::MAX, Relaxed);
    });
    assert_eq!((result[0].replayed.accesses, result[0].replayed.cells.len()), (0, 0));
    assert!(result[0].missing >= 2);
}

#[test]
fn an_idle_follower_rests() {
    let memory = memory(1);
    let cpu = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let ended = AtomicBool::new(false);
    let (used, idle) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            follow(&memory, SessionOptions::default(), &ended, Following::default()).unwrap();
            cpu()
        });
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(400));
        ended.store(true, Release);
        (follower.join().unwrap(), start.elapsed())
    });
    assert!(used < idle / 4, "{used:?} of {idle:?} used for nothing");
}

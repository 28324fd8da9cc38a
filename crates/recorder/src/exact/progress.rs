//! How far an exact recording is, while the program runs.
//!
//! One thread of ours, asleep most of the time: it rests at least a hundred times as long as a look
//! takes. Neighbours: `record` starts it, `counts` reads what has been counted so far.

use crate::counts::Counts;
use crate::error::RecorderError;
use crate::session::Session;
use crate::signals::block_signals;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use types::CommKind;
use wire::detail::CHUNK_BYTES;
use wire::session::{MAX_SEGMENTS, MAX_THREADS};

/// What a look costs at most: 1/`SHARE` of a processor.
const SHARE: u32 = 100;

/// What was seen of a recording, all its processes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Since the program was started.
    pub elapsed: Duration,
    /// Threads so far.
    pub threads: u32,
    /// Events by which threads are placed.
    pub events: u64,
    /// Memory that holds what was counted.
    pub bytes: u64,
}

/// Who wants to know.
pub struct Progress<'a> {
    /// Time between two looks.
    pub every: Duration,
    /// Called after each look.
    pub tell: &'a (dyn Fn(&Look) + Sync),
}

/// Looks until `over` is set and this thread is unparked.
pub(crate) fn follow(session: &Session, progress: &Progress<'_>, over: &AtomicBool) {
    block_signals();
    let start = Instant::now();
    let mut next = progress.every;
    while !over.load(Acquire) {
        let elapsed = start.elapsed();
        if elapsed < next {
            thread::park_timeout(next - elapsed);
            continue;
        }
        // Memory that cannot be read now may be later; the recording itself says what is wrong.
        if let Ok(look) = look(session, elapsed) {
            (progress.tell)(&look);
        }
        let took = start.elapsed() - elapsed;
        next = start.elapsed() + progress.every.max(took * SHARE);
    }
}

fn look(session: &Session, elapsed: Duration) -> Result<Look, RecorderError> {
    let mut look = Look { elapsed, ..Look::default() };
    let segments = session.header()?.records()[0].segments.load(Relaxed).clamp(1, MAX_SEGMENTS);
    for number in 0..segments {
        let segment = session.of_segment(number);
        let header = segment.header()?;
        let header = &header.records()[0];
        let threads = header.threads.load(Relaxed).min(MAX_THREADS as u32);
        look.threads += threads;
        look.bytes += u64::from(header.chunks.load(Relaxed)) * CHUNK_BYTES;
        let counts = Counts::read(&segment, threads as usize, 0)?;
        let counted = counts.comm.iter().filter(|row| row.kind != CommKind::Invalidation);
        look.events = counted.fold(look.events, |sum, row| sum.saturating_add(row.count));
    }
    Ok(look)
}

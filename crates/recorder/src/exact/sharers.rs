//! What the processes of a recording have said in the shadow of shared memory (`wire::shared`):
//! which threads have accessed such memory, and what had no room.

use crate::error::RecorderError;
use crate::session::Session;
use profile::Note;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use wire::shared::{self, Shared, Sharer};

impl Session {
    /// Segment, number of its program and thread of all threads of the recording that have accessed
    /// shared memory, by their numbers as sharers.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn sharers(&self) -> Result<Vec<[u32; 3]>, RecorderError> {
        // SAFETY: plain numbers.
        let shared = unsafe { self.first().read::<Shared>(shared::OFFSET) }?;
        let count = (shared.sharers.load(Relaxed) as usize).min(shared::MAX_SHARERS);
        let start = shared::OFFSET + shared::SHARERS_OFFSET;
        let sharer = |number: usize| {
            let at = start + (number * size_of::<Sharer>()) as u64;
            // SAFETY: as above.
            let sharer = unsafe { self.first().read::<Sharer>(at) }?;
            Ok([sharer.segment, sharer.execs, sharer.thread].map(AtomicU32::into_inner))
        };
        (0..count).map(sharer).collect()
    }

    /// What had no room in the shadow of shared memory.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn shared_notes(&self) -> Result<Vec<Note>, RecorderError> {
        // SAFETY: plain numbers.
        let shared = unsafe { self.first().read::<Shared>(shared::OFFSET) }?;
        let (parts, reads) = (&shared.extents_refused, &shared.reads_forgotten);
        let notes = [
            (parts.load(Relaxed), (|count| Note::SharedMemoryBeyond { count }) as fn(u64) -> Note),
            (reads.load(Relaxed), |count| Note::ReadsForgotten { count }),
        ];
        let notes = notes.into_iter().filter(|(count, _)| *count > 0);
        Ok(notes.map(|(count, note)| note(count)).collect())
    }

    /// The process that was started.
    fn first(&self) -> Self {
        self.of_segment(0)
    }
}

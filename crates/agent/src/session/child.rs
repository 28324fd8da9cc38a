//! The segment of a child that shares its parent's memory and runs natively: only its header is
//! mapped.
//!
//! Neighbour: [`session`](super) has the segments of processes that are recorded.

use super::{
    Place, READ_WRITE, SHARED, close, give_back, introduce, offset_of_segment, segment,
    take_segment, write_command,
};
use crate::sys;
use core::sync::atomic::Ordering;
use wire::session::{self, Header, state};

/// The segment of a child that shares this process's memory and executes a program that cannot be
/// recorded: its header alone, mapped to say so.
pub struct Child {
    header: *mut Header,
    segment: u32,
}

impl Child {
    pub fn new(place: &Place<'_>) -> Option<Self> {
        let fd = place.open()?;
        let segment = take_segment();
        let map = |k| {
            // SAFETY: a new mapping at a place that the kernel chooses.
            unsafe {
                sys::map(0, session::PAGE, READ_WRITE, SHARED, fd as i64, offset_of_segment(k))
            }
        };
        let mapped = segment.and_then(map);
        close(fd);
        match (segment, mapped) {
            (Some(segment), Some(at)) => Some(Child { header: at as *mut Header, segment }),
            (Some(segment), None) => {
                give_back(segment);
                None
            }
            _ => None,
        }
    }

    /// Describes the process.
    ///
    /// # Safety
    pub fn runs_natively(&self, words: u64, reason: u32) {
        // SAFETY: mapped by `new`, and nothing else uses it.
        unsafe {
            let new = &*self.header;
            introduce(new, self.segment, segment());
            new.pid.store(sys::pid(), Ordering::Relaxed);
            new.failure.store(reason, Ordering::Relaxed);
            new.state.store(state::NATIVE, Ordering::Relaxed);
            write_command(self.header, words);
        }
    }

    /// The program was not executed after all.
    pub fn forget(self) {
        // SAFETY: as above.
        unsafe {
            core::ptr::write_bytes(self.header, 0, 1);
            sys::unmap(self.header as u64, session::PAGE, SHARED);
        }
        give_back(self.segment);
    }
}

//! Maps of grants for unit tests.

use super::{LIVE, OWNERS, START, map, reserved};
use crate::layouts::tt_granted;
use crate::sys;
use core::sync::atomic::Ordering;

/// Threads have maps, as long as this lives. Only while there is a
/// [recording](crate::session::testing::recording).
pub struct Maps(u64);

pub fn maps() -> Maps {
    map().unwrap();
    Maps(reserved())
}

impl Drop for Maps {
    fn drop(&mut self) {
        OWNERS.iter().for_each(|owner| owner.store(0, Ordering::Relaxed));
        LIVE.iter().for_each(|live| live.store(false, Ordering::Relaxed));
        // SAFETY: mapped by `maps`; no thread has a part of it.
        unsafe {
            sys::unmap(START.swap(0, Ordering::Relaxed), self.0, sys::MAP_PRIVATE);
            tt_granted = [[0; _]; _];
        }
    }
}

//! Where the shadow of shared memory is mapped.

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::session::mode;
use wire::shared::{BYTES, OFFSET};

/// Address of the shadow; 0 = the mode has none.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Maps the shadow from the recording's file, in modes that count. `None` when there is no room.
pub fn map(file: u64, mode: u32) -> Option<()> {
    const PROTECTION: u64 = sys::PROT_READ | sys::PROT_WRITE;
    const FLAGS: u64 = sys::MAP_SHARED | sys::MAP_NORESERVE;
    if mode != mode::TRANSLATE {
        let at = sys::map_above(BYTES, PROTECTION, FLAGS, file as i64, OFFSET)?;
        sys::keep_out_of_dumps(at, BYTES);
        BASE.store(at, Ordering::Relaxed);
    }
    Some(())
}

/// Its address; 0 = there is none.
pub fn base() -> u64 {
    BASE.load(Ordering::Relaxed)
}

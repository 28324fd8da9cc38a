//! Invariants of footprints: they name threads that are there, hold no row twice, and do not shrink
//! as gaps get longer.

use crate::{FootprintRow, Profile};

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    let rows = &profile.footprints;
    for &FootprintRow { thread, windows, .. } in rows {
        if thread.index() >= profile.threads.len() || windows == 0 {
            return Err(format!("the footprint of {thread} is of no window"));
        }
    }
    let wrong = |pair: &&[FootprintRow]| {
        let shrinks = pair[0].thread == pair[1].thread && pair[0].bytes > pair[1].bytes;
        shrinks || pair[0].key() >= pair[1].key()
    };
    match rows.windows(2).find(wrong) {
        Some(pair) => Err(format!("footprints of {} are out of order", pair[1].thread)),
        None => Ok(()),
    }
}

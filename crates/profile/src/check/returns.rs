//! Invariants of returns: they name threads that are there, and hold no row twice.

use crate::{Profile, ReturnRow};

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    let (rows, threads) = (&profile.returns, profile.threads.len());
    for &ReturnRow { line, thread, instructions, returns, writes } in rows {
        let is_none = line == 0 || instructions == 0 || writes > returns;
        if thread.index() >= threads || is_none {
            return Err(format!("the returns of {thread} to line {line:#x} are none"));
        }
    }
    match rows.windows(2).find(|pair| pair[0].key() >= pair[1].key()) {
        Some(pair) => Err(format!("returns to line {:#x} are out of order", pair[1].line)),
        None => Ok(()),
    }
}

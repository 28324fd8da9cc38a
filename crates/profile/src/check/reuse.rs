//! Invariants of gaps and returns: they name threads and objects that are there, and hold no row
//! twice.

use crate::{GapRow, Profile, ReturnRow};

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    let (tables, threads) = (&profile.reuse, profile.threads.len());
    for GapRow { line, object, from, to, count, .. } in &tables.gaps {
        let known = from.index().max(to.index()) < threads && from != to;
        if !known || *object as usize >= profile.objects.len() || *count == 0 {
            return Err(format!("the gaps on line {line:#x} do not agree with other tables"));
        }
    }
    for ReturnRow { line, thread, returns, away, .. } in &tables.returns {
        if thread.index() >= threads || *line == 0 || returns + away == 0 {
            return Err(format!("the returns of {thread} to line {line:#x} are none"));
        }
    }
    let gaps = tables.gaps.windows(2).find(|pair| pair[0].key() >= pair[1].key());
    let returns = tables.returns.windows(2).find(|pair| pair[0].key() >= pair[1].key());
    match gaps.map(|pair| pair[1].line).or(returns.map(|pair| pair[1].line)) {
        Some(line) => Err(format!("gaps or returns of line {line:#x} are out of order")),
        None => Ok(()),
    }
}

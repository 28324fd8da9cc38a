//! Invariants of a profile: what every saved and every loaded one satisfies.
//!
//! The first violation is returned as a phrase that names the thread or the total at fault.
//! Neighbour: `folder` runs this on the way in and on the way out.

use crate::{CommRow, Profile, ThreadRow, Totals};
use types::CommKind;

/// Checks all invariants: dense ordered ids, parents before children, events only between known
/// and different threads, ordered without repetition, totals that agree, sane parameters.
pub(crate) fn check(profile: &Profile) -> Result<(), String> {
    check_meta(profile)?;
    check_threads(&profile.threads)?;
    check_comm(&profile.comm, profile.threads.len())?;
    check_totals(profile)
}

fn check_meta(profile: &Profile) -> Result<(), String> {
    let meta = &profile.meta;
    if !meta.parameters.block_bytes.is_power_of_two() {
        return Err(format!(
            "the block size {} is not a power of two",
            meta.parameters.block_bytes
        ));
    }
    for (what, seconds) in [("wall", meta.wall_seconds), ("CPU", meta.cpu_seconds)] {
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(format!("the {what} time {seconds} is not a duration"));
        }
    }
    Ok(())
}

fn check_threads(threads: &[ThreadRow]) -> Result<(), String> {
    for (index, thread) in threads.iter().enumerate() {
        if thread.id.index() != index {
            return Err(format!("{} stands where T{index} should", thread.id));
        }
        match thread.identity.parent {
            Some(parent) if parent.index() >= index => {
                return Err(format!("{} is older than its parent {parent}", thread.id));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_comm(comm: &[CommRow], threads: usize) -> Result<(), String> {
    for row in comm {
        if row.from.index() >= threads || row.to.index() >= threads {
            return Err(format!("events {} to {} but {threads} threads", row.from, row.to));
        }
        if row.from == row.to {
            return Err(format!("{} talks to itself", row.from));
        }
        if row.count == 0 {
            return Err(format!("an empty row {} to {}", row.from, row.to));
        }
    }
    for pair in comm.windows(2) {
        let key = |row: &CommRow| (row.kind, row.from, row.to);
        if key(&pair[0]) >= key(&pair[1]) {
            return Err(format!("events {} to {} out of order", pair[1].from, pair[1].to));
        }
    }
    Ok(())
}

fn check_totals(profile: &Profile) -> Result<(), String> {
    let (told, found) = (&profile.meta.totals, Totals::of(&profile.threads, &profile.comm));
    let pairs = [
        ("threads", told.threads, found.threads),
        ("loads", told.loads, found.loads),
        ("stores", told.stores, found.stores),
        (CommKind::Raw.name(), told.raw, found.raw),
        (CommKind::Waw.name(), told.waw, found.waw),
        (CommKind::Invalidation.name(), told.invalidation, found.invalidation),
    ];
    match pairs.iter().find(|(_, told, found)| told != found) {
        Some((what, told, found)) => {
            Err(format!("the total of {what} is given as {told} but the tables hold {found}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use types::ThreadId;

    fn reason(change: impl FnOnce(&mut Profile)) -> String {
        let mut profile = sample();
        change(&mut profile);
        check(&profile).unwrap_err()
    }

    #[test]
    fn the_sample_is_sound() {
        assert_eq!(check(&sample()), Ok(()));
    }

    #[test]
    fn every_invariant_is_checked() {
        let cases: [(String, &str); 9] = [
            (reason(|p| p.threads[1].id = ThreadId(2)), "T2 stands where T1 should"),
            (
                reason(|p| p.threads[1].identity.parent = Some(ThreadId(1))),
                "T1 is older than its parent T1",
            ),
            (reason(|p| p.comm[0].to = ThreadId(3)), "events T0 to T3 but 3 threads"),
            (reason(|p| p.comm[0].to = ThreadId(0)), "T0 talks to itself"),
            (reason(|p| p.comm[0].count = 0), "an empty row T0 to T1"),
            (reason(|p| p.comm.swap(0, 1)), "events T0 to T1 out of order"),
            (
                reason(|p| p.meta.totals.loads += 1),
                "the total of loads is given as 601 but the tables hold 600",
            ),
            (
                reason(|p| p.meta.parameters.block_bytes = 48),
                "the block size 48 is not a power of two",
            ),
            (reason(|p| p.meta.wall_seconds = f64::NAN), "the wall time NaN is not a duration"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}

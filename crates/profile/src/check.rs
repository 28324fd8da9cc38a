//! Invariants of a profile: what every saved and every loaded one satisfies.
//!
//! The first violation is returned as a phrase that names the thread or the total at fault.
//! Neighbours: `folder` runs this on the way in and on the way out; `detail` checks sites, lines
//! and events, `pages` the tables of pages.

mod detail;
mod footprints;
mod pages;
mod returns;

use crate::{
    ActivityRow, CommRow, Mode, OwnTime, Profile, RunningRow, SliceRow, Slowed, ThreadRow, Totals,
};
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Checks all invariants: dense ordered ids, parents before children, events only between known
/// and different threads, tables ordered without repetition, sums that agree, sane parameters.
pub(crate) fn check(profile: &Profile) -> Result<(), String> {
    check_meta(profile)?;
    check_threads(&profile.threads)?;
    check_slices(&profile.slices)?;
    check_activity(profile)?;
    check_running(profile)?;
    check_comm(&profile.comm, profile.threads.len(), profile.slices.len())?;
    check_estimates(profile)?;
    detail::check(profile)?;
    pages::check(profile)?;
    returns::check(profile)?;
    footprints::check(profile)?;
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
    match meta.own_time {
        Some(OwnTime { seconds, low, high })
            if !(0.0 <= low && low <= seconds && seconds <= high && high.is_finite()) =>
        {
            return Err(format!(
                "the program's own time {seconds} is not between {low} and {high}"
            ));
        }
        _ => {}
    }
    match meta.slowed {
        Some(Slowed { share, low, high, .. })
            if !(0.0 <= low && low <= share && share <= high && high <= 1.0) =>
        {
            Err(format!(
                "the share {share} that running at once takes is not between {low} and {high}"
            ))
        }
        _ => Ok(()),
    }
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

fn check_slices(slices: &[SliceRow]) -> Result<(), String> {
    if slices.is_empty() {
        return Err("there is no time slice".into());
    }
    let mut time = 0;
    for (slice, row) in slices.iter().enumerate() {
        if row.start_ns < time || row.end_ns < row.start_ns {
            return Err(format!("slice {slice} begins or ends before what comes before it"));
        }
        time = row.end_ns;
    }
    Ok(())
}

fn check_activity(profile: &Profile) -> Result<(), String> {
    let mut sums = vec![[0u64; 3]; profile.threads.len()];
    let mut last = None;
    for row in &profile.activity {
        let ActivityRow { slice, thread, instructions, loads, stores } = *row;
        check_slice(slice, profile.slices.len())?;
        let sum = sums
            .get_mut(thread.index())
            .ok_or_else(|| format!("activity of {thread} but {} threads", profile.threads.len()))?;
        if last >= Some((slice, thread)) {
            return Err(format!("the activity of {thread} in slice {slice} is out of order"));
        }
        last = Some((slice, thread));
        for (sum, value) in sum.iter_mut().zip([instructions, loads, stores]) {
            *sum = sum.wrapping_add(value);
        }
    }
    for (thread, sum) in profile.threads.iter().zip(&sums) {
        if *sum != [thread.instructions, thread.loads, thread.stores] {
            return Err(format!("the activity of {} does not add up to its totals", thread.id));
        }
    }
    Ok(())
}

fn check_running(profile: &Profile) -> Result<(), String> {
    for row in &profile.running {
        check_slice(row.slice, profile.slices.len())?;
        if row.thread.index() >= profile.threads.len() {
            let threads = profile.threads.len();
            return Err(format!("{} ran but there are {threads} threads", row.thread));
        }
    }
    match profile.running.windows(2).find(|pair| pair[0].key() >= pair[1].key()) {
        Some([_, RunningRow { slice, thread, .. }]) => {
            Err(format!("where {thread} ran in slice {slice} is out of order"))
        }
        _ => Ok(()),
    }
}

fn check_slice(slice: u32, slices: usize) -> Result<(), String> {
    if slice as usize >= slices {
        return Err(format!("slice {slice} is used but there are {slices} slices"));
    }
    Ok(())
}

/// An event between threads `from` and `to`, of which there are `threads`.
fn check_pair(
    kind: CommKind,
    from: ThreadId,
    to: ThreadId,
    count: u64,
    threads: usize,
) -> Result<(), String> {
    if from.index() >= threads || to.index() >= threads {
        return Err(format!("events {from} to {to} but {threads} threads"));
    }
    if from == to {
        return Err(format!("{from} talks to itself"));
    }
    if kind == CommKind::Undirected && from > to {
        return Err(format!("the undirected events of {from} and {to} are given as from {from}"));
    }
    if count == 0 {
        return Err(format!("an empty row {from} to {to}"));
    }
    Ok(())
}

fn check_comm(comm: &[CommRow], threads: usize, slices: usize) -> Result<(), String> {
    for row in comm {
        check_pair(row.kind, row.from, row.to, row.count, threads)?;
        check_slice(row.slice, slices)?;
    }
    match comm.windows(2).find(|pair| pair[0].key() >= pair[1].key()) {
        Some(pair) => Err(format!("events {} to {} out of order", pair[1].from, pair[1].to)),
        None => Ok(()),
    }
}

/// Estimates say what they rest on, and only those.
fn check_estimates(profile: &Profile) -> Result<(), String> {
    let mode = profile.meta.mode;
    if profile.meta.sampled.is_some() != (mode == Mode::Sampled) {
        return Err("its mode and what it says about sampling do not agree".into());
    }
    if profile.meta.windows.is_some() != (mode == Mode::Windows) {
        return Err("its mode and what it says about windows do not agree".into());
    }
    let estimated = mode != Mode::Exact;
    for CommRow { from, to, count, sampled, .. } in &profile.comm {
        match sampled {
            None if estimated => {
                return Err(format!("events {from} to {to} without a sample"));
            }
            Some(_) if !estimated => {
                return Err(format!("events {from} to {to} are estimates in an exact profile"));
            }
            Some(s) if s.hits == 0 || s.low > *count || s.high < *count => {
                return Err(format!("events {from} to {to} lie outside of their interval"));
            }
            _ => {}
        }
    }
    let of_comm = profile.comm.iter().map(|row| (row.from, row.to, row.evidence, row.sharing));
    let of_events = profile.events.iter().map(|e| (e.from, e.to, e.evidence, e.sharing));
    of_comm.chain(of_events).try_for_each(|row| check_evidence(row, mode))?;
    match profile.events.iter().find(|event| (event.hits > 0) != estimated) {
        Some(event) => Err(format!("events on line {:#x} with {} hits", event.line, event.hits)),
        None => Ok(()),
    }
}

/// The evidence for a row of events is one that the mode has; and where bytes were not seen, nor
/// was the sharing.
fn check_evidence(
    (from, to, evidence, sharing): (ThreadId, ThreadId, Evidence, Sharing),
    mode: Mode,
) -> Result<(), String> {
    let name = evidence.name();
    let (of_mode, called) = match mode {
        Mode::Exact => (&[Evidence::Exact][..], "an exact profile"),
        Mode::Sampled => (&[Evidence::Sampled, Evidence::Inferred][..], "a sampled profile"),
        Mode::Windows => (&[Evidence::Window][..], "a profile of windows"),
    };
    if !of_mode.contains(&evidence) {
        return Err(format!("events {from} to {to} are called {name} in {called}"));
    }
    if !evidence.knows_bytes() && sharing != Sharing::Any {
        let sharing = sharing.name();
        return Err(format!("events {from} to {to} are {name}, and their sharing is {sharing}"));
    }
    Ok(())
}

fn check_totals(profile: &Profile) -> Result<(), String> {
    let (told, found) = (&profile.meta.totals, Totals::of(&profile.threads, &profile.comm));
    let pairs = [
        ("threads", told.threads, found.threads),
        ("instructions", told.instructions, found.instructions),
        ("loads", told.loads, found.loads),
        ("stores", told.stores, found.stores),
        (CommKind::Raw.name(), told.raw, found.raw),
        (CommKind::Waw.name(), told.waw, found.waw),
        (CommKind::Invalidation.name(), told.invalidation, found.invalidation),
        (CommKind::Undirected.name(), told.undirected, found.undirected),
        ("raw_true", told.raw_true, found.raw_true),
        ("raw_false", told.raw_false, found.raw_false),
        ("waw_true", told.waw_true, found.waw_true),
        ("waw_false", told.waw_false, found.waw_false),
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
    use crate::model::tests::{sample, sampled};

    pub(super) fn reason(change: impl FnOnce(&mut Profile)) -> String {
        let mut profile = sample();
        change(&mut profile);
        check(&profile).unwrap_err()
    }

    #[test]
    fn the_sample_is_sound() {
        assert_eq!(check(&sample()), Ok(()));
    }

    #[test]
    fn estimates_are_checked() {
        assert_eq!(check(&sampled()), Ok(()));
        let reason = |change: fn(&mut Profile)| {
            let mut profile = sampled();
            change(&mut profile);
            check(&profile).unwrap_err()
        };
        let cases = [
            (reason(|p| p.comm[1].sampled = None), "events T0 to T1 without a sample"),
            (
                reason(|p| p.comm[1].sampled.as_mut().unwrap().low = 7),
                "events T0 to T1 lie outside of their interval",
            ),
            (
                reason(|p| p.comm[1].sampled.as_mut().unwrap().hits = 0),
                "events T0 to T1 lie outside of their interval",
            ),
            (reason(|p| p.events[0].hits = 0), "events on line 0x0 with 0 hits"),
            (
                reason(|p| p.comm[0].evidence = Evidence::Exact),
                "events T0 to T1 are called exact in a sampled profile",
            ),
            (
                reason(|p| p.comm[0].evidence = Evidence::Inferred),
                "events T0 to T1 are inferred, and their sharing is true",
            ),
            (
                reason(|p| p.events[3].evidence = Evidence::Inferred),
                "events T1 to T2 are inferred, and their sharing is false",
            ),
            (
                reason(|p| p.meta.mode = Mode::Exact),
                "its mode and what it says about sampling do not agree",
            ),
            (
                reason(|p| {
                    p.meta.mode = Mode::Exact;
                    p.meta.sampled = None;
                }),
                "events T0 to T1 are estimates in an exact profile",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_invariant_is_checked() {
        let cases: [(String, &str); 22] = [
            (reason(|p| p.threads[1].id = ThreadId(2)), "T2 stands where T1 should"),
            (
                reason(|p| p.threads[1].identity.parent = Some(ThreadId(1))),
                "T1 is older than its parent T1",
            ),
            (reason(|p| p.comm[0].to = ThreadId(3)), "events T0 to T3 but 3 threads"),
            (reason(|p| p.comm[0].to = ThreadId(0)), "T0 talks to itself"),
            (reason(|p| p.comm[0].count = 0), "an empty row T0 to T1"),
            (reason(|p| p.comm.swap(0, 1)), "events T0 to T1 out of order"),
            (reason(|p| p.comm[0].slice = 2), "slice 2 is used but there are 2 slices"),
            (
                reason(|p| p.comm[6].to = ThreadId(0)),
                "the undirected events of T1 and T0 are given as from T1",
            ),
            (reason(|p| p.slices.clear()), "there is no time slice"),
            (
                reason(|p| p.slices[1].start_ns = 5),
                "slice 1 begins or ends before what comes before it",
            ),
            (reason(|p| p.activity[0].slice = 9), "slice 9 is used but there are 2 slices"),
            (reason(|p| p.activity[0].thread = ThreadId(3)), "activity of T3 but 3 threads"),
            (reason(|p| p.running.swap(2, 3)), "where T0 ran in slice 1 is out of order"),
            (reason(|p| p.running[3].thread = ThreadId(3)), "T3 ran but there are 3 threads"),
            (
                reason(|p| p.meta.own_time = Some(OwnTime { seconds: 2.0, low: 3.0, high: 4.0 })),
                "the program's own time 2 is not between 3 and 4",
            ),
            (
                reason(|p| {
                    p.meta.slowed =
                        Some(Slowed { share: 0.2, low: 0.3, high: 0.4, natively: false })
                }),
                "the share 0.2 that running at once takes is not between 0.3 and 0.4",
            ),
            (reason(|p| p.activity.swap(0, 1)), "the activity of T0 in slice 0 is out of order"),
            (
                reason(|p| p.activity[3].stores += 1),
                "the activity of T1 does not add up to its totals",
            ),
            (
                reason(|p| p.meta.totals.loads += 1),
                "the total of loads is given as 601 but the tables hold 600",
            ),
            (
                reason(|p| p.meta.totals.raw_false = 0),
                "the total of raw_false is given as 0 but the tables hold 6",
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

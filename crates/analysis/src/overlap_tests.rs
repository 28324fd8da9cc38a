//! Schedules that are known moment by moment, seen only as a recorder does, against the truth.

use super::*;
use profile::{SliceRow, sample};

const MS: u64 = 1_000_000;
const SLICE_MS: u64 = 10;

/// What a thread does in a millisecond.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Runs(u32),
    /// Waits for a processor.
    Waits(u32),
    Sleeps,
}
use Does::{Runs, Sleeps, Waits};

/// A profile of what `does` says of threads at each millisecond, and for how many of these at least
/// two wanted to run, and did.
fn seen(threads: u32, length_ms: u64, does: impl Fn(u32, u64) -> Does) -> (Profile, [f64; 2]) {
    let talk: Vec<_> = (1..threads).map(|to| (0, to, 9)).collect();
    let mut profile = sample::profile(sample::threads(threads), sample::raw(&talk));
    let slices = length_ms / SLICE_MS;
    profile.slices = (0..slices)
        .map(|n| SliceRow { start_ns: n * SLICE_MS * MS, end_ns: (n + 1) * SLICE_MS * MS })
        .collect();
    let mut rows: BTreeMap<(u32, ThreadId, u32), (u64, u64)> = BTreeMap::new();
    let mut truth = [0_u32; 2];
    for ms in 0..length_ms {
        let all: Vec<Does> = (0..threads).map(|thread| does(thread, ms)).collect();
        for (thread, now) in all.iter().enumerate() {
            let (pu, ran, waited) = match *now {
                Runs(pu) => (pu, MS, 0),
                Waits(pu) => (pu, 0, MS),
                Sleeps => continue,
            };
            let key = ((ms / SLICE_MS) as u32, ThreadId(thread as u32), pu);
            let sum = rows.entry(key).or_default();
            (sum.0, sum.1) = (sum.0 + ran, sum.1 + waited);
        }
        let count = |is: fn(&Does) -> bool| all.iter().filter(|now| is(now)).count();
        truth[0] += u32::from(count(|now| *now != Sleeps) > 1);
        truth[1] += u32::from(count(|now| matches!(now, Runs(_))) > 1);
    }
    let row = |((slice, thread, pu), (cpu_ns, waited_ns))| RunningRow {
        slice,
        thread,
        pu,
        cpu_ns,
        waited_ns,
    };
    profile.running = rows.into_iter().map(row).collect();
    (profile, truth.map(|ms| f64::from(ms) / 1e3))
}

fn of(profile: &Profile) -> Overlap {
    let talk = profile.matrix(types::CommKind::Raw);
    Overlap::of(profile, &talk, &[(ThreadId(0), ThreadId(1))]).unwrap()
}

fn near(found: f64, truth: f64) {
    assert!((found - truth).abs() < 1e-6, "{found} instead of {truth}");
}

#[test]
fn two_threads_on_a_processor_each_run_at_once() {
    let (profile, truth) = seen(2, 1000, |thread, _| Runs(thread));
    let found = of(&profile);
    near(found.all.wanted, truth[0]);
    near(found.all.ran, truth[1]);
    assert_eq!((found.all.share(), found.pairs[0].share()), (Some(1.0), Some(1.0)));
    near(found.seconds, 1.0);
}

#[test]
fn two_threads_on_one_processor_never_do_whatever_their_turns() {
    for turn in [1, 4, 17, 60] {
        let does = |thread: u32, ms: u64| match (ms / turn) % 2 == u64::from(thread) {
            true => Runs(0),
            false => Waits(0),
        };
        let (profile, truth) = seen(2, 1200, does);
        assert_eq!(truth, [1.2, 0.0]);
        let found = of(&profile);
        assert!(found.all.wanted > 1.19 && found.all.share().unwrap() < 0.01, "{turn}: {found:?}");
        assert!(found.pairs[0].share().unwrap() < 0.01, "{turn}: {found:?}");
    }
}

/// Threads move to the processor they share a moment after they begin.
#[test]
fn a_processor_used_for_a_moment_runs_nothing_beside_the_other_for_longer() {
    let does = |thread: u32, ms: u64| match (ms < 3, (ms / 4) % 2 == u64::from(thread)) {
        (true, _) => Runs(thread),
        (false, true) => Runs(0),
        (false, false) => Waits(0),
    };
    let (profile, truth) = seen(2, 1200, does);
    assert_eq!(truth, [1.2, 0.003]);
    let found = of(&profile);
    assert!(found.all.ran <= 0.003 + 1e-9, "{found:?}");
}

/// Threads that hand over and block do not want to run at once, on one processor or two.
#[test]
fn taking_turns_is_no_lack_of_processors() {
    for pus in [1, 2] {
        let does = |thread: u32, ms: u64| match ms % 2 == u64::from(thread) {
            true => Runs(thread % pus),
            false => Sleeps,
        };
        let found = of(&seen(2, 1000, does).0);
        assert_eq!((found.all.wanted, found.all.share()), (0.0, None), "{pus}");
        near(found.seconds, 1.0);
    }
}

/// Other programs take three quarters of either processor, at moments of their own.
#[test]
fn on_a_loaded_machine_threads_run_at_once_as_chance_has_it() {
    let does = |thread: u32, ms: u64| {
        let turn = if thread == 0 { ms / 4 } else { ms / 16 };
        if turn % 4 == 0 { Runs(thread) } else { Waits(thread) }
    };
    let (profile, truth) = seen(2, 1600, does);
    let found = of(&profile);
    near(found.all.wanted, truth[0]);
    assert!((found.all.ran - truth[1]).abs() < 0.02, "{found:?}, {truth:?}");
    assert!((found.pairs[0].ran - truth[1]).abs() < 0.02, "{found:?}, {truth:?}");
}

/// Two of eight threads run at any moment: some two do at once, a certain pair seldom.
#[test]
fn many_threads_on_two_processors_overlap_but_not_each_pair() {
    let does = |thread: u32, ms: u64| match ms / 2 % 4 == u64::from(thread / 2) {
        true => Runs(thread % 2),
        false => Waits(thread % 2),
    };
    let (profile, truth) = seen(8, 1600, does);
    let found = of(&profile);
    near(found.all.wanted, truth[0]);
    assert!(found.all.share().unwrap() > 0.95, "{found:?}");
    let pair = found.pairs[0].share().unwrap();
    assert!(pair < 0.3, "{pair}");
}

#[test]
fn threads_that_move_between_processors_are_bounded_by_their_times() {
    // Both always run, and change places every 20 ms.
    let does = |thread: u32, ms: u64| Runs((thread + (ms / 20) as u32) % 2);
    let found = of(&seen(2, 1000, does).0);
    assert_eq!(found.pairs[0].share(), Some(1.0));
}

#[test]
fn one_after_the_other_wants_nothing() {
    let does = |thread: u32, ms: u64| if (ms < 500) == (thread == 0) { Runs(0) } else { Sleeps };
    let found = of(&seen(2, 1000, does).0);
    assert_eq!(found.all.share(), None);
}

#[test]
fn threads_that_do_not_communicate_do_not_count() {
    let (mut profile, _) = seen(3, 500, |thread, _| Runs(thread));
    profile.comm.retain(|row| row.to == ThreadId(1));
    profile.running.retain(|row| row.thread != ThreadId(1));
    assert_eq!(of(&profile).all.share(), None);
}

#[test]
fn where_threads_ran_may_be_unknown() {
    let profile = sample::profile(sample::threads(2), sample::raw(&[(0, 1, 5)]));
    let talk = profile.matrix(types::CommKind::Raw);
    assert_eq!(Overlap::of(&profile, &talk, &[]), None);
}

use super::*;
use crate::ThreadWork;

/// Periods of 100 units of time with a counting part of 10; work of each thread in the period and
/// in the part.
fn windows(work: &[&[(u64, u64)]]) -> Vec<Window> {
    let window = |(at, work): (usize, &&[(u64, u64)])| Window {
        start: at as u64 * 100,
        open: at as u64 * 100 + 5,
        count: at as u64 * 100 + 15,
        close: at as u64 * 100 + 25,
        end: at as u64 * 100 + 100,
        work: (0..)
            .zip(*work)
            .map(|(thread, &(period, counted))| ThreadWork {
                thread: ThreadId(thread),
                period,
                warmed: counted,
                counted,
            })
            .collect(),
    };
    work.iter().enumerate().map(window).collect()
}

fn factors(windows: &[Window]) -> Vec<f64> {
    let scale = Scale::new(windows, Clock::Instructions).unwrap();
    scale.strata.iter().map(|stratum| stratum.factor).collect()
}

#[test]
fn each_period_has_the_factor_of_its_own_work() {
    let mut work: Vec<&[(u64, u64)]> = vec![&[(100, 10)]; MIN_WINDOWS];
    work[3] = &[(100, 20)];
    let factors = factors(&windows(&work));
    assert_eq!((factors.len(), factors[2], factors[3]), (MIN_WINDOWS, 10.0, 5.0));
}

/// The counting part of one lies in code that executes little in as much time.
#[test]
fn windows_longer_than_phases_count_by_all_that_they_see() {
    let mut windows = windows(&vec![&[(100, 10)][..]; MIN_WINDOWS]);
    (windows[3].work[0].warmed, windows[3].work[0].counted) = (19, 1);
    let factors = factors(&windows);
    assert!(factors.iter().all(|factor| (factor / factors[0] - 1.0).abs() < 1e-9), "{factors:?}");
    let counted = 10.0 * (MIN_WINDOWS - 1) as f64 + 1.0;
    assert!((factors[0] * counted - 100.0 * MIN_WINDOWS as f64).abs() < 1e-6, "all work");
}

#[test]
fn a_window_without_work_joins_its_neighbour() {
    let mut work: Vec<&[(u64, u64)]> = vec![&[(100, 10)]; MIN_WINDOWS + 2];
    work[3] = &[(100, 0)];
    // And at the end, where there is no next one.
    work[MIN_WINDOWS + 1] = &[(50, 0)];
    let windows = windows(&work);
    let scale = Scale::new(&windows, Clock::Instructions).unwrap();
    assert_eq!(scale.strata(), MIN_WINDOWS);
    assert_eq!((scale.stratum(3), scale.stratum(4), scale.stratum(5)), (Some(3), Some(3), Some(4)));
    assert_eq!((scale.strata[3].factor, scale.strata[19].factor), (20.0, 15.0));
    assert_eq!(scale.stratum(MIN_WINDOWS + 1), Some(19));
}

#[test]
fn a_window_that_saw_hardly_any_work_does_too() {
    let mut work: Vec<&[(u64, u64)]> = vec![&[(1000, 100)]; MIN_WINDOWS + 1];
    work[7] = &[(1000, 1)];
    assert_eq!(factors(&windows(&work))[7], 2000.0 / 101.0);
}

#[test]
fn what_cannot_be_used_is_set_aside_and_its_work_is_not_lost() {
    let mut windows = windows(&vec![&[(100, 10)][..]; MIN_WINDOWS + 2]);
    windows[4].close = windows[4].count;
    windows[6].start = 0;
    let scale = Scale::new(&windows, Clock::Instructions).unwrap();
    assert_eq!((scale.strata(), scale.stratum(4), scale.stratum(6)), (MIN_WINDOWS, None, None));
    assert_eq!((scale.work, scale.strata[4].factor), (2200.0, 20.0));
    let why: Vec<(usize, BadWindow)> = scale.set_aside().collect();
    assert_eq!(why, [(4, BadWindow::Times), (6, BadWindow::Overlap)]);
}

#[test]
fn few_windows_and_a_program_that_did_nothing_are_too_short() {
    let few = windows(&vec![&[(100, 10)][..]; MIN_WINDOWS - 1]);
    let short = Scale::new(&few, Clock::Instructions).unwrap_err();
    assert_eq!(short, TooShort { windows: MIN_WINDOWS - 1 });
    assert_eq!(short.to_string(), "too short: 19 usable windows, and amounts need at least 20");
    let asleep = windows(&vec![&[(0, 0)][..]; 100]);
    assert_eq!(Scale::new(&asleep, Clock::Instructions).unwrap_err(), TooShort { windows: 0 });
    assert_eq!(Scale::new(&[], Clock::Instructions).unwrap_err(), TooShort { windows: 0 });
}

/// Windows follow each other closely at the start of a run, where what they count stands for
/// little.
#[test]
fn a_few_windows_stand_for_their_own_periods_too() {
    let few = windows(&[&[(20, 10)][..], &[(30, 10)], &[(1000, 10)], &[(1000, 20)]]);
    assert_eq!(crate::factors(&few), [2.0, 3.0, 100.0, 50.0]);
    let mut set_aside = few.clone();
    set_aside[2].close = set_aside[2].count;
    assert_eq!(crate::factors(&set_aside), [2.0, 3.0, 0.0, 100.0]);
}

#[test]
fn paces_make_the_work_of_each_thread_add_up() {
    // In windows, thread 1 does half as much of its work as thread 0.
    let windows = windows(&vec![&[(100, 20), (100, 10), (0, 0)][..]; 40]);
    let scale = Scale::new(&windows, Clock::Instructions).unwrap();
    let pace = |thread| scale.pace(ThreadId(thread));
    assert!((pace(0).unwrap() - 0.75).abs() < 1e-12 && (pace(1).unwrap() - 1.5).abs() < 1e-12);
    assert_eq!((pace(2), pace(9)), (None, None));
}

/// By chance windows saw a thread too often, and another, which did as much, too rarely for a pace.
#[test]
fn work_adds_up_where_a_thread_has_no_pace() {
    let period = |at: usize| -> &[(u64, u64)] {
        if at < MIN_WINDOWS - 1 { &[(100, 10), (100, 10)] } else { &[(100, 20), (100, 0)] }
    };
    let periods: Vec<_> = (0..3 * MIN_WINDOWS).map(period).collect();
    let windows = windows(&periods);
    let scale = Scale::new(&windows, Clock::Instructions).unwrap();
    assert_eq!(scale.pace(ThreadId(1)), None);
    let scaled = |at: usize| {
        let pace = |thread| scale.pace(ThreadId(thread)).unwrap_or(1.0);
        let counted = windows[at].work.iter().map(|work| pace(work.thread.0) * work.counted as f64);
        scale.factor(at).unwrap() * counted.sum::<f64>()
    };
    let all: f64 = (0..windows.len()).map(scaled).sum();
    assert!((all / scale.work - 1.0).abs() < 1e-9, "{all} of {}", scale.work);
}

#[test]
fn windows_shorter_than_what_came_later_are_set_aside() {
    let of = |work: u64| {
        let (short, long) = ([(work, 10)], [(100, 10)]);
        let mut windows = windows(&[[&short[..]; MIN_WINDOWS], [&long[..]; MIN_WINDOWS]].concat());
        for (at, window) in windows.iter_mut().enumerate() {
            // The first half short, then long ones that differ a little.
            window.open = window.count - if at < MIN_WINDOWS { 4 } else { 9 + at as u64 % 2 };
        }
        windows
    };
    let mut windows = of(20);
    // Events of each window, of the short ones and the others.
    let kept = |windows: &[Window], seen: [u64; 2]| {
        let events = [vec![seen[0]; MIN_WINDOWS], vec![seen[1]; MIN_WINDOWS]].concat();
        long_enough(windows.to_vec(), &events[..windows.len()])
    };
    let faults = |windows: &[Window], seen: [u64; 2]| {
        kept(windows, seen).iter().filter(|window| window.check().is_err()).count()
    };
    assert_eq!(faults(&windows, [5, 10]), MIN_WINDOWS);
    assert!(kept(&windows, [5, 10])[..MIN_WINDOWS].iter().all(|w| w.check().is_err()));
    assert_eq!(faults(&windows, [9, 10]), 0, "hardly anything is missed");
    windows.pop();
    assert_eq!(faults(&windows, [5, 10]), 0, "too few would be left");
    assert_eq!(faults(&of(100), [5, 10]), 0, "nothing else tells of half of the work");
}

#[test]
fn what_was_seen_of_a_period_stands_for_its_work() {
    let windows = windows(&[&[(1000, 10)][..]; 6]);
    // Hardly anything was seen of one, which joins the next.
    let mut seen = vec![Some(100.0); 6];
    (seen[2], seen[3]) = (Some(10.0), Some(150.0));
    assert_eq!(factors_of_seen(&windows, &seen), [10.0, 10.0, 12.5, 12.5, 10.0, 10.0]);
    // One that tells nothing is like its neighbours.
    seen[2] = None;
    (seen[3], seen[5]) = (Some(200.0), None);
    assert_eq!(factors_of_seen(&windows, &seen), [10.0, 10.0, 0.0, 10.0, 20.0, 0.0]);
    // Much more is seen at first than later.
    let seen: Vec<_> = [1000.0, 1000.0, 10.0, 10.0, 10.0, 10.0].map(Some).into();
    assert_eq!(factors_of_seen(&windows, &seen)[1..3], [1.0, 100.0]);
    assert_eq!(factors_of_seen(&windows, &[None; 6]), [0.0; 6]);
    // Windows that counted no work.
    let idle: [&[(u64, u64)]; 2] = [&[(1000, 0)]; 2];
    assert_eq!(factors_of_seen(&self::windows(&idle), &[Some(0.0); 2]), [0.0; 2]);
}

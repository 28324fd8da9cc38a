use super::*;
use crate::Random;

const MILLISECOND: u64 = 1_000_000;

/// Windows over a program whose events have gaps of up to `longest`: of those with a longer gap
/// than the warm-up so far, a window sees none. `unwritten`: reads of constant data, per
/// millisecond.
fn after(windows: usize, longest: u64, unwritten: u64, queue: RunQueue) -> Chooser {
    let mut chooser = Chooser::default();
    let mut random = Random::new(7);
    for _ in 0..windows {
        let Lengths { warm_up, counting } = chooser.lengths();
        let seen_at = |since_open: u64| (since_open.min(longest) as f64) / longest as f64;
        let half = counting / 2;
        let rate = 1000.0 * half as f64 / MILLISECOND as f64;
        let noise = 0.9 + random.up_to(200) as f64 / 1000.0;
        let events = |from| (rate * noise * seen_at(from + half / 2)) as u64;
        let (early, late) = (events(warm_up), events(warm_up + half));
        let missed = (2.0 * rate) as u64 - early.min((2.0 * rate) as u64) / 2 * 2;
        let seen = Seen {
            transfers: early + late,
            far: 0,
            early: (early, half),
            late: (late, half),
            unwritten: missed / 4 + unwritten * counting / MILLISECOND,
        };
        chooser.add(&seen, queue);
    }
    chooser
}

/// Of a chooser whose windows have become long enough to be judged.
fn grown() -> Chooser {
    let mut chooser = Chooser::default();
    while chooser.lengths().warm_up < MIN_WARM_UP {
        chooser.add(&Seen::default(), RunQueue::default());
    }
    chooser
}

#[test]
fn nothing_is_concluded_from_the_first_windows() {
    let mut chooser = Chooser::default();
    // They see more events late than early, and all of what longer ones see.
    let (early, late) = ((1000, 500), (2000, 500));
    let seen = Seen { early, late, transfers: 3000, far: 0, unwritten: 5000 };
    let mut windows = 0;
    while chooser.lengths().warm_up < MIN_WARM_UP {
        assert_eq!(chooser.wanted(), MIN_WARM_UP);
        chooser.add(&seen, RunQueue::default());
        windows += 1;
    }
    // As many as a short run needs; opening more of them would cost much for little.
    assert!(windows == WANTED_WINDOWS && chooser.tried.is_empty(), "{windows}: {chooser:?}");
    assert_eq!(chooser.lengths().warm_up, MIN_WARM_UP);
}

#[test]
fn short_gaps_keep_windows_short() {
    let chooser = after(200, 2 * MILLISECOND, 0, RunQueue::default());
    assert_eq!(chooser.lengths(), Lengths { warm_up: MIN_WARM_UP, counting: MIN_WARM_UP });
}

#[test]
fn long_gaps_lengthen_them() {
    let chooser = after(200, 80 * MILLISECOND, 0, RunQueue::default());
    assert!((80..=160).contains(&(chooser.wanted() / MILLISECOND)), "{chooser:?}");
}

#[test]
fn constant_data_is_found_not_to_be_missed() {
    let chooser = after(400, 2 * MILLISECOND, 1000, RunQueue::default());
    assert_eq!(chooser.wanted(), MIN_WARM_UP);
    assert!(chooser.tried.contains_key(&(4 * MIN_WARM_UP)), "longer ones were tried");
}

#[test]
fn a_window_is_never_more_than_a_twentieth_of_their_time() {
    let mut spent = 0;
    for windows in 1..250 {
        let chooser = after(windows, 1000 * MILLISECOND, 0, RunQueue::default());
        spent += chooser.lengths().whole();
        let whole = chooser.lengths().whole();
        let least = whole <= 2 * MIN_WARM_UP;
        assert!(least || whole * 20 <= spent, "{windows}: {whole} of {spent}");
    }
}

#[test]
fn the_warm_up_spans_two_rotations() {
    let queue = RunQueue { runnable: 8, cpus: 2, slice: 4 * MILLISECOND };
    assert_eq!(queue.rotation(), 16 * MILLISECOND);
    assert_eq!(after(200, 2 * MILLISECOND, 0, queue).lengths().warm_up, 32 * MILLISECOND);
    assert_eq!(RunQueue { runnable: 2, ..queue }.rotation(), 0);
    assert_eq!(RunQueue { runnable: 1, cpus: 0, slice: 1 }.rotation(), 0);
    let many = RunQueue { runnable: 1 << 20, cpus: 1, slice: u64::MAX / 2 };
    assert_eq!(after(1, 1, 0, many).wanted(), MAX_WARM_UP);
}

#[test]
fn more_events_late_than_early_lengthen_it_however_small_the_bound() {
    let after = |late| {
        let mut chooser = grown();
        for window in 0..WINDOWS_TO_JUDGE as u64 {
            let noise = 10 * (window % 3);
            let (early, late) = ((1000 + noise, 500), (late - noise, 500));
            let transfers = early.0 + late.0;
            let seen = Seen { early, late, transfers, far: 0, unwritten: 1 };
            chooser.add(&seen, RunQueue::default());
        }
        chooser.wanted()
    };
    assert_eq!(after(1200), 2 * MIN_WARM_UP);
    assert_eq!(after(1030), MIN_WARM_UP, "not worth it");
    assert_eq!(after(800), MIN_WARM_UP);
}

/// Late events are of a sample of lines; a longer window sees them on all.
#[test]
fn much_that_is_late_lengthens_it() {
    let after = |far| {
        let mut chooser = grown();
        for window in 0..WINDOWS_TO_JUDGE as u64 {
            let half = (1000 + 10 * (window % 3), 500);
            let transfers = 2000 + far;
            let seen = Seen { early: half, late: half, transfers, far, unwritten: 0 };
            chooser.add(&seen, RunQueue::default());
        }
        chooser.wanted()
    };
    assert_eq!(after(2000), 2 * MIN_WARM_UP);
    assert_eq!(after(20), MIN_WARM_UP);
}

use super::*;
use crate::{Random, ThreadWork, Window};

const FROM: ThreadId = ThreadId(0);
const TO: ThreadId = ThreadId(1);

/// `number` periods, in which both threads did `share` of their work in the counting part.
fn scale(number: u64, share: f64, clock: Clock) -> Scale {
    let counted = (1000.0 * share) as u64;
    let work = [FROM, TO].map(|thread| ThreadWork {
        thread,
        period: 1000,
        warmed: counted.min(1000 - counted),
        counted,
    });
    let window = |at: u64| Window {
        start: at * 100,
        open: at * 100 + 10,
        count: at * 100 + 20,
        close: at * 100 + 30,
        end: at * 100 + 100,
        work: work.to_vec(),
    };
    Scale::new(&(0..number).map(window).collect::<Vec<_>>(), clock).unwrap()
}

fn cell(counts: &[u64]) -> Vec<Counted> {
    let counted = counts.iter().enumerate();
    counted
        .map(|(window, &count)| Counted { window, from: FROM, to: TO, count, part: Part::Whole })
        .collect()
}

#[test]
fn one_event_stands_for_up_to_six_times_what_it_is_scaled_to() {
    let estimate = scale(100, 0.05, Clock::Instructions).estimate(cell(&[0, 0, 1]), 0);
    assert_eq!((estimate.events, estimate.low, estimate.counted), (20, 1, 1));
    assert!((108..=125).contains(&estimate.high), "{estimate:?}");
}

#[test]
fn a_burst_is_one_cluster_and_not_many_events() {
    let estimate = scale(100, 0.05, Clock::Instructions).estimate(cell(&[0, 0, 500]), 0);
    assert_eq!((estimate.events, estimate.counted), (10_000, 500));
    assert!(estimate.low < 1000 && estimate.high > 50_000, "{estimate:?}");
    assert!((9_000.0..11_000.0).contains(&estimate.cluster), "{estimate:?}");
}

#[test]
fn regular_events_have_a_narrow_interval() {
    let estimate = scale(100, 0.05, Clock::Instructions).estimate(cell(&[1000; 100]), 7);
    assert_eq!((estimate.events, estimate.counted), (2_000_007, 100_007));
    assert!(estimate.low > 1_980_000 && estimate.high < 2_020_000, "{estimate:?}");
    // A few that came regularly prove no clockwork.
    let few = scale(100, 0.05, Clock::Instructions).estimate(cell(&[1; 25]), 0);
    assert!(few.low < 350 && few.high > 700, "{few:?}");
}

#[test]
fn nothing_seen_is_at_most_a_few_clusters() {
    let scale = scale(100, 0.05, Clock::Instructions);
    let estimate = scale.estimate([], 3);
    assert_eq!((estimate.events, estimate.low, estimate.high), (3, 3, 77));
    assert_eq!(unseen(&scale, &mut [100.0, 1000.0, 20.0]), 369);
}

#[test]
fn what_was_recorded_whole_is_exact() {
    let scale = scale(100, 1.0, Clock::Instructions);
    let estimate = scale.estimate(cell(&[3; 100]), 10);
    assert_eq!((estimate.events, estimate.low, estimate.high), (310, 310, 310));
}

#[test]
fn processor_time_that_windows_stretch_leaves_the_upper_end_open() {
    let exact = scale(100, 0.05, Clock::Instructions).estimate(cell(&[50; 100]), 0);
    let stretched = scale(100, 0.05, Clock::CpuTime { slower: 1.5 }).estimate(cell(&[50; 100]), 0);
    assert_eq!((stretched.events, stretched.low), (exact.events, exact.low));
    assert_eq!(stretched.high as f64, (exact.high as f64 * 1.5).round());
}

#[test]
fn the_interval_of_a_sum_is_not_the_sum_of_intervals() {
    let scale = scale(100, 0.05, Clock::Instructions);
    let even: Vec<u64> = (0..100).map(|at| 200 * (at % 2)).collect();
    let odd: Vec<u64> = (0..100).map(|at| 200 * ((at + 1) % 2)).collect();
    let of = |counts: &[u64]| scale.estimate(cell(counts), 0);
    let both = scale.estimate(cell(&even).into_iter().chain(cell(&odd)), 0);
    let width = |estimate: Estimate| estimate.high - estimate.low;
    assert_eq!(both.events, of(&even).events + of(&odd).events);
    assert!(width(both) * 4 < width(of(&even)), "{both:?} {:?}", of(&even));
}

#[test]
fn a_window_that_was_set_aside_does_not_count() {
    let scale = scale(100, 0.05, Clock::Instructions);
    let beyond = Counted { window: 100, from: FROM, to: TO, count: 5, part: Part::Whole };
    assert_eq!(scale.estimate([beyond], 0).counted, 0);
}

#[test]
fn threads_without_a_pace_of_their_own_have_that_of_all() {
    let counted =
        Counted { window: 0, from: ThreadId(8), to: ThreadId(9), count: 5, part: Part::Whole };
    assert_eq!(scale(100, 0.05, Clock::Instructions).estimate([counted], 0).events, 100);
}

/// Lines have events at known rates; one of 64 is looked at. Intervals hold in as many runs as they
/// say, also if a line's events come in many windows.
#[test]
fn intervals_hold_for_a_sample_of_lines() {
    const OF: u64 = 64;
    let scale = scale(100, 0.2, Clock::Instructions);
    for (lines, events) in [(6400, 3), (1280, 50)] {
        let (mut held, mut mean, runs) = (0, 0.0, 400);
        let mut random = Random::new(7);
        for _ in 0..runs {
            let sample = (0..lines).filter(|_| random.up_to(OF - 1) == 0).count() as u64;
            let mut counts = vec![0; 100];
            let mut with = 0;
            for _ in 0..sample {
                let windows: Vec<usize> = (0..events).map(|_| random.up_to(499) as usize).collect();
                let seen: Vec<usize> = windows.into_iter().filter(|at| *at < 100).collect();
                with += u64::from(!seen.is_empty());
                seen.into_iter().for_each(|at| counts[at] += 1);
            }
            let together = counts.iter().sum::<u64>().div_ceil(with.max(1));
            let part = Part::Lines { of: OF as f64, together };
            let counted = counts.iter().enumerate();
            let counted =
                counted.map(|(window, &count)| Counted { window, from: FROM, to: TO, count, part });
            let estimate = scale.estimate(counted, 0);
            let truth = lines * events;
            held += u32::from((estimate.low..=estimate.high).contains(&truth));
            mean += estimate.events as f64 / truth as f64 / f64::from(runs);
        }
        let share = f64::from(held) / f64::from(runs);
        assert!(share >= 0.92, "{lines} lines with {events} events: {share} of the intervals hold");
        assert!((0.95..1.05).contains(&mean), "{lines} lines: {mean} of the truth");
    }
}

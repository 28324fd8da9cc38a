use super::*;
use crate::hits::Hits;
use crate::{Hit, Side};
use types::{CommKind, Evidence, Sharing, ThreadId};

fn sum(weights: &[f64]) -> Sum {
    let mut hits = Hits::default();
    let side = |thread| Side { thread: ThreadId(thread), site: 0, bytes: 1 };
    for &weight in weights {
        let (kind, sharing) = (CommKind::Raw, Sharing::True);
        let (from, to, array) = (side(0), side(1), false);
        let evidence = Evidence::Sampled;
        let hit = Hit {
            time_ns: 0,
            block: 64,
            kind,
            sharing,
            from,
            to,
            weight,
            array,
            evidence,
            object: 0,
        };
        hits.add(0, &hit);
    }
    hits.cells.into_values().next().unwrap()
}

#[test]
fn events_are_weights_times_the_factor() {
    let mut estimator = Estimator::new(1e6, 1e6);
    let estimate = estimator.estimate(&sum(&[1e6; 10]), 1e-2);
    assert_eq!(estimate, Estimate { events: 100_000, low: 47_953, high: 183_904 });
    // Different weights: wider than with equal ones.
    let mixed = Estimator::new(6e6, 6e6).estimate(&sum(&[1e6, 1e6, 1e6, 1e6, 6e6]), 1e-2);
    let equal = Estimator::new(2e6, 2e6).estimate(&sum(&[2e6; 5]), 1e-2);
    assert_eq!(mixed.events, equal.events);
    assert!(mixed.low < equal.low && mixed.high > equal.high, "{mixed:?} {equal:?}");
}

/// Weights are nanoseconds, and hardly ever quite the same.
#[test]
fn weights_that_hardly_differ_have_the_interval_of_equal_ones() {
    for hits in [1, 2, 10, 49, 50, 96, 104, 136, 140, 150, 159, 160, 161, 200, 1000, 200_000] {
        let weights: Vec<f64> = (0..hits).map(|k| 728_500.0 + (k % 7) as f64).collect();
        let found = Estimator::new(728_507.0, 728_507.0).estimate(&sum(&weights), 1e-2);
        let (low, high) = poisson(hits);
        for (found, exact) in [(found.low, low * 7285.0), (found.high, high * 7285.0)] {
            let error = (found as f64 - exact).abs() / exact.max(7285.0);
            assert!(error < 1e-3, "{hits} hits: {found} instead of {exact}");
        }
    }
}

/// It happened; how often it did where no sample looked is not known.
#[test]
fn what_happened_once_is_one_event_and_may_be_as_many_as_a_sample_stands_for() {
    let mut estimator = Estimator::new(1e4, 2e4);
    let estimate = estimator.estimate(&sum(&[0.0]), 1e-2);
    // 5.572 × 200.
    assert_eq!(estimate, Estimate { events: 1, low: 1, high: 1115 });
    let estimate = estimator.estimate(&sum(&[0.0, 0.0]), 1e-2);
    assert_eq!(estimate, Estimate { events: 2, low: 2, high: 1445 });
    let estimate = estimator.estimate(&sum(&[0.0, 1e4]), 1e-2);
    assert_eq!(estimate, Estimate { events: 101, low: 3, high: 1672 });
    // Less than one event is still one that was seen.
    let estimate = estimator.estimate(&sum(&[1.0]), 1e-9);
    assert_eq!(estimate, Estimate { events: 1, low: 0, high: 1 });
}

/// Poisson numbers of hits, by Knuth's method: the interval holds the truth in 95 % of the cases or
/// more.
#[test]
fn intervals_cover_the_truth() {
    let mut random = fastrand::Rng::with_seed(7);
    for mean in [1.5f64, 4.0, 20.0, 150.0] {
        let mut covered = [0; 2];
        const RUNS: usize = 3000;
        for _ in 0..RUNS {
            let mut drawn = Vec::new();
            let mut time = -random.f64().max(f64::MIN_POSITIVE).ln();
            while time < mean {
                // Weights 1 or 3: on average 2.
                drawn.push(if random.bool() { 1.0 } else { 3.0 });
                time -= random.f64().max(f64::MIN_POSITIVE).ln();
            }
            if drawn.is_empty() {
                // No hits, no cell: nothing is claimed.
                covered[0] += 1;
                covered[1] += 1;
                continue;
            }
            let holds = |e: Estimate, truth: f64| {
                (e.low as f64..=e.high as f64).contains(&(truth * 1000.0))
            };
            let equal = Estimator::new(1.0, 1.0).estimate(&sum(&vec![1.0; drawn.len()]), 1000.0);
            let mixed = Estimator::new(3.0, 3.0).estimate(&sum(&drawn), 1000.0);
            covered[0] += usize::from(holds(equal, mean));
            covered[1] += usize::from(holds(mixed, 2.0 * mean));
        }
        for covered in covered {
            let part = covered as f64 / RUNS as f64;
            assert!(part >= 0.94, "mean {mean}: {part}");
        }
    }
}

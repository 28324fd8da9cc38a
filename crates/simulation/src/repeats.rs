//! How far time and energy depend on how threads happen to interleave.
//!
//! A plan is simulated several times. All interleavings but the first one add a small random time
//! to whatever comes from outside a core's caches, so that threads meet each other in another
//! order, as in repeated runs of a real machine (Alameldeen, Wood: Variability in architectural
//! simulations of multi-threaded workloads, HPCA 2003, section 4). Neighbours: `run.rs` repeats,
//! `system.rs` adds the times.

use crate::sets::mix;
use statistics::student;

/// Most that is added or taken away, ns: from 0 to 4 ns in that paper, whose mean is none here.
const MAX_JITTER_NS: f64 = 2.0;

/// Random times.
#[derive(Clone, Debug)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    /// Of one interleaving; the first one (0) has none.
    pub fn new(interleaving: u32) -> Option<Self> {
        (interleaving > 0).then_some(Self { state: u64::from(interleaving) << 32 })
    }

    /// The next one, ns.
    pub fn next_ns(&mut self) -> f64 {
        self.state = self.state.wrapping_add(1);
        let part = mix(self.state) as f64 / u64::MAX as f64;
        MAX_JITTER_NS * (2.0 * part - 1.0)
    }
}

/// A mean, with half the width of its interval at 95 %.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width.
    pub half: f64,
}

impl Interval {
    /// Of at least two samples, by Student's t.
    pub fn of(samples: &[f64]) -> Self {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let half = student(n - 1.0) * (squares / (n - 1.0) / n).sqrt();
        Self { mean, half }
    }
}

/// What several interleavings came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// How many.
    pub interleavings: u32,
    /// Simulated time of the longest thread, ns.
    pub time_ns: Interval,
    /// Energy, J.
    pub joules: Interval,
}

impl Spread {
    /// Of times (ns) and energies (J) of a plan's interleavings; `None` for a single one.
    pub fn of(times: &[f64], energies: &[f64]) -> Option<Self> {
        (times.len() > 1).then(|| Self {
            interleavings: times.len() as u32,
            time_ns: Interval::of(times),
            joules: Interval::of(energies),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_student_s() {
        let found = Interval::of(&[1.0, 2.0, 3.0]);
        assert_eq!(found.mean, 2.0);
        // t(2) = 4.303; the standard error is 1 / √3.
        assert!((found.half - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(Interval::of(&[5.0; 4]), Interval { mean: 5.0, half: 0.0 });
    }

    #[test]
    fn random_times_are_small_differ_and_have_no_mean() {
        let draw = |interleaving| -> Vec<f64> {
            let mut jitter = Jitter::new(interleaving).unwrap();
            (0..10_000).map(|_| jitter.next_ns()).collect()
        };
        let (one, two) = (draw(1), draw(2));
        assert!(one.iter().chain(&two).all(|ns| ns.abs() <= MAX_JITTER_NS));
        assert!(one.iter().zip(&two).filter(|(a, b)| a == b).count() < 10);
        assert!((one.iter().sum::<f64>() / 10_000.0).abs() < 0.05);
        assert!(Jitter::new(0).is_none());
    }
}

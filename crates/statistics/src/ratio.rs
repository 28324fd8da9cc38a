//! The mean of ratios, with an interval that holds at whatever moment one looks.
//!
//! Problem: runs are compared in pairs until the result is clear, and an interval that is meant for
//! a fixed number of pairs, looked at after each, is wrong far more often than it says. Approach: a
//! confidence sequence. For the mean of logarithms of ratios with an unknown variance, the Bayes
//! factor of a t-test with a normal prior on the effect (mean / standard deviation) has an
//! expectation of at most 1 under the null hypothesis whenever one stops, so that it exceeds 1 / α
//! at any time with a probability of at most α (Ville's inequality). Means for which it does not
//! are the interval. Two priors, for effects of about the noise and for far larger ones, are
//! averaged.
//!
//! Sources: Gönen, Johnson, Lu and Westfall, "The Bayesian two-sample t test" (2005), for the
//! factor; Pérez-Ortiz, Lardy, de Heide and Grünwald, "E-statistics, group invariance and
//! anytime-valid testing" (2024), for stopping at any time. Assumed are normal logarithms; what
//! real run times do is measured by `make bench-tune`. Neighbour: `race` compares several.

/// Variances of the priors on the effect.
const PRIORS: [f64; 2] = [1.0, 100.0];
/// Halvings until the interval's end is exact enough.
const STEPS: usize = 60;

/// A ratio with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// The geometric mean.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
}

/// Ratios so far, as the mean and spread of their logarithms (Welford, 1962).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ratios {
    count: usize,
    mean: f64,
    squares: f64,
}

impl Ratios {
    /// One more ratio; one that is not a positive number is left out.
    pub fn add(&mut self, ratio: f64) {
        let log = ratio.ln();
        if !log.is_finite() {
            return;
        }
        self.count += 1;
        let from_mean = log - self.mean;
        self.mean += from_mean / self.count as f64;
        self.squares += from_mean * (log - self.mean);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The geometric mean with an interval that contains the true one at all times, with a
    /// probability of 1 - `alpha`. From 0 to infinity while too few are known.
    pub fn interval(&self, alpha: f64) -> Ratio {
        let half = self.largest_t(alpha) * self.standard_error();
        // Equal ratios have no spread, and an infinite multiple of none is not a number.
        let half = if half.is_nan() { f64::INFINITY } else { half };
        let (low, high) = ((self.mean - half).exp(), (self.mean + half).exp());
        Ratio { estimate: self.mean.exp(), low, high }
    }

    fn standard_error(&self) -> f64 {
        let n = self.count as f64;
        (self.squares / ((n - 1.0) * n)).sqrt()
    }

    /// The largest t statistic that does not speak against a mean.
    fn largest_t(&self, alpha: f64) -> f64 {
        let limit = -alpha.ln();
        let (mut low, mut high) = (0.0_f64, 1e6_f64);
        if self.count < 2 || self.log_evidence(high) < limit {
            return f64::INFINITY;
        }
        for _ in 0..STEPS {
            let middle = (low + high) / 2.0;
            match self.log_evidence(middle) < limit {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }

    /// Logarithm of the Bayes factor against a mean with this t statistic.
    fn log_evidence(&self, t: f64) -> f64 {
        let (n, freedom) = (self.count as f64, self.count as f64 - 1.0);
        let x = t * t / freedom;
        let of_prior = |variance: &f64| {
            let a = 1.0 + n * variance;
            ((1.0 + x) / (1.0 + x / a)).ln() * n / 2.0 - a.ln() / 2.0
        };
        let logs: Vec<f64> = PRIORS.iter().map(of_prior).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = logs.iter().map(|log| (log - most).exp()).sum::<f64>() / logs.len() as f64;
        most + mean.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratios: &[f64]) -> Ratios {
        let mut all = Ratios::default();
        ratios.iter().for_each(|ratio| all.add(*ratio));
        all
    }

    #[test]
    fn nothing_is_known_from_one_or_two() {
        for few in [&[][..], &[0.5], &[0.5, 0.6], &[0.5, 0.0, f64::NAN]] {
            let Ratio { low, high, .. } = of(few).interval(0.05);
            assert_eq!((low, high), (0.0, f64::INFINITY), "{few:?}");
        }
        assert_eq!(of(&[0.25, 0.0, 1.0]).count(), 2);
    }

    #[test]
    fn the_mean_is_geometric_and_the_evidence_the_published_formula() {
        let ratios = of(&[0.5, 2.0, 0.5, 2.0]);
        assert!((ratios.interval(0.05).estimate - 1.0).abs() < 1e-12);
        // Of one prior of variance 1 and n = 10, t = 3: (1 + 1)^5 / (1 + 1/11)^5 / sqrt(11) =
        // 32 / 1.5450 / 3.31662 = 6.2449; of variance 100: 32 / 1.0050 / 31.6386 = 1.0064.
        let ten = Ratios { count: 10, mean: 0.0, squares: 9.0 };
        assert!((ten.log_evidence(3.0).exp() - (6.2449 + 1.0064) / 2.0).abs() < 1e-3);
    }

    #[test]
    fn an_effect_far_above_the_noise_is_seen_after_three() {
        let ratio = of(&[0.50, 0.51, 0.502]).interval(0.05);
        assert!(ratio.high < 0.6, "{ratio:?}");
        let same = of(&[1.0, 1.0, 1.0, 1.0]).interval(0.05);
        assert_eq!((same.low, same.high), (1.0, 1.0));
    }

    /// Looked at after each of 200 ratios, the interval leaves out the truth in at most 5 of 100
    /// sequences, whatever the noise.
    #[test]
    fn the_interval_holds_at_all_times() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut uniform = move || random.f64().max(f64::MIN_POSITIVE);
        let mut normal = move || {
            let radius = (-2.0 * uniform().ln()).sqrt();
            (radius * (std::f64::consts::TAU * uniform()).cos(), uniform())
        };
        const SEQUENCES: usize = 1000;
        // Normal noise; normal noise of which one in ten is five times as wide.
        for wide in [0.0, 0.1] {
            let misses = (0..SEQUENCES).filter(|_| {
                let mut ratios = Ratios::default();
                (0..200).any(|_| {
                    let (noise, chance) = normal();
                    ratios.add((noise * 0.02 * if chance < wide { 5.0 } else { 1.0 }).exp());
                    let Ratio { low, high, .. } = ratios.interval(0.05);
                    !(low..=high).contains(&1.0)
                })
            });
            let part = misses.count() as f64 / SEQUENCES as f64;
            assert!(part <= 0.05, "{wide}: {part}");
        }
    }
}

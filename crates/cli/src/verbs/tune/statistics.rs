//! What the times of paired runs mean.
//!
//! Problem: say whether a program runs faster placed than unplaced, on a machine whose speed
//! drifts. Approach: per pair the ratio r = placed / unplaced of wall time; the geometric mean of
//! the ratios with Student's t interval (95 %, two-sided) on ln r, n − 1 degrees of freedom.
//! Pairing cancels drift that is slower than a pair, the logarithm makes "twice as fast" and "twice
//! as slow" symmetric. A difference is claimed only when the interval excludes 1. Source: Kalibera
//! and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013), for intervals on ratios;
//! Student (1908) for the quantiles.

use super::measure::{Pair, Times, median};

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The normal distribution's quantile, the limit of the above.
const Z_975: f64 = 1.959_964;

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// What a comparison says.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Placed / unplaced, wall time.
    pub wall: Ratio,
    /// Placed / unplaced, CPU time.
    pub cpu: Ratio,
    /// Medians, seconds.
    pub unplaced: Times,
    pub placed: Times,
    pub pairs: usize,
}

/// Which side a comparison comes down on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Winner {
    Placed,
    Unplaced,
    Neither,
}

impl Verdict {
    /// The verdict on at least two pairs.
    pub fn of(pairs: &[Pair]) -> Self {
        let ratio = |time: fn(&Times) -> f64| {
            Ratio::of(
                &pairs.iter().map(|p| time(&p.placed) / time(&p.unplaced)).collect::<Vec<_>>(),
            )
        };
        let medians = |side: fn(&Pair) -> Times| Times {
            wall: median(&pairs.iter().map(|p| side(p).wall).collect::<Vec<_>>()),
            cpu: median(&pairs.iter().map(|p| side(p).cpu).collect::<Vec<_>>()),
        };
        Self {
            wall: ratio(|t| t.wall),
            cpu: ratio(|t| t.cpu),
            unplaced: medians(|p| p.unplaced),
            placed: medians(|p| p.placed),
            pairs: pairs.len(),
        }
    }

    /// By wall time.
    pub fn winner(&self) -> Winner {
        if self.wall.high < 1.0 {
            Winner::Placed
        } else if self.wall.low > 1.0 {
            Winner::Unplaced
        } else {
            Winner::Neither
        }
    }

    pub fn placed_wins(&self) -> bool {
        self.winner() == Winner::Placed
    }
}

impl Ratio {
    /// Geometric mean and interval of positive ratios; the interval of fewer than two, or of ratios
    /// that are not positive numbers, reaches from 0 to infinity.
    pub fn of(ratios: &[f64]) -> Self {
        let n = ratios.len() as f64;
        let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
        let mean = logs.iter().sum::<f64>() / n;
        if ratios.len() < 2 || !mean.is_finite() {
            let estimate = if mean.is_finite() { mean.exp() } else { 1.0 };
            return Self { estimate, low: 0.0, high: f64::INFINITY };
        }
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = t_975(ratios.len() - 1) * (variance / n).sqrt();
        Self { estimate: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
    }
}

/// Student's quantile; beyond the table by the Cornish–Fisher expansion, exact to three digits
/// there.
fn t_975(freedom: usize) -> f64 {
    if let Some(known) = freedom.checked_sub(1).and_then(|i| T_975.get(i)) {
        return *known;
    }
    let (z, v) = (Z_975, freedom as f64);
    z + (z.powi(3) + z) / (4.0 * v)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-4
    }

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        let times = |wall| Times { wall, cpu: 2.0 * wall };
        ratios.iter().map(|&r| Pair { unplaced: times(1.0), placed: times(r) }).collect()
    }

    #[test]
    fn quantiles_of_student() {
        assert!(near(t_975(4), 2.776));
        assert!(near(t_975(30), 2.042));
        assert!(near(t_975(40), 2.0211));
        assert!(near(t_975(120), 1.9799));
    }

    #[test]
    fn a_known_interval() {
        // ln: -0.6931, -0.5108, -0.5978, -0.6349, -0.5447; mean -0.59627, s 0.072462,
        // half width 2.776 · s / √5 = 0.089960.
        let ratio = Ratio::of(&[0.5, 0.6, 0.55, 0.53, 0.58]);
        assert!(near(ratio.estimate, 0.55086), "{ratio:?}");
        assert!(near(ratio.low, 0.50347) && near(ratio.high, 0.60271), "{ratio:?}");
    }

    #[test]
    fn verdicts_need_an_interval_that_excludes_one() {
        let winner = |ratios: &[f64]| Verdict::of(&pairs(ratios)).winner();
        assert_eq!(winner(&[0.5, 0.6, 0.55, 0.53, 0.58]), Winner::Placed);
        assert_eq!(winner(&[1.9, 1.8, 2.1, 2.0, 1.7]), Winner::Unplaced);
        assert_eq!(winner(&[0.8, 1.2, 1.0, 0.9, 1.1]), Winner::Neither);
        assert_eq!(winner(&[0.5]), Winner::Neither);
        assert_eq!(winner(&[0.0, 0.5]), Winner::Neither);
        // Exactly the same every time.
        assert_eq!(winner(&[1.0, 1.0, 1.0]), Winner::Neither);
    }

    #[test]
    fn medians_and_cpu_go_along() {
        let verdict = Verdict::of(&pairs(&[0.5, 0.6, 0.4]));
        assert_eq!(verdict.placed, Times { wall: 0.5, cpu: 1.0 });
        assert_eq!(verdict.unplaced, Times { wall: 1.0, cpu: 2.0 });
        assert!(near(verdict.cpu.estimate, verdict.wall.estimate));
        assert_eq!(verdict.pairs, 3);
    }
}

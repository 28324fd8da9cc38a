//! The interval of a sum of weights whose number has a Poisson distribution: that of Fay and Feuer
//! (Statistics in Medicine 16, 1997, 791–801), which for equal weights is the exact one of Garwood.

use crate::poisson::{TAIL, quantile};

/// Weights that were drawn, and what another one might have weighed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weighted {
    /// Sum of the weights.
    pub sum: f64,
    /// Sum of the squares.
    pub squares: f64,
    /// The most that one weighs.
    pub largest: f64,
}

impl Weighted {
    /// Adds `hits` of the same weight.
    pub fn add(&mut self, hits: u64, weight: f64) {
        self.sum += hits as f64 * weight;
        self.squares += hits as f64 * weight * weight;
        self.largest = self.largest.max(weight);
    }

    /// Adds an amount that comes in hits of this weight, not necessarily a whole number of them.
    pub fn add_part(&mut self, sum: f64, weight: f64) {
        self.sum += sum;
        self.squares += sum * weight;
        self.largest = self.largest.max(weight);
    }

    /// How many hits of equal weight tell as much (Kish): all that there are if theirs are equal.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// The least that the sum's mean is with 97.5 % confidence.
    pub fn low(&self) -> f64 {
        if self.squares <= 0.0 {
            return 0.0;
        }
        quantile(self.effective(), self.sum / self.squares, TAIL)
    }

    /// The most that it is, likewise.
    pub fn high(&self) -> f64 {
        let sum = self.sum + self.largest;
        let squares = self.squares + self.largest * self.largest;
        if squares <= 0.0 {
            return 0.0;
        }
        quantile(sum * sum / squares, sum / squares, 1.0 - TAIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poisson;

    #[test]
    fn equal_weights_have_the_exact_interval() {
        for hits in [1, 2, 3, 10, 100, 100_000] {
            let mut weights = Weighted::default();
            weights.add(hits, 7.0);
            let (low, high) = poisson(hits);
            assert!((weights.low() / (7.0 * low) - 1.0).abs() < 1e-6, "{hits}");
            assert!((weights.high() / (7.0 * high) - 1.0).abs() < 1e-6, "{hits}");
            assert!((weights.effective() / hits as f64 - 1.0).abs() < 1e-9);
        }
        assert_eq!((Weighted::default().low(), Weighted::default().high()), (0.0, 0.0));
    }

    #[test]
    fn one_heavy_hit_among_light_ones_counts_little_more_than_one() {
        let mut weights = Weighted::default();
        weights.add(1, 1000.0);
        weights.add(40, 1.0);
        assert!(weights.effective() < 1.1, "{}", weights.effective());
        assert!(weights.low() < 50.0 && weights.high() > 5000.0);
    }
}

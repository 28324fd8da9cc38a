//! The interval of a proportion that was found in a sample.

/// The normal quantile of a two-sided 95 % interval.
pub(crate) const NORMAL: f64 = 1.959_963_985;

/// The 95 % interval of the proportion of which `part` of `all` was found, by Wilson's score
/// (Wilson, 1927, equation 4); 0 to 1 if nothing was found at all.
pub fn proportion(part: u64, all: u64) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, z2) = (all as f64, NORMAL * NORMAL);
    let found = part.min(all) as f64 / n;
    let middle = (found + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = NORMAL / (1.0 + z2 / n) * (found * (1.0 - found) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the R function `prop.test(..., correct = FALSE)`.
    #[test]
    fn intervals_are_those_of_wilson() {
        let near = |found: (f64, f64), low: f64, high: f64| {
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{found:?}");
        };
        near(proportion(15, 50), 0.1910, 0.4375);
        near(proportion(0, 10), 0.0, 0.2775);
        near(proportion(10, 10), 0.7225, 1.0);
        assert_eq!(proportion(0, 0), (0.0, 1.0));
    }
}

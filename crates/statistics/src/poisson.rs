//! The exact interval of a Poisson mean (Garwood, 1936), from quantiles of the gamma distribution.

use crate::proportion::NORMAL;
use statrs::distribution::{Continuous, ContinuousCDF, Gamma};

/// Outside of a 95 % interval, on each side.
pub(crate) const TAIL: f64 = 0.025;

/// The 95 % interval of the mean of a Poisson distribution of which `hits` were drawn. Of no hits
/// it is 0 to 3.69: that nothing was seen does not mean that there is nothing.
pub fn poisson(hits: u64) -> (f64, f64) {
    let low = if hits == 0 { 0.0 } else { quantile(hits as f64, 1.0, TAIL) };
    (low, quantile(hits as f64 + 1.0, 1.0, 1.0 - TAIL))
}

/// Quantile of the gamma distribution with this shape and rate.
pub(crate) fn quantile(shape: f64, rate: f64, part: f64) -> f64 {
    // Wide enough that the normal distribution does, and the series of the other takes long.
    const LARGE: f64 = 1e5;
    if shape > LARGE {
        let z = if part < 0.5 { -NORMAL } else { NORMAL };
        return (shape + z * shape.sqrt()) / rate;
    }
    // In units of the rate, and its last steps taken here: the library's density overflows, or is
    // not a number, for some shapes from 50 to 160.
    let Ok(gamma) = Gamma::new(shape, 1.0) else { return shape / rate };
    let step = |x: f64| x - (gamma.cdf(x) - part) / gamma.ln_pdf(x).exp();
    step(step(gamma.inverse_cdf(part))) / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tabulated by Garwood (1936) and in every handbook since.
    #[test]
    fn intervals_are_the_exact_ones() {
        for (hits, low, high) in [
            (0, 0.0, 3.689),
            (1, 0.0253, 5.572),
            (2, 0.2422, 7.225),
            (3, 0.6187, 8.767),
            (10, 4.795, 18.390),
            (100, 81.364, 121.627),
        ] {
            let (found_low, found_high) = poisson(hits);
            assert!((found_low - low).abs() < 1e-3 && (found_high - high).abs() < 2e-3, "{hits}");
        }
        let (low, high) = poisson(1_000_000);
        assert!((low - 998_040.0).abs() < 3.0 && (high - 1_001_961.0).abs() < 3.0, "{low} {high}");
    }
}

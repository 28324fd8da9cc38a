//! How far a mean may be off when its variance is known from few samples only.

use crate::proportion::NORMAL;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// With more degrees of freedom, the normal quantile is taken: it is off by less than 0.0003, and
/// `statrs` loses digits.
const MAX_DEGREES: f64 = 1e4;

/// Student's t of a two-sided interval at 95 % (Student, 1908), by degrees of freedom; those below
/// one count as one.
pub fn student(degrees: f64) -> f64 {
    const UPPER: f64 = 0.975;
    if degrees > MAX_DEGREES {
        return NORMAL;
    }
    let least = degrees.max(1.0);
    StudentsT::new(0.0, 1.0, least).map_or(f64::INFINITY, |t| t.inverse_cdf(UPPER))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the R function `qt(0.975, df)`.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let known = [
            (1.0, 12.706_20),
            (2.0, 4.302_65),
            (4.0, 2.776_45),
            (10.0, 2.228_14),
            (16.0, 2.119_91),
            (100.0, 1.983_97),
            (1e6, 1.959_97),
            (f64::MAX, 1.959_96),
        ];
        for (degrees, t) in known {
            assert!((student(degrees) - t).abs() < 1e-4, "{degrees}: {}", student(degrees));
        }
        assert_eq!(student(0.0), student(1.0));
    }
}

//! Amount C_A and ratio C_R: how much is communicated, against time and against all accesses.
//!
//! Equations 3.7 and 3.8 of Diener's thesis. Each event counts once, whatever its direction. C_A is
//! as printed, per pair of tasks (T²) and second; C_R is events over accesses, since with C_A above
//! the line, as 3.8 is printed, it would not be a ratio but have a unit of 1/s.

/// C_A in events per task pair and second; `None` without tasks or time.
pub fn amount(events: f64, tasks: usize, seconds: f64) -> Option<f64> {
    let value = events / ((tasks as f64).powi(2) * seconds);
    (tasks > 0 && seconds > 0.0 && value.is_finite()).then_some(value)
}

/// C_R, the share of the accesses to memory that communicate; `None` without accesses.
pub fn ratio(events: f64, accesses: f64) -> Option<f64> {
    (accesses > 0.0 && events.is_finite()).then(|| events / accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_per_pair_and_second() {
        assert_eq!(amount(1600.0, 4, 2.0), Some(50.0));
        assert_eq!(amount(0.0, 4, 2.0), Some(0.0));
        for (tasks, seconds) in [(0, 1.0), (4, 0.0), (4, -1.0), (4, f64::NAN)] {
            assert_eq!(amount(1.0, tasks, seconds), None);
        }
    }

    #[test]
    fn ratios_are_of_accesses() {
        assert_eq!(ratio(25.0, 1000.0), Some(0.025));
        assert_eq!(ratio(25.0, 0.0), None);
    }
}

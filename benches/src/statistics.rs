//! Medians and spreads of a few measurements.

/// Median and range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// Median (the mean of the two middle values of an even number) and range; values must be finite
/// and there must be at least one.
pub fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    Spread { least: values[0], median, most: values[values.len() - 1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_odd_and_even_numbers_of_values() {
        let of = |values: &[f64]| spread(values.iter().copied());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Spread { least: 1.0, median: 2.5, most: 4.0 });
        assert_eq!(of(&[5.0]), Spread { least: 5.0, median: 5.0, most: 5.0 });
    }
}

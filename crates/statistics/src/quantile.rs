//! Medians and other quantiles.

/// The value in the middle; of an even number the mean of the two. `None` for none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value at `at` (0 to 1) of the way from the smallest to the largest, interpolated.
pub fn quantile(values: &mut [f64], at: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let place = at * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&mut values), Some(2.5));
        assert_eq!(quantile(&mut values, 0.25), Some(1.75));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!((median(&mut [7.0]), median(&mut [])), (Some(7.0), None));
    }
}

//! Medians, spreads and quartiles of a few measurements.

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

/// Median, and the bounds of the middle half.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// Quartiles by linear interpolation between order statistics (Hyndman & Fan 1996, type 7); values
/// must be finite and there must be at least one.
pub fn quartiles(values: impl Iterator<Item = f64>) -> Quartiles {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (values.len() - 1) as f64;
        let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Quartiles { lower: at(0.25), median: at(0.5), upper: at(0.75) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Coefficient of variation: the standard deviation over the mean.
pub fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / values.len() as f64).sqrt() / mean
}

/// Pearson's correlation; 0 where one side does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |x: &[f64], mean_x: f64, y: &[f64], mean_y: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum()
    };
    let scale = product(a, mean_a, a, mean_a) * product(b, mean_b, b, mean_b);
    product(a, mean_a, b, mean_b) / scale.sqrt().max(f64::MIN_POSITIVE)
}

/// Spearman's rank correlation; equal values have the mean of their ranks. 0 where one side does
/// not vary.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    correlation(&ranks(a), &ranks(b))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let same = values.iter().filter(|other| *other == value).count() as f64;
        below + (same - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
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
    #[test]
    fn ranks_do_not_depend_on_distances() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(rank_correlation(&[1.0, 2.0, 50.0], &[3.0, 4.0, 5.0]), 1.0));
        assert!(close(rank_correlation(&[1.0, 2.0, 3.0], &[9.0, 1.0, 0.0]), -1.0));
        assert_eq!(ranks(&[7.0, 1.0, 7.0]), [1.5, 0.0, 1.5]);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn quartiles_lie_between_values() {
        let of = |values: &[f64]| quartiles(values.iter().copied());
        let four = of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!(four, Quartiles { lower: 1.75, median: 2.5, upper: 3.25 });
        assert_eq!(of(&[5.0]), Quartiles { lower: 5.0, median: 5.0, upper: 5.0 });
    }

    #[test]
    fn what_varies_alike_correlates() {
        assert_eq!(variation(&[1.0, 3.0]), 0.5);
        let a = [1.0, 2.0, 3.0];
        assert!((correlation(&a, &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&a, &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&a, &[5.0, 5.0, 5.0]), 0.0);
    }
}

//! Weighted k-means on a line, the number of clusters by the Bayesian Information Criterion.
//!
//! Minimises Σ weight · (point − centre)² (Ackerman, Ben-David, Brânzei, Loker: Weighted
//! clustering, AAAI 2012) by Lloyd's iteration from k-means++ starts. The criterion is that of
//! X-means (Pelleg, Moore, ICML 2000) for one variance common to all clusters; weights are scaled
//! so that they add up to the number of points, or mere repetition would count as evidence.

use crate::rng::Rng;

/// Most clusters that are tried.
const MAX: usize = 12;
/// Starts for each number of clusters, and iterations of each.
const STARTS: usize = 5;
const ITERATIONS: usize = 100;

/// A point on the line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    pub at: f64,
    pub weight: f64,
}

/// For each point its cluster, numbered along the line. `points` ascending.
pub fn find(points: &[Point], rng: &mut Rng) -> Vec<usize> {
    let total: f64 = points.iter().map(|p| p.weight).sum();
    let scale = points.len() as f64 / total.max(f64::MIN_POSITIVE);
    let points: Vec<Point> =
        points.iter().map(|p| Point { at: p.at, weight: p.weight * scale }).collect();
    let mut best: Option<(f64, Vec<usize>)> = None;
    for k in 1..=MAX.min(points.len()) {
        let (cost, cluster) = best_of_starts(&points, k, rng);
        let score = criterion(&points, &cluster, k, cost);
        if best.as_ref().is_none_or(|(found, _)| score > *found) {
            best = Some((score, cluster));
        }
    }
    best.map(|(_, cluster)| cluster).unwrap_or_default()
}

fn best_of_starts(points: &[Point], k: usize, rng: &mut Rng) -> (f64, Vec<usize>) {
    let runs = (0..STARTS).map(|_| lloyd(points, starts(points, k, rng)));
    runs.reduce(|a, b| if b.0 < a.0 { b } else { a }).expect("at least one start")
}

/// k-means++: each next centre a point, likelier the farther it is from those there are.
fn starts(points: &[Point], k: usize, rng: &mut Rng) -> Vec<f64> {
    let mut centres: Vec<f64> = Vec::new();
    for _ in 0..k {
        let pull = |p: &Point| {
            let far = centres.iter().map(|c| (p.at - c).powi(2)).fold(f64::INFINITY, f64::min);
            p.weight * if far.is_finite() { far } else { 1.0 }
        };
        let total: f64 = points.iter().map(pull).sum();
        let mut left = total * rng.below(1 << 30) as f64 / (1u64 << 30) as f64;
        let chosen = points.iter().find(|p| {
            left -= pull(p);
            left < 0.0
        });
        centres.push(chosen.unwrap_or(&points[points.len() - 1]).at);
    }
    centres.sort_by(f64::total_cmp);
    centres
}

/// Σ weight · distance², and the cluster of each point.
fn lloyd(points: &[Point], mut centres: Vec<f64>) -> (f64, Vec<usize>) {
    let mut cluster = vec![0; points.len()];
    for _ in 0..ITERATIONS {
        let nearest = |p: &Point| {
            let far = |c: &usize| (p.at - centres[*c]).abs();
            (0..centres.len()).min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
        };
        let next: Vec<usize> = points.iter().map(nearest).collect();
        let mut sums = vec![(0.0, 0.0); centres.len()];
        for (point, &c) in points.iter().zip(&next) {
            sums[c].0 += point.weight * point.at;
            sums[c].1 += point.weight;
        }
        for (centre, (sum, weight)) in centres.iter_mut().zip(sums).filter(|(_, s)| s.1 > 0.0) {
            *centre = sum / weight;
        }
        if std::mem::replace(&mut cluster, next) == cluster {
            break;
        }
    }
    let far = |(p, &c): (&Point, &usize)| p.weight * (p.at - centres[c]).powi(2);
    (points.iter().zip(&cluster).map(far).sum(), cluster)
}

/// Log likelihood less what the parameters cost; larger is better.
fn criterion(points: &[Point], cluster: &[usize], k: usize, cost: f64) -> f64 {
    let n = points.len() as f64;
    let free = n - k as f64;
    if free <= 0.0 {
        return f64::NEG_INFINITY;
    }
    // Times have a grain: a cluster of equal times is not infinitely certain.
    let grain = points.windows(2).map(|w| w[1].at - w[0].at).fold(f64::INFINITY, f64::min);
    let grain = if grain.is_finite() { grain } else { 1.0 };
    let variance = (cost / free).max(grain * grain / 12.0);
    let mut size = vec![0.0; k];
    points.iter().zip(cluster).for_each(|(p, &c)| size[c] += p.weight);
    let mixing: f64 = size.iter().filter(|&&s| s > 0.0).map(|s| s * (s / n).ln()).sum();
    let spread = -n / 2.0 * (2.0 * std::f64::consts::PI * variance).ln() - free / 2.0;
    mixing + spread - k as f64 * n.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(at: &[f64]) -> Vec<Point> {
        at.iter().map(|&at| Point { at, weight: 1.0 }).collect()
    }

    fn around(centres: &[f64]) -> Vec<f64> {
        let mut rng = Rng::new(4, 4);
        let near = |&c: &f64| (0..40).map(|_| c + rng.below(1000) as f64 / 1000.0).collect();
        let mut all: Vec<f64> = centres.iter().flat_map::<Vec<f64>, _>(near).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn separate_groups_are_found_and_counted() {
        for centres in [&[0.0, 100.0][..], &[0.0, 50.0, 300.0], &[0.0, 10.0, 20.0, 30.0]] {
            let found = find(&points(&around(centres)), &mut Rng::new(1, 1));
            let expected: Vec<usize> = (0..centres.len()).flat_map(|c| vec![c; 40]).collect();
            assert_eq!(found, expected, "{centres:?}");
        }
    }

    #[test]
    fn a_point_and_no_point_are_no_trouble() {
        assert_eq!(find(&points(&[5.0]), &mut Rng::new(1, 1)), [0]);
        assert!(find(&[], &mut Rng::new(1, 1)).is_empty());
    }

    /// The centre of a weighted cluster is its weighted mean: 4 lies closer to (0·9 + 3·1)/10 than
    /// to 9.
    #[test]
    fn weights_pull() {
        let line = [(0.0, 9.0), (3.0, 1.0), (4.0, 1.0), (9.0, 9.0)];
        let line: Vec<Point> = line.map(|(at, weight)| Point { at, weight }).into();
        let (cost, cluster) = best_of_starts(&line, 2, &mut Rng::new(2, 0));
        assert_eq!(cluster, [0, 0, 0, 1]);
        // Mean 7/11 of weights 9, 1, 1; the other cluster is its own centre.
        let mean: f64 = 7.0 / 11.0;
        let by_hand = 9.0 * mean.powi(2) + (3.0 - mean).powi(2) + (4.0 - mean).powi(2);
        assert!((cost - by_hand).abs() < 1e-9);
    }
}

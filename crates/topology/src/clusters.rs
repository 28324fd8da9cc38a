//! Levels in a matrix of latencies: which PUs are near each other, and how far apart the groups
//! are.
//!
//! Approach: agglomerative clustering, the two groups of PUs with the least median latency between
//! them joined first (the median where average linkage takes the mean, so that a pair measured in a
//! bad moment moves nothing). The latencies at which groups are joined rise; where one is [`GAP`]
//! times the one before, a level ends. Within a level latencies may vary as they like (the
//! positions of cores on a mesh), as long as they vary gradually. Latencies in ns; pure.
//!
//! Neighbours: `measured.rs` owns the matrix, `compared.rs` uses the levels.

use crate::measured::LatencyMatrix;
use statistics::median;

/// Ratio of two successive latencies of joining that separates levels. The steps that matter for
/// placement are larger (siblings to cores 3 and more, L3 to L3 about 3, socket to socket 1.6 and
/// more); mesh positions and noise stay below.
pub const GAP: f64 = 1.4;

/// A level that the latencies show.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyLevel {
    /// Median latency between PUs that are apart here and together in all levels above, ns.
    pub latency_ns: f64,
    /// For each PU the number of its part, in the order in which parts first appear.
    pub part: Vec<u32>,
}

/// Two groups that were joined: any member of each, and the median latency between them.
struct Join {
    members: (usize, usize),
    ns: f64,
}

/// The levels from the outermost to the innermost, as those of `Hierarchy`: in the last one each PU
/// is a part of its own. None for fewer than two PUs, or when nothing is known.
pub fn latency_levels(matrix: &LatencyMatrix) -> Vec<LatencyLevel> {
    let joins = joins(matrix);
    let mut levels = Vec::new();
    // Parts before a level's joins, from the innermost level out.
    let mut part: Vec<u32> = (0..matrix.size() as u32).collect();
    let mut start = 0;
    while start < joins.len() {
        let steep = |at: &usize| joins[*at].ns > GAP * joins[*at - 1].ns;
        let end = (start + 1..joins.len()).find(steep).unwrap_or(joins.len());
        let above = joined(&part, &joins[start..end]);
        if let Some(latency_ns) = median_between(matrix, &above, &part) {
            levels.push(LatencyLevel { latency_ns, part });
        }
        part = above;
        start = end;
    }
    levels.reverse();
    levels
}

/// The groups joined one after the other, nearest first.
fn joins(matrix: &LatencyMatrix) -> Vec<Join> {
    // Groups by their members, and the median between each two that are left.
    let mut groups: Vec<Vec<usize>> = (0..matrix.size()).map(|pu| vec![pu]).collect();
    let mut between = matrix.clone();
    let mut left: Vec<usize> = (0..matrix.size()).collect();
    let mut joins: Vec<Join> = Vec::new();
    while let Some(mut join) = nearest(&between, &left) {
        let (a, b) = join.members;
        let moved = std::mem::take(&mut groups[b]);
        groups[a].extend(moved);
        left.retain(|&group| group != b);
        for &other in left.iter().filter(|&&other| other != a) {
            let pairs = groups[a].iter().flat_map(|&x| groups[other].iter().map(move |&y| (x, y)));
            let mut ns: Vec<f64> = pairs.filter_map(|(x, y)| matrix.get(x, y)).collect();
            between.set(a, other, median(&mut ns).unwrap_or(f64::NAN));
        }
        // A median may fall as groups grow; what is joined later is not nearer.
        join.ns = joins.last().map_or(join.ns, |last| join.ns.max(last.ns));
        joins.push(join);
    }
    joins
}

/// The two groups with the least latency between them; `None` when nothing is known between any.
fn nearest(between: &LatencyMatrix, left: &[usize]) -> Option<Join> {
    let mut nearest: Option<Join> = None;
    for (i, &a) in left.iter().enumerate() {
        for &b in &left[i + 1..] {
            let Some(ns) = between.get(a, b) else { continue };
            if nearest.as_ref().is_none_or(|join| ns < join.ns) {
                nearest = Some(Join { members: (a, b), ns });
            }
        }
    }
    nearest
}

/// The parts after some joins, numbered in the order in which they first appear.
fn joined(part: &[u32], joins: &[Join]) -> Vec<u32> {
    let mut part = part.to_vec();
    for join in joins {
        let (keep, go) = (part[join.members.0], part[join.members.1]);
        part.iter_mut().filter(|p| **p == go).for_each(|p| *p = keep);
    }
    renumbered(&part)
}

/// The same parts, numbered from 0 in the order in which they first appear.
pub fn renumbered(part: &[u32]) -> Vec<u32> {
    let mut seen: Vec<u32> = Vec::new();
    let number = |p: &u32| {
        let at = seen.iter().position(|known| known == p);
        at.unwrap_or_else(|| {
            seen.push(*p);
            seen.len() - 1
        }) as u32
    };
    part.iter().map(number).collect()
}

/// Median over the known pairs that are together in `above` and apart in `part`.
fn median_between(matrix: &LatencyMatrix, above: &[u32], part: &[u32]) -> Option<f64> {
    let mut between = Vec::new();
    for a in 0..matrix.size() {
        let apart = |b: &usize| above[a] == above[*b] && part[a] != part[*b];
        between.extend((a + 1..matrix.size()).filter(apart).filter_map(|b| matrix.get(a, b)));
    }
    median(&mut between)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number from 0 to 1 for a pair, the same on every run (the finaliser of MurmurHash3).
    fn noise(a: usize, b: usize) -> f64 {
        let mut x = (a as u64) << 32 | b as u64;
        for factor in [0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53] {
            x = (x ^ x >> 33).wrapping_mul(factor);
        }
        (x ^ x >> 33) as f64 / u64::MAX as f64
    }

    fn parts_of(levels: &[LatencyLevel]) -> Vec<u32> {
        levels.iter().map(|l| l.part.iter().max().unwrap() + 1).collect()
    }

    fn about(levels: &[LatencyLevel], expected: &[f64]) {
        assert_eq!(levels.len(), expected.len(), "{levels:?}");
        for (level, expected) in levels.iter().zip(expected) {
            assert!(
                (level.latency_ns / expected - 1.0).abs() < 0.1,
                "{} {expected}",
                level.latency_ns
            );
        }
    }

    #[test]
    fn a_zen_machine_has_sockets_l3s_cores_and_siblings() {
        // Two sockets of four L3s of four cores of two threads, up to 10 % of noise.
        let ns = |a: usize, b: usize| match (a / 32 == b / 32, a / 8 == b / 8, a / 2 == b / 2) {
            (false, ..) => 200.0,
            (_, false, _) => 95.0,
            (.., false) => 25.0,
            _ => 9.0,
        };
        let matrix = LatencyMatrix::by(64, |a, b| ns(a, b) * (1.0 + 0.1 * noise(a, b)));
        let levels = latency_levels(&matrix);
        about(&levels, &[210.0, 100.0, 26.0, 9.5]);
        assert_eq!(parts_of(&levels), [2, 8, 32, 64]);
        assert_eq!(levels[1].part[..17], [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn siblings_need_not_have_neighbouring_numbers() {
        let matrix = LatencyMatrix::by(8, |a, b| if a % 4 == b % 4 { 8.0 } else { 48.0 });
        let levels = latency_levels(&matrix);
        about(&levels, &[48.0, 8.0]);
        assert_eq!(levels[0].part, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn positions_on_a_mesh_are_no_levels() {
        // Two sockets of 28 cores on a mesh of 4 x 7: 42 ns and 2.2 ns a hop, up to 15 % of noise.
        let hops = |a: usize, b: usize| (a % 4).abs_diff(b % 4) + (a % 28 / 4).abs_diff(b % 28 / 4);
        let ns = |a: usize, b: usize| match a / 28 == b / 28 {
            true => 42.0 + 2.2 * hops(a, b) as f64,
            false => 125.0,
        };
        let matrix = LatencyMatrix::by(56, |a, b| ns(a, b) * (1.0 + 0.15 * noise(a, b)));
        let levels = latency_levels(&matrix);
        about(&levels, &[134.0, 54.0]);
        assert_eq!(parts_of(&levels), [2, 56]);
    }

    #[test]
    fn a_hybrid_machine_has_siblings_and_one_ring() {
        // Two cores of two threads, then a cluster of four small cores with an L2 of their own.
        let ns = |a: usize, b: usize| match (a, b) {
            (0, 1) | (2, 3) => 6.0,
            (4.., 4..) => 55.0,
            (..4, ..4) => 36.0,
            _ => 45.0,
        };
        let matrix = LatencyMatrix::by(8, |a, b| ns(a, b) * (1.0 + 0.05 * noise(a, b)));
        let levels = latency_levels(&matrix);
        assert_eq!(parts_of(&levels), [6, 8]);
        assert_eq!(levels[0].part, [0, 0, 1, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_pair_measured_in_a_bad_moment_moves_nothing() {
        let mut matrix = LatencyMatrix::by(8, |a, b| if a / 2 == b / 2 { 8.0 } else { 46.0 });
        let before = latency_levels(&matrix);
        matrix.set(3, 6, 400.0);
        assert_eq!(latency_levels(&matrix), before);
    }

    #[test]
    fn one_pu_or_none_has_no_levels() {
        assert_eq!(latency_levels(&LatencyMatrix::unknown(0)), []);
        assert_eq!(latency_levels(&LatencyMatrix::unknown(1)), []);
        assert_eq!(latency_levels(&LatencyMatrix::unknown(3)), []);
        let two = latency_levels(&LatencyMatrix::by(2, |_, _| 80.0));
        assert_eq!(two, [LatencyLevel { latency_ns: 80.0, part: vec![0, 1] }]);
    }

    #[test]
    fn missing_pairs_are_made_up_for_by_others() {
        // Two groups of three; P3 to P4 and all of P0 but one unknown.
        let mut matrix = LatencyMatrix::by(6, |a, b| if a / 3 == b / 3 { 20.0 } else { 90.0 });
        for (a, b) in [(3, 4), (0, 1), (0, 3), (0, 4), (0, 5)] {
            matrix.set(a, b, f64::NAN);
        }
        let levels = latency_levels(&matrix);
        about(&levels, &[90.0, 20.0]);
        assert_eq!(levels[0].part, [0, 0, 0, 1, 1, 1]);
        // A PU of which nothing is known stays alone and makes no level.
        (0..6).filter(|&b| b != 2).for_each(|b| matrix.set(2, b, f64::NAN));
        assert_eq!(latency_levels(&matrix)[0].part, [0, 1, 2, 3, 3, 3]);
    }
}

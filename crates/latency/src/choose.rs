//! Which PUs take part when there are more pairs than wanted: all pairs of fewer PUs, so that the
//! matrix is complete, chosen such that every level of the machine is crossed by some pair. Pure.

use topology::Hierarchy;

/// Indexes into [`Hierarchy::pus`], ascending, with at most `pairs` pairs (but two PUs at least,
/// where there are two).
pub fn choose(hierarchy: &Hierarchy, pairs: usize) -> Vec<usize> {
    let all = hierarchy.pus.len();
    let count = (2..=all).rev().find(|n| n * (n - 1) / 2 <= pairs).unwrap_or(2).min(all);
    if count == all {
        return (0..all).collect();
    }
    // The first PU and, from the outermost level in, its first neighbour across that level.
    let across = |level| (1..all).find(|&pu| hierarchy.common(0, pu) == level);
    let levels = (0..hierarchy.levels.len()).filter_map(across);
    let mut chosen: Vec<usize> = [0].into_iter().chain(levels).take(count).collect();
    // The rest farthest from what has been chosen: as many parts of the machine as possible.
    while chosen.len() < count {
        let nearness = |pu: &usize| {
            let mut levels: Vec<usize> = chosen.iter().map(|&c| hierarchy.common(c, *pu)).collect();
            levels.sort_by(|a, b| b.cmp(a));
            levels
        };
        let rest = (0..all).filter(|pu| !chosen.contains(pu));
        match rest.min_by_key(nearness) {
            Some(next) => chosen.push(next),
            None => break,
        }
    }
    chosen.sort();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Topology;

    fn chosen(machine: &str, pairs: usize) -> Vec<usize> {
        choose(&Hierarchy::new(&Topology::from_synthetic(machine).unwrap()), pairs)
    }

    #[test]
    fn all_where_they_fit_and_two_at_least() {
        assert_eq!(chosen("pack:2 core:2 pu:1", 6), [0, 1, 2, 3]);
        assert_eq!(chosen("pack:2 core:2 pu:1", 100), [0, 1, 2, 3]);
        assert_eq!(chosen("pack:2 core:2 pu:1", 0).len(), 2);
        assert_eq!(chosen("pu:1", 5), [0]);
    }

    #[test]
    fn few_cross_every_level_and_then_spread() {
        // PU 16 is in the other package, 2 on the next core, 1 the sibling.
        assert_eq!(chosen("pack:2 core:8 pu:2", 6), [0, 1, 2, 16]);
        assert_eq!(chosen("pack:2 core:8 pu:2", 3), [0, 2, 16]);
        // Two more: cores of their own, on the package with fewer.
        assert_eq!(chosen("pack:2 core:8 pu:2", 15), [0, 1, 2, 16, 18, 20]);
    }
}

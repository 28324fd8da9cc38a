//! `scatter`: neighbouring threads as far apart as possible (Diener, 3.3.1.3): round-robin over the
//! parts of the top level, within each of them over those of the next, SMT siblings last.

use crate::policies::{Input, Policy};
use topology::Hierarchy;

pub struct Scatter;

impl Policy for Scatter {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let order = order(input.hierarchy);
        (0..input.tasks.len()).map(|thread| order[thread % order.len()]).collect()
    }
}

/// All allowed PUs in the order in which they are handed out.
pub fn order(hierarchy: &Hierarchy) -> Vec<usize> {
    let all: Vec<usize> = (0..hierarchy.pus.len()).collect();
    let mut order = interleave(hierarchy, 0, &all);
    // On machines whose parts differ in size, a small part would hand out SMT siblings while a
    // large one still has free cores.
    let sibling = |pu: usize| (0..pu).filter(|&p| hierarchy.core[p] == hierarchy.core[pu]).count();
    let siblings: Vec<usize> = all.iter().map(|&pu| sibling(pu)).collect();
    order.sort_by_key(|&pu| siblings[pu]);
    order
}

fn interleave(hierarchy: &Hierarchy, level: usize, pus: &[usize]) -> Vec<usize> {
    let Some(split) = hierarchy.levels.get(level) else { return pus.to_vec() };
    let parts: Vec<Vec<usize>> = pus
        .chunk_by(|&a, &b| split.part[a] == split.part[b])
        .map(|part| interleave(hierarchy, level + 1, part))
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| parts.iter().filter_map(move |p| p.get(turn).copied())).collect()
}

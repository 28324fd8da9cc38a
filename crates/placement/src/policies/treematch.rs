//! `treematch`: bottom-up grouping by the heaviest edges, as TreeMatch does it (Jeannot, Mercier,
//! Tessier: Process placement in multicore clusters: algorithmic issues and practical techniques,
//! TPDS 2014).
//!
//! At each level groups are begun with the heaviest edge between two free members and filled with
//! the members that talk most with them. Levels of many children are split into several of few (the
//! prime factors of the number), as TreeMatch does to keep its groupings small. The library's
//! exhaustive grouping, which it uses where there are few possible groups, is left out.

use super::grouping::{Children, Groups, bottom_up};
use crate::even;
use crate::policies::{Input, Policy};

pub struct Treematch;

impl Policy for Treematch {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let mut slots = bottom_up(input.tasks, input.tree, level);
        even::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// One level: in steps of prime factors where all nodes have equal children, else at once.
fn level(mut groups: Groups, nodes: &[Children], shape: Vec<usize>) -> Groups {
    let first = &nodes[0];
    if nodes.iter().any(|n| n != first) || first.iter().any(|c| *c != first[0]) {
        let parts = select(&groups, nodes);
        return groups.merge(&parts, shape);
    }
    let mut count = groups.len();
    for factor in prime_factors(first.len()) {
        count /= factor;
        let parts = select(&groups, &vec![vec![groups.shape[0]; factor]; count]);
        let shape = vec![groups.shape[0]; count];
        groups = groups.merge(&parts, shape);
    }
    groups.shape = shape;
    groups
}

fn prime_factors(mut n: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut prime = 2;
    while n > 1 {
        while n.is_multiple_of(prime) {
            factors.push(prime);
            n /= prime;
        }
        prime += 1;
    }
    factors
}

/// Which groups go together into each node.
fn select(groups: &Groups, nodes: &[Children]) -> Vec<Vec<usize>> {
    let count = groups.len();
    let mut edges: Vec<(usize, usize)> =
        (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
    edges.retain(|&(a, b)| groups.row(a)[b] > 0.0);
    edges.sort_by(|x, y| groups.row(y.0)[y.1].total_cmp(&groups.row(x.0)[x.1]));
    let mut chosen = vec![false; count];
    let fill = |children: &Children| {
        edges.retain(|&(a, b)| !chosen[a] && !chosen[b]);
        let shapes = |(a, b): &&(usize, usize)| match children[..] {
            [x, y, ..] => groups.shape[*a] == x && groups.shape[*b] == y,
            _ => false,
        };
        let mut part: Vec<usize> = edges.iter().find(shapes).map_or(vec![], |&(a, b)| vec![a, b]);
        let mut talk = vec![0.0; count];
        for &g in &part {
            chosen[g] = true;
            talk.iter_mut().zip(groups.row(g)).for_each(|(sum, w)| *sum += w);
        }
        for &shape in &children[part.len()..] {
            let fits = |&g: &usize| !chosen[g] && groups.shape[g] == shape;
            let heavier = |best: usize, g: usize| if talk[g] > talk[best] { g } else { best };
            let next = (0..count).filter(fits).reduce(heavier);
            let next = next.expect("as many groups of each shape as nodes");
            chosen[next] = true;
            talk.iter_mut().zip(groups.row(next)).for_each(|(sum, w)| *sum += w);
            part.push(next);
        }
        part
    };
    nodes.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_children_are_split() {
        assert!(prime_factors(1).is_empty());
        assert_eq!(prime_factors(14), [2, 7]);
        assert_eq!(prime_factors(8), [2, 2, 2]);
    }
}

//! `eagermap`: the greedy bottom-up grouping of EagerMap (Cruz, Diener, Pilla, Navaux: An efficient
//! algorithm for communication-based task mapping, PDP 2015), the mapping of Diener's thesis.
//!
//! At each level groups are filled one after another, starting with the lowest free member and
//! adding the one that communicates most with the group so far.

use super::grouping::{Children, Groups, bottom_up};
use crate::even;
use crate::policies::{Input, Policy};

pub struct Eagermap;

impl Policy for Eagermap {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let mut slots = bottom_up(input.tasks, input.tree, |groups, nodes, shape| {
            let parts = select(&groups, nodes);
            groups.merge(&parts, shape)
        });
        even::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// Which groups go together into each node.
fn select(groups: &Groups, nodes: &[Children]) -> Vec<Vec<usize>> {
    let mut chosen = vec![false; groups.len()];
    let fill = |children: &Children| {
        let mut talk = vec![0.0; groups.len()];
        let mut part: Vec<usize> = Vec::new();
        for &shape in children {
            let fits = |&g: &usize| !chosen[g] && groups.shape[g] == shape;
            let heavier = |best: usize, g: usize| if talk[g] > talk[best] { g } else { best };
            let next = (0..groups.len()).filter(fits).reduce(heavier);
            let next = next.expect("as many groups of each shape as nodes");
            chosen[next] = true;
            part.push(next);
            talk.iter_mut().zip(groups.row(next)).for_each(|(sum, w)| *sum += w);
        }
        part
    };
    nodes.iter().map(fill).collect()
}

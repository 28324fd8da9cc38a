//! Bottom-up grouping: what `eagermap` and `treematch` have in common.
//!
//! At each level, from the slots up, groups are put together into groups as large as the nodes of
//! that level, which are the members of the next. The policies differ in how they choose. Free
//! slots take part as threads that communicate with no other. On machines whose nodes differ in
//! size, a group only goes where it fits.

use crate::slots::SlotTree;
use crate::solver::shapes;
use crate::tasks::Tasks;

/// Groups of one level and how much they talk.
pub struct Groups {
    /// Threads in the order of their slots; numbers beyond the last thread are free slots.
    pub members: Vec<Vec<usize>>,
    /// What kind of node each fits; see [`shapes`].
    pub shape: Vec<usize>,
    /// Events between groups, row-major, diagonal 0.
    weight: Vec<f64>,
}

impl Groups {
    fn single(tasks: &Tasks, tree: &SlotTree) -> Self {
        let slots = tree.len();
        let mut weight = vec![0.0; slots * slots];
        for a in 0..tasks.len() {
            tasks.neighbours(a).iter().for_each(|&(b, w)| weight[a * slots + b] = w);
        }
        let members = (0..slots).map(|member| vec![member]).collect();
        Self { members, shape: tree.shape.clone(), weight }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Events between a group and each group.
    pub fn row(&self, group: usize) -> &[f64] {
        &self.weight[group * self.len()..(group + 1) * self.len()]
    }

    /// The groups that `parts` make, part by part, with their shapes.
    pub fn merge(self, parts: &[Vec<usize>], shape: Vec<usize>) -> Self {
        let (old, new) = (self.len(), parts.len());
        let mut part_of = vec![0; old];
        for (part, groups) in parts.iter().enumerate() {
            groups.iter().for_each(|&g| part_of[g] = part);
        }
        let mut weight = vec![0.0; new * new];
        for a in 0..old {
            for (b, w) in self.row(a).iter().enumerate().filter(|&(b, _)| part_of[a] != part_of[b])
            {
                weight[part_of[a] * new + part_of[b]] += w;
            }
        }
        let gather =
            |part: &Vec<usize>| part.iter().flat_map(|&g| self.members[g].clone()).collect();
        Self { members: parts.iter().map(gather).collect(), shape, weight }
    }
}

/// Which children a node of a level has, as shapes.
pub type Children = Vec<usize>;

/// Slots for all tasks. `step` puts the groups of a level together: it is given them and, for each
/// node above, the shapes of the node's children, and answers with as many groups as there are
/// nodes, in the nodes' order.
pub fn bottom_up(
    tasks: &Tasks,
    tree: &SlotTree,
    step: impl Fn(Groups, &[Children], Vec<usize>) -> Groups,
) -> Vec<usize> {
    let mut groups = Groups::single(tasks, tree);
    for level in (0..tree.depth()).rev() {
        let below = shapes(tree, level + 1);
        let ranges = tree.ranges(level + 1);
        let children = |node: &std::ops::Range<usize>| {
            let inside = (0..ranges.len()).filter(|&c| node.contains(&ranges[c].start));
            inside.map(|c| below[c]).collect()
        };
        let nodes: Vec<Children> = tree.ranges(level).iter().map(children).collect();
        groups = step(groups, &nodes, shapes(tree, level));
    }
    let mut slot_of = vec![0; tasks.len()];
    for (slot, &member) in groups.members[0].iter().enumerate().filter(|e| *e.1 < tasks.len()) {
        slot_of[member] = slot;
    }
    slot_of
}

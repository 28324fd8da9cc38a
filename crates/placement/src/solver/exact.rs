//! The optimum for small problems: dynamic programming over sets of threads.
//!
//! What the threads below a node cost among themselves depends on which they are and on nothing
//! else. So for every level, from the slots up, and for every set of threads that fits below a node
//! of that level, the cheapest way to divide it among the node's children is computed once: on a
//! tree of up to 16 slots that is quick (2¹⁶ sets). Free slots take part as threads that neither
//! talk nor compute. Evenness of loads comes first, as everywhere (`score.rs`).

use super::subtree::shapes_over;
use crate::score::Score;
use crate::slots::{Crowded, SlotTree};
use crate::tasks::Tasks;
use std::collections::BTreeMap;

/// Largest tree, slots.
pub const LARGEST: usize = 16;

type Set = u32;

/// An optimal assignment, or `None` where the problem is too large or its loads do not follow the
/// tree (hybrid machines with more threads than cores).
pub fn solve(tasks: &Tasks, tree: &SlotTree) -> Option<Vec<usize>> {
    if tree.len() > LARGEST || tasks.len() > tree.len() {
        return None;
    }
    let terms = terms(tree)?;
    let shapes = shapes_over(tree, priced_shapes(tree));
    let mut tables = Tables { tree, talk: talk(tasks, tree.len()), levels: Vec::new() };
    for level in (0..tree.depth()).rev() {
        tables.add_level(tasks, level, &shapes[level], &terms);
    }
    let everyone = full(tree.len());
    let mut slots = vec![0; tree.len()];
    tables.place(0, 0, everyone, &mut slots);
    slots.truncate(tasks.len());
    Some(slots)
}

fn full(members: usize) -> Set {
    ((1u64 << members) - 1) as Set
}

/// What counts at one level of the tree: load² and, with a price for each of its slots' groups,
/// what should not be crowded.
enum Term<'a> {
    Even(i64),
    Crowded(&'a Crowded),
}

/// The level of each term; `None` if there is one whose groups are not the nodes of a level.
fn terms(tree: &SlotTree) -> Option<Vec<(usize, Term<'_>)>> {
    let level_of = |group: &Vec<usize>| {
        let same = |level: &usize| {
            let nodes = &tree.node[*level];
            (0..tree.len())
                .all(|s| (0..s).all(|t| (nodes[s] == nodes[t]) == (group[s] == group[t])))
        };
        (0..tree.depth()).find(same)
    };
    let even = tree.even.iter().map(|e| Some((level_of(&e.group)?, Term::Even(e.weight))));
    let crowded = tree.crowded.iter().filter(|c| !alike(&c.group, &c.price));
    let crowded = crowded.map(|c| Some((level_of(&c.group)?, Term::Crowded(c))));
    even.chain(crowded).collect()
}

/// Whether every slot is a group of its own and all have one price: then all placements pay the
/// same.
fn alike(group: &[usize], price: &[f64]) -> bool {
    let alone = (0..group.len()).all(|s| !group[..s].contains(&group[s]));
    alone && price.windows(2).all(|two| two[0] == two[1])
}

/// A number for each slot; slots whose groups have other prices have other numbers.
fn priced_shapes(tree: &SlotTree) -> Vec<usize> {
    let prices = |slot: usize| -> Vec<u64> {
        tree.crowded.iter().map(|c| c.price[c.group[slot]].to_bits()).collect()
    };
    let mut known = BTreeMap::new();
    let number = |slot: usize| {
        let next = known.len();
        *known.entry((tree.shape[slot], prices(slot))).or_insert(next)
    };
    (0..tree.len()).map(number).collect()
}

/// Events within every set of threads.
fn talk(tasks: &Tasks, members: usize) -> Vec<f64> {
    let mut talk = vec![0.0; 1 << members];
    for set in 1..talk.len() {
        let first = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        let mut sum = talk[rest];
        if first < tasks.len() {
            let inside = tasks.neighbours(first).iter().filter(|e| rest >> e.0 & 1 == 1);
            sum += inside.map(|e| e.1).sum::<f64>();
        }
        talk[set] = sum;
    }
    talk
}

/// Cheapest ways to place sets below the nodes of one level, by shape of node.
struct Level {
    shape: Vec<usize>,
    /// `best[shape][set]`: unevenness and cost; only sets of the node's size are filled in.
    best: Vec<Vec<Score>>,
}

struct Tables<'a> {
    tree: &'a SlotTree,
    talk: Vec<f64>,
    /// From the last level of nodes up.
    levels: Vec<Level>,
}

const NONE: Score = Score { unevenness: i64::MAX, cost: f64::INFINITY };

impl Tables<'_> {
    fn level(&self, level: usize) -> &Level {
        &self.levels[self.tree.depth() - 1 - level]
    }

    fn add_level(
        &mut self,
        tasks: &Tasks,
        level: usize,
        shape: &[usize],
        terms: &[(usize, Term<'_>)],
    ) {
        let ranges = self.tree.ranges(level);
        let count = shape.iter().max().map_or(0, |most| most + 1);
        let mut best = Vec::new();
        for wanted in 0..count {
            let node = shape.iter().position(|&s| s == wanted).expect("a node of each shape");
            let mut table = self.divide(level, node, ranges[node].len()).pop().expect("one child");
            for (set, score) in table.iter_mut().enumerate().filter(|(_, s)| **s != NONE) {
                let slot = ranges[node].start;
                for (_, term) in terms.iter().filter(|term| term.0 == level) {
                    let members = (0..tasks.len()).filter(|t| set >> t & 1 == 1);
                    match term {
                        Term::Even(weight) => {
                            let load: i64 = members.map(|t| tasks.load(t)).sum();
                            score.unevenness += weight * load * load;
                        }
                        Term::Crowded(crowded) => {
                            let load: f64 = members.map(|t| tasks.burden(t, crowded.by)).sum();
                            score.cost += crowded.price[crowded.group[slot]] * load * load;
                        }
                    }
                }
            }
            best.push(table);
        }
        self.levels.push(Level { shape: shape.to_vec(), best });
    }

    /// `[i][set]`: the cheapest way to place a set below the first i + 1 children of a node.
    fn divide(&self, level: usize, node: usize, size: usize) -> Vec<Vec<Score>> {
        let members = self.tree.len();
        let empty = vec![NONE; 1 << members];
        if level + 1 == self.tree.depth() {
            // Slots of one node are all alike.
            let mut table = empty;
            for set in sets(members, size) {
                let cost = self.tree.cost[level] * self.talk[set as usize];
                table[set as usize] = Score { unevenness: 0, cost };
            }
            return vec![table];
        }
        let mut tables: Vec<Vec<Score>> = Vec::new();
        let mut before = 0;
        for (child, size) in self.children(level, node) {
            let below = &self.level(level + 1).best[self.level(level + 1).shape[child]];
            let mut table = empty.clone();
            for set in sets(members, before + size) {
                table[set as usize] = match tables.last() {
                    None => below[set as usize],
                    Some(left) => self.best_part(level, set, size, left, below).0,
                };
            }
            tables.push(table);
            before += size;
        }
        tables
    }

    /// Children of a node and how many slots they have.
    fn children(&self, level: usize, node: usize) -> Vec<(usize, usize)> {
        let within = self.tree.ranges(level)[node].clone();
        let below = self.tree.ranges(level + 1);
        let inside = below.iter().enumerate().filter(|(_, r)| within.contains(&r.start));
        inside.map(|(child, range)| (child, range.len())).collect()
    }

    /// The best part of `set` for the last child, and what that makes.
    fn best_part(
        &self,
        level: usize,
        set: Set,
        size: usize,
        left: &[Score],
        below: &[Score],
    ) -> (Score, Set) {
        let mut best = (NONE, 0);
        let members: Vec<Set> = (0..32).map(|t| 1 << t).filter(|bit| set & bit != 0).collect();
        for chosen in sets(members.len(), size) {
            let chosen = (0..members.len()).filter(|i| chosen >> i & 1 == 1);
            let part: Set = chosen.map(|i| members[i]).sum();
            let rest = set & !part;
            let [whole, a, b] = [set, part, rest].map(|s| self.talk[s as usize]);
            let score = Score {
                unevenness: left[rest as usize].unevenness + below[part as usize].unevenness,
                cost: left[rest as usize].cost
                    + below[part as usize].cost
                    + self.tree.cost[level] * (whole - a - b),
            };
            if (score.unevenness, score.cost) < (best.0.unevenness, best.0.cost) {
                best = (score, part);
            }
        }
        best
    }

    /// Puts `set` below a node as cheaply as the tables say.
    fn place(&self, level: usize, node: usize, set: Set, slots: &mut [usize]) {
        if level + 1 == self.tree.depth() {
            let members = (0..slots.len()).filter(|t| set >> t & 1 == 1);
            members
                .zip(self.tree.ranges(level)[node].clone())
                .for_each(|(t, slot)| slots[t] = slot);
            return;
        }
        let children = self.children(level, node);
        let size = children.iter().map(|c| c.1).sum();
        let tables = self.divide(level, node, size);
        let mut rest = set;
        for (at, &(child, size)) in children.iter().enumerate().rev() {
            let below = &self.level(level + 1).best[self.level(level + 1).shape[child]];
            let part = match at {
                0 => rest,
                _ => self.best_part(level, rest, size, &tables[at - 1], below).1,
            };
            self.place(level + 1, child, part, slots);
            rest &= !part;
        }
    }
}

/// All sets of `size` out of `members`, ascending (Gosper's hack).
fn sets(members: usize, size: usize) -> impl Iterator<Item = Set> {
    let end = 1u64 << members;
    let first = (1u64 << size) - 1;
    let next = |&set: &u64| {
        let lowest = set & set.wrapping_neg();
        let carried = set + lowest;
        if set == 0 { None } else { Some((((set ^ carried) >> 2) / lowest) | carried) }
    };
    std::iter::successors(Some(first), next)
        .take_while(move |&set| set < end || set == 0)
        .map(|set| set as Set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::slots::Burden;
    use topology::{Hierarchy, Topology};

    #[test]
    fn sets_of_a_size_are_all_listed() {
        assert_eq!(sets(4, 2).collect::<Vec<_>>(), [3, 5, 6, 9, 10, 12]);
        assert_eq!(sets(16, 8).count(), 12870);
        assert_eq!(sets(3, 0).collect::<Vec<_>>(), [0]);
        assert_eq!(sets(3, 3).collect::<Vec<_>>(), [7]);
    }

    /// Against every assignment there is, with and without idle threads, shared cores and prices on
    /// crowded parts of the first level, the first part twice as dear.
    #[test]
    fn no_assignment_is_better() {
        let mut rng = Rng::new(3, 0);
        for (machine, costs, threads) in [
            ("pack:2 core:2 pu:2", vec![100.0, 30.0, 10.0], 4),
            ("pack:2 core:2 pu:2", vec![100.0, 30.0, 10.0], 6),
            ("pack:2 core:3 pu:1", vec![7.0, 3.0], 5),
            ("core:3 pu:1", vec![5.0], 7),
        ] {
            let hierarchy = Hierarchy::new(&Topology::from_synthetic(machine).unwrap());
            for run in 0..8 {
                let mut tree = SlotTree::new(&hierarchy, &costs, threads);
                let tasks = random_tasks(threads, &mut rng);
                if run % 2 == 1 && tree.depth() > 1 {
                    let group = tree.node[1].clone();
                    let price = (0..tree.parts(1)).map(|part| f64::from(1 + u8::from(part == 0)));
                    let (price, by) = (price.collect(), Burden::Memory);
                    tree.crowded.push(Crowded { group, price, by });
                }
                let found = Score::of(&tasks, &tree, &solve(&tasks, &tree).unwrap());
                let mut best = NONE;
                every_assignment(threads, tree.len(), &mut Vec::new(), &mut |slots| {
                    let score = Score::of(&tasks, &tree, slots);
                    if (score.unevenness, score.cost) < (best.unevenness, best.cost) {
                        best = score;
                    }
                });
                assert_eq!(found, best, "{threads} threads on {machine}");
            }
        }
    }

    fn random_tasks(threads: usize, rng: &mut Rng) -> Tasks {
        let mut weight = vec![0.0; threads * threads];
        for (a, b) in (0..threads).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let events = rng.below(20) as f64;
            (weight[a * threads + b], weight[b * threads + a]) = (events, events);
        }
        let load = (0..threads).map(|t| i64::from(t % 4 != 1)).collect();
        let traffic: Vec<u64> = (0..threads).map(|_| rng.below(30) as u64).collect();
        Tasks::from_weights(threads, weight).with_load(load).with_traffic(&traffic)
    }

    fn every_assignment(
        threads: usize,
        slots: usize,
        chosen: &mut Vec<usize>,
        f: &mut impl FnMut(&[usize]),
    ) {
        if chosen.len() == threads {
            return f(chosen);
        }
        for slot in 0..slots {
            if !chosen.contains(&slot) {
                chosen.push(slot);
                every_assignment(threads, slots, chosen, f);
                chosen.pop();
            }
        }
    }
}

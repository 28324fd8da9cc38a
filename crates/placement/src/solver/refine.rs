//! Swap refinement: exchange what two slots hold as long as that helps.
//!
//! For each task the communication with every node of the tree is kept up to date, so that the gain
//! of a swap takes O(depth) to compute and O(neighbours · depth) to apply. Evenness of loads comes
//! first, communication second (see `score.rs`). Neighbours: `crowding.rs` prices crowded
//! parts, `subtree.rs` uses the same on whole subtrees, `search.rs` adds kicks, `balance.rs` only
//! evens out.

use super::crowding::Crowding;
use crate::slots::{Distances, Even, SlotTree};
use crate::tasks::Tasks;
use std::collections::VecDeque;

/// How many of a task's heaviest neighbours say where it might go, and for how many of these the
/// node above theirs counts as well.
const NEAR: usize = 12;
const NEAREST: usize = 4;
/// Most slots of one node that are looked at on either side of a neighbour.
const REACH: usize = 16;
/// How many of a moved task's heaviest neighbours are looked at again.
const AGAIN: usize = 8;
/// All slots are tried for all tasks again if that saved this part of the cost.
const WORTHWHILE: f64 = 1e-4;

/// An empty slot.
pub const EMPTY: usize = usize::MAX;

/// Change of a score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delta {
    pub unevenness: i64,
    pub cost: f64,
}

impl Delta {
    /// Whether this is an improvement by more than `rounding`.
    pub fn improves(&self, rounding: f64) -> bool {
        self.unevenness < 0 || self.unevenness == 0 && self.cost < -rounding
    }

    /// Whether this is better than `other`.
    pub fn beats(&self, other: &Self) -> bool {
        (self.unevenness, self.cost) < (other.unevenness, other.cost)
    }
}

/// Which slots a task may be exchanged with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Those around its heaviest neighbours.
    Near,
    /// All.
    All,
}

/// An assignment under refinement.
pub struct State<'a> {
    pub tasks: &'a Tasks,
    pub tree: &'a SlotTree,
    /// For each task its slot.
    pub slot: Vec<usize>,
    /// For each slot its task or [`EMPTY`].
    pub held: Vec<usize>,
    /// Changes smaller than this are rounding.
    pub rounding: f64,
    distances: Distances<'a>,
    /// Levels below the root; what all slots have in common changes no price.
    levels: usize,
    /// `above[s * levels + d]`: the node at level d + 1 above slot s, numbered over all levels.
    above: Vec<u32>,
    /// For each slot the slots of the node above it, and of the node above that.
    span: [Vec<(usize, usize)>; 2],
    nodes: usize,
    /// `talk[t * nodes + n]`: events between task t and all tasks below node n.
    talk: Vec<f64>,
    /// Cost of level d + 1 minus that of level d.
    step: Vec<f64>,
    /// Most that all levels below d + 1 can save, for each event with the node at that level.
    rest: Vec<f64>,
    /// `ends[d * slots + s]`: the slot behind the last one of the node at level d + 1 above slot s.
    ends: Vec<usize>,
    /// For each task its price where it is.
    here: Vec<f64>,
    /// Load of each group, for each of the tree's groupings.
    load: Vec<Vec<i64>>,
    crowding: Crowding,
}

impl<'a> State<'a> {
    /// Starts from tasks in slots.
    pub fn new(tasks: &'a Tasks, tree: &'a SlotTree, slots: &[usize]) -> Self {
        let levels = tree.depth() - 1;
        let mut above = vec![0; tree.len() * levels];
        let mut nodes = 0;
        for (level, node) in tree.node[1..].iter().enumerate() {
            node.iter()
                .enumerate()
                .for_each(|(s, n)| above[s * levels + level] = nodes + *n as u32);
            nodes += node.last().map_or(0, |last| *last as u32 + 1);
        }
        let nodes = nodes as usize;
        let span = [levels, levels.saturating_sub(1)].map(|level| spans(tree, level));
        let mut held = vec![EMPTY; tree.len()];
        slots.iter().enumerate().for_each(|(task, &slot)| held[slot] = task);
        let talk = talk(tasks, slots, &above, levels, nodes);
        let step: Vec<f64> = tree.cost.windows(2).map(|c| c[1] - c[0]).collect();
        let saved = |below: &[f64]| below.iter().map(|step| step.min(0.0)).sum();
        let rest = (1..=levels).map(|level| saved(&step[level..])).collect();
        let ends = (1..=levels).flat_map(|level| spans(tree, level)).map(|span| span.1).collect();
        let loads = |even: &Even| crate::score::loads(tasks, &even.group, slots);
        let load = tree.even.iter().map(loads).collect();
        let crowding = Crowding::new(tasks, tree, slots);
        let largest = tree.cost.iter().fold(0.0, |a: f64, &b| a.max(b));
        let rounding = (tasks.total() * largest + crowding.price()) * 1e-12;
        let (slot, here) = (slots.to_vec(), vec![0.0; tasks.len()]);
        let mut state = Self {
            tasks,
            tree,
            slot,
            held,
            rounding,
            distances: Distances::new(tree),
            levels,
            above,
            span,
            nodes,
            talk,
            step,
            rest,
            ends,
            here,
            load,
            crowding,
        };
        (0..tasks.len()).for_each(|task| state.here[task] = state.price(task, state.slot[task]));
        state
    }

    fn above(&self, slot: usize) -> &[u32] {
        &self.above[slot * self.levels..(slot + 1) * self.levels]
    }

    /// What `task` would cost in `slot`, less what it costs anywhere: each level's price as far as
    /// it differs from the level above. Tasks in `slot` count as beside it.
    fn price(&self, task: usize, slot: usize) -> f64 {
        let talk = &self.talk[task * self.nodes..(task + 1) * self.nodes];
        self.above(slot)
            .iter()
            .zip(&self.step)
            .map(|(&node, step)| step * talk[node as usize])
            .sum()
    }

    /// Whether two slots differ in nothing that matters.
    fn equivalent(&self, a: usize, b: usize) -> bool {
        self.above(a).last() == self.above(b).last()
            && self.tree.even.iter().all(|even| even.group[a] == even.group[b])
            && self.crowding.same(a, b)
    }

    /// Change when slots `a` and `b` exchange what they hold; `there` is the price that the task in
    /// `a` would have in `b`.
    fn delta_from(&self, a: usize, b: usize, there: f64) -> Delta {
        let (t, u) = (self.held[a], self.held[b]);
        let mut cost = 0.0;
        if t != EMPTY {
            cost += there - self.here[t];
        }
        if u != EMPTY {
            cost += self.price(u, a) - self.here[u];
            let weight = if t == EMPTY { 0.0 } else { self.tasks.weight(t, u) };
            if weight > 0.0 {
                // Their own pair counts as beside each other above, but stays as far apart.
                let beside = self.tree.cost[self.levels];
                cost += 2.0 * weight * (self.distances.between(a, b) - beside);
            }
        }
        Delta { unevenness: self.unevenness_delta(a, b), cost: cost + self.crowding_delta(a, b) }
    }

    fn load_of(&self, task: usize) -> i64 {
        if task == EMPTY { 0 } else { self.tasks.load(task) }
    }

    fn unevenness_delta(&self, a: usize, b: usize) -> i64 {
        if self.load.is_empty() {
            return 0;
        }
        let moved = self.load_of(self.held[a]) - self.load_of(self.held[b]);
        if moved == 0 {
            return 0;
        }
        let change = |(even, load): (&Even, &Vec<i64>)| {
            let (from, to) = (even.group[a], even.group[b]);
            match from == to {
                true => 0,
                false => even.weight * 2 * moved * (load[to] - load[from] + moved),
            }
        };
        self.tree.even.iter().zip(&self.load).map(change).sum()
    }

    /// About how many slots [`Self::best_swap`] looks at for a task when only near ones count.
    pub fn looks(&self, task: usize) -> usize {
        self.tasks.neighbours(task).len().min(NEAR) * REACH
    }

    fn crowding_delta(&self, a: usize, b: usize) -> f64 {
        self.crowding.delta((a, self.held[a]), (b, self.held[b]))
    }

    /// Change when slots `a` and `b` exchange what they hold.
    pub fn delta(&self, a: usize, b: usize) -> Delta {
        let there = if self.held[a] == EMPTY { 0.0 } else { self.price(self.held[a], b) };
        self.delta_from(a, b, there)
    }

    /// Whether the slots may exchange and that would change anything.
    pub fn may_swap(&self, a: usize, b: usize) -> bool {
        self.tree.shape[a] == self.tree.shape[b] && !self.equivalent(a, b)
    }

    /// The best slot for the task in `a` to exchange with, if that improves.
    pub fn best_swap(&self, a: usize, reach: Reach) -> Option<(usize, Delta)> {
        match reach {
            Reach::Near => self.best_of(a, self.near(a), false),
            Reach::All if !self.crowding.is_empty() || self.crowded_or_idle(a) => {
                self.best_of(a, 0..self.tree.len(), true)
            }
            Reach::All => self.best_of(a, self.cheaper(a), false),
        }
    }

    /// The exchange of the task in `a` that makes loads most even, the cheapest of these, if any
    /// makes them more even.
    pub fn best_evening(&self, a: usize) -> Option<(usize, Delta)> {
        if !self.crowded_or_idle(a) {
            return None;
        }
        let evens = |b: &usize| self.unevenness_delta(a, *b) < 0 && self.may_swap(a, *b);
        let deltas = (0..self.tree.len()).filter(evens).map(|b| (b, self.delta(a, b)));
        deltas.reduce(|best, next| if next.1.beats(&best.1) { next } else { best })
    }

    /// Whether the load of one of the groups around `a` differs from another one by more than 1; if
    /// not, no exchange makes loads more even.
    pub fn crowded_or_idle(&self, a: usize) -> bool {
        let differs = |(even, load): (&Even, &Vec<i64>)| {
            let own = load[even.group[a]];
            load.iter().any(|other| (other - own).abs() > 1)
        };
        self.tree.even.iter().zip(&self.load).any(differs)
    }

    /// Slots close to the heaviest neighbours of the task in `a`, ascending.
    pub fn near(&self, a: usize) -> impl Iterator<Item = usize> + use<> {
        let task = self.held[a];
        let known = if task == EMPTY { &[] } else { self.tasks.neighbours(task) };
        let mut spans = [(0, 0); NEAR];
        for (rank, &(other, _)) in known.iter().take(NEAR).enumerate() {
            let at = self.slot[other];
            let wide = rank < NEAREST && self.levels > 0;
            let (start, end) = self.span[usize::from(wide)][at];
            spans[rank] = (start.max(at.saturating_sub(REACH)), end.min(at + REACH));
        }
        spans.sort_unstable();
        let mut next = 0;
        spans.into_iter().flat_map(move |(start, end)| {
            let rest = start.max(next)..end;
            next = next.max(end);
            rest
        })
    }

    /// Slots, ascending, in which the task in `a` may cost less than where it is: all but those
    /// below nodes with which it talks so little that it cannot.
    fn cheaper(&self, a: usize) -> impl Iterator<Item = usize> {
        let task = self.held[a];
        let (talk, here) = match task {
            EMPTY => (&[][..], f64::NEG_INFINITY),
            _ => (&self.talk[task * self.nodes..(task + 1) * self.nodes], self.here[task]),
        };
        let mut next = 0;
        std::iter::from_fn(move || {
            while next < self.tree.len() {
                let mut price = 0.0;
                let pay = |&(level, &node): &(usize, &u32)| {
                    let talk = talk.get(node as usize).copied().unwrap_or(0.0);
                    price += self.step[level] * talk;
                    price + self.rest[level] * talk >= here
                };
                let Some((level, _)) = self.above(next).iter().enumerate().find(pay) else {
                    next += 1;
                    return Some(next - 1);
                };
                next = self.ends[level * self.tree.len() + next];
            }
            None
        })
    }

    /// `slots` ascending, so that those below one node follow each other and share a price. With
    /// `evening`, exchanges that only make loads more even are looked for, too.
    fn best_of(
        &self,
        a: usize,
        slots: impl Iterator<Item = usize>,
        evening: bool,
    ) -> Option<(usize, Delta)> {
        let task = self.held[a];
        if task == EMPTY {
            return None;
        }
        let mut best: Option<(usize, Delta)> = None;
        let mut known = (u32::MAX, 0.0);
        for b in slots {
            let leaf = self.above(b).last().copied().unwrap_or(0);
            if known.0 != leaf {
                known = (leaf, self.price(task, b));
            }
            // An exchange from which only the other one gains is found from its side.
            let gains = known.1 < self.here[task]
                || evening && self.unevenness_delta(a, b) < 0
                || self.crowding_delta(a, b) < 0.0;
            if !gains || !self.may_swap(a, b) {
                continue;
            }
            let delta = self.delta_from(a, b, known.1);
            let better = best.as_ref().is_none_or(|(_, found)| delta.beats(found));
            if better && delta.improves(self.rounding) {
                best = Some((b, delta));
            }
        }
        best
    }

    /// Exchanges what two slots hold.
    pub fn swap(&mut self, a: usize, b: usize) {
        let (t, u) = (self.held[a], self.held[b]);
        let moved = self.load_of(t) - self.load_of(u);
        for (Even { group, .. }, load) in self.tree.even.iter().zip(&mut self.load) {
            load[group[a]] -= moved;
            load[group[b]] += moved;
        }
        self.crowding.exchange((a, t), (b, u));
        self.relocate(t, a, b);
        self.relocate(u, b, a);
        self.held.swap(a, b);
        for task in [t, u].into_iter().filter(|&task| task != EMPTY) {
            self.here[task] = self.price(task, self.slot[task]);
        }
    }

    fn relocate(&mut self, task: usize, from: usize, to: usize) {
        if task == EMPTY {
            return;
        }
        let tasks = self.tasks;
        for level in (0..self.levels).rev() {
            let at = |slot: usize| self.above[slot * self.levels + level] as usize;
            let (old, new) = (at(from), at(to));
            if old == new {
                break;
            }
            for &(other, weight) in tasks.neighbours(task) {
                self.talk[other * self.nodes + old] -= weight;
                self.talk[other * self.nodes + new] += weight;
                let above = self.above[self.slot[other] * self.levels + level] as usize;
                // A task's price follows those of its neighbours that come below its nodes or
                // leave.
                if above == old {
                    self.here[other] -= self.step[level] * weight;
                } else if above == new {
                    self.here[other] += self.step[level] * weight;
                }
            }
        }
        self.slot[task] = to;
    }

    /// Best swap of each task in turn, beginning in the given order, until none improves: near
    /// slots only or, with [`Reach::All`], all of them once nothing near helps. Tells whether it
    /// changed anything.
    pub fn descend(&mut self, order: &[usize], reach: Reach) -> bool {
        let near = self.descend_queue(order, Reach::Near);
        let mut gained = near < 0.0;
        let mut worthwhile = reach == Reach::All;
        while worthwhile {
            let change = self.descend_queue(order, Reach::All);
            gained |= change < 0.0;
            // Not where nothing costs anything.
            worthwhile = change < -WORTHWHILE * self.cost();
        }
        gained
    }

    /// What is paid for communication now.
    fn cost(&self) -> f64 {
        self.tree.cost[0] * self.tasks.total() + self.here.iter().sum::<f64>() / 2.0
    }

    /// The change of cost; less than any number where loads became more even.
    fn descend_queue(&mut self, order: &[usize], reach: Reach) -> f64 {
        let mut queue: VecDeque<usize> = order.iter().copied().collect();
        let mut queued = vec![true; self.tasks.len()];
        let mut change = 0.0;
        while let Some(task) = queue.pop_front() {
            queued[task] = false;
            let here = self.slot[task];
            let Some((there, delta)) = self.best_swap(here, reach) else { continue };
            self.swap(here, there);
            change += if delta.unevenness < 0 { f64::NEG_INFINITY } else { delta.cost };
            for moved in [task, self.held[here]].into_iter().filter(|&t| t != EMPTY) {
                let again = self.tasks.neighbours(moved).iter().take(AGAIN).map(|e| e.0);
                for other in again.chain([moved]) {
                    if !std::mem::replace(&mut queued[other], true) {
                        queue.push_back(other);
                    }
                }
            }
        }
        change
    }
}

/// Events between each task and all below each node.
fn talk(tasks: &Tasks, slots: &[usize], above: &[u32], levels: usize, nodes: usize) -> Vec<f64> {
    let mut talk = vec![0.0; tasks.len() * nodes];
    if levels == 0 {
        return talk;
    }
    let mut parent = vec![None; nodes];
    for pair in above.chunks_exact(levels).flat_map(|way| way.windows(2)) {
        parent[pair[1] as usize] = Some(pair[0] as usize);
    }
    for task in 0..tasks.len() {
        let row = &mut talk[task * nodes..(task + 1) * nodes];
        let known = tasks.neighbours(task);
        // A task with many neighbours is added up by the lowest nodes, and these to those above.
        let by_nodes = known.len() * (levels - 1) > nodes;
        for &(other, weight) in known {
            let way = &above[slots[other] * levels..][..levels];
            let way = if by_nodes { &way[levels - 1..] } else { way };
            way.iter().for_each(|&node| row[node as usize] += weight);
        }
        if by_nodes {
            for node in (0..nodes).rev() {
                parent[node].into_iter().for_each(|above| row[above] += row[node]);
            }
        }
    }
    talk
}

/// For each slot the first slot of its node at `level`, and the one behind the last.
fn spans(tree: &SlotTree, level: usize) -> Vec<(usize, usize)> {
    let ranges = tree.ranges(level);
    tree.node[level].iter().map(|&node| (ranges[node].start, ranges[node].end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::score::Score;
    use crate::slots::{Burden, Crowded};

    /// Every delta must be the difference of two full scores, also after many swaps.
    #[test]
    fn deltas_are_differences_of_scores() {
        let machine = topology::Topology::from_synthetic("pack:2 core:3 pu:2").unwrap();
        let hierarchy = topology::Hierarchy::new(&machine);
        let mut rng = Rng::new(7, 0);
        for threads in [5, 9, 12, 20] {
            let mut weight = vec![0.0; threads * threads];
            for i in 0..threads {
                for j in 0..i {
                    let w = rng.below(50) as f64;
                    (weight[i * threads + j], weight[j * threads + i]) = (w, w);
                }
            }
            let mut tasks = Tasks::from_weights(threads, weight);
            tasks = tasks.with_load((0..threads).map(|t| i64::from(t != 1)).collect());
            let mut tree = SlotTree::new(&hierarchy, &[180.0, 50.0, 10.0], threads);
            if threads % 2 == 0 {
                tasks = tasks.with_traffic(&(0..threads as u64).collect::<Vec<_>>());
                let group = tree.node[1].clone();
                tree.crowded.push(Crowded { group, price: vec![2.0, 4.0], by: Burden::Memory });
                let group = tree.node[2].clone();
                tree.crowded.push(Crowded { group, price: vec![3.0; 6], by: Burden::Talk });
            }
            let start = &rng.order(tree.len())[..threads];
            let mut state = State::new(&tasks, &tree, start);
            for _ in 0..200 {
                let (a, b) = (rng.below(tree.len()), rng.below(tree.len()));
                if a == b {
                    continue;
                }
                let before = Score::of(&tasks, &tree, &state.slot);
                let delta = state.delta(a, b);
                state.swap(a, b);
                let after = Score::of(&tasks, &tree, &state.slot);
                assert_eq!(delta.unevenness, after.unevenness - before.unevenness);
                assert_eq!(delta.cost, after.cost - before.cost);
            }
        }
    }
}

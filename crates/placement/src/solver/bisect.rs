//! Multilevel bisection of a graph into parts whose sizes lie in a given range.
//!
//! Coarsen by heavy-edge matching, start by greedy graph growing, refine with Fiduccia–Mattheyses
//! passes on the way back (Karypis, Kumar: A fast and high quality multilevel scheme for
//! partitioning irregular graphs, 1998). Sizes are exact at the finest level, where every vertex
//! weighs 1. Used by `multilevel.rs`.

use crate::rng::Rng;

/// Largest graph that is bisected without coarsening.
const COARSEST: usize = 24;
/// Greedy starts on the coarsest graph.
const STARTS: usize = 6;
/// Passes of refinement per level.
const PASSES: usize = 6;

/// An undirected graph; every edge stands at both ends.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub edges: Vec<Vec<(usize, f64)>>,
    pub size: Vec<usize>,
}

/// How large the left part may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub least: usize,
    pub most: usize,
}

impl Bounds {
    /// By how much `size` misses the bounds.
    fn miss(&self, size: usize) -> usize {
        self.least.saturating_sub(size) + size.saturating_sub(self.most)
    }
}

/// Whether each vertex is in the left part; its size is within `bounds` if vertices of size 1
/// allow.
pub fn bisect(graph: &Graph, bounds: Bounds, rng: &mut Rng) -> Vec<bool> {
    let total: usize = graph.size.iter().sum();
    if bounds.most >= total {
        return vec![true; graph.size.len()];
    }
    if bounds.least == 0 && bounds.most == 0 {
        return vec![false; graph.size.len()];
    }
    multilevel(graph, bounds, total, rng)
}

fn multilevel(graph: &Graph, bounds: Bounds, total: usize, rng: &mut Rng) -> Vec<bool> {
    let vertices = graph.size.len();
    let matched = (vertices > COARSEST).then(|| coarsen(graph, total, rng));
    let Some((coarse, of)) = matched.filter(|(coarse, _)| coarse.size.len() * 20 < vertices * 19)
    else {
        return best_start(graph, bounds, rng);
    };
    let side = multilevel(&coarse, bounds, total, rng);
    let mut side: Vec<bool> = of.iter().map(|&c| side[c]).collect();
    for _ in 0..PASSES {
        if !pass(graph, &mut side, bounds) {
            break;
        }
    }
    side
}

/// Heavy-edge matching: the smaller graph, and each vertex's number in it. Vertices left alone are
/// matched with each other, or graphs of many parts would never shrink.
fn coarsen(graph: &Graph, total: usize, rng: &mut Rng) -> (Graph, Vec<usize>) {
    let vertices = graph.size.len();
    let largest = (total * 3).div_ceil(40).max(2);
    let mut of = vec![usize::MAX; vertices];
    let mut count = 0;
    let mut alone: Option<usize> = None;
    for v in rng.order(vertices) {
        if of[v] != usize::MAX {
            continue;
        }
        let open = |&&(u, _): &&(usize, f64)| {
            of[u] == usize::MAX && u != v && graph.size[u] + graph.size[v] <= largest
        };
        let per_size = |&(u, w): &(usize, f64)| w / (graph.size[u] * graph.size[v]) as f64;
        let heaviest = graph.edges[v]
            .iter()
            .filter(open)
            .max_by(|a, b| per_size(a).total_cmp(&per_size(b)).then(b.0.cmp(&a.0)))
            .map(|&(u, _)| u);
        let fits = |u: usize| graph.size[u] + graph.size[v] <= largest;
        match (heaviest, alone.filter(|&u| graph.edges[v].is_empty() && fits(u))) {
            (Some(u), _) => of[u] = count,
            (None, Some(u)) => {
                of[v] = of[u];
                alone = None;
                continue;
            }
            (None, None) if graph.edges[v].is_empty() => alone = Some(v),
            (None, None) => {}
        }
        of[v] = count;
        count += 1;
    }
    (contract(graph, &of, count), of)
}

fn contract(graph: &Graph, of: &[usize], count: usize) -> Graph {
    let mut coarse = Graph { edges: vec![Vec::new(); count], size: vec![0; count] };
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (v, &c) in of.iter().enumerate() {
        coarse.size[c] += graph.size[v];
        members[c].push(v);
    }
    let mut at = vec![usize::MAX; count];
    for (c, members) in members.iter().enumerate() {
        let mut edges: Vec<(usize, f64)> = Vec::new();
        for &(u, w) in members.iter().flat_map(|&v| &graph.edges[v]) {
            let d = of[u];
            if d == c {
                continue;
            }
            match edges.get_mut(at[d]).filter(|edge| edge.0 == d) {
                Some(edge) => edge.1 += w,
                None => {
                    at[d] = edges.len();
                    edges.push((d, w));
                }
            }
        }
        coarse.edges[c] = edges;
    }
    coarse
}

/// The best of several greedy starts, refined.
fn best_start(graph: &Graph, bounds: Bounds, rng: &mut Rng) -> Vec<bool> {
    let mut best: Option<(usize, f64, Vec<bool>)> = None;
    for _ in 0..STARTS {
        let mut side = grow(graph, bounds, rng);
        for _ in 0..PASSES {
            if !pass(graph, &mut side, bounds) {
                break;
            }
        }
        let found = (bounds.miss(left_size(graph, &side)), cut(graph, &side));
        if best.as_ref().is_none_or(|(miss, cut, _)| found < (*miss, *cut)) {
            best = Some((found.0, found.1, side));
        }
    }
    best.map(|(_, _, side)| side).unwrap_or_default()
}

/// Grows the left part from a random vertex by the vertex most tied to it, to the middle of the
/// bounds or beyond.
fn grow(graph: &Graph, bounds: Bounds, rng: &mut Rng) -> Vec<bool> {
    let vertices = graph.size.len();
    let target = (bounds.least + bounds.most).div_ceil(2);
    let mut side = vec![false; vertices];
    let mut tie = vec![0.0; vertices];
    let mut size = 0;
    let mut next = Some(rng.below(vertices));
    while let Some(v) = next.filter(|&v| size == 0 || size + graph.size[v] <= target) {
        side[v] = true;
        size += graph.size[v];
        graph.edges[v].iter().for_each(|&(u, w)| tie[u] += w);
        let stronger = |best: usize, u: usize| if tie[u] > tie[best] { u } else { best };
        next = (0..vertices).filter(|&u| !side[u]).reduce(stronger);
        if size >= target {
            break;
        }
    }
    side
}

fn left_size(graph: &Graph, side: &[bool]) -> usize {
    side.iter().zip(&graph.size).filter(|(left, _)| **left).map(|(_, size)| size).sum()
}

fn cut(graph: &Graph, side: &[bool]) -> f64 {
    let crossing = |v: usize| {
        let across = move |e: &&(usize, f64)| side[e.0] != side[v];
        graph.edges[v].iter().filter(across).map(|e| e.1).sum::<f64>()
    };
    (0..side.len()).map(crossing).sum::<f64>() / 2.0
}

/// One Fiduccia–Mattheyses pass: moves every vertex once, best first, and keeps the best prefix.
/// On the way the bounds may be missed by the largest vertex. Tells whether anything improved.
fn pass(graph: &Graph, side: &mut [bool], bounds: Bounds) -> bool {
    let vertices = side.len();
    let slack = graph.size.iter().copied().max().unwrap_or(1);
    let sign: Vec<f64> = side.iter().map(|left| if *left { 1.0 } else { -1.0 }).collect();
    let gain = |v: usize| -sign[v] * graph.edges[v].iter().map(|&(u, w)| sign[u] * w).sum::<f64>();
    let mut gain: Vec<f64> = (0..vertices).map(gain).collect();
    let mut locked = vec![false; vertices];
    let mut size = left_size(graph, side);
    let start_miss = bounds.miss(size);
    let (mut total, mut best, mut kept) = (0.0, (start_miss, 0.0), 0);
    let mut moves: Vec<usize> = Vec::new();
    let patience = 50 + vertices / 8;
    while let Some(v) = best_vertex(graph, side, &gain, &locked, size, bounds, slack) {
        size = if side[v] { size - graph.size[v] } else { size + graph.size[v] };
        side[v] = !side[v];
        locked[v] = true;
        total += gain[v];
        moves.push(v);
        for &(u, w) in &graph.edges[v] {
            gain[u] += if side[u] != side[v] { 2.0 * w } else { -2.0 * w };
        }
        let miss = bounds.miss(size);
        if miss < best.0 || miss == best.0 && total > best.1 * (1.0 + 1e-12) {
            best = (miss, total);
            kept = moves.len();
        } else if moves.len() - kept > patience && best.0 == 0 {
            break;
        }
    }
    moves[kept..].iter().for_each(|&v| side[v] = !side[v]);
    kept > 0
}

/// The vertex with the largest gain that may move without missing the bounds too much.
fn best_vertex(
    graph: &Graph,
    side: &[bool],
    gain: &[f64],
    locked: &[bool],
    size: usize,
    bounds: Bounds,
    slack: usize,
) -> Option<usize> {
    let miss = bounds.miss(size);
    let mut best: Option<(f64, usize, usize)> = None;
    for v in (0..side.len()).filter(|&v| !locked[v]) {
        let moved = if side[v] { size - graph.size[v] } else { size + graph.size[v] };
        let missed = bounds.miss(moved);
        if missed > slack && missed >= miss {
            continue;
        }
        let better = best.is_none_or(|(g, m, _)| gain[v] > g || gain[v] == g && missed < m);
        if better {
            best = Some((gain[v], missed, v));
        }
    }
    best.map(|(_, _, v)| v)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(vertices: usize) -> Graph {
        let neighbours = |v: usize| {
            let left = v.checked_sub(1);
            let right = Some(v + 1).filter(|&u| u < vertices);
            left.into_iter().chain(right).map(|u| (u, 1.0)).collect()
        };
        Graph { edges: (0..vertices).map(neighbours).collect(), size: vec![1; vertices] }
    }

    #[test]
    fn a_path_is_cut_once_in_the_middle() {
        for vertices in [8, 20, 100] {
            let graph = path(vertices);
            let half = Bounds { least: vertices / 2, most: vertices / 2 };
            let best = (0..8)
                .map(|seed| bisect(&graph, half, &mut Rng::new(seed, 0)))
                .inspect(|side| assert_eq!(left_size(&graph, side), vertices / 2))
                .map(|side| cut(&graph, &side))
                .fold(f64::INFINITY, f64::min);
            assert_eq!(best, 1.0, "{vertices} vertices");
        }
    }

    #[test]
    fn sizes_are_kept_without_edges_and_at_the_extremes() {
        let graph = Graph { edges: vec![Vec::new(); 50], size: vec![1; 50] };
        for size in [0, 1, 17, 49, 50] {
            let side = bisect(&graph, Bounds { least: size, most: size }, &mut Rng::new(1, 0));
            assert_eq!(left_size(&graph, &side), size);
        }
    }
}

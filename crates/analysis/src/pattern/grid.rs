//! Nearest neighbours in two dimensions: a matrix of a × b threads, or a torus.
//!
//! In the order of the ids, rows of every length are tried, the last row complete or not. In
//! another order, the matrix is found by its distances: with as many of the strongest pairs as a ×
//! b threads have, corners are the threads with two neighbours, and the distances from two corners
//! of one side are a thread's coordinates.

use super::net::Net;
use super::{Fit, Pattern};
use std::collections::VecDeque;

/// A way to lay the threads out: row by row, `columns` in each.
struct Layout {
    order: Vec<usize>,
    columns: usize,
}

impl Layout {
    /// The neighbouring pairs; of a torus those across the edges, too.
    fn pairs(&self, closed: bool) -> Vec<(usize, usize)> {
        let (n, columns) = (self.order.len(), self.columns);
        let rows = n.div_ceil(columns);
        let mut pairs = Vec::with_capacity(2 * n);
        for place in 0..n {
            let (row, column) = (place / columns, place % columns);
            let mut join = |other: usize| pairs.push((self.order[place], self.order[other]));
            if column + 1 < columns && place + 1 < n {
                join(place + 1);
            }
            if place + columns < n {
                join(place + columns);
            }
            if closed && column == 0 && columns > 2 {
                join(place + columns - 1);
            }
            if closed && row == 0 && rows > 2 {
                join(place + (rows - 1) * columns);
            }
        }
        pairs
    }

    fn fit(self, net: &Net) -> Fit {
        let whole = self.order.len().is_multiple_of(self.columns);
        let score = |closed| {
            let pairs = self.pairs(closed);
            net.fit(pairs.iter().copied(), pairs.len() as f64)
        };
        let open = score(false);
        let torus = if whole { score(true) } else { 0.0 };
        let rows = self.order.chunks(self.columns).map(<[usize]>::to_vec).collect();
        let fit = Fit::new(Pattern::Matrix, open.max(torus), rows);
        Fit { closed: torus > open, ..fit }
    }
}

pub(super) fn fit(net: &Net) -> Option<Fit> {
    let n = net.len();
    // Four are a ring as well, five have no second row to speak of.
    if n < 6 {
        return None;
    }
    let mut best: Option<Fit> = None;
    let mut consider = |fit: Fit| {
        if best.as_ref().is_none_or(|b| fit.confidence > b.confidence) {
            best = Some(fit);
        }
    };
    // A row of two, or two rows, are a ladder; shorter last rows make sense below complete ones.
    for columns in 2..=n.div_ceil(2) {
        consider(Layout { order: (0..n).collect(), columns }.fit(net));
    }
    let strongest = net.strongest();
    for columns in
        (2..=n / 2).filter(|columns| n.is_multiple_of(*columns) && columns * columns >= n)
    {
        if let Some(order) = order_by_distance(net, &strongest, columns) {
            consider(Layout { order, columns }.fit(net));
        }
    }
    best
}

/// The threads row by row, if the strongest pairs are exactly those of a matrix with that many
/// columns, no fewer than rows.
fn order_by_distance(
    net: &Net,
    strongest: &[(usize, usize)],
    columns: usize,
) -> Option<Vec<usize>> {
    let n = net.len();
    let rows = n / columns;
    let edges = strongest.get(..rows * (columns - 1) + columns * (rows - 1))?;
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); n];
    for &(a, b) in edges {
        beside[a].push(b);
        beside[b].push(a);
    }
    let corners: Vec<usize> = (0..n).filter(|&thread| beside[thread].len() == 2).collect();
    let first = *corners.first()?;
    let from_first = distances(&beside, first);
    let second = corners[1..].iter().find(|&&c| from_first[c] == Some(columns - 1))?;
    let from_second = distances(&beside, *second);
    let mut order = vec![None; n];
    for thread in 0..n {
        // x + y and (columns − 1 − x) + y.
        let (sum, difference) = (from_first[thread]?, from_second[thread]?);
        let twice_x = (sum + columns - 1).checked_sub(difference)?;
        let (x, y) = (twice_x / 2, sum.checked_sub(twice_x / 2)?);
        if twice_x % 2 == 1 || x >= columns || y >= rows || order[y * columns + x].is_some() {
            return None;
        }
        order[y * columns + x] = Some(thread);
    }
    order.into_iter().collect()
}

fn distances(beside: &[Vec<usize>], from: usize) -> Vec<Option<usize>> {
    let mut distance = vec![None; beside.len()];
    distance[from] = Some(0);
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((thread, far)) = queue.pop_front() {
        for &other in &beside[thread] {
            if distance[other].is_none() {
                distance[other] = Some(far + 1);
                queue.push_back((other, far + 1));
            }
        }
    }
    distance
}

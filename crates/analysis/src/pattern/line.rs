//! Nearest neighbours in one dimension: a line, or a ring.
//!
//! The order is found by joining the strongest pairs, no thread with more than two others and no
//! ring before the end; the order of the ids is tried as well.

use super::net::Net;
use super::{Fit, Pattern};
use crate::heterogeneity::evenness;

/// A ring's closing pair must carry this share of what the others do on average.
const CLOSING: f64 = 0.5;

pub(super) fn fit(net: &Net) -> Option<Fit> {
    let n = net.len();
    if n < 3 {
        return None;
    }
    let by_id = fit_order(net, (0..n).collect());
    let mut by_strength = fit_order(net, greedy_order(net));
    if by_strength.confidence > by_id.confidence {
        // Where any order will do, a few strong pairs make a line by chance: they must be even.
        by_strength.confidence *= evenness_along(net, &by_strength).sqrt();
    }
    Some(if by_strength.confidence > by_id.confidence { by_strength } else { by_id })
}

fn fit_order(net: &Net, order: Vec<usize>) -> Fit {
    let n = order.len();
    let pairs = || order.windows(2).map(|pair| (pair[0], pair[1]));
    let ends = (order[n - 1], order[0]);
    let average = pairs().map(|(a, b)| net.between(a, b)).sum::<f64>() / (n as f64 - 1.0);
    // A ring of three is all-to-all.
    let closed = n > 3 && net.between(ends.0, ends.1) >= CLOSING * average;
    let confidence = match closed {
        true => net.fit(pairs().chain([ends]), n as f64),
        false => net.fit(pairs(), n as f64 - 1.0),
    };
    Fit { closed, ..Fit::new(Pattern::NearestNeighbour, confidence, vec![order]) }
}

fn evenness_along(net: &Net, line: &Fit) -> f64 {
    let order = &line.parts[0];
    let values = order.windows(2).map(|pair| net.between(pair[0], pair[1]));
    evenness(values, order.len() as f64 - 1.0)
}

/// The threads along lines of the strongest pairs, one line after the other.
fn greedy_order(net: &Net) -> Vec<usize> {
    let n = net.len();
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut line: Vec<usize> = (0..n).collect();
    fn root(line: &mut [usize], mut thread: usize) -> usize {
        while line[thread] != thread {
            line[thread] = line[line[thread]];
            thread = line[thread];
        }
        thread
    }
    for (a, b) in net.strongest() {
        let (of_a, of_b) = (root(&mut line, a), root(&mut line, b));
        if beside[a].len() < 2 && beside[b].len() < 2 && of_a != of_b {
            line[of_a] = of_b;
            beside[a].push(b);
            beside[b].push(a);
        }
    }
    let mut order = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    // Each line from the end with the lower id.
    for end in (0..n).filter(|&thread| beside[thread].len() < 2) {
        let mut next = (!seen[end]).then_some(end);
        while let Some(thread) = next {
            seen[thread] = true;
            order.push(thread);
            next = beside[thread].iter().copied().find(|&other| !seen[other]);
        }
    }
    order
}

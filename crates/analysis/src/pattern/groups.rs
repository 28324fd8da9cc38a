//! Groups that communicate within and little between them; in a row and one way, a pipeline.
//!
//! Groups are joined by the strongest pairs, one pair after the other, and the partition on the way
//! that fits best is taken (single linkage). Where what goes between the groups leads one way from
//! group to group, they are the stages of a pipeline as the thesis has them (figure 3.5f).

use super::net::Net;
use super::{Fit, Pattern};
use crate::heterogeneity::evenness;

/// Between stages goes at least this share of everything…
const BETWEEN_STAGES: f64 = 0.02;
/// …and of that this share onward to the next stage.
const ONWARD: f64 = 0.8;

pub(super) fn fit(net: &Net) -> Option<Fit> {
    let (groups, confidence) = partition(net)?;
    match in_a_row(net, &groups) {
        Some(stages) => Some(Fit::new(Pattern::Pipeline, confidence, stages)),
        None => Some(Fit::new(Pattern::Groups, confidence, groups)),
    }
}

/// The best partition into at least two groups of at least two threads.
fn partition(net: &Net) -> Option<(Vec<Vec<usize>>, f64)> {
    let n = net.len();
    let mut groups: Vec<Vec<usize>> = (0..n).map(|thread| vec![thread]).collect();
    let mut group_of: Vec<usize> = (0..n).collect();
    let (mut within, mut squares, mut slots, mut lonely, mut count) = (0.0, 0.0, 0.0, n, n);
    let mut best: Option<(Vec<usize>, f64)> = None;
    for (a, b) in net.strongest() {
        let (kept, gone) = match (group_of[a], group_of[b]) {
            (x, y) if x == y => continue,
            (x, y) if groups[x].len() >= groups[y].len() => (x, y),
            (x, y) => (y, x),
        };
        let joining = std::mem::take(&mut groups[gone]);
        for &new in &joining {
            for &old in &groups[kept] {
                let amount = net.between(new, old);
                within += amount;
                squares += amount * amount;
                slots += 1.0;
            }
        }
        lonely -= usize::from(joining.len() == 1) + usize::from(groups[kept].len() == 1);
        joining.iter().for_each(|&thread| group_of[thread] = kept);
        groups[kept].extend(joining);
        count -= 1;
        // A straggler in a large program is no group, but does not spoil the others.
        if count - lonely < 2 || lonely * 10 > n {
            continue;
        }
        let even = if squares > 0.0 { within * within / (slots * squares) } else { 0.0 };
        let confidence = net.lift(within, slots) * even.sqrt();
        if best.as_ref().is_none_or(|(_, b)| confidence > *b) {
            best = Some((group_of.clone(), confidence));
        }
    }
    let (group_of, confidence) = best?;
    let mut groups = vec![Vec::new(); n];
    (0..n).for_each(|thread| groups[group_of[thread]].push(thread));
    groups.retain(|group| !group.is_empty());
    groups.sort();
    Some((groups, confidence))
}

/// The groups in the order in which what goes between them leads, if it does.
fn in_a_row(net: &Net, groups: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    if !net.directed {
        return None;
    }
    let count = groups.len();
    let flow = |x: usize, y: usize| -> f64 {
        let cells = groups[x].iter().flat_map(|&a| groups[y].iter().map(move |&b| (a, b)));
        cells.map(|(a, b)| net.to(a, b)).sum()
    };
    let flows: Vec<Vec<f64>> = (0..count)
        .map(|x| (0..count).map(|y| if x == y { 0.0 } else { flow(x, y) }).collect())
        .collect();
    let given = |x: usize| flows[x].iter().sum::<f64>();
    let taken = |y: usize| flows.iter().map(|row| row[y]).sum::<f64>();
    let between: f64 = (0..count).map(given).sum();
    if between < BETWEEN_STAGES * net.total() {
        return None;
    }
    // From the group that gives most and takes least, always on to the one that gets most.
    let first = (0..count)
        .max_by(|&x, &y| (given(x) - taken(x)).total_cmp(&(given(y) - taken(y))).then(y.cmp(&x)))?;
    let mut order = vec![first];
    let mut onward = Vec::new();
    while order.len() < count {
        let last = order[order.len() - 1];
        let rest = (0..count).filter(|group| !order.contains(group));
        let next =
            rest.max_by(|&x, &y| flows[last][x].total_cmp(&flows[last][y]).then(y.cmp(&x)))?;
        onward.push(flows[last][next]);
        order.push(next);
    }
    let led = onward.iter().sum::<f64>() / between;
    // Every step must be one.
    let steps = evenness(onward.iter().copied(), onward.len() as f64);
    (led >= ONWARD && steps >= 0.5).then(|| order.iter().map(|&g| groups[g].clone()).collect())
}

//! A start that keeps chains together: threads in a line, neighbours near each other, laid over the
//! slots in order.
//!
//! The line is that of Cuthill and McKee (Reducing the bandwidth of sparse symmetric matrices,
//! 1969): breadth first from a thread at the rim, threads of few neighbours first. Bisection finds
//! good cuts of a chain too, but seldom all of them; this finds them all.

use crate::slots::SlotTree;
use crate::tasks::Tasks;
use std::collections::VecDeque;

/// For each task a slot; loads are spread evenly, whatever tasks weigh.
pub fn construct(tasks: &Tasks, tree: &SlotTree) -> Vec<usize> {
    let mut slots = vec![0; tasks.len()];
    let (count, room) = (tasks.len(), tree.len());
    for (place, task) in order(tasks).into_iter().enumerate() {
        slots[task] = if tree.even.is_empty() { place } else { place * room / count };
    }
    slots
}

/// All tasks, those that communicate with no other last.
fn order(tasks: &Tasks) -> Vec<usize> {
    let mut by_degree: Vec<usize> = (0..tasks.len()).collect();
    by_degree
        .sort_by_key(|&task| (tasks.neighbours(task).is_empty(), tasks.neighbours(task).len()));
    let mut seen = vec![false; tasks.len()];
    let mut order = Vec::new();
    for task in by_degree {
        if !seen[task] {
            let rim = walk(tasks, task, &mut seen.clone()).pop().unwrap_or(task);
            order.extend(walk(tasks, rim, &mut seen));
        }
    }
    order
}

/// Breadth first from `start` over what is not `seen` yet.
fn walk(tasks: &Tasks, start: usize, seen: &mut [bool]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut queue = VecDeque::from([start]);
    seen[start] = true;
    while let Some(task) = queue.pop_front() {
        order.push(task);
        let mut next: Vec<usize> =
            tasks.neighbours(task).iter().map(|e| e.0).filter(|&other| !seen[other]).collect();
        next.sort_by_key(|&other| tasks.neighbours(other).len());
        for other in next {
            seen[other] = true;
            queue.push_back(other);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_shuffled_chain_is_put_in_line() {
        let id = Rng::new(5, 0).order(50);
        let mut weight = vec![0.0; 2500];
        for pair in id.windows(2) {
            weight[pair[0] * 50 + pair[1]] = 1.0;
            weight[pair[1] * 50 + pair[0]] = 1.0;
        }
        let found = order(&Tasks::from_weights(50, weight));
        assert!(found == id || found.iter().rev().eq(id.iter()), "{found:?}");
    }

    #[test]
    fn every_thread_is_there_once() {
        let mut weight = vec![0.0; 36];
        (weight[1], weight[6]) = (3.0, 3.0);
        (weight[3 * 6 + 5], weight[5 * 6 + 3]) = (1.0, 1.0);
        let mut found = order(&Tasks::from_weights(6, weight));
        assert_eq!(found[4..], [2, 4]);
        found.sort();
        assert_eq!(found, [0, 1, 2, 3, 4, 5]);
    }
}

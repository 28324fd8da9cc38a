//! A pipeline: from stage to stage, one way. A stage has one thread or several.
//!
//! A thread's stage is the length of the longest way to it over pairs that clearly communicate one
//! way; where such ways form a ring there are no stages. (The thesis' pipelines, which communicate
//! mostly within their stages, are found by `groups`.)

use super::net::Net;
use super::{Fit, Pattern};
use crate::heterogeneity::evenness;

/// Cells below this share of both threads' largest do not order stages…
const CLEAR: f64 = 0.15;
/// …nor do those below this share of the largest of all.
const CLEAR_AT_ALL: f64 = 0.005;
/// A pipeline with at least this share going forward is one without reservation.
const FORWARD: f64 = 0.75;

pub(super) fn fit(net: &Net) -> Option<Fit> {
    if !net.directed {
        return None;
    }
    let stages = stages(net)?;
    let single = |stage: usize| stages[stage].len() == 1;
    // One that gives to all, or takes from all, is no pipeline.
    if stages.len() < 2 || (stages.len() == 2 && (single(0) || single(1))) {
        return None;
    }
    let confidence = confidence(net, &stages);
    Some(Fit::new(Pattern::Pipeline, confidence, stages))
}

fn confidence(net: &Net, stages: &[Vec<usize>]) -> f64 {
    let cells = |pair: &[Vec<usize>]| -> Vec<(usize, usize)> {
        pair[0].iter().flat_map(|&a| pair[1].iter().map(move |&b| (a, b))).collect()
    };
    let steps: Vec<Vec<(usize, usize)>> = stages.windows(2).map(cells).collect();
    let sum = |step: &Vec<(usize, usize)>| step.iter().map(|&(a, b)| net.to(a, b)).sum::<f64>();
    let forward: Vec<f64> = steps.iter().map(sum).collect();
    let both_ways = steps.iter().flatten().map(|&(a, b)| net.between(a, b)).sum::<f64>();
    let share = forward.iter().sum::<f64>() / both_ways.max(f64::MIN_POSITIVE);
    let even = evenness(forward.iter().copied(), forward.len() as f64);
    let pairs: Vec<(usize, usize)> = steps.concat();
    let slots = pairs.len() as f64;
    net.fit(pairs.into_iter(), slots) * even.sqrt() * (share / FORWARD).min(1.0)
}

/// The threads of each stage, ascending; `None` where there is no order.
fn stages(net: &Net) -> Option<Vec<Vec<usize>>> {
    let n = net.len();
    let strongest = |a: usize| (0..n).map(|b| net.to(a, b).max(net.to(b, a))).fold(0.0, f64::max);
    let strength: Vec<f64> = (0..n).map(strongest).collect();
    let most = strength.iter().copied().fold(0.0, f64::max);
    let leads = |a: usize, b: usize| {
        let amount = net.to(a, b);
        let clear = amount >= CLEAR * strength[a].min(strength[b]);
        clear && amount >= CLEAR_AT_ALL * most && amount > 0.0 && net.one_way(a, b)
    };
    let mut before: Vec<usize> = (0..n).map(|b| (0..n).filter(|&a| leads(a, b)).count()).collect();
    let mut stage = vec![0; n];
    let mut ready: Vec<usize> = (0..n).filter(|&thread| before[thread] == 0).collect();
    let mut done = 0;
    while let Some(thread) = ready.pop() {
        done += 1;
        for next in (0..n).filter(|&next| leads(thread, next)) {
            stage[next] = stage[next].max(stage[thread] + 1);
            before[next] -= 1;
            if before[next] == 0 {
                ready.push(next);
            }
        }
    }
    if done < n {
        return None;
    }
    let mut stages = vec![Vec::new(); stage.iter().max()? + 1];
    // Who neither leads nor is led has no place in it.
    let staged = |&thread: &usize| (0..n).any(|o| leads(thread, o) || leads(o, thread));
    (0..n).filter(staged).for_each(|thread| stages[stage[thread]].push(thread));
    Some(stages)
}

//! Data, given threads: every unit in turn goes where it adds least, until none moves.
//!
//! Units come by their accesses, most first. A unit may go to any node, or be interleaved evenly or
//! by bandwidth; memory that no plan can name goes nowhere by parts, only all of it under one
//! policy of the operating system. Each step lowers the cost, so that this ends, and the answer is
//! never worse than the start. Neighbour: `model.rs`.

use crate::data::model::{Data, Given, Spot};

/// Most rounds over all units.
const MAX_ROUNDS: usize = 40;
/// Gains below this part of the cost are rounding.
const ROUNDING: f64 = 1e-10;

/// The improved layout.
pub fn descend(given: &Given<'_, '_>, start: &Data) -> Data {
    let units = &given.model.units;
    let mut data = start.clone();
    let mut order: Vec<usize> = (0..units.len()).filter(|&unit| !units[unit].rest).collect();
    order.sort_by(|&a, &b| units[b].reaching.total_cmp(&units[a].reaching));
    let least = given.cost(&data).total() * ROUNDING;
    for _ in 0..MAX_ROUNDS {
        let mut load = given.load(&data);
        let mut moved = false;
        for &unit in &order {
            moved |= improve(given, &mut data, &mut load, unit, least);
        }
        if !place_rest(given, &mut data, least) && !moved {
            break;
        }
    }
    data
}

/// Moves one unit to where it adds least; whether that gains more than `least`.
fn improve(
    given: &Given<'_, '_>,
    data: &mut Data,
    load: &mut [f64],
    unit: usize,
    least: f64,
) -> bool {
    let parts = |spot| given.model.parts(unit, spot, given.first[unit], data.kept.as_deref());
    let here = parts(data.spots[unit]);
    add(given, load, unit, &here, -1.0);
    let mut best = (data.spots[unit], price(given, load, unit, &here) - least);
    let nodes = (0..given.model.nodes.len()).map(|node| Spot::Node(node as u16));
    for spot in nodes.chain([Spot::Interleave, Spot::Weighted]) {
        let price = price(given, load, unit, &parts(spot));
        if price < best.1 {
            best = (spot, price);
        }
    }
    let there = parts(best.0);
    add(given, load, unit, &there, 1.0);
    std::mem::replace(&mut data.spots[unit], best.0) != best.0
}

fn add(given: &Given<'_, '_>, load: &mut [f64], unit: usize, parts: &[f64], sign: f64) {
    for &(stretch, bytes) in &given.traffic[unit] {
        let row = &mut load[stretch * parts.len()..(stretch + 1) * parts.len()];
        row.iter_mut().zip(parts).for_each(|(load, part)| *load += sign * bytes * part);
    }
}

/// What a unit adds to the cost beside the load of all others.
fn price(given: &Given<'_, '_>, load: &[f64], unit: usize, parts: &[f64]) -> f64 {
    let nodes = parts.len();
    let linear = &given.linear[unit * nodes..(unit + 1) * nodes];
    let mut sum = 0.0;
    for (node, &part) in parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
        let mut wait = 0.0;
        for &(stretch, bytes) in &given.traffic[unit] {
            let (others, own) = (load[stretch * nodes + node], bytes * part);
            wait += given.model.crowding[stretch] * own * (own + 2.0 * others);
        }
        sum += linear[node] * part + wait / given.model.nodes.nodes[node].bandwidth;
    }
    sum
}

/// Chooses the operating system's policy for memory that no plan can name.
fn place_rest(given: &Given<'_, '_>, data: &mut Data, least: f64) -> bool {
    let rest: Vec<usize> =
        (0..given.model.units.len()).filter(|&u| given.model.units[u].rest).collect();
    let Some(&first) = rest.first() else { return false };
    let mut best = given.cost(data).total() - least;
    let mut moved = false;
    for spot in [Spot::FirstTouch, Spot::Interleave, Spot::Weighted] {
        if data.spots[first] == spot {
            continue;
        }
        let mut other = data.clone();
        rest.iter().for_each(|&unit| other.spots[unit] = spot);
        let cost = given.cost(&other).total();
        if cost < best {
            (best, *data, moved) = (cost, other, true);
        }
    }
    moved
}

//! Latencies made up for machines whose firmware tells the truth, hides things, or exaggerates.

use super::*;
use crate::{CostModel, Costs, MeasuredPair};

fn measure(topology: &Topology, pus: &[u32], ns: impl Fn(u32, u32) -> f64) -> Measured {
    let mut measured = Measured::new(topology, pus, 64);
    for (i, &a) in pus.iter().enumerate() {
        for &b in &pus[i + 1..] {
            let latency_ns = ns(a, b);
            if latency_ns.is_nan() {
                continue;
            }
            measured.pairs.push(MeasuredPair {
                pus_os: [a, b].map(|pu| topology.pus[pu as usize].os),
                latency_ns,
                quartiles_ns: [latency_ns; 2],
                batches: 1,
            });
        }
    }
    measured
}

fn all(topology: &Topology) -> Vec<u32> {
    (0..topology.pus.len() as u32).collect()
}

/// Two packages of four cores of two threads.
fn dual() -> Topology {
    Topology::from_synthetic("pack:2 core:4 pu:2").unwrap()
}

fn dual_ns(a: u32, b: u32) -> f64 {
    match (a / 8 == b / 8, a / 2 == b / 2) {
        (false, _) => 120.0 + f64::from(a % 3),
        (_, false) => 45.0 + f64::from(b % 3),
        _ => 8.0,
    }
}

#[test]
fn a_machine_that_tells_the_truth_has_no_disagreements() {
    let machine = dual();
    let comparison = compare(&measure(&machine, &all(&machine), dual_ns), &machine);
    let levels: Vec<_> =
        comparison.levels.iter().map(|l| (l.between, l.latency_ns, l.pairs)).collect();
    let expected =
        [("packages", Some(121.0), 64), ("cores", Some(46.0), 48), ("PUs", Some(8.0), 8)];
    assert_eq!(levels, expected);
    assert_eq!(comparison.found.len(), 3);
    assert_eq!(comparison.disagreements, []);
}

#[test]
fn groups_that_a_virtual_machine_hides_are_found() {
    let machine = Topology::from_synthetic("core:8 pu:1").unwrap();
    let measured =
        measure(&machine, &all(&machine), |a, b| if a / 4 == b / 4 { 25.0 } else { 95.0 });
    let comparison = compare(&measured, &machine);
    let groups = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    let expected = Disagreement::Unknown { groups, ns: 95.0, inner_ns: 25.0 };
    assert_eq!(comparison.disagreements, [expected]);
    assert_eq!(
        comparison.disagreements[0].to_string(),
        "the latencies show groups that the firmware does not: P#0-3; P#4-7 (25 ns within, 95 ns \
         between them)"
    );
}

#[test]
fn levels_that_are_not_there_are_told() {
    let machine = dual();
    let same = |a: u32, b: u32| if a / 2 == b / 2 { 8.0 } else { 50.0 };
    let comparison = compare(&measure(&machine, &all(&machine), same), &machine);
    let (between, inner) = ("packages", "cores");
    let expected = Disagreement::NotSeen { between, inner, ns: 50.0, inner_ns: 50.0 };
    assert_eq!(comparison.disagreements, [expected]);
    let reversed = |a: u32, b: u32| if a / 2 == b / 2 { 60.0 } else { 50.0 };
    let comparison = compare(&measure(&machine, &all(&machine), reversed), &machine);
    let text: Vec<String> = comparison.disagreements.iter().map(ToString::to_string).collect();
    assert!(text.contains(
        &"between cores it takes only 50 ns, but 60 ns between PUs, which should be nearer".into()
    ));
}

#[test]
fn a_pair_out_of_line_is_named() {
    let machine = dual();
    let ns = |a: u32, b: u32| if (a, b) == (3, 6) { 400.0 } else { dual_ns(a, b) };
    let comparison = compare(&measure(&machine, &all(&machine), ns), &machine);
    let between = "cores";
    let expected = Disagreement::Slow {
        between,
        pairs: 1,
        of: 48,
        slowest: [3, 6],
        ns: 400.0,
        usual_ns: 46.0,
    };
    assert_eq!(comparison.disagreements, [expected]);
}

#[test]
fn costs_are_the_medians_and_what_is_missing_follows_its_neighbour() {
    let machine = dual();
    let whole = measure(&machine, &all(&machine), dual_ns);
    let costs = Costs::new(&CostModel::Measured(whole.clone()), &machine).unwrap();
    assert_eq!((costs.per_level, costs.unit), (vec![121.0, 46.0, 8.0], "ns"));
    assert_eq!(costs.name, "measured");
    // One thread of each core of one package: nothing between packages and between siblings.
    let part = measure(&machine, &[0, 2, 4, 6], dual_ns);
    let costs = Costs::new(&CostModel::Measured(part), &machine).unwrap().per_level;
    let usual = Costs::new(&CostModel::Latency, &machine).unwrap().per_level;
    assert_eq!(costs[1], 45.5);
    assert_eq!(costs[0], 45.5 * usual[0] / usual[1]);
    assert_eq!(costs[2], 45.5 * usual[2] / usual[1]);
    // PUs of which nothing is known any more do not matter.
    let ns = |a: u32, b: u32| if b >= 8 { f64::NAN } else { dual_ns(a, b) };
    let without = measure(&machine, &all(&machine), ns);
    let costs = Costs::new(&CostModel::Measured(without), &machine).unwrap().per_level;
    assert_eq!(costs[1..], [46.0, 8.0]);
    // Another machine is refused.
    let other = Topology::from_synthetic("pack:2 core:4 pu:4").unwrap();
    let error = Costs::new(&CostModel::Measured(whole), &other).unwrap_err().to_string();
    assert!(error.starts_with("the latencies were measured on another machine ("), "{error}");
    let nothing = Measured::new(&machine, &[0], 64);
    let error = Costs::new(&CostModel::Measured(nothing), &machine).unwrap_err();
    assert_eq!(error, CostError::NothingMeasured);
}

#[test]
fn machines_of_one_pu_have_nothing_to_compare() {
    let machine = Topology::from_synthetic("pu:1").unwrap();
    let measured = Measured::new(&machine, &[0], 64);
    let comparison = compare(&measured, &machine);
    assert!(comparison.levels.is_empty() && comparison.disagreements.is_empty());
    let costs = Costs::new(&CostModel::Measured(measured), &machine).unwrap();
    assert!(costs.per_level.is_empty());
}

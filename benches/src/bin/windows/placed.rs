//! What a placement by one matrix costs by another, on the machines of `tests/machines/`.

use placement::{PolicyKind, Request, Tasks, place};
use test_support::paths;
use topology::{CostModel, Costs, Topology};
use types::CommMatrix;

/// A machine, and what communication costs on it.
pub struct Machine {
    topology: Topology,
    costs: Costs,
}

/// All described machines.
pub fn machines() -> anyhow::Result<Vec<Machine>> {
    let mut machines = Vec::new();
    for entry in std::fs::read_dir(paths::root().join("tests/machines"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "synthetic" || end == "xml") {
            let topology = Topology::from_spec(&path.to_string_lossy())?;
            let costs = Costs::new(&CostModel::Latency, &topology)?;
            machines.push(Machine { topology, costs });
        }
    }
    Ok(machines)
}

/// Cost by `exact` of threads placed by `found`, over that of threads placed by `exact`: the worst
/// of the machines.
pub fn ratio(exact: &CommMatrix, found: &CommMatrix, machines: &[Machine]) -> anyhow::Result<f64> {
    let (exact, found) = (Tasks::from(exact), Tasks::from(found));
    let request = Request::new(PolicyKind::Locality);
    let mut worst: f64 = 0.0;
    for Machine { topology, costs } in machines {
        let cost = |tasks| -> anyhow::Result<f64> {
            Ok(place(tasks, topology, costs, &request)?.part(0, &exact, topology, costs).0)
        };
        worst = worst.max(cost(&found)? / cost(&exact)?.max(f64::MIN_POSITIVE));
    }
    Ok(worst)
}

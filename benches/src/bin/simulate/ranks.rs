//! Predicted cost against simulated time over the policies: rank correlation, and a reason where it
//! is low.

use crate::{Kernel, Options, simulate};
use anyhow::Context;
use benches::statistics::rank_correlation;
use serde_json::Value;
use std::path::Path;
use test_support::paths;

const MACHINES: [&str; 4] =
    ["broadwell-2s", "nehalem-ex-4s", "epyc-7763-nps4", "sapphire-rapids-snc4"];
const POLICIES: [&str; 6] =
    ["compact", "scatter", "locality", "balanced-locality", "load-balance", "distance"];

/// Below it, a reason is given.
const LOW: f64 = 0.7;
/// Policies whose times differ by less than this are as good as equal.
const SAME_TIME: f64 = 0.02;
/// A controller that is busier than this makes others wait.
const BUSY: f64 = 0.5;

/// A policy on a machine.
struct Plan {
    predicted: f64,
    time: f64,
    /// Of the lines from outside a core's caches, those from other caches.
    transfers: f64,
    /// The busiest controller.
    busiest: f64,
}

pub fn table(kernels: &[Kernel], options: &Options, folder: &Path) -> anyhow::Result<()> {
    println!(
        "Rank correlation of predicted cost and simulated time over {} policies for threads (below: \
         slowest over fastest)",
        POLICIES.len()
    );
    let heads: String = MACHINES.iter().map(|name| format!("{name:>22}")).collect();
    println!("{:<8}{heads}", "kernel");
    let mut low = Vec::new();
    for kernel in kernels {
        let plans = plans(kernel, options, folder)?;
        let (mut row, mut spreads) = (String::new(), String::new());
        for (name, plans) in MACHINES.iter().zip(&plans) {
            let of = |value: fn(&Plan) -> f64| plans.iter().map(value).collect::<Vec<f64>>();
            let correlation = rank_correlation(&of(|p| p.predicted), &of(|p| p.time));
            row += &format!("{correlation:>22.2}");
            spreads += &format!("{:>22}", format!("{:.2}x", 1.0 + spread(plans)));
            if correlation < LOW {
                low.push(format!("{} on {name}: {}", kernel.name, reason(plans)));
            }
        }
        println!("{:<8}{row}\n{:<8}{spreads}", kernel.name, "");
    }
    for line in low {
        println!("{line}");
    }
    Ok(())
}

/// By machine.
fn plans(kernel: &Kernel, options: &Options, folder: &Path) -> anyhow::Result<Vec<Vec<Plan>>> {
    let mut arguments: Vec<String> = Vec::new();
    for name in MACHINES {
        let file = paths::root().join(format!("tests/machines/{name}.synthetic"));
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        arguments.extend(["--on".into(), text.trim().into()]);
    }
    POLICIES.iter().for_each(|policy| arguments.extend(["--policy".into(), (*policy).into()]));
    if options.quick {
        arguments.extend(["--sample-sets".into(), "1/16".into()]);
    }
    let json = simulate(&kernel.trace(folder)?, &arguments)?;
    let scenarios = json["scenarios"].as_array().context("scenarios")?;
    let of_machine = |machine: usize| {
        let own = scenarios.iter().filter(move |one| one["machine"] == machine);
        own.map(plan).collect()
    };
    Ok((0..MACHINES.len()).map(of_machine).collect())
}

fn plan(scenario: &Value) -> Plan {
    let total = &scenario["total"];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let transfers: f64 =
        total["transfers"].as_object().map_or(0.0, |levels| levels.values().map(number).sum());
    let memory = number(&total["local"]) + number(&total["remote"]);
    let controllers = scenario["controllers"].as_array();
    let busy = controllers.into_iter().flatten().map(|load| number(&load["busy"]));
    Plan {
        predicted: number(&scenario["predicted_ns"]),
        time: number(&total["time_ns"]),
        transfers: transfers / (transfers + memory).max(1.0),
        busiest: busy.fold(0.0, f64::max),
    }
}

/// How much longer the slowest takes than the fastest.
fn spread(plans: &[Plan]) -> f64 {
    let times = || plans.iter().map(|plan| plan.time);
    times().fold(0.0, f64::max) / times().fold(f64::MAX, f64::min).max(f64::MIN_POSITIVE) - 1.0
}

/// Why the order is another one, as far as the counts tell.
fn reason(plans: &[Plan]) -> String {
    let predicted = |plan: &Plan| plan.predicted;
    let first = plans.first().map_or(0.0, predicted);
    let transfers = plans.iter().map(|plan| plan.transfers).fold(0.0, f64::max);
    let busiest = plans.iter().map(|plan| plan.busiest).fold(0.0, f64::max);
    if plans.iter().all(|plan| plan.predicted == first) {
        return "all policies are predicted to cost the same".into();
    }
    if spread(plans) < SAME_TIME {
        return format!(
            "times differ by {:.1} % at most, so their order says little",
            100.0 * spread(plans)
        );
    }
    if busiest > BUSY {
        return format!(
            "a memory controller is busy {:.0} % of the time: what keeps threads together makes them \
             wait there, which the prediction does not know",
            100.0 * busiest
        );
    }
    if transfers < 0.5 {
        return format!(
            "at most {:.0} % of the lines come from other caches: how much cache threads have decides, \
             which the prediction does not know",
            100.0 * transfers
        );
    }
    "the counts do not tell why".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_follow_from_counts() {
        let plan =
            |predicted, time, transfers, busiest| Plan { predicted, time, transfers, busiest };
        let of = |plans: [Plan; 2]| reason(&plans);
        assert!(of([plan(1.0, 5.0, 0.9, 0.0), plan(1.0, 9.0, 0.9, 0.0)]).contains("the same"));
        assert!(of([plan(1.0, 5.0, 0.9, 0.0), plan(2.0, 5.01, 0.9, 0.0)]).contains("0.2 %"));
        assert!(of([plan(1.0, 5.0, 0.9, 0.8), plan(2.0, 4.0, 0.9, 0.0)]).contains("busy 80 %"));
        assert!(of([plan(1.0, 5.0, 0.1, 0.1), plan(2.0, 4.0, 0.2, 0.0)]).contains("most 20 %"));
        assert!(of([plan(1.0, 5.0, 0.9, 0.1), plan(2.0, 4.0, 0.9, 0.0)]).contains("do not tell"));
    }
}

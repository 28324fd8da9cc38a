//! Joint plans against pairs of policies: made-up programs with pages on the five machines.
//!
//! For each program and machine: what the best pair of a policy for threads and one for data
//! costs, by how much the joint plan undercuts it, how far it is above the lower bound, and the CPU
//! time of the whole call. A joint plan that costs more than a pair ends the benchmark as failed.

#[path = "../../../crates/placement/tests/support/kernels.rs"]
mod kernels;

use crate::machines::Machine;
use anyhow::{Result, ensure};
use kernels::{Kernel, Maker};
use placement::{DataPolicy, Effort, JointPlan, JointRequest, plan_jointly};

/// Pages of the large program.
const LARGE: usize = 1_000_000;

/// Each program with this number of threads, on each machine.
pub fn compare(machines: &[Machine], threads: usize) -> Result<()> {
    println!("\njoint plans, {threads} threads: cost against the best pair of policies");
    println!(
        "{:<22} {:<12} {:<32} {:>8} {:>9} {:>8}",
        "machine", "program", "best pair", "saved", "of bound", "CPU s"
    );
    let mut saved = Vec::new();
    for machine in machines {
        for kernel in kernels::all(threads) {
            saved.push(row(machine, &kernel)?);
        }
    }
    saved.sort_by(f64::total_cmp);
    let mean = saved.iter().sum::<f64>() / saved.len().max(1) as f64;
    let (median, most) = (saved[saved.len() / 2], saved[saved.len() - 1]);
    println!(
        "saved over {} problems: median {:.1} %, mean {:.1} %, most {:.1} %; never worse",
        saved.len(),
        median * 100.0,
        mean * 100.0,
        most * 100.0
    );
    Ok(())
}

/// A million pages, of which every thread uses a part of its own and all use some.
pub fn large(machine: &Machine, threads: usize) -> Result<()> {
    let mut make = Maker::new(threads);
    make.object("array");
    for page in 0..LARGE {
        let thread = page * threads / LARGE;
        let other = (thread + 1) % threads;
        let count = 100 + (page % 7) as u64;
        make.page_at(page, 0, &[(thread, count), (other, 1 + page as u64 % 3)]);
    }
    (1..threads).for_each(|thread| make.talk(thread - 1, thread, 1000));
    println!("\na million pages:");
    row(machine, &make.finish("large")).map(|_| ())
}

fn row(machine: &Machine, kernel: &Kernel) -> Result<f64> {
    let (data, effort) = (DataPolicy::Auto, Effort::Default);
    let request = JointRequest { policy: None, data, seed: 0, effort, jobs: 1 };
    let start = crate::cpu_seconds();
    let plan: JointPlan =
        plan_jointly(&kernel.tasks, &kernel.usage, &machine.topology, &machine.costs, &request)?;
    let seconds = crate::cpu_seconds() - start;
    let least = plan.pairs.iter().min_by(|a, b| a.cost.total().total_cmp(&b.cost.total()));
    let Some(pair) = least else { return Ok(0.0) };
    let (joint, best) = (plan.cost.total(), pair.cost.total());
    ensure!(joint <= best, "{} on {}: {joint} is worse than {pair:?}", kernel.name, machine.name);
    let saved = 1.0 - joint / best;
    println!(
        "{:<22} {:<12} {:<32} {:>6.1} % {:>8.2}x {:>8.2}",
        machine.name,
        kernel.name,
        format!("{} + {}", pair.policy, pair.data.name()),
        saved * 100.0,
        joint / plan.bound,
        seconds
    );
    Ok(saved)
}

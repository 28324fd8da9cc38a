//! CPU time of simulating against native runs, in turns.

use crate::{Kernel, Options};
use benches::statistics::{Spread, spread};
use test_support::{Run, Threadtalk};

/// Two packages of four cores; at most a few per cent of the kernels' accesses leave the caches of
/// a core.
const MACHINE: &str = "pack:2 numa:1(memory=4GiB) l3:1(size=16MiB) core:4 l2:1(size=512KiB) \
                       l1d:1(size=32KiB) pu:1";
const ONE: &[&str] = &["locality"];
const FIVE: &[&str] = &["locality", "compact", "scatter", "distance", "load-balance"];

pub fn table(kernels: &[Kernel], options: &Options) -> anyhow::Result<()> {
    println!(
        "CPU time, {} turns, median (range): simulating over native for one plan, each further plan \
         over the first, and over native for 1/16 of the sets",
        options.pairs
    );
    println!(
        "{:<8}{:>24}{:>28}{:>24}",
        "kernel", "one plan", "each further plan", "1/16 of the sets"
    );
    for kernel in kernels {
        let (mut one, mut further, mut part) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.pairs.max(1) {
            let native = kernel.natively()?.cpu.as_secs_f64();
            let of = |policies: &[&str], more: &[&str]| {
                kernel.under(simulating(policies).args(more)).map(|run| run.cpu.as_secs_f64())
            };
            let first = of(ONE, &[])?;
            one.push(first / native);
            let others = (FIVE.len() - ONE.len()) as f64;
            further.push((of(FIVE, &[])? - first) / others / first);
            part.push(of(ONE, &["--sample-sets", "1/16"])? / native);
        }
        let [one, further, part] = [one, further, part].map(|of| spread(of.into_iter()));
        let times = |Spread { least, median, most }| format!("{median:.1}x ({least:.1}–{most:.1})");
        let percent = |of: Spread| {
            let [least, median, most] = [of.least, of.median, of.most].map(|part| 100.0 * part);
            format!("+{median:.0} % ({least:.0}–{most:.0})")
        };
        println!("{:<8}{:>24}{:>28}{:>24}", kernel.name, times(one), percent(further), times(part));
    }
    Ok(())
}

fn simulating(policies: &[&str]) -> Run {
    let run = Threadtalk::built().verb("simulate").args(["--on", MACHINE]);
    policies.iter().fold(run, |run, policy| run.args(["--policy", policy]))
}

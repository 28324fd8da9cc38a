//! Does the computed placement reach the best there is? (`make bench-pairs`)
//!
//! Records and places `examples/pairs.c`: four threads that talk in two pairs through buffers of
//! 256 KB. Then runs it under the computed plan and under every other assignment of the four
//! threads to the first two PUs, round after round in turn, and compares median wall times. The
//! computed plan should be within 3 % of the best assignment found by trying all.

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::{Compiler, Scratch, Target, Threadtalk};

/// Compare the computed placement of examples/pairs.c with all assignments to two PUs.
#[derive(Parser)]
#[command(name = "pairs", max_term_width = 100)]
struct Options {
    /// Runs of each assignment
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Turns of each thread in one run
    #[arg(long, default_value_t = 12000)]
    turns: usize,
    /// Fail when the computed plan is more than 3 % slower than the best
    #[arg(long)]
    check: bool,
}

/// Threads that are assigned; thread 0 only waits for them.
const THREADS: usize = 4;

/// A plan to be timed.
struct Candidate {
    name: String,
    plan: PathBuf,
    /// Wall times, seconds.
    times: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let target = Target::new(Compiler::Gcc, "examples/pairs.c").flags(&["-O2", "-pthread"]);
    let binary = target.build()?;
    let computed = scratch.join("computed.json");
    place(&threadtalk, &scratch, &binary, &computed)?;
    let (mut candidates, own) = assignments(&scratch, &computed)?;
    for round in 0..options.rounds {
        for k in 0..candidates.len() {
            // Each round starts elsewhere, so that no candidate always follows the same neighbour.
            let candidate = (k + round) % candidates.len();
            let candidate = &mut candidates[candidate];
            let run = threadtalk.verb("run").arg("--quiet").arg("--plan").arg(&candidate.plan);
            let outcome = run.arg("--").arg(&binary).arg(options.turns.to_string()).run();
            ensure!(outcome.exit_code == Some(0), "{outcome}");
            candidate.times.push(outcome.wall.as_secs_f64());
        }
    }
    summary(&candidates, own, options.check)
}

/// Records the program with few turns and writes its computed plan.
fn place(
    threadtalk: &Threadtalk,
    scratch: &Scratch,
    binary: &Path,
    plan: &Path,
) -> anyhow::Result<()> {
    let profile = scratch.join("pairs.tt");
    let binary = binary.to_str().context("the build folder's path is not UTF-8")?;
    let recorded = threadtalk.record(&profile, &[], &[binary, "500"]).run();
    ensure!(recorded.exit_code == Some(0), "{recorded}");
    let placed = threadtalk.verb("place").arg(&profile).arg("-o").arg(plan).run();
    ensure!(placed.exit_code == Some(0), "{placed}");
    Ok(())
}

/// Every assignment of the threads to the machine's first two PUs, but for swapping the two; and
/// which of them is the computed one (added at the end when it uses other PUs).
fn assignments(scratch: &Scratch, computed: &Path) -> anyhow::Result<(Vec<Candidate>, usize)> {
    let plan: Value = serde_json::from_slice(&std::fs::read(computed)?)?;
    let topo = Threadtalk::built().verb("topo").arg("--json").run();
    let topo: Value = serde_json::from_slice(&topo.stdout).context("topo --json")?;
    let pus = first_two_pus(&topo).context("this machine has fewer than two PUs")?;
    let mut candidates = Vec::new();
    for code in 0..1 << (THREADS - 1) {
        let mut plan = plan.clone();
        let slots = plan["slots"].as_array_mut().context("the plan has no slots")?;
        let mut name = String::new();
        for slot in slots {
            let thread = slot["thread"].as_u64().context("a slot without a thread")?;
            // Thread 1 stays on the first PU: the mirrored assignments cost the same.
            let side = if thread < 2 { 0 } else { code >> (thread - 2) & 1 };
            if thread > 0 {
                name.push(if side == 0 { 'A' } else { 'B' });
            }
            slot["pu_logical"] = pus[side].0.into();
            slot["pu_os"] = pus[side].1.into();
        }
        let file = scratch.join(&format!("{name}.json"));
        std::fs::write(&file, serde_json::to_vec_pretty(&plan)?)?;
        candidates.push(Candidate { name, plan: file, times: Vec::new() });
    }
    let own = shape(&plan);
    let known = candidates.iter().position(|candidate| candidate.name == own);
    if known.is_none() {
        candidates.push(Candidate { name: own, plan: computed.to_owned(), times: Vec::new() });
    }
    let index = known.unwrap_or(candidates.len() - 1);
    Ok((candidates, index))
}

/// The assignment of threads 1 to 4 as letters, one for each PU in the order of appearance.
fn shape(plan: &Value) -> String {
    let mut seen: Vec<&Value> = Vec::new();
    let slots = plan["slots"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut letters = String::new();
    for slot in slots.iter().filter(|slot| slot["thread"] != 0) {
        let pu = &slot["pu_os"];
        let index = seen.iter().position(|known| *known == pu).unwrap_or_else(|| {
            seen.push(pu);
            seen.len() - 1
        });
        letters.push((b'A' + index as u8) as char);
    }
    letters
}

/// Logical and operating-system numbers of the first two PUs that may be used.
fn first_two_pus(topo: &Value) -> Option<[(u64, u64); 2]> {
    let usable = topo["pus"].as_array()?.iter().filter(|pu| pu["allowed"] == true);
    let mut numbers = usable.map(|pu| Some((pu["pu_logical"].as_u64()?, pu["pu_os"].as_u64()?)));
    Some([numbers.next()??, numbers.next()??])
}

/// Prints the table and the verdict; fails when that was asked for and the target is missed.
fn summary(candidates: &[Candidate], own: usize, check: bool) -> anyhow::Result<()> {
    println!("threads 1 to 4 on PU A or B; pairs are 1+3 and 2+4; seconds, median and range");
    let mut lines: Vec<(f64, String)> = Vec::new();
    for candidate in candidates {
        let mut times = candidate.times.clone();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let range = format!("{:.3} to {:.3}", times[0], times[times.len() - 1]);
        lines.push((median, format!("{:<10} {median:>7.3}   {range}", candidate.name)));
    }
    let computed = lines[own].0;
    lines[own].1 += "   computed";
    let best = lines.iter().map(|line| line.0).fold(f64::INFINITY, f64::min);
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    lines.iter().for_each(|(_, line)| println!("{line}"));
    let ratio = computed / best;
    println!("computed plan / best fixed assignment: {ratio:.3} (target 1.03)");
    ensure!(!check || ratio <= 1.03, "target missed");
    Ok(())
}

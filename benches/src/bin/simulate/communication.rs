//! The definition of communication against transfers between caches, by the mean squared error of
//! their matrices: section 3.1.5 of Diener's thesis, on traces of our own kernels.
//!
//! *Accurate* communication are the lines that go from cache to cache on a machine of 8 cores with
//! private L1 and a shared L2, simulated. The *relaxed* definition counts, in blocks of any size,
//! an event whenever a thread accesses what another one wrote last. Matrices are symmetric and
//! scaled to 100 for their largest cell, so that 8 threads can differ by at most 8,750.

use anyhow::Context;
use simulation::{Job, Machine, Options, Pages, Rule, TraceReader, Usage, simulate};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use topology::Topology;
use types::CommMatrix;

/// 8 cores, private L1, shared L2.
const MACHINE: &str = "pack:1 numa:1(memory=1GiB) l2:1(size=8MiB) core:8 l1d:1(size=32KiB) pu:1";
const THREADS: usize = 8;
/// log2 of the blocks' sizes.
const BLOCKS: [u32; 8] = [6, 8, 10, 12, 14, 16, 18, 20];

/// Prints the table for kernels, by name and profile.
pub fn table<'a>(kernels: impl Iterator<Item = (&'a str, &'a Path)>) -> anyhow::Result<()> {
    println!("\ncommunication: mean squared error of the definition against transfers, by block");
    let sizes = BLOCKS.map(|log| match log {
        20 => "1 MiB".into(),
        10.. => format!("{} KiB", 1 << (log - 10)),
        _ => format!("{} B", 1 << log),
    });
    println!("{:<15} {}", "kernel", sizes.map(|size: String| format!("{size:>9}")).join(""));
    for (name, profile) in kernels {
        let transfers = scaled(&transfers(profile)?);
        let mut cells = String::new();
        for log in BLOCKS {
            let relaxed = Usage::of(&mut open(profile)?, 1 << log)?;
            cells += &format!("{:>9.0}", error(&transfers, &scaled(&relaxed.matrix)));
        }
        println!("{name:<15} {cells}");
    }
    Ok(())
}

fn open(profile: &Path) -> anyhow::Result<TraceReader<BufReader<File>>> {
    let path = profile.join("trace");
    let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(TraceReader::new(BufReader::new(file), &path.display().to_string())?)
}

/// Lines from cache to cache, with thread k on core k.
fn transfers(profile: &Path) -> anyhow::Result<CommMatrix> {
    let machine = Machine::new(&Topology::from_synthetic(MACHINE)?, "8 cores")?;
    let threads = Usage::of(&mut open(profile)?, 64)?.threads();
    let pus = (0..threads).map(|thread| thread % THREADS).collect();
    let job = Job { machine: &machine, pus, pages: Pages::by(Rule::FirstTouch) };
    let options = Options::default();
    let found = simulate(&mut open(profile)?, &[], &[job], options, 2)?;
    Ok(found.into_iter().next().context("one job")?.matrix)
}

/// Symmetric, scaled to 100, of the first threads.
fn scaled(matrix: &CommMatrix) -> Vec<f64> {
    let (threads, cells) = (matrix.threads(), matrix.to_dense());
    let at = |a: usize, b: usize| {
        let known = a < threads && b < threads && a != b;
        if known { (cells[a * threads + b] + cells[b * threads + a]) as f64 } else { 0.0 }
    };
    let all: Vec<f64> = (0..THREADS * THREADS).map(|k| at(k / THREADS, k % THREADS)).collect();
    let most = all.iter().copied().fold(0.0, f64::max);
    all.into_iter().map(|cell| if most > 0.0 { 100.0 * cell / most } else { 0.0 }).collect()
}

fn error(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_wholly_differs_by_as_much_as_the_thesis_says() {
        let full: Vec<f64> = (0..64).map(|k| if k / 8 == k % 8 { 0.0 } else { 100.0 }).collect();
        assert_eq!(error(&full, &[0.0; 64]), 8750.0);
        assert_eq!(error(&full, &full), 0.0);
    }
}

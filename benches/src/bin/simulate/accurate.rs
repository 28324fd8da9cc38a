//! Communication by the relaxed definition, in blocks of growing size, against lines that move
//! between caches (Diener's thesis, 3.1.5).

use crate::{Kernel, Options, done, simulate};
use anyhow::{Context, ensure};
use std::path::Path;
use test_support::{Matrix, Threadtalk};

/// Eight cores with an L1 each and an L2 for all.
const MACHINE: &str = "pack:1 numa:1(memory=4GiB) l2:1(size=8MiB) core:8 l1d:1(size=32KiB) pu:1";

const BLOCKS: &[u64] = &[64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const FEW_BLOCKS: &[u64] = &[64, 4 << 10, 1 << 20];

pub fn table(kernels: &[Kernel], options: &Options, folder: &Path) -> anyhow::Result<()> {
    let blocks = if options.quick { FEW_BLOCKS } else { BLOCKS };
    println!(
        "Mean squared error of communication by blocks (relaxed definition) against transfers between \
         caches of 8 simulated cores; matrices scaled to 100, at most 8,750"
    );
    let heads: String = blocks.iter().map(|bytes| format!("{:>9}", size(*bytes))).collect();
    println!("{:<8}{heads}", "kernel");
    let mut sums = vec![0.0; blocks.len()];
    for kernel in kernels {
        let accurate = accurate(kernel, options.threads, folder)?;
        let mut row = String::new();
        for (bytes, sum) in blocks.iter().zip(&mut sums) {
            let error =
                squared_error(&accurate, &relaxed(kernel, *bytes, options.threads, folder)?);
            *sum += error;
            row += &format!("{error:>9.0}");
        }
        println!("{:<8}{row}", kernel.name);
    }
    let mean = |sum: &f64| format!("{:>9.0}", sum / kernels.len() as f64);
    println!("{:<8}{}", "mean", sums.iter().map(mean).collect::<String>());
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Lines between each two threads, in both directions; row-major.
fn accurate(kernel: &Kernel, threads: usize, folder: &Path) -> anyhow::Result<Vec<f64>> {
    let arguments = ["--on", MACHINE, "--policy", "compact"].map(String::from);
    let json = simulate(&kernel.trace(folder)?, &arguments)?;
    let cells = json["scenarios"][0]["transfers_between_threads"].as_array();
    let cells: Vec<f64> =
        cells.context("a matrix")?.iter().map(|cell| cell.as_f64().unwrap_or(0.0)).collect();
    ensure!(cells.len() == threads * threads, "{} has not {threads} threads", kernel.name);
    Ok(both_ways(threads, |from, to| cells[from * threads + to]))
}

/// The same by blocks of so many bytes: a thread's access pairs with the last two others that
/// accessed the block (algorithm 3.1).
fn relaxed(kernel: &Kernel, bytes: u64, threads: usize, folder: &Path) -> anyhow::Result<Vec<f64>> {
    let profile = folder.join("relaxed.tt");
    let record = Threadtalk::built().verb("record").args(["--exact", "--undirected", "--force"]);
    let record = record.args(["--block", &bytes.to_string(), "-o"]).arg(&profile);
    kernel.under(record)?;
    let export = Threadtalk::built().verb("export").arg(&profile).arg("matrix");
    let export = export.args(["--kind", "undirected", "--format", "csv"]);
    let text = done(export)?.stdout_text();
    let matrix = Matrix::from_csv(&text).map_err(anyhow::Error::msg)?;
    // Either half of it may be filled, or both.
    Ok(both_ways(threads, |from, to| matrix.get(from, to) as f64))
}

fn both_ways(threads: usize, cell: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let pairs = (0..threads).flat_map(|a| (0..threads).map(move |b| (a, b)));
    pairs.map(|(a, b)| if a == b { 0.0 } else { cell(a, b) + cell(b, a) }).collect()
}

/// Of matrices scaled to a largest cell of 100.
fn squared_error(a: &[f64], b: &[f64]) -> f64 {
    let scaled = |cells: &[f64]| -> Vec<f64> {
        let most = cells.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        cells.iter().map(|cell| 100.0 * cell / most).collect()
    };
    let squares = scaled(a).into_iter().zip(scaled(b)).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>() / a.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_scaled_matrices() {
        let pair = both_ways(2, |from, to| (from + 2 * to) as f64);
        assert_eq!(pair, [0.0, 3.0, 3.0, 0.0]);
        assert_eq!(squared_error(&pair, &[0.0, 7.0, 7.0, 0.0]), 0.0);
        assert_eq!(squared_error(&pair, &[0.0; 4]), 5000.0);
        // The most there is for eight threads.
        let all = both_ways(8, |_, _| 1.0);
        assert_eq!(squared_error(&all, &[0.0; 64]), 8750.0);
    }
}

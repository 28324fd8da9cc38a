//! The table: for each number of threads, how good and how fast each way to place is.

use std::collections::BTreeMap;

/// One placement.
pub struct Measured {
    pub problem: String,
    /// Cost against the best known.
    pub ratio: f64,
    pub cpu_ms: f64,
}

/// All placements so far, by number of threads and way; ways in the order in which they came.
#[derive(Default)]
pub struct Summary {
    rows: BTreeMap<usize, Vec<(String, Vec<Measured>)>>,
}

impl Summary {
    pub fn add(&mut self, threads: usize, way: &str, measured: Measured) {
        let rows = self.rows.entry(threads).or_default();
        match rows.iter_mut().find(|row| row.0 == way) {
            Some(row) => row.1.push(measured),
            None => rows.push((way.into(), vec![measured])),
        }
    }

    /// Prints the rows of one number of threads.
    pub fn print(&self, threads: usize) {
        println!(
            "\n{:>5}  {:<18} {:>7} {:>7} {:>10} {:>10}  worst on",
            "T", "policy", "mean", "worst", "CPU ms", "most ms"
        );
        for (way, measured) in self.rows.get(&threads).into_iter().flatten() {
            let count = measured.len() as f64;
            let mean = measured.iter().map(|m| m.ratio).sum::<f64>() / count;
            let worst = measured.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
            let mut times: Vec<f64> = measured.iter().map(|m| m.cpu_ms).collect();
            times.sort_by(f64::total_cmp);
            println!(
                "{threads:>5}  {way:<18} {mean:>7.3} {:>7.3} {:>10.2} {:>10.2}  {}",
                worst.map_or(1.0, |m| m.ratio),
                times[times.len() / 2],
                times[times.len() - 1],
                worst.map_or("", |m| m.problem.as_str()),
            );
        }
    }
}

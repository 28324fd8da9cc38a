//! The table: for each number of threads, how good and how fast each way to place is, and how much
//! times scatter, over problems and over runs of the same one.

use std::collections::BTreeMap;

/// One problem, placed in one way.
pub struct Measured {
    pub problem: String,
    /// Cost against the best known; `None` where the way is exact.
    pub ratio: Option<f64>,
    /// CPU time of each run, ms, ascending; at least one.
    pub runs: Vec<f64>,
}

impl Measured {
    /// The median run, ms.
    pub fn cpu_ms(&self) -> f64 {
        self.runs[self.runs.len() / 2]
    }

    /// How far apart the fastest and the slowest run are, as a part of the median.
    fn scatter(&self) -> f64 {
        let median = self.cpu_ms();
        let apart = self.runs[self.runs.len() - 1] - self.runs[0];
        if median > 0.0 { apart / median } else { 0.0 }
    }
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
            "\n{:>5}  {:<18} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>6}  worst on; slowest on",
            "T", "policy", "mean", "worst", "q1 ms", "median", "q3", "most", "runs"
        );
        for (way, measured) in self.rows.get(&threads).into_iter().flatten() {
            println!("{threads:>5}  {way:<18} {}", row(measured));
        }
    }
}

/// Ratios, quartiles of the problems' times, the scatter of runs, and where it was worst.
fn row(measured: &[Measured]) -> String {
    let sorted = |of: &dyn Fn(&Measured) -> f64| {
        let mut all: Vec<f64> = measured.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let times = sorted(&Measured::cpu_ms);
    let scatters = sorted(&Measured::scatter);
    let last = times.len() - 1;
    let slowest = measured.iter().max_by(|a, b| a.cpu_ms().total_cmp(&b.cpu_ms()));
    let slowest = slowest.map_or("", |m| m.problem.as_str());
    let ratios: Vec<(f64, &str)> =
        measured.iter().filter_map(|m| Some((m.ratio?, m.problem.as_str()))).collect();
    let worst = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let (quality, worst_on) = match worst {
        None => (format!("{:>7} {:>7}", "optimal", ""), "none".to_string()),
        Some((most, on)) => {
            let mean = ratios.iter().map(|r| r.0).sum::<f64>() / ratios.len() as f64;
            (format!("{mean:>7.3} {most:>7.3}"), on.to_string())
        }
    };
    format!(
        "{quality} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>5.0}%  {worst_on}; {slowest}",
        times[last / 4],
        times[times.len() / 2],
        times[last - last / 4],
        times[last],
        scatters[scatters.len() / 2] * 100.0,
    )
}

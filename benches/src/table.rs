//! Takes the turns and prints the table.

use crate::mode::Mode;
use crate::rows::{Row, Sample};
use crate::statistics::{Spread, spread};
use std::path::Path;

/// A mode that is compared with the native run.
#[derive(Clone)]
pub struct Column {
    name: String,
    mode: Mode,
    /// Most that the median over the rows, and the worst row, should be.
    max_median: Option<f64>,
    max_worst: Option<f64>,
}

impl Column {
    pub fn new(name: &str, mode: Mode) -> Self {
        Self { name: name.into(), mode, max_median: None, max_worst: None }
    }

    pub fn target(mut self, median: f64, worst: Option<f64>) -> Self {
        self.max_median = Some(median);
        self.max_worst = worst;
        self
    }
}

/// What is to be measured.
pub struct Table {
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub pairs: usize,
}

/// What came of it.
#[derive(Default)]
pub struct Measured {
    /// Rows that were measured.
    pub rows: usize,
    /// Targets that were missed, as phrases.
    pub missed: Vec<String>,
    /// Rows that failed, or whose output changed.
    pub failed: Vec<String>,
}

/// Ratios of one row: by column, and of peak memory in the last column's mode.
struct Ratios {
    name: String,
    columns: Vec<Spread>,
}

impl Table {
    /// Measures and prints every row, then the summary.
    pub fn measure(&self, rows: Vec<Row>, scratch: &Path) -> anyhow::Result<Measured> {
        if rows.is_empty() {
            return Ok(Measured::default());
        }
        self.print_head();
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for mut row in rows {
            if let Err(reason) = row.prepare()? {
                println!("{:<26} left out: {reason}", row.name);
                continue;
            }
            match self.turns(&row, scratch) {
                Ok(samples) => all.push(self.print_row(&row, &samples)),
                Err(error) => {
                    println!("{:<26} FAILED: {error:#}", row.name);
                    failed.push(row.name);
                }
            }
        }
        let missed = self.print_summary(&all);
        Ok(Measured { rows: all.len(), missed, failed })
    }

    /// Samples by mode: native first, then the columns.
    fn turns(&self, row: &Row, scratch: &Path) -> anyhow::Result<Vec<Vec<Sample>>> {
        let modes: Vec<Mode> =
            [Mode::Native].into_iter().chain(self.columns.iter().map(|c| c.mode)).collect();
        if row.repeat > 1 {
            // What is over at once is nearly all translation, which later runs do not have.
            for mode in &modes {
                row.run(*mode, scratch)?;
            }
        }
        row.turns(&modes, (self.pairs, None), scratch, |_, _| Ok(()))
    }

    fn print_head(&self) {
        print!("\n{:<26} {:>8}", self.title, "native s");
        self.columns.iter().for_each(|column| print!("  {:<17}", column.name));
        println!("  memory  why");
    }

    fn print_row(&self, row: &Row, samples: &[Vec<Sample>]) -> Ratios {
        let (native, recorded) = samples.split_first().expect("the native run is first");
        let alone = spread(native.iter().map(|sample| sample.cpu));
        let ratios = |samples: &[Sample]| {
            // The clock that counts CPU time has ticks; nothing is over before the first.
            spread(samples.iter().zip(native).map(|(with, alone)| with.cpu / alone.cpu.max(1e-4)))
        };
        let columns: Vec<Spread> = recorded.iter().map(|samples| ratios(samples)).collect();
        let peak = |samples: &[Sample]| spread(samples.iter().map(|s| s.peak_bytes as f64)).median;
        let memory = peak(recorded.last().expect("a column")) / peak(native).max(1.0);
        print!("{:<26} {:>8.3}", row.name, alone.median);
        for c in &columns {
            let range = format!("({:.2}-{:.2})", c.least, c.most);
            print!("  {:>5.2} {range:<11}", c.median);
        }
        println!("  {memory:>6.2}  {}", row.why);
        Ratios { name: row.name.clone(), columns }
    }

    /// Prints median and worst of each column; returns the targets that were missed.
    fn print_summary(&self, all: &[Ratios]) -> Vec<String> {
        let mut missed = Vec::new();
        if all.is_empty() {
            return missed;
        }
        for (k, column) in self.columns.iter().enumerate() {
            let median = spread(all.iter().map(|row| row.columns[k].median)).median;
            let worst = all
                .iter()
                .max_by(|a, b| a.columns[k].median.total_cmp(&b.columns[k].median))
                .expect("not empty");
            let most = worst.columns[k].median;
            print!("{:<12} median {median:.2}", column.name);
            print_target(column.max_median);
            print!(", worst {most:.2} {}", worst.name);
            print_target(column.max_worst);
            println!();
            if column.max_median.is_some_and(|target| median > target) {
                missed.push(format!("{} {} median {median:.2}", self.title, column.name));
            }
            if column.max_worst.is_some_and(|target| most > target) {
                missed.push(format!("{} {} {} {most:.2}", self.title, column.name, worst.name));
            }
        }
        missed
    }
}

fn print_target(target: Option<f64>) {
    if let Some(target) = target {
        print!(" (target {target})");
    }
}

//! What recording costs (`make bench`): CPU time and memory against native runs.
//!
//! Five tables: kernels of `benches/kernels/`; those after programs of the literature's suites;
//! programs of the distribution, with servers; processes that are over at once; and the kernels
//! with each of the engine's optimisations switched off. Every row is run natively and recorded in
//! each mode, in turns, so that a machine that warms up or slows down does so for all. Compared is
//! user plus system time of all processes involved, as `wait4` reports it: for recorded runs that
//! includes writing the profile. Output must be the same.
//!
//! The parts are in the library beside this; here is what stands in which table.

use benches::mode::{self, Mode, OPTIMISATIONS};
use benches::rows::Row;
use benches::table::{Column, Table};
use benches::{kernels, programs, servers, suites};
use clap::{Parser, ValueEnum};
use test_support::{Scratch, probe};

/// What recording costs: CPU time and memory against native runs.
#[derive(Parser)]
#[command(name = "bench", max_term_width = 100)]
struct Options {
    /// Only rows whose name contains one of these
    rows: Vec<String>,
    /// Only these tables
    #[arg(long, value_enum, value_delimiter = ',')]
    tables: Vec<Which>,
    /// Turns: native and recorded runs of each row
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// Threads (default: the CPUs this process may use)
    #[arg(long)]
    threads: Option<usize>,
    /// Multiplies the work of each kernel
    #[arg(long, default_value_t = 1)]
    scale: usize,
    /// Engine optimisations to switch off in the columns of the first two tables, as a bit set
    #[arg(long, value_name = "BITS")]
    disable: Option<u32>,
    /// Translate only, count nothing: that column alone
    #[arg(long)]
    translate_only: bool,
    /// Fail when a median or a worst row misses its target
    #[arg(long)]
    check: bool,
}

/// The tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Kernels,
    Suites,
    Programs,
    ShortLived,
    Optimisations,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    mode::check_built();
    let threads = options.threads.unwrap_or_else(probe::cpus);
    println!(
        "{threads} threads, {} turns; CPU seconds (user + system) of all processes, recorded \
         against native; median (range)",
        options.pairs
    );
    let scratch = Scratch::new();
    let mut measured = 0;
    let (mut missed, mut failed) = (Vec::new(), Vec::new());
    for which in Which::value_variants() {
        let which = *which;
        if !options.tables.is_empty() && !options.tables.contains(&which) {
            continue;
        }
        let mut rows = rows_of(which, threads, options.scale)?;
        rows.retain(|row| is_wanted(&row.name, &options.rows));
        let (title, columns) = heading(which, &options);
        let table = Table { title, columns, pairs: options.pairs.max(1) };
        let result = table.measure(rows, scratch.path())?;
        measured += result.rows;
        missed.extend(result.missed);
        failed.extend(result.failed);
    }
    anyhow::ensure!(failed.is_empty(), "rows failed: {}", failed.join(", "));
    anyhow::ensure!(measured > 0, "no row of that name");
    anyhow::ensure!(!options.check || missed.is_empty(), "targets missed: {}", missed.join("; "));
    Ok(())
}

fn rows_of(which: Which, threads: usize, scale: usize) -> anyhow::Result<Vec<Row>> {
    Ok(match which {
        Which::Kernels => kernels::rows(threads, scale),
        Which::Suites => suites::rows(threads, scale),
        Which::Programs => {
            let mut rows = programs::rows(threads)?;
            rows.extend(kernels::openmp_rows(threads, scale));
            rows.extend(servers::rows(threads));
            rows
        }
        Which::ShortLived => programs::short_lived(),
        Which::Optimisations => {
            let mut rows = kernels::rows(threads, scale);
            rows.retain(|row| row.name.ends_with("O3v3") == probe::has_v3());
            rows
        }
    })
}

fn is_wanted(name: &str, wanted: &[String]) -> bool {
    wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()))
}

/// Title and columns of a table. Targets: median and worst ratio.
fn heading(which: Which, options: &Options) -> (&'static str, Vec<Column>) {
    let detail = options.disable.map_or(Mode::Detail, Mode::Without);
    let all = [
        Column::new("translate", Mode::Translate).target(1.15, None),
        Column::new("matrix", Mode::Matrix).target(1.8, Some(5.0)),
        Column::new("no objects", Mode::NoObjects),
        Column::new("detail", detail).target(2.5, Some(6.0)),
    ];
    let columns = if options.translate_only { all[..1].to_vec() } else { all.to_vec() };
    match which {
        Which::Kernels => {
            let pages = Column::new("pages", Mode::Pages).target(3.0, Some(8.0));
            let pages = (!options.translate_only).then_some(pages);
            ("kernel", columns.into_iter().chain(pages).collect())
        }
        Which::Suites => ("suite", columns),
        Which::Programs => ("program", columns),
        Which::ShortLived => {
            let stores = [("no store", Mode::NoStore), ("first time", Mode::FirstTime)];
            let stores = stores.map(|(name, mode)| Column::new(name, mode));
            let modes = columns.into_iter().map(|column| column.target(10.0, None));
            ("short-lived", stores.into_iter().chain(modes).collect())
        }
        Which::Optimisations => {
            let without = OPTIMISATIONS
                .iter()
                .map(|(name, bit)| Column::new(&format!("-{name}"), Mode::Without(*bit)));
            let columns = [Column::new("all on", Mode::Detail)].into_iter().chain(without);
            ("without", columns.collect())
        }
    }
}

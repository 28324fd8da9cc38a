//! What sampling costs: the rows of `make bench` with and without it, in turns.
//!
//! The CPU time is that of all processes involved, the one that reads the samples and writes the profile
//! among them.

use crate::Options;
use benches::mode::Mode;
use benches::rows::Row;
use benches::table::{Column, Table};
use benches::{kernels, programs, servers};
use std::path::Path;
use test_support::probe;

/// Measures both tables; returns the targets that were missed.
pub fn measure(options: &Options, scratch: &Path) -> anyhow::Result<Vec<String>> {
    let threads = probe::cpus();
    let mut of_programs = programs::rows(threads)?;
    of_programs.extend(kernels::openmp_rows(threads, 1));
    of_programs.extend(servers::rows(threads));
    let mut missed = Vec::new();
    for (title, rows) in [("kernel", kernels::rows(threads, 1)), ("program", of_programs)] {
        let rows: Vec<Row> = rows.into_iter().filter(|row| options.wants_name(&row.name)).collect();
        let columns = vec![
            Column::new("sampled", Mode::Sampled).target(1.05, None),
            Column::new("watched", Mode::Watched).target(1.05, None),
        ];
        let table = Table { title, columns, pairs: options.pairs.max(1) };
        let measured = table.measure(rows, scratch)?;
        missed.extend(measured.missed);
        missed.extend(measured.failed.into_iter().map(|row| format!("{row} failed")));
    }
    Ok(missed)
}

//! How near sampling comes to the truth, and what it costs (`make bench-sampling`).
//!
//! * The four microbenchmarks of ComDetective (section 4.1; `benches/sampling/programs/`): volumes
//!   that the processor counted, that exact recording counts and that sampling estimates, side by
//!   side by sharing fraction and number of threads, with the split into true and false sharing
//!   ([`accuracy`]; [`micro`] runs the programs, [`volume`] reads profiles).
//! * The programs of `make bench`, with and without sampling in turns: processor time, memory,
//!   yield and losses ([`overhead`]; [`told`] reads what profiles say of it).

mod accuracy;
mod micro;
mod overhead;
mod told;
mod volume;

use benches::{kernels, programs, servers};
use clap::{Parser, ValueEnum};
use test_support::{Scratch, Threadtalk, probe};

/// How near sampling comes to the truth, and what it costs.
#[derive(Parser)]
#[command(name = "sampling", max_term_width = 100)]
pub struct Options {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Only microbenchmarks or rows whose name contains one of these
    names: Vec<String>,
    /// Sharing fractions of the microbenchmarks
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.2, 0.5, 0.8, 1.0])]
    fractions: Vec<f64>,
    /// Participants of the microbenchmarks
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8])]
    threads: Vec<usize>,
    /// Iterations of all participants together, in millions
    #[arg(long, default_value_t = 200.0)]
    millions: f64,
    /// Leave the participants where the kernel puts them
    #[arg(long)]
    free: bool,
    /// The instruction that stores; with mov, each event is one transfer of a line
    #[arg(long, value_enum, default_value_t = micro::Store::Mov)]
    store: micro::Store,
    /// The event that counts transfers of lines between cores, TYPE:CONFIG of perf_event_open
    /// [default: the one that 'threadtalk doctor' finds]
    #[arg(long)]
    counter: Option<String>,
    /// Options for `threadtalk record --sample`, as one word each
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    sample: Vec<String>,
    /// Turns of each row of the overhead's tables: a native run, and one in each mode
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Fail when a target is missed
    #[arg(long)]
    check: bool,
}

/// The parts of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The microbenchmarks
    Accuracy,
    /// What sampling costs programs of the distribution
    Programs,
    /// What it costs the kernels of `make bench`
    Kernels,
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn wants_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }
}

/// The event that counts transfers here, as the programs take it; none where nothing responds.
fn transfers(threadtalk: &Threadtalk) -> Option<String> {
    /// `PERF_TYPE_RAW` of the kernel's perf_event.h.
    const RAW: u32 = 4;
    let outcome = threadtalk.verb("doctor").arg("--json").run();
    let found: serde_json::Value = serde_json::from_slice(&outcome.stdout).ok()?;
    let sources = found["sources"].as_array()?;
    let works = sources.iter().find(|s| s["source"] == "transfers" && s["works"] == true)?;
    Some(format!("{RAW}:{}", works["config"].as_str()?))
}

fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let mut missed = Vec::new();
    if options.counter.is_none() {
        options.counter = transfers(&threadtalk);
    }
    if options.wants(Part::Accuracy) {
        missed.extend(accuracy::measure(&options, &threadtalk, scratch.path())?);
    }
    let threads = probe::cpus();
    if options.wants(Part::Programs) {
        let mut rows = programs::rows(threads)?;
        rows.extend(kernels::openmp_rows(threads, 1));
        rows.extend(servers::rows(threads));
        missed.extend(overhead::measure("program", rows, &options, scratch.path())?);
    }
    if options.wants(Part::Kernels) {
        let rows = kernels::rows(threads, 1);
        missed.extend(overhead::measure("kernel", rows, &options, scratch.path())?);
    }
    missed.iter().for_each(|target| println!("missed: {target}"));
    anyhow::ensure!(!options.check || missed.is_empty(), "{} targets missed", missed.len());
    Ok(())
}

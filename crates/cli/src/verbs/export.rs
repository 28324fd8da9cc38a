//! `threadtalk export`: a profile's matrix for other programs.

use crate::output::Output;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use profile::Profile;
use report::{MatrixFormat, write_matrix};
use std::path::PathBuf;
use types::CommKind;

/// Write a profile's communication matrix for other programs
///
/// CSV is a plain square of integers without a header: line i holds what thread i is the source
/// of, column j what thread j receives; `threadtalk place` reads it back. The format numalize is
/// what numalize writes: the same form, but symmetric (both directions added up), the last thread's
/// line first (bottom-up), and an empty line at the end.
#[derive(clap::Args)]
pub struct Args {
    /// Profile folder (NAME.tt)
    profile: PathBuf,
    /// What to export
    what: What,
    /// Events to count: raw (write, then first read by another thread), waw (write over another
    /// thread's write), invalidation (write to what others have read)
    #[arg(long, default_value = "raw")]
    kind: Kind,
    /// csv, npy (numpy.load; u64, little-endian), graphml (networkx, Gephi), dot (Graphviz),
    /// numalize (CSV for numalize's scripts)
    #[arg(long, default_value = "csv")]
    format: Format,
    /// File to write instead of standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Matrix,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Raw,
    Waw,
    Invalidation,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Csv,
    Npy,
    Graphml,
    Dot,
    Numalize,
}

impl From<Kind> for CommKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Raw => CommKind::Raw,
            Kind::Waw => CommKind::Waw,
            Kind::Invalidation => CommKind::Invalidation,
        }
    }
}

impl From<Format> for MatrixFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => MatrixFormat::Csv,
            Format::Npy => MatrixFormat::Npy,
            Format::Graphml => MatrixFormat::GraphMl,
            Format::Dot => MatrixFormat::Dot,
            Format::Numalize => MatrixFormat::Numalize,
        }
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let What::Matrix = args.what;
    let profile = Profile::load(&args.profile)?;
    let mut out = match &args.output {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let name = out.name().to_owned();
    match write_matrix(&profile, args.kind.into(), args.format.into(), &mut out) {
        Ok(()) => out.finish()?,
        // The reader of a pipe has seen enough: `| head` is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(anyhow!(error)).with_context(|| format!("cannot write {name}")),
    }
    Ok(0)
}

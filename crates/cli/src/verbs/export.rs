//! `threadtalk export`: a profile's matrices and tables for other programs.

use crate::output::Output;
use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use profile::Profile;
use report::{
    Choice, MatrixFormat, MatrixKind, ProfileTable, TableFormat, write_matrix, write_table,
};
use std::io;
use std::path::PathBuf;

/// Write a profile's communication matrix or its tables for other programs
///
/// A matrix in CSV is a plain square of integers without a header: line i holds what thread i is
/// the source of, column j what thread j receives; `threadtalk place` reads it back. The format
/// numalize is what numalize writes: the same form, but symmetric (both directions added up), the
/// last thread's line first (bottom-up), and an empty line at the end.
///
/// Tables have the columns of the profile's Parquet files; addresses are hexadecimal, and sets of
/// bytes come as ranges of offsets (0-7 16) and as a mask. CSV starts with a line of names (RFC
/// 4180), JSON is an array of objects. lines and events are 64-byte lines of memory; they and sites
/// are empty in profiles recorded with --matrix or --undirected.
#[derive(clap::Args)]
pub struct Args {
    /// Profile folder (NAME.tt)
    profile: PathBuf,
    /// What to export: the matrix, or a table
    what: What,
    /// Events that the matrix counts [default: raw; undirected if recorded so]
    #[arg(long)]
    kind: Option<Kind>,
    /// Time slice that the matrix counts: its number, or all
    #[arg(long, default_value = "all", value_parser = slice)]
    slice: Slice,
    /// For a matrix csv, npy (numpy.load; u64, little-endian), graphml (networkx, Gephi), dot
    /// (Graphviz) or numalize (CSV for numalize's scripts); for a table csv or json
    #[arg(long, default_value = "csv")]
    format: Format,
    /// File to write instead of standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Events between each two threads
    Matrix,
    /// Lines of memory on which threads met, most events first
    Lines,
    /// Instructions that took part in events, with function, file and line
    Sites,
    /// Events by line, threads and code sites, with the bytes
    Events,
    /// The matrices as a list, by time slice, kind and sharing
    Comm,
    /// Bounds of the time slices
    Slices,
    /// Instructions, loads and stores of each thread in each time slice
    Activity,
    /// The threads
    Threads,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Reads of what another thread wrote: a write, then the first read that sees it
    Raw,
    /// Of these, those of bytes that the other thread wrote
    True,
    /// Of these, those of other bytes of the same line
    False,
    /// Writes over what another thread wrote
    Waw,
    /// Of these, those over the same bytes
    WawTrue,
    /// Of these, those over other bytes of the same line
    WawFalse,
    /// Writes to what another thread has read since the previous write
    Invalidation,
    /// Pairs by numalize's definition
    Undirected,
    /// raw and waw: all transfers of a line from one thread to another
    Total,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Json,
    Npy,
    Graphml,
    Dot,
    Numalize,
}

/// A time slice, or none in particular.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slice(Option<u32>);

fn slice(text: &str) -> Result<Slice, String> {
    match text {
        "all" => Ok(Slice(None)),
        number => match number.parse() {
            Ok(number) => Ok(Slice(Some(number))),
            Err(_) => Err("write the number of a time slice, from 0, or all".into()),
        },
    }
}

impl From<Kind> for MatrixKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Raw => MatrixKind::Raw,
            Kind::True => MatrixKind::RawTrue,
            Kind::False => MatrixKind::RawFalse,
            Kind::Waw => MatrixKind::Waw,
            Kind::WawTrue => MatrixKind::WawTrue,
            Kind::WawFalse => MatrixKind::WawFalse,
            Kind::Invalidation => MatrixKind::Invalidation,
            Kind::Undirected => MatrixKind::Undirected,
            Kind::Total => MatrixKind::Total,
        }
    }
}

/// What is written in which form, checked before anything is.
enum Export {
    Matrix(Choice, MatrixFormat),
    Table(ProfileTable, TableFormat),
}

impl Export {
    fn new(args: &Args, profile: &Profile) -> anyhow::Result<Self> {
        let table = match args.what {
            What::Matrix => return Self::matrix(args, profile),
            What::Lines => ProfileTable::Lines,
            What::Sites => ProfileTable::Sites,
            What::Events => ProfileTable::Events,
            What::Comm => ProfileTable::Comm,
            What::Slices => ProfileTable::Slices,
            What::Activity => ProfileTable::Activity,
            What::Threads => ProfileTable::Threads,
        };
        if args.kind.is_some() || args.slice.0.is_some() {
            bail!("--kind and --slice choose what a matrix counts; export the table whole");
        }
        match args.format {
            Format::Csv => Ok(Export::Table(table, TableFormat::Csv)),
            Format::Json => Ok(Export::Table(table, TableFormat::Json)),
            _ => bail!("that format is for matrices; tables are written as csv or json"),
        }
    }

    fn matrix(args: &Args, profile: &Profile) -> anyhow::Result<Self> {
        let format = match args.format {
            Format::Csv => MatrixFormat::Csv,
            Format::Npy => MatrixFormat::Npy,
            Format::Graphml => MatrixFormat::GraphMl,
            Format::Dot => MatrixFormat::Dot,
            Format::Numalize => MatrixFormat::Numalize,
            Format::Json => bail!(
                "a matrix is not written as json; choose csv, npy, graphml, dot or numalize, or \
                 export the table comm"
            ),
        };
        let kind = args.kind.map_or_else(|| MatrixKind::of_talk(profile), MatrixKind::from);
        Ok(Export::Matrix(Choice::new(profile, kind, args.slice.0)?, format))
    }

    fn write(&self, profile: &Profile, out: &mut Output) -> io::Result<()> {
        match *self {
            Export::Matrix(choice, format) => write_matrix(profile, choice, format, out),
            Export::Table(table, format) => write_table(profile, table, format, out),
        }
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let profile = Profile::load(&args.profile)?;
    let export = Export::new(&args, &profile)?;
    let mut out = match &args.output {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let name = out.name().to_owned();
    match export.write(&profile, &mut out) {
        Ok(()) => out.finish()?,
        // The reader of a pipe has seen enough: `| head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(anyhow!(error)).with_context(|| format!("cannot write {name}")),
    }
    Ok(0)
}

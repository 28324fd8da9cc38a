//! `threadtalk export`: a profile's matrices and tables, and plans, for other programs.

use crate::family;
use crate::kind::{self, Kind};
use crate::output::Output;
use analysis::Choice;
use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use placement::{LauncherKind, Plan};
use profile::Profile;
use report::{MatrixFormat, ProfileTable, TableFormat, write_matrix, write_table};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Write a profile's communication matrix or its tables, or a plan, for other programs
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
///
/// Plans become files for other launchers, whose comments say how each is used and what of the plan
/// it cannot express: OpenMP runtimes and likwid-pin bind every thread, taskset, numactl, hwloc-bind
/// and systemd know one mask for a process, srun and rankfiles bind processes.
#[derive(clap::Args)]
pub struct Args {
    /// Profile folder (NAME.tt), or plan (from 'threadtalk place -o PLAN')
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// What to export: of a profile the matrix or a table, of a plan a launcher's file
    what: What,
    /// Take this process of a profile: 0 is the first one, the others have the numbers of their profiles'
    /// names [default: the one that talks most]
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,
    /// Events that the matrix counts [default: transfers; undirected if recorded so]
    #[arg(long)]
    kind: Option<Kind>,
    /// Time slice that the matrix counts: its number, or all
    #[arg(long, default_value = "all", value_parser = slice)]
    slice: Slice,
    /// For a matrix csv, npy (numpy.load; u64, little-endian), graphml (networkx, Gephi), dot
    /// (Graphviz) or numalize (CSV for numalize's scripts); for a table csv or json [default: csv]
    #[arg(long)]
    format: Option<Format>,
    /// Of a plan for several applications, the one that is exported: its name or number
    #[arg(long, value_name = "APP")]
    app: Option<String>,
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
    /// Of a plan: OMP_PLACES and OMP_PROC_BIND, for all OpenMP runtimes
    Omp,
    /// Of a plan: GOMP_CPU_AFFINITY, for GNU's and LLVM's OpenMP runtimes
    Gomp,
    /// Of a plan: KMP_AFFINITY, for LLVM's and Intel's OpenMP runtimes
    Kmp,
    /// Of a plan: likwid-pin, threads in the order of their creation
    LikwidPin,
    /// Of a plan: taskset, one mask for the process
    Taskset,
    /// Of a plan: numactl, one mask for the process
    Numactl,
    /// Of a plan: hwloc-bind, one mask for the process
    HwlocBind,
    /// Of a plan: Slurm's srun, for tasks
    Srun,
    /// Of a plan: Open MPI's rankfile (1.7 to 4.1), for ranks
    Rankfile,
    /// Of a plan: a drop-in for a systemd service
    Systemd,
}

/// What a choice is about.
enum Subject {
    Matrix,
    Table(ProfileTable),
    Plan(LauncherKind),
}

impl What {
    fn subject(self) -> Subject {
        match self {
            What::Matrix => Subject::Matrix,
            What::Lines => Subject::Table(ProfileTable::Lines),
            What::Sites => Subject::Table(ProfileTable::Sites),
            What::Events => Subject::Table(ProfileTable::Events),
            What::Comm => Subject::Table(ProfileTable::Comm),
            What::Slices => Subject::Table(ProfileTable::Slices),
            What::Activity => Subject::Table(ProfileTable::Activity),
            What::Threads => Subject::Table(ProfileTable::Threads),
            What::Omp => Subject::Plan(LauncherKind::Omp),
            What::Gomp => Subject::Plan(LauncherKind::Gomp),
            What::Kmp => Subject::Plan(LauncherKind::Kmp),
            What::LikwidPin => Subject::Plan(LauncherKind::Likwid),
            What::Taskset => Subject::Plan(LauncherKind::Taskset),
            What::Numactl => Subject::Plan(LauncherKind::Numactl),
            What::HwlocBind => Subject::Plan(LauncherKind::Hwloc),
            What::Srun => Subject::Plan(LauncherKind::Srun),
            What::Rankfile => Subject::Plan(LauncherKind::Rankfile),
            What::Systemd => Subject::Plan(LauncherKind::Systemd),
        }
    }
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

/// What is written in which form, checked before anything is.
enum Export {
    Matrix(Profile, Choice, MatrixFormat),
    Table(Profile, ProfileTable, TableFormat),
    Plan(String),
}

impl Export {
    fn new(args: &Args) -> anyhow::Result<Self> {
        match args.what.subject() {
            Subject::Plan(launcher) => Self::plan(args, launcher),
            _ if args.app.is_some() => bail!("--app is for plans; leave it out for a profile"),
            _ if args.input.is_file() => bail!(
                "'{}' is not a profile folder; of a plan choose a launcher: {}",
                args.input.display(),
                LauncherKind::ALL.map(LauncherKind::name).join(", ")
            ),
            Subject::Matrix => Self::matrix(args, family::load_saying(&args.input, args.process)?),
            Subject::Table(table) => {
                Self::table(args, family::load_saying(&args.input, args.process)?, table)
            }
        }
    }

    fn plan(args: &Args, launcher: LauncherKind) -> anyhow::Result<Self> {
        if args.kind.is_some()
            || args.slice.0.is_some()
            || args.format.is_some()
            || args.process.is_some()
        {
            bail!(
                "--kind, --slice, --format and --process are for profiles; leave them out for a plan"
            );
        }
        if args.input.is_dir() {
            bail!(
                "'{}' is a profile; make a plan from it with 'threadtalk place {0} -o PLAN', and \
                 export that as {}",
                args.input.display(),
                launcher.name()
            );
        }
        let plan = Plan::read(&args.input)?.of_app(args.app.as_deref())?;
        let text = launcher.write(&plan);
        text.map(Export::Plan).with_context(|| {
            format!("cannot write '{}' as {}", args.input.display(), launcher.name())
        })
    }

    fn table(args: &Args, profile: Profile, table: ProfileTable) -> anyhow::Result<Self> {
        if args.kind.is_some() || args.slice.0.is_some() {
            bail!("--kind and --slice choose what a matrix counts; export the table whole");
        }
        match args.format.unwrap_or(Format::Csv) {
            Format::Csv => Ok(Export::Table(profile, table, TableFormat::Csv)),
            Format::Json => Ok(Export::Table(profile, table, TableFormat::Json)),
            _ => bail!("that format is for matrices; tables are written as csv or json"),
        }
    }

    fn matrix(args: &Args, profile: Profile) -> anyhow::Result<Self> {
        let format = match args.format.unwrap_or(Format::Csv) {
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
        let choice = kind::choice(&profile, args.kind, args.slice.0)?;
        Ok(Export::Matrix(profile, choice, format))
    }

    fn write(&self, out: &mut Output) -> io::Result<()> {
        match self {
            Export::Matrix(profile, choice, format) => write_matrix(profile, *choice, *format, out),
            Export::Table(profile, table, format) => write_table(profile, *table, *format, out),
            Export::Plan(text) => out.write_all(text.as_bytes()),
        }
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let export = Export::new(&args)?;
    let mut out = match &args.output {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let name = out.name().to_owned();
    match export.write(&mut out) {
        Ok(()) => out.finish()?,
        // The reader of a pipe has seen enough: `| head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(anyhow!(error)).with_context(|| format!("cannot write {name}")),
    }
    Ok(0)
}

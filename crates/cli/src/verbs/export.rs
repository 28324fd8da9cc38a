//! `threadtalk export`: a profile's matrices and tables, and plans, for other programs.

use crate::choice::{self, one_of};
use crate::family;
use crate::kind;
use crate::output::{OUTPUT, Output};
use crate::said::say;
use analysis::{MatrixKind, PageSize, larger_pages};
use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use placement::{LauncherKind, Plan};
use profile::Profile;
use report::{
    Grouped, GroupedBy, MatrixFormat, ProfileTable, TableFormat, by_place, write_matrix,
    write_numalize_pages, write_table,
};
use std::io::{self, Write as _};
use std::path::PathBuf;
use types::numbers::percent;

/// Write a matrix, a table or a plan for other programs
///
/// A matrix in CSV is a plain square of integers without a header: line i holds what thread i is
/// the source of, column j what thread j receives; `threadtalk place` reads it back. The format
/// numalize is what numalize writes: the same form, but symmetric (both directions added up), the
/// last thread's line first (bottom-up), and an empty line at the end. With --by, rows and columns
/// are processes, PUs, cores or NUMA nodes; what happens within one lies on the diagonal. JSON has
/// their names.
///
/// Tables have the columns of the profile's Parquet files. Addresses are hexadecimal. Sets of bytes
/// are ranges of offsets (0-7 16) and a mask. CSV starts with a line of names (RFC 4180), JSON is
/// an array of objects. The tables lines and events are about 64-byte cache lines. They and sites
/// are empty in profiles recorded with --matrix or --undirected.
///
/// The flow says over time which thread took which object from whom: of one thread (--thread) the
/// thread event flow of MemProf, of one object (--object) its object event flow. The table usage
/// sums up what that says about each object.
///
/// Plans become files for other launchers. Their comments say how each is used and what of the plan
/// it cannot express: OpenMP runtimes and likwid-pin bind every thread; taskset, numactl,
/// hwloc-bind and systemd have one mask for a process; srun and rankfiles bind processes.
#[derive(clap::Args)]
pub struct Args {
    /// Profile folder (NAME.tt), or plan (from 'threadtalk place -o PLAN')
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// What to export: of a profile the matrix or a table, of a plan a launcher's file
    #[arg(value_parser = one_of::<Subject>())]
    what: Subject,
    /// Process of the profile, by its number: 0 is the first one [default: the one that
    /// communicates most]
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,
    /// Events that the matrix counts [default: transfers; undirected if recorded so]
    #[arg(long, value_parser = one_of::<MatrixKind>())]
    kind: Option<MatrixKind>,
    /// What the rows and columns of the matrix are; places are those where the threads ran while
    /// they were recorded
    #[arg(long, default_value = "thread", value_parser = one_of::<GroupedBy>())]
    by: GroupedBy,
    /// Time slice that the matrix counts: its number, or all
    #[arg(long, default_value = "all", value_parser = slice)]
    slice: Slice,
    /// Thread whose flow is exported [default: all]
    #[arg(long, value_name = "NUMBER")]
    thread: Option<u32>,
    /// Object whose flow is exported, by its number in the table objects [default: all]
    #[arg(long, value_name = "NUMBER")]
    object: Option<u32>,
    /// Size of the pages that the tables of pages are about, summed up from 4 KiB
    #[arg(long, default_value = "4KiB", value_parser = one_of::<PageSize>())]
    page_size: PageSize,
    /// Format of a matrix, or of a table (csv or json; of the flow also parquet) [default: csv]
    #[arg(long, help_heading = OUTPUT)]
    format: Option<Format>,
    /// Of a plan for several applications, the one that is exported: its name or number
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Write the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    force: bool,
}

/// What a choice is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Matrix,
    Table(ProfileTable),
    NumalizePages,
    Plan(LauncherKind),
}

impl Subject {
    /// Whether it can be written for larger pages.
    fn has_page_sizes(self) -> bool {
        let tables = [ProfileTable::Pages, ProfileTable::Accesses].map(Subject::Table);
        self == Subject::NumalizePages || tables.contains(&self)
    }
}

impl choice::Choice for Subject {
    fn all() -> Vec<Self> {
        let tables = ProfileTable::ALL.map(Subject::Table);
        let launchers = LauncherKind::ALL.map(Subject::Plan);
        let profile = [Subject::Matrix].into_iter().chain(tables).chain([Subject::NumalizePages]);
        profile.chain(launchers).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Subject::Matrix => "matrix",
            Subject::Table(table) => table.name(),
            Subject::NumalizePages => "numalize-pages",
            Subject::Plan(launcher) => launcher.name(),
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Subject::Matrix => "events between each two threads",
            Subject::Table(table) => table.summary(),
            Subject::NumalizePages => "the use of pages in the CSV that numalize writes",
            Subject::Plan(launcher) => launcher.summary(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
    /// Tables: an array of objects; matrices: an object with names and cells
    Json,
    /// For numpy.load: u64, little-endian
    Npy,
    /// For networkx and Gephi
    Graphml,
    /// For Graphviz
    Dot,
    /// CSV for numalize's scripts
    Numalize,
    /// The flow, for pandas, polars, DuckDB and Spark
    Parquet,
}

/// From which part on all events have a known place, for people.
const NEARLY_ALL: f64 = 0.995;

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

/// Keeps the flow of one thread, or of one object.
fn keep_of_flow(
    profile: &mut Profile,
    thread: Option<u32>,
    object: Option<u32>,
) -> anyhow::Result<()> {
    let (threads, objects) = (profile.threads.len(), profile.objects.len());
    if let Some(thread) = thread.filter(|thread| *thread as usize >= threads) {
        bail!("there is no thread {thread}; the last one is {}", threads.saturating_sub(1));
    }
    if let Some(object) = object.filter(|object| *object as usize >= objects) {
        bail!("there is no object {object}; 'threadtalk export PROFILE objects' lists them");
    }
    profile.flow.retain(|row| {
        thread.is_none_or(|thread| row.thread.0 == thread)
            && object.is_none_or(|object| row.object == object)
    });
    Ok(())
}

/// Refuses profiles that say nothing about pages.
fn has_pages(profile: &Profile) -> anyhow::Result<()> {
    match profile.meta.page_use {
        Some(_) => Ok(()),
        None => bail!("the profile does not say who uses which page; record with --pages"),
    }
}

/// What is written in which form, checked before anything is.
enum Export {
    Matrix(Grouped, MatrixKind, MatrixFormat),
    Table(Box<Profile>, ProfileTable, TableFormat),
    NumalizePages(Box<Profile>, PageSize),
    Plan(String),
    Bytes(Vec<u8>),
}

impl Export {
    fn new(args: &Args) -> anyhow::Result<Self> {
        if args.page_size != PageSize::default() && !args.what.has_page_sizes() {
            bail!(
                "--page-size is for pages, accesses and numalize-pages; touched knows lines of 4 KiB \
                 pages only, and other exports have no pages"
            );
        }
        match args.what {
            Subject::Plan(launcher) => Self::plan(args, launcher),
            Subject::Matrix if args.thread.is_some() || args.object.is_some() => {
                bail!("--thread and --object choose what of the flow is exported")
            }
            _ if args.app.is_some() => bail!("--app is for plans; leave it out for a profile"),
            _ if args.input.is_file() => bail!(
                "'{}' is not a profile folder; of a plan choose a launcher: {}",
                args.input.display(),
                LauncherKind::ALL.map(LauncherKind::name).join(", ")
            ),
            Subject::Matrix if args.format == Some(Format::Parquet) => {
                bail!("matrices are written as csv, json, npy, graphml, dot or numalize")
            }
            Subject::Matrix if args.by == GroupedBy::Process => Self::processes(args),
            Subject::Matrix => Self::matrix(args, family::load_saying(&args.input, args.process)?),
            Subject::Table(table) => {
                Self::table(args, family::load_saying(&args.input, args.process)?, table)
            }
            Subject::NumalizePages => {
                Self::numalize_pages(args, family::load_saying(&args.input, args.process)?)
            }
        }
    }

    fn plan(args: &Args, launcher: LauncherKind) -> anyhow::Result<Self> {
        if args.kind.is_some()
            || args.slice.0.is_some()
            || args.format.is_some()
            || args.process.is_some()
            || args.by != GroupedBy::Thread
            || args.thread.is_some()
            || args.object.is_some()
        {
            bail!(
                "--kind, --by, --slice, --thread, --object, --format and --process are for profiles; \
                 leave them out for a plan"
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
        if args.kind.is_some() || args.slice.0.is_some() || args.by != GroupedBy::Thread {
            bail!("--kind, --by and --slice choose what a matrix counts; export the table whole");
        }
        let mut profile = profile;
        if matches!(table, ProfileTable::Pages | ProfileTable::Accesses | ProfileTable::Touched) {
            has_pages(&profile)?;
            profile.pages = larger_pages(&profile.pages, args.page_size);
        }
        match (args.thread, args.object) {
            (None, None) => {}
            _ if table != ProfileTable::Flow => {
                bail!("--thread and --object choose what of the flow is exported")
            }
            (thread, object) => keep_of_flow(&mut profile, thread, object)?,
        }
        match args.format.unwrap_or(Format::Csv) {
            Format::Parquet if table == ProfileTable::Flow => {
                Ok(Export::Bytes(report::flow_parquet(&profile)?))
            }
            Format::Parquet => bail!(
                "only the flow is written as parquet; this table is in the profile already: \
                 {}/{}.parquet",
                args.input.display(),
                table.name()
            ),
            Format::Csv => Ok(Export::Table(profile.into(), table, TableFormat::Csv)),
            Format::Json => Ok(Export::Table(profile.into(), table, TableFormat::Json)),
            _ => bail!("that format is for matrices; tables are written as csv or json"),
        }
    }

    fn numalize_pages(args: &Args, profile: Profile) -> anyhow::Result<Self> {
        let others = args.kind.is_some() || args.slice.0.is_some() || args.by != GroupedBy::Thread;
        if others || args.thread.is_some() || args.object.is_some() || args.format.is_some() {
            bail!(
                "numalize-pages has one form, of all threads and the whole run; it takes --page-size"
            );
        }
        has_pages(&profile)?;
        Ok(Export::NumalizePages(profile.into(), args.page_size))
    }

    fn matrix(args: &Args, profile: Profile) -> anyhow::Result<Self> {
        let choice = kind::choice(&profile, args.kind, args.slice.0)?;
        let grouped = match args.by {
            GroupedBy::Thread | GroupedBy::Process => Grouped::threads(&profile, choice),
            by => by_place(&profile, choice, by)?,
        };
        if grouped.known < NEARLY_ALL {
            say(&format!(
                "it is known for {} of the events where their threads ran; the matrix has these",
                percent(grouped.known)
            ));
        }
        Ok(Export::Matrix(grouped, choice.kind(), matrix_format(args)))
    }

    /// A matrix of all processes; what was not recorded has no events.
    fn processes(args: &Args) -> anyhow::Result<Self> {
        if args.process.is_some() {
            bail!("--by process is about all processes; leave out --process");
        }
        if args.slice.0.is_some() {
            bail!("each process has time slices of its own; leave out --slice with --by process");
        }
        let mut kind = None;
        let mut rows = Vec::new();
        let family = family::all(&args.input)?;
        for (number, name, profile) in &family {
            let events = match profile {
                Some(profile) => {
                    let choice = kind::choice(profile, args.kind, None)?;
                    kind.get_or_insert(choice.kind());
                    choice.matrix(profile).total()
                }
                None => 0,
            };
            rows.push((format!("{number} {name}"), events));
        }
        let kind = kind.unwrap_or(MatrixKind::Transfers);
        let numbers: Vec<u32> = family.iter().map(|(number, ..)| *number).collect();
        let between = between(args, &numbers)?;
        Ok(Export::Matrix(Grouped::processes(rows, &between), kind, matrix_format(args)))
    }

    fn write(&self, out: &mut Output) -> io::Result<()> {
        match self {
            Export::Matrix(grouped, kind, format) => write_matrix(grouped, *kind, *format, out),
            Export::Table(profile, table, format) => write_table(profile, *table, *format, out),
            Export::NumalizePages(profile, size) => write_numalize_pages(profile, *size, out),
            Export::Plan(text) => out.write_all(text.as_bytes()),
            Export::Bytes(bytes) => out.write_all(bytes),
        }
    }
}

/// Events from one process to another, which stand at these places of `numbers`.
fn between(args: &Args, numbers: &[u32]) -> anyhow::Result<Vec<(u32, u32, u64)>> {
    let family::Shown { profile, together: true, .. } = family::load(&args.input, None)? else {
        return Ok(Vec::new());
    };
    // The threads of each process stand together, and its initial thread, which names it, is first.
    let mut place = 0;
    let mut places = Vec::new();
    for thread in &profile.threads {
        let number = thread.start_symbol.strip_prefix("process ").and_then(|n| n.parse().ok());
        place = number.and_then(|n: u32| numbers.iter().position(|&k| k == n)).unwrap_or(place);
        places.push(place as u32);
    }
    let matrix = kind::choice(&profile, args.kind, None)?.matrix(&profile);
    let ends =
        matrix.iter().map(|(from, to, count)| (places[from.index()], places[to.index()], count));
    Ok(ends.filter(|(from, to, _)| from != to).collect())
}

fn matrix_format(args: &Args) -> MatrixFormat {
    match args.format.unwrap_or(Format::Csv) {
        Format::Csv => MatrixFormat::Csv,
        Format::Npy => MatrixFormat::Npy,
        Format::Graphml => MatrixFormat::GraphMl,
        Format::Dot => MatrixFormat::Dot,
        Format::Numalize => MatrixFormat::Numalize,
        Format::Json => MatrixFormat::Json,
        Format::Parquet => unreachable!("refused before"),
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

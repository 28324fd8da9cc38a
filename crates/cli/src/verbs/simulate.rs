//! `threadtalk simulate`: what placements of threads and pages do on machines that need not be
//! there.
//!
//! `source.rs` gets the accesses, `plans.rs` makes placements for them, `text.rs` (`helped.rs`:
//! by place in the code and by object), `json.rs` and `page.rs` show what comes of them.

mod helped;
mod json;
mod page;
mod planned;
mod plans;
mod source;
mod text;
mod verify;

pub use verify::Verifier;

use super::record::dial::{Budget, budget, duty};
use super::topo;
use crate::choice::one_of_but;
use crate::output::{self, OUTPUT, Output};
use crate::progress::Waiting;
use crate::said::{say, several};
use crate::traces;
use anyhow::{Context, bail, ensure};
use clap::ArgGroup;
use placement::{DataPolicy, PolicyKind};
use recorder::Streams;
use recorder::trace::{FOR_ANY_MACHINE, Filter};
use simulation::{Job, Machine, Options, Outcome, Sampled, Usage, simulate};
use std::ffi::OsString;
use std::path::PathBuf;
use topology::Topology;
use windows::Dial;

/// Simulate placements of threads and pages on machines that need not be there
///
/// The program runs once, with every memory access observed, and its accesses are simulated on all
/// machines under all plans: hits in each level of caches, cache lines from other caches and from
/// memory by distance, loads of memory controllers and links, and about how much time and energy
/// that takes. If it starts other processes, the one that accesses memory most is simulated.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("file").args(["output", "html"])))]
#[command(override_usage = "threadtalk simulate [OPTIONS] -- <CMD>...
       threadtalk simulate [OPTIONS] <TRACE>")]
pub struct Args {
    /// Profile with a trace (record --trace), or a trace of another tool
    ///
    /// Valgrind's 'lackey --trace-mem=yes' and DynamoRIO's 'view' of a memory trace are read as
    /// text.
    #[arg(value_name = "TRACE", conflicts_with = "command", required_unless_present = "command")]
    trace: Option<PathBuf>,
    /// The program and its arguments, after --
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Machine to simulate: hwloc XML file, or a description with caches, like 'pack:2 numa:1
    /// l3:1(size=32MiB) core:8 l2:1(size=1MiB) l1d:1(size=32KiB) pu:1' [default: this one]
    ///
    /// May be given several times.
    #[arg(long, value_name = "MACHINE")]
    on: Vec<String>,
    /// Plan to simulate, from 'threadtalk place -o PLAN'; may be given several times
    #[arg(long, value_name = "PLAN")]
    plan: Vec<PathBuf>,
    /// Policy for threads to simulate; may be given several times [default: scatter and locality,
    /// unless plans are given]
    #[arg(long, value_name = "POLICY", value_parser = one_of_but::<PolicyKind>(&["os"]))]
    policy: Vec<PolicyKind>,
    /// Policy for pages to simulate with each of them; may be given several times
    /// [default: first-touch]
    #[arg(long, value_name = "POLICY", value_parser = one_of_but::<DataPolicy>(&["auto"]))]
    data: Vec<DataPolicy>,
    /// Simulate random windows of time, which stand for the whole run, so that observing accesses
    /// takes at most that much longer: 20x, or 50%
    ///
    /// Everything is simulated while that is within the budget, as in short runs. Counts and times
    /// are estimates with intervals then. Which thread touched a page first is known only of what
    /// windows saw.
    #[arg(long, value_name = "BUDGET", value_parser = budget, conflicts_with_all = ["trace", "sample_sets"])]
    budget: Option<Budget>,
    /// Simulate random windows for this share of the time, like 5%, whatever that costs
    #[arg(long, value_name = "SHARE", value_parser = duty, conflicts_with_all = ["trace", "sample_sets", "budget"], hide_short_help = true)]
    duty: Option<f64>,
    /// Simulate only a part of the caches' sets, which stands for all, like 1/16
    #[arg(long, value_name = "PART", value_parser = one_in, hide_short_help = true)]
    sample_sets: Option<u64>,
    /// Simulate each plan that many times, threads being interleaved in another way each time:
    /// times and energies are then means, with intervals
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000), hide_default_value = true)]
    repeat: u32,
    /// Simulate without fetching lines ahead
    #[arg(long, hide_short_help = true)]
    no_prefetch: bool,
    /// Simulate without the translation of addresses
    #[arg(long, hide_short_help = true)]
    no_tlb: bool,
    /// Most bytes that the accesses of the program may take while they wait to be simulated, like
    /// 4GiB
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = traces::size, conflicts_with = "trace", hide_short_help = true)]
    max_trace: u64,
    /// Write a self-contained HTML page to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv"], help_heading = OUTPUT)]
    html: Option<PathBuf>,
    /// Print which thread has got how many cache lines from which other one's cache, as a matrix
    /// for 'threadtalk place': of one machine and plan
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT, hide_short_help = true)]
    csv: bool,
    /// Print the result as JSON; what the program prints then goes to standard error
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "file", help_heading = OUTPUT)]
    force: bool,
}

impl Args {
    /// When accesses are observed; `None`: always.
    fn windows(&self) -> Option<Dial> {
        let duty = self.duty.map(Dial::Duty);
        duty.or_else(|| self.budget.map(|budget| Budget::dial(Some(budget))))
    }

    /// Where the program's output goes: not among results that are read by programs.
    fn streams(&self) -> Streams {
        match (self.json || self.csv) && self.output.is_none() {
            true => Streams::Aside,
            false => Streams::Inherited,
        }
    }
}

const EXAMPLES: &str = "\
In the tables, 'predicted' is what 'threadtalk place' expects the transfers to cost. Hits,
transfers, and what 'local' and 'remote' memory served are parts of all accesses to cache lines.
'stalled' is how long threads waited for an object or a place in the code.

Examples:
  threadtalk simulate --on tests/machines/epyc-7763-nps4.synthetic --data first-touch \\
    --data locality -- ./app 8
  threadtalk simulate app.tt --on tests/machines/epyc-7763-nps4.synthetic --html simulated.html";

/// A machine, and how it was described.
pub struct OnMachine {
    topology: Topology,
    machine: Machine,
}

/// One machine under one plan.
pub struct Scenario {
    /// Index of the machine.
    machine: usize,
    /// What places threads: a policy or a file.
    threads: String,
    /// What places pages.
    data: String,
    /// For each thread the index of its PU.
    pus: Vec<usize>,
    /// What `place` expects the threads' communication to cost: events times the cost of the level
    /// between them, ns.
    predicted_ns: f64,
    outcome: Outcome,
}

/// Everything that is shown.
pub struct Results {
    machines: Vec<OnMachine>,
    scenarios: Vec<Scenario>,
    end: simulation::TraceEnd,
    accesses: u64,
    /// For each page its address, divided by the page size, and how many there were before it.
    pages: Vec<(u64, u32)>,
    /// Sentences that hold for all.
    notes: Vec<String>,
}

impl Results {
    /// Accesses that were simulated, to which shares refer. With windows, those in the stream,
    /// since what was simulated stands for all.
    fn simulated(&self) -> u64 {
        let of_first = self.scenarios.first().map(|scenario| scenario.outcome.total.accesses);
        of_first.filter(|_| !self.end.windows).unwrap_or(self.accesses)
    }

    /// Accesses of threads that waited, which were not simulated.
    fn waiting(&self) -> u64 {
        self.scenarios.first().map_or(0, |scenario| scenario.outcome.waiting.iter().sum::<u64>())
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let machines = machines(&args.on)?;
    let wanted = plans::Wanted::new(&args.plan, &args.policy, &args.data)?;
    let out = match args.html.as_ref().or(args.output.as_ref()) {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let (mut source, code) = match &args.trace {
        Some(path) => (source::Source::open(path)?, 0),
        None => {
            let (filter, windows) = (filter(&machines), args.windows());
            let kept = (args.max_trace, filter);
            match source::record(&args.command, args.streams(), kept, windows)? {
                Ok(recorded) => recorded,
                Err(code) => return Ok(code),
            }
        }
    };
    let options = Options {
        prefetch: !args.no_prefetch,
        tlb: !args.no_tlb,
        sample_sets: args.sample_sets,
        interleavings: args.repeat,
    };
    let results = results(&mut source, machines, &wanted, options)?;
    let text = match (args.json, args.csv) {
        (true, _) => format!("{:#}\n", json::json(&results)),
        (_, true) => csv(&results)?,
        _ if args.html.is_some() => report::simulation_page(&page::page(&results)),
        _ => text::text(&results),
    };
    output::print(out, &text)?;
    if let Some(path) = &args.html {
        say(&format!("the result is in {}; open it in a browser", path.display()));
    }
    Ok(code)
}

/// The matrix of transfers, a line for each thread that gave.
fn csv(results: &Results) -> anyhow::Result<String> {
    let [scenario] = &results.scenarios[..] else {
        bail!(
            "--csv prints one matrix, but there are {} plans; name one machine, and one plan or \
             policy",
            results.scenarios.len()
        );
    };
    let matrix = &scenario.outcome.matrix;
    let row = |row: &[u64]| row.iter().map(u64::to_string).collect::<Vec<_>>().join(",") + "\n";
    Ok(matrix.to_dense().chunks(matrix.threads().max(1)).map(row).collect())
}

/// Simulates everything that is wanted on all machines.
fn results(
    source: &mut source::Source,
    machines: Vec<OnMachine>,
    wanted: &plans::Wanted,
    options: Options,
) -> anyhow::Result<Results> {
    let waiting = Waiting::new("simulating".into());
    let line_bytes = machines.iter().map(|on| on.machine.line_bytes).min().unwrap_or(64);
    let end = source.end().clone();
    ensure!(
        !(end.windows && options.sample_sets.is_some()),
        "this trace has windows of the run only, of which no part of the sets can be simulated; \
         leave out --sample-sets"
    );
    let usage = Usage::of(source.stream()?, line_bytes, end.all_accesses())?;
    ensure!(usage.threads() > 0, "there is no access to simulate; the trace is empty");
    let (mut placed, mut said) = (Vec::new(), Vec::new());
    for (index, on) in machines.iter().enumerate() {
        placed.extend(plans::place(wanted, index, on, &usage, &end, &mut said)?);
    }
    said.dedup();
    let jobs: Vec<Job<'_>> = placed
        .iter()
        .map(|placed| Job {
            machine: &machines[placed.machine].machine,
            pus: placed.pus.clone(),
            pages: placed.pages.clone(),
        })
        .collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = source::facts(&end, &usage.accesses);
    let outcomes = simulate(source.stream()?, &facts, &jobs, options, processors)?;
    drop(jobs);
    drop(waiting);
    let without = |outcome: &Outcome| {
        let sampled = outcome.margins.as_ref().map(|margins| margins.sampled);
        matches!(sampled, Some(Sampled::Windows { count: 0, .. }))
    };
    ensure!(
        !outcomes.iter().any(without),
        "no window lies in this run, which is too short for its budget; give a larger --budget, or \
         none to observe everything"
    );
    let scenario = |(placed, outcome): (plans::Placed, Outcome)| Scenario {
        machine: placed.machine,
        threads: placed.threads,
        data: placed.data,
        predicted_ns: plans::predicted(&machines[placed.machine], &usage, &placed.pus),
        pus: placed.pus,
        outcome,
    };
    let scenarios: Vec<Scenario> = placed.into_iter().zip(outcomes).map(scenario).collect();
    let mut notes = notes(&machines, &end, &facts);
    notes.extend(source.note().map(str::to_owned));
    notes.extend(said);
    notes.extend(sampled(&scenarios));
    notes.extend(repeated(options));
    let accesses = usage.accesses.iter().sum();
    let pages = usage.lives().collect();
    Ok(Results { machines, scenarios, end, accesses, pages, notes })
}

/// What a reader should know where only a part of the sets was simulated.
fn sampled(scenarios: &[Scenario]) -> Option<String> {
    let margins = scenarios.iter().find_map(|s| s.outcome.margins.as_ref())?;
    Some(match margins.sampled {
        Sampled::Sets { classes, of, .. } => format!(
            "{classes} in {of} sets of the caches were simulated and stand for all; '±' is half \
             an interval at 95 %."
        ),
        Sampled::Windows { count, part } => {
            let how = if count < 2 {
                "that is not enough to tell how sure the figures are"
            } else {
                "'±' is half an interval at 95 %"
            };
            format!(
                "{}, whose counted parts have {} of the accesses, stand for all: {how}. Times are \
                 right where as many threads ran at once while it was recorded as would there. \
                 Pages that were first touched between windows count as touched first by the thread \
                 that was seen first.",
                several(count as usize, "window"),
                types::numbers::percent(part)
            )
        }
    })
}

/// What a reader should know where each plan was simulated several times.
fn repeated(options: Options) -> Option<String> {
    (options.interleavings > 1).then(|| {
        format!(
            "Times and energies are means of {} interleavings; '±' is half an interval at 95 %. \
             Counts are those of the first one.",
            options.interleavings
        )
    })
}

/// How often one is taken: 16 for `1/16`; errors are phrases.
fn one_in(text: &str) -> Result<u64, String> {
    let divisor = text.strip_prefix("1/").and_then(|n| n.parse::<u64>().ok());
    divisor.filter(|n| (1..=1 << 20).contains(n)).ok_or_else(|| "write a part like 1/16".into())
}

fn machines(specs: &[String]) -> anyhow::Result<Vec<OnMachine>> {
    let one = |spec: Option<&String>| {
        let topology = topo::machine(spec.map(String::as_str))?;
        let name = match spec {
            Some(spec) => format!("'{spec}'"),
            None => "this machine".into(),
        };
        let machine = Machine::new(&topology, &name)?;
        Ok(OnMachine { topology, machine })
    };
    match specs {
        [] => Ok(vec![one(None).context("give a machine with --on")?]),
        specs => specs.iter().map(|spec| one(Some(spec))).collect(),
    }
}

/// What a reader should know.
fn notes(
    machines: &[OnMachine],
    end: &simulation::TraceEnd,
    facts: &[simulation::ThreadFacts],
) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if let Some(why) = &end.cut {
        let note =
            format!("The trace is not of a whole run: {why}. What follows is of its beginning.");
        say(&format!("note: {note}"));
        notes.push(note);
    }
    notes.extend(machines.iter().filter_map(|on| misfit(on, end)));
    if facts.iter().any(|facts| facts.instructions_per_access.is_none()) {
        notes.push(format!(
            "The trace does not tell instructions: {} per access are assumed, on which times depend.",
            simulation::ASSUMED_INSTRUCTIONS
        ));
    }
    for on in machines {
        notes.extend(
            on.machine
                .notes
                .iter()
                .filter(|note| !notes.contains(note))
                .cloned()
                .collect::<Vec<_>>(),
        );
    }
    notes
}

/// A filter that fits all machines: if they all have the same innermost caches, each of one PU, and
/// a filter can be such a cache, that.
fn filter(machines: &[OnMachine]) -> Filter {
    let ways = machines.iter().map(|on| filter_ways_for(on.machine.fewest_ways())).min();
    let mut caches = machines.iter().map(|on| on.machine.cache_of_each_pu());
    let of_first = caches.next().flatten();
    let same = of_first.filter(|_| caches.all(|cache| cache == of_first));
    match same.and_then(|(sets, ways)| Filter::like_cache(sets, ways)) {
        Some(cache) => cache,
        None => Filter::of_ways(ways.unwrap_or(1)),
    }
}

/// Ways of a filter that fits caches with `ways`: half of them, since it forgets in which order
/// its lines were used.
fn filter_ways_for(ways: u32) -> u32 {
    (ways / 2).clamp(1, FOR_ANY_MACHINE.ways)
}

/// Where accesses have been left out of a trace that a machine may have to see.
fn misfit(on: &OnMachine, end: &simulation::TraceEnd) -> Option<String> {
    let (sets, ways) = (on.machine.filter_sets(), on.machine.fewest_ways());
    if end.cache_ways > 0 {
        return None; // made for the machines that are simulated
    }
    let fits = sets.is_multiple_of(u64::from(end.filter_sets.max(1)));
    let fits = fits && on.machine.line_bytes >= 64 && end.filter_ways <= filter_ways_for(ways);
    (end.filter_sets > 0 && !fits).then(|| {
        format!(
            "The innermost caches of {} have {ways} ways, and {sets} sets in common, of lines of {} \
             bytes. The trace leaves out accesses that hit in {} sets of {} ways, of lines of 64 \
             bytes; some of them would miss there, but count as hits.",
            on.machine.name, on.machine.line_bytes, end.filter_sets, end.filter_ways
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_in_so_many() {
        assert_eq!(one_in("1/16"), Ok(16));
        assert!(["16", "1/0", "2/3", "1/x", ""].iter().all(|text| one_in(text).is_err()));
    }

    #[test]
    fn the_filter_is_the_innermost_cache_where_all_are_alike_and_not_shared() {
        let on = |specs: &[&str]| {
            let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_string()).collect();
            let filter = filter(&machines(&specs).unwrap());
            (filter.ways, filter.lines)
        };
        let own = "core:4 l1d:1(size=32KiB) pu:1";
        assert_eq!(on(&[own]), (4, 8));
        assert_eq!(on(&[own, "pack:2 core:8 l1d:1(size=32KiB) pu:1"]), (4, 8));
        assert_eq!(on(&["core:4 l1d:1(size=32KiB) pu:2"]), (4, 4), "threads share it");
        assert_eq!(on(&[own, "core:4 l1d:1(size=16KiB) pu:1"]), (4, 4), "they differ");
    }
}

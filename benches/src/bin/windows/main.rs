//! What recording in windows costs, and how near the truth it comes (`make bench-windows`).
//!
//! Each program is run natively, recorded exactly and recorded in windows, in turns. An exact
//! recording is the truth for the window recordings of its turn. Two exact recordings show how far
//! the program itself differs from run to run: where that is much, nothing can be told of windows.
//! [`truth`] reads profiles and compares them, [`placed`] compares what placement makes of them.

mod placed;
mod truth;

use anyhow::ensure;
use benches::kernels::Kernel;
use benches::mode::{self, Mode};
use benches::rows::{Row, Sample, Work};
use benches::statistics::spread;
use benches::{kernels, programs, servers, suites};
use clap::Parser;
use placed::Machine;
use std::path::Path;
use std::time::{Duration, Instant};
use test_support::{Compiler, Scratch, Target, probe};
use truth::{Compared, Recorded};

/// What recording in windows costs, and how near the truth it comes.
#[derive(Parser)]
#[command(name = "windows", max_term_width = 100)]
struct Options {
    /// Only these, such as pairs,is,radix,redis-server
    #[arg(long, value_delimiter = ',')]
    kernels: Vec<String>,
    /// Numbers of threads; the example pairs always has four and its initial one
    #[arg(long, value_delimiter = ',', default_values_t = [4])]
    threads: Vec<usize>,
    /// Turns: a native run, an exact recording and one in each window mode
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// Seconds that each kernel is to take natively; its work is scaled to that
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// Seconds that a row is to take: no turn begins later, and a program whose exact recording
    /// would take half of it is not compared with one
    #[arg(long, default_value_t = 300.0)]
    limit: f64,
    /// Fail when a target is missed
    #[arg(long)]
    check: bool,
}

/// Native runs come first, exact ones second; then windows, with what they may cost at most, in
/// processor and in wall-clock time.
const MODES: [(&str, Mode, f64); 6] = [
    ("native", Mode::Native, f64::INFINITY),
    ("exact", Mode::Detail, f64::INFINITY),
    ("2x", Mode::Windows(&["--budget", "2x"]), 2.2),
    // Two seconds at 2x, the rest at 20 %.
    ("usual", Mode::Windows(&[]), 1.43),
    ("20 %", Mode::Windows(&["--budget", "20%"]), 1.32),
    ("5 %", Mode::Windows(&["--budget", "5%"]), 1.2),
];
const EXACT: usize = 1;
const FIRST_WINDOWED: usize = 2;
/// A program is reproducible whose cells differ by this part between two exact recordings.
const REPRODUCIBLE: f64 = 0.02;
/// Turns of the example for a unit of work.
const PAIRS_TURNS: usize = 12_000;
/// Runs are to be at least so long for the targets to hold.
const MIN_SECONDS: f64 = 2.0;
/// How many times as much as in `make bench` servers are asked.
const SERVER_TIMES: usize = 2;

/// A program. A kernel's work is scaled by one of its arguments.
struct Subject {
    row: Row,
    argument: Option<usize>,
}

/// What one kernel gave.
struct Measured {
    /// Processor and wall-clock time over the native run's, by mode.
    costs: Vec<[f64; 2]>,
    /// Time in which 99 of 100 requests were answered, milliseconds; 0 if there were none.
    answered: Vec<f64>,
    /// Beside an exact recording, by turn: another exact one, and those in windows.
    compared: [Vec<Compared>; MODES.len()],
    /// What the last recording in each mode says of its windows.
    windows: [Option<profile::Windows>; MODES.len()],
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    mode::check_built();
    let (scratch, machines) = (Scratch::new(), placed::machines()?);
    println!(
        "{} CPUs, {} turns, load average {}; medians\ntargets: cpu and wall at most {}; {}, \
         where two exact recordings differ by at most {} %",
        probe::cpus(),
        options.pairs,
        load(),
        most_costs(),
        Compared::targets(),
        100.0 * REPRODUCIBLE
    );
    let (mut missed, mut rows) = (Vec::new(), 0);
    for &threads in &options.threads {
        for mut subject in subjects(threads, &options.kernels)? {
            match one(&mut subject, &options, &machines, scratch.path()) {
                Ok(Ok(found)) => missed.extend(found),
                Ok(Err(reason)) => println!("\n{}: left out: {reason}", subject.row.name),
                Err(error) => missed.push(format!("{} fails: {error:#}", subject.row.name)),
            }
            rows += 1;
        }
    }
    ensure!(rows > 0, "no kernel of that name");
    missed.iter().for_each(|target| println!("missed: {target}"));
    ensure!(!options.check || missed.is_empty(), "{} targets missed", missed.len());
    Ok(())
}

/// Those that are wanted: kernels, each compiled with `-O2` by its first compiler, servers, others.
fn subjects(threads: usize, wanted: &[String]) -> anyhow::Result<Vec<Subject>> {
    let target = Target::new(Compiler::Gcc, "examples/pairs.c").flags(&["-O2", "-pthread"]);
    let work = Work::Kernel(Kernel::new(target, [PAIRS_TURNS, 256]));
    let row = Row { name: "pairs-O2".into(), why: "the example", repeat: 1, work };
    let all = kernels::rows(threads, 1).into_iter().chain(suites::rows(threads, 1));
    let all = all.map(|row| Subject { row, argument: Some(1) });
    let mut all: Vec<Subject> =
        [Subject { row, argument: Some(0) }].into_iter().chain(all).collect();
    all.retain(|subject| subject.row.name.ends_with("-O2"));
    let others = servers::long_rows(threads, SERVER_TIMES).into_iter().chain(programs::crowds()?);
    all.extend(others.map(|row| Subject { row, argument: None }));
    all.retain(|subject| {
        let name = subject.row.name.trim_end_matches("-O2");
        wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)
    });
    Ok(all)
}

/// Measures and prints a kernel; the targets that it misses, or why it cannot be run.
fn one(
    subject: &mut Subject,
    options: &Options,
    machines: &[Machine],
    scratch: &Path,
) -> anyhow::Result<Result<Vec<String>, String>> {
    if let Err(reason) = subject.row.prepare()? {
        return Ok(Err(reason));
    }
    let until = Instant::now() + Duration::from_secs_f64(options.limit);
    let (native, exact_fits) = subject.scale(options, scratch)?;
    let row = &subject.row;
    print!("\n{} {native}", row.name);
    let which: Vec<usize> = (0..MODES.len()).filter(|mode| *mode != EXACT || exact_fits).collect();
    let modes: Vec<Mode> = which.iter().map(|mode| MODES[*mode].1).collect();
    let mut profiles: [Vec<Recorded>; MODES.len()] = Default::default();
    let taken =
        row.turns(&modes, (options.pairs.max(1), Some(until)), scratch, |nth, profile| {
            if which[nth] > 0 {
                profiles[which[nth]].push(Recorded::read(profile)?);
            }
            Ok(())
        })?;
    let mut samples: [Vec<Sample>; MODES.len()] = Default::default();
    which.iter().zip(taken).for_each(|(mode, taken)| samples[*mode] = taken);
    if profiles[EXACT].len() == 1 && Instant::now() < until {
        row.measure(MODES[EXACT].1, scratch)?;
        profiles[EXACT].push(Recorded::read(&row.profile(scratch))?);
    }
    let measured = Measured::of(&samples, profiles, machines)?;
    measured.print(&samples[0]);
    Ok(Ok(measured.missed(&row.name)))
}

impl Subject {
    /// Scales a kernel's work, and fixes the addresses, by which lines are compared. Work is less
    /// where the exact recording would take too long, but at least enough for [`MIN_SECONDS`].
    /// Returns the command's arguments, and whether an exact recording fits into the limit.
    fn scale(&mut self, options: &Options, scratch: &Path) -> anyhow::Result<(String, bool)> {
        let once = self.row.run(Mode::Native, scratch)?.wall.max(1e-3);
        let exact = self.row.run(MODES[EXACT].1, scratch)?.wall;
        let most = options.limit / 2.0;
        let (Work::Kernel(kernel), Some(argument)) = (&mut self.row.work, self.argument) else {
            return Ok((String::new(), exact <= most));
        };
        let fits = once * options.limit / 6.0 / exact;
        let seconds = options.seconds.min(fits.max(MIN_SECONDS));
        let times = (seconds / once).round().max(1.0);
        let argument = &mut kernel.arguments[argument];
        *argument = (argument.parse::<usize>()? * times as usize).to_string();
        if test_support::Run::new("setarch").args(["-R", "true"]).run().exit_code == Some(0) {
            kernel.wrapper = ["setarch", "-R"].map(String::from).to_vec();
        }
        Ok((kernel.arguments.join(" "), exact * times <= most))
    }
}

impl Measured {
    fn of(
        samples: &[Vec<Sample>],
        mut profiles: [Vec<Recorded>; MODES.len()],
        machines: &[Machine],
    ) -> anyhow::Result<Self> {
        let ratio = |mode: &Vec<Sample>, of: fn(&Sample) -> f64| match mode.is_empty() {
            true => f64::NAN,
            false => {
                spread(mode.iter().zip(&samples[0]).map(|(with, alone)| of(with) / of(alone)))
                    .median
            }
        };
        let costs = samples.iter().map(|mode| [ratio(mode, |s| s.cpu), ratio(mode, |s| s.wall)]);
        let answered = samples.iter().map(|mode| match mode.is_empty() {
            true => f64::NAN,
            false => spread(mode.iter().map(|s| s.answered)).median,
        });
        let exact = std::mem::take(&mut profiles[EXACT]);
        // Each exact recording beside the one before.
        let again = exact.windows(2).map(|two| Compared::of(&two[0], &two[1], machines));
        let mut compared: [Vec<Compared>; MODES.len()] = Default::default();
        compared[EXACT] = again.collect::<anyhow::Result<_>>()?;
        for (compared, found) in compared.iter_mut().zip(&profiles).skip(FIRST_WINDOWED) {
            let each = exact.iter().zip(found);
            let each = each.map(|(exact, found)| Compared::of(exact, found, machines));
            *compared = each.collect::<anyhow::Result<_>>()?;
        }
        let windows = profiles.map(|mut found| found.pop().and_then(|found| found.windows));
        Ok(Self { costs: costs.collect(), answered: answered.collect(), compared, windows })
    }

    fn print(&self, native: &[Sample]) {
        let seconds = |of: fn(&Sample) -> f64| spread(native.iter().map(of)).median;
        println!(
            ": {:.1} s cpu, {:.1} s natively; {}; load {}",
            seconds(|s| s.cpu),
            seconds(|s| s.wall),
            truth::describe(&self.compared[EXACT]),
            load()
        );
        println!("  {:<7}{:>6}{:>7}{}  windows", "", "cpu", "wall", Compared::heading());
        for (which, (name, ..)) in MODES.iter().enumerate().skip(EXACT) {
            let [cpu, wall] = self.costs[which];
            if cpu.is_nan() {
                println!("  {name:<7} left out: it would take too long");
                continue;
            }
            let numbers = Compared::medians(&self.compared[which]);
            let windows = self.windows[which].as_ref().map_or(String::new(), |windows| {
                format!(
                    "  {}{}, warm-up {} ms, {:.1} % observed, missed at most {:.0} %",
                    windows.windows,
                    if windows.too_short { " (too short)" } else { "" },
                    windows.warm_up_ns / 1_000_000,
                    100.0 * windows.observed,
                    100.0 * windows.missed
                )
            });
            println!("  {name:<7}{cpu:>6.2}{wall:>7.2}{}{windows}", Compared::line(&numbers));
        }
        if self.answered[0] > 0.0 {
            let each = MODES.iter().zip(&self.answered).filter(|(_, time)| !time.is_nan());
            let each: Vec<_> = each.map(|((name, ..), time)| format!("{name} {time:.2}")).collect();
            println!("  99 of 100 requests are answered within ms: {}", each.join(", "));
        }
    }

    /// Targets that are missed, as phrases.
    fn missed(&self, name: &str) -> Vec<String> {
        let mut missed = Vec::new();
        for ((mode, _, most), costs) in MODES.iter().zip(&self.costs) {
            let too_much = costs.iter().zip(["cpu", "wall"]).filter(|(cost, _)| *cost > most);
            missed.extend(too_much.map(|(cost, what)| format!("{name} {mode}: {what} {cost:.2}")));
        }
        if Compared::differs(&self.compared[EXACT]) > REPRODUCIBLE {
            return missed;
        }
        for (which, (mode, ..)) in MODES.iter().enumerate().skip(FIRST_WINDOWED) {
            let found = Compared::missed(&self.compared[which], &self.compared[EXACT]);
            missed.extend(found.into_iter().map(|what| format!("{name} {mode}: {what}")));
        }
        missed
    }
}

/// What each mode may cost, as a phrase.
fn most_costs() -> String {
    let windowed = MODES.iter().skip(FIRST_WINDOWED);
    let each: Vec<_> = windowed.map(|(name, _, most)| format!("{most} at {name}")).collect();
    each.join(", ")
}

/// Of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("").into()
}

//! Does the report name what is wrong with a program, and nothing once it is fixed?
//! (`make bench-findings`)
//!
//! Each program of `tests/programs/findings/` is recorded as its author wrote it and as it is
//! fixed, and the causes that the report names are compared with what is known to be wrong. Native
//! runs of both forms, in turns, tell what the fix gains on this machine.

use anyhow::{Context, bail, ensure};
use benches::statistics::{Spread, spread};
use clap::{Parser, ValueEnum};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use test_support::findings::judge::{advised, causes, judge};
use test_support::findings::{Judged, PROGRAMS, Program};
use test_support::target::TargetError;
use test_support::{Run, Scratch, Threadtalk, probe};

/// What the report says of programs with known flaws, and what mending them gains.
#[derive(Parser)]
#[command(name = "findings", max_term_width = 100)]
struct Options {
    /// Only these, such as word_count,primes
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// How they are recorded
    #[arg(long, value_enum, default_value_t = How::Exact)]
    how: How,
    /// Native runs of each form; 0: do not measure what the fix gains
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Work of the recorded runs, as a part of that of the native ones
    #[arg(long, default_value_t = 0.5)]
    part: f64,
    /// Recordings of each program as it is; in how many of them the flaw is found
    #[arg(long, default_value_t = 1)]
    recordings: usize,
    /// Also as many recordings beside so many busy processes; 0: none
    #[arg(long, default_value_t = 0)]
    load: usize,
    /// Also print what the report says
    #[arg(long)]
    said: bool,
    /// Fail when the goal is missed
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum How {
    Exact,
    Windows,
    Sampled,
}

impl How {
    fn options(self) -> &'static [&'static str] {
        match self {
            How::Exact => &["--exact"],
            How::Windows => &["--budget", "2x"],
            How::Sampled => &["--sample"],
        }
    }
}

/// What a program gave.
struct Row {
    /// `None`: nothing should be said.
    judged: Option<Judged>,
    /// What is advised of the program as it is, if nothing should be, and once it is fixed.
    too_much: Vec<String>,
    gain: Option<Gain>,
    /// What the report says that the fix gives, how many times as fast: likely, least and most.
    predicted: Option<[f64; 3]>,
    /// In how many recordings the flaw was found, or something was said where nothing should be:
    /// with nothing beside them, and with other load.
    found: Vec<(usize, usize)>,
}

/// Processes that take processor time until this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn new(count: usize) -> anyhow::Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..count {
            load.0.push(Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It can only be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How many times as long the program takes before it is fixed.
struct Gain {
    cpu: Spread,
    wall: Spread,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    println!(
        "{} CPUs, recorded {:?}, {} pairs\n\n{:<20} rank kind object field sides worth  after  gain: \
         cpu              wall",
        probe::cpus(),
        options.how,
        options.pairs,
        "program"
    );
    let (mut rows, mut missed, mut near) = (0, Vec::new(), (0, 0));
    for program in PROGRAMS {
        let name = program.name();
        if !options.programs.is_empty() && !options.programs.iter().any(|wanted| wanted == name) {
            continue;
        }
        rows += 1;
        match one(program, &options, &threadtalk, &scratch) {
            Ok(Ok(row)) => {
                row.print(name, options.said);
                if let Some(is_near) = row.is_predicted() {
                    near = (near.0 + usize::from(is_near), near.1 + 1);
                }
                missed.extend((!row.is_right()).then_some(name));
            }
            Ok(Err(reason)) => println!("{name:<20} left out: {reason}"),
            Err(error) => {
                println!("{name:<20} FAILED: {error:#}");
                missed.push(name);
            }
        }
    }
    ensure!(rows > 0, "no program of that name");
    println!("\n{} of {} gains predicted within a factor of {NEAR}", near.0, near.1);
    println!("{} of {rows} as they should be; not: {}", rows - missed.len(), missed.join(" "));
    ensure!(!options.check || missed.is_empty(), "{} programs are not told right", missed.len());
    Ok(())
}

/// Records and measures a program; or why it cannot be built here.
fn one(
    program: &Program,
    options: &Options,
    threadtalk: &Threadtalk,
    scratch: &Scratch,
) -> anyhow::Result<Result<Row, String>> {
    let broken = match program.build(false) {
        Ok(binary) => binary,
        Err(error @ TargetError::NoCompiler(_)) => return Ok(Err(error.to_string())),
        Err(error) => bail!("{error}"),
    };
    let fixed = if program.mended { Some(program.build(true)?) } else { None };
    let report = |binary: &Path, part: f64| -> anyhow::Result<Vec<Value>> {
        let profile = scratch.join("findings.tt");
        let run = threadtalk.verb("record").args(options.how.options()).arg("--force");
        let run = run.arg("-o").arg(&profile).arg("--").arg(binary);
        let recorded = run.args(program.arguments(part)).timeout(LIMIT).run();
        ensure!(recorded.exit_code == Some(0), "{recorded}");
        let run = threadtalk.verb("report").arg(&profile).arg("--json").run();
        ensure!(run.exit_code == Some(0), "{run}");
        let report = serde_json::from_str(&run.stdout_text()).context("the report is no JSON")?;
        Ok(causes(&report).map_err(anyhow::Error::msg)?.to_vec())
    };
    let (mut part, mut before) = (options.part, report(&broken, options.part)?);
    let judge = |causes: &[Value]| program.expected.as_ref().map(|e| judge(program, e, causes));
    let mut judged = judge(&before);
    // Threads that hardly run at once, as on a busy machine, make few events.
    for _ in 0..DOUBLINGS {
        if judged.as_ref().is_some_and(|judged| judged.rank.is_none()) {
            part *= 2.0;
            before = report(&broken, part)?;
            judged = judge(&before);
        }
    }
    let predicted = judged.as_ref().and_then(|judged| predicted(judged, &before));
    let found = found_in(options, || {
        let causes = report(&broken, options.part)?;
        Ok(match judge(&causes) {
            Some(judged) => judged.rank.is_some() && judged.object && judged.worth,
            None => !advised(&causes).is_empty(),
        })
    })?;
    let mut too_much = if program.expected.is_none() { advised(&before) } else { Vec::new() };
    if let Some(fixed) = &fixed {
        too_much.extend(advised(&report(fixed, part)?));
    }
    let gain = match &fixed {
        Some(fixed) if options.pairs > 0 => Some(gain(program, &broken, fixed, options.pairs)?),
        _ => None,
    };
    Ok(Ok(Row { judged, too_much, gain, predicted, found }))
}

/// In how many recordings something is said: with nothing beside them, and with other load.
fn found_in(
    options: &Options,
    says: impl Fn() -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    for (load, wanted) in [(0, options.recordings > 1), (options.load, options.load > 0)] {
        if wanted {
            let _busy = Load::new(load)?;
            let mut times = 0;
            for _ in 0..options.recordings {
                times += usize::from(says()?);
            }
            found.push((times, options.recordings));
        }
    }
    Ok(found)
}

/// What the report says that mending the flaw gives.
fn predicted(judged: &Judged, causes: &[Value]) -> Option<[f64; 3]> {
    let gain = &causes.get(judged.rank?.checked_sub(1)?)?["cost"]["gain"];
    let at = |index: usize| gain[index].as_f64();
    Some([at(0)?, at(1)?, at(2)?])
}

/// How often the recorded work is doubled while the right object is not named.
const DOUBLINGS: u32 = 2;
/// Factor within which a predicted gain shall be.
const NEAR: f64 = 1.5;
/// Most time for a recording.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs both forms in turns.
fn gain(program: &Program, broken: &Path, fixed: &Path, pairs: usize) -> anyhow::Result<Gain> {
    let run = |binary: &PathBuf| {
        let outcome = Run::new(binary).args(program.arguments(1.0)).timeout(LIMIT).run();
        ensure!(outcome.exit_code == Some(0), "{outcome}");
        // The clock that counts processor time has ticks; nothing is over before the first.
        Ok([outcome.cpu, outcome.wall].map(|time| time.as_secs_f64().max(1e-4)))
    };
    let forms = [broken.to_owned(), fixed.to_owned()];
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // The form that runs first may find the machine warmer or colder.
        let mut times = [[0.0; 2]; 2];
        for which in [pair % 2, 1 - pair % 2] {
            times[which] = run(&forms[which])?;
        }
        ratios.push([0, 1].map(|time| times[0][time] / times[1][time]));
    }
    let of = |time: usize| spread(ratios.iter().map(|ratio| ratio[time]));
    Ok(Gain { cpu: of(0), wall: of(1) })
}

impl Row {
    /// The goal: the first cause is the right one in all its parts, and nothing is advised where
    /// nothing is wrong.
    fn is_right(&self) -> bool {
        self.judged.as_ref().is_none_or(Judged::is_right) && self.too_much.is_empty()
    }

    /// Whether the predicted gain is near the measured one; `None` where one of them is missing.
    fn is_predicted(&self) -> Option<bool> {
        let ratio = self.predicted?[0] / self.gain.as_ref()?.cpu.median;
        Some((1.0 / NEAR..=NEAR).contains(&ratio))
    }

    fn print(&self, name: &str, said: bool) {
        let yes = |is: bool| if is { "yes" } else { "NO" };
        match &self.judged {
            Some(judged) => {
                let rank = judged.rank.map_or("NONE".into(), |rank| rank.to_string());
                let field = judged.field.map_or("-", yes);
                print!("{name:<20} {rank:>4} {:<4} {:<6} {field:<5}", yes(judged.kind), {
                    yes(judged.object)
                });
                print!(" {:<5} {:<5}", yes(judged.sides), yes(judged.worth));
            }
            None => print!("{name:<20}    - -    -      -     -     -    "),
        }
        let after =
            if self.too_much.is_empty() { "none".into() } else { self.too_much.len().to_string() };
        print!("  {after:<5}");
        if let Some(gain) = &self.gain {
            print!("       {}  {}", words(&gain.cpu), words(&gain.wall));
        }
        if let Some([likely, least, most]) = self.predicted {
            print!("  predicted {likely:.2} ({least:.2}-{most:.2})");
        }
        for (times, of) in &self.found {
            print!("  found {times}/{of}");
        }
        println!();
        let wrong = self.judged.as_ref().filter(|judged| said || !judged.is_right());
        if let Some(judged) = wrong {
            println!("    said: {}", judged.said);
        }
        self.too_much.iter().for_each(|text| println!("    too much: {text}"));
    }
}

/// `1.52 (1.40-1.61)`.
fn words(spread: &Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.least, spread.most)
}

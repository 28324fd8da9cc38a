//! Does the report name what is wrong with a program, and nothing once it is fixed?
//! (`make bench-findings`)
//!
//! Each program of `tests/programs/findings/` is recorded as its author wrote it and as it is
//! fixed, and the causes that the report names are compared with what is known to be wrong. Native
//! runs of both forms, in turns, tell what the fix gains on this machine; beside it stands what the
//! report says that it would gain. With `--recordings`, each program is recorded several times,
//! with other work beside it if wanted: does it depend on luck what is found?

mod gain;

use crate::gain::{Gain, NEAR, Near, Told, told, words};
use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use test_support::findings::judge::{advised, causes, judge};
use test_support::findings::{Judged, PROGRAMS, Program};
use test_support::target::TargetError;
use test_support::{Scratch, Threadtalk, probe};

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
    /// Recordings of the broken form: in how many is the first cause the right one?
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    recordings: u32,
    /// Busy loops beside the recordings
    #[arg(long, default_value_t = 0)]
    beside: usize,
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
    /// As record does unless told otherwise
    Usual,
    /// With a budget of 2x
    Windows,
    /// With a budget of 20 %
    Budget,
    Sampled,
}

impl How {
    fn options(self) -> &'static [&'static str] {
        match self {
            How::Exact => &["--exact"],
            How::Usual => &[],
            How::Windows => &["--budget", "2x"],
            How::Budget => &["--budget", "20%"],
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
    /// Recordings in which the first cause is the right one.
    found: u32,
    told: Option<Told>,
    gain: Option<Gain>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    println!(
        "{} CPUs, recorded {:?}, {} pairs\n\n{:<20} rank kind object field sides worth found after  gain: \
         cpu              wall             told",
        probe::cpus(),
        options.how,
        options.pairs,
        "program"
    );
    let (mut rows, mut missed, mut near) = (0, Vec::new(), Near::default());
    for program in PROGRAMS {
        let name = program.name();
        if !options.programs.is_empty() && !options.programs.iter().any(|wanted| wanted == name) {
            continue;
        }
        rows += 1;
        match one(program, &options, &threadtalk, &scratch) {
            Ok(Ok(row)) => {
                row.print(name, &options);
                near.add(row.told.as_ref(), row.gain.as_ref());
                missed.extend((!row.is_right(&options)).then_some(name));
            }
            Ok(Err(reason)) => println!("{name:<20} left out: {reason}"),
            Err(error) => {
                println!("{name:<20} FAILED: {error:#}");
                missed.push(name);
            }
        }
    }
    ensure!(rows > 0, "no program of that name");
    println!("\n{} of {rows} as they should be; not: {}", rows - missed.len(), missed.join(" "));
    if near.all > 0 {
        println!(
            "Of {} programs without locks, the gain told is within a factor of {NEAR} for {}, and its interval \
             meets what was measured for {}.",
            near.all, near.near, near.inside
        );
    }
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
    let beside = busy(options.beside);
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
    let is_found =
        |judged: &Option<Judged>| u32::from(judged.as_ref().is_some_and(Judged::is_right));
    let mut found = is_found(&judged);
    for _ in 1..options.recordings {
        found += is_found(&judge(&report(&broken, part)?));
    }
    let told = judged.as_ref().and_then(|judged| told(&before[judged.rank? - 1]));
    let mut too_much = if program.expected.is_none() { advised(&before) } else { Vec::new() };
    if let Some(fixed) = &fixed {
        too_much.extend(advised(&report(fixed, part)?));
    }
    drop(beside);
    let gain = match &fixed {
        Some(fixed) if options.pairs > 0 => {
            Some(gain::measured(program, &broken, fixed, options.pairs)?)
        }
        _ => None,
    };
    Ok(Ok(Row { judged, too_much, found, told, gain }))
}

/// Busy loops, which end when they are dropped.
fn busy(count: usize) -> Busy {
    let ends = Arc::new(AtomicBool::new(false));
    let loops = |_| {
        let ends = Arc::clone(&ends);
        std::thread::spawn(move || while !ends.load(Ordering::Relaxed) {})
    };
    Busy { threads: (0..count).map(loops).collect(), ends }
}

struct Busy {
    threads: Vec<JoinHandle<()>>,
    ends: Arc<AtomicBool>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// How often the recorded work is doubled while the right object is not named.
const DOUBLINGS: u32 = 2;
/// Most time for a recording.
const LIMIT: Duration = Duration::from_secs(300);

impl Row {
    /// The goal: the first cause is the right one in all its parts, and nothing is advised where
    /// nothing is wrong.
    fn is_right(&self, options: &Options) -> bool {
        let found = self.judged.is_none() || self.found == options.recordings;
        found && self.too_much.is_empty()
    }

    fn print(&self, name: &str, options: &Options) {
        let yes = |is: bool| if is { "yes" } else { "NO" };
        match &self.judged {
            Some(judged) => {
                let rank = judged.rank.map_or("NONE".into(), |rank| rank.to_string());
                let field = judged.field.map_or("-", yes);
                print!("{name:<20} {rank:>4} {:<4} {:<6} {field:<5}", yes(judged.kind), {
                    yes(judged.object)
                });
                print!(" {:<5} {:<5}", yes(judged.sides), yes(judged.worth));
                print!(" {:<5}", format!("{}/{}", self.found, options.recordings));
            }
            None => print!("{name:<20}    - -    -      -     -     -     -    "),
        }
        let after =
            if self.too_much.is_empty() { "none".into() } else { self.too_much.len().to_string() };
        print!(" {after:<5}");
        let [cpu, wall] = match &self.gain {
            Some(gain) => [words(&gain.cpu), words(&gain.wall)],
            None => ["-".into(), "-".into()],
        };
        print!("       {cpu:<16} {wall:<16}");
        if let Some(Told { times, low, high, in_part }) = &self.told {
            let part = if *in_part { " in part" } else { "" };
            print!("  {times:.2} ({low:.2}-{high:.2}){part}");
        }
        println!();
        let wrong = self.judged.as_ref().filter(|judged| options.said || !judged.is_right());
        if let Some(judged) = wrong {
            println!("    said: {}", judged.said);
        }
        self.too_much.iter().for_each(|text| println!("    too much: {text}"));
    }
}

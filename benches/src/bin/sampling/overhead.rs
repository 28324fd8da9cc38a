//! What sampling costs programs: native, sampled and watched runs in turns.
//!
//! Each turn has a native run and one in each mode, and gives one ratio of processor time for each
//! mode: what disturbs the machine for longer than a turn disturbs both sides. The program's time
//! is user plus system time of the program and its children, without the recorder, whose own time
//! stands beside it: `reader` is the part of one processor that reading samples took while the
//! program ran, `recorder` all that the recorder did besides the program, probing at the start and
//! writing the profile among it. Memory is that of the largest process and the recorder's together,
//! or what the recorder needs later to make the profile, if that is more.

use crate::Options;
use crate::told::Told;
use benches::mode::Mode;
use benches::rows::{Row, Sample};
use benches::statistics::{Quartiles, quartiles};
use std::path::Path;

/// What is compared with native runs.
const MODES: [(&str, Mode); 3] =
    [("sampled", Mode::Sampled), ("no heap", Mode::SampledNoObjects), ("watched", Mode::Watched)];
/// The program's processor time, over that of a native run.
const MAX_OVERHEAD: f64 = 1.05;
/// Memory over that of a native run, and bytes beyond.
const MAX_MEMORY: (f64, f64) = (1.05, 16e6);
/// Part of one processor that reading takes.
const MAX_READER: f64 = 0.02;
/// Part of the samples whose access is found.
const MIN_YIELD: f64 = 0.65;
/// Samples from which on the yield means something.
const ENOUGH_SAMPLES: u64 = 100;

/// What a row gave in one mode, over all turns.
struct Cost {
    /// The program's time over the native one.
    program: Quartiles,
    /// The recorder's time, seconds.
    recorder: f64,
    reader: f64,
    samples: u64,
    decoded: u64,
    lost: u64,
    hits: u64,
    /// Over native memory, and bytes beyond it.
    memory: (f64, f64),
    /// What the target of memory leaves, bytes; negative where it is missed.
    memory_left: f64,
}

/// Measures and prints a table; returns the targets that were missed.
pub fn measure(
    title: &str,
    rows: Vec<Row>,
    options: &Options,
    scratch: &Path,
) -> anyhow::Result<Vec<String>> {
    println!(
        "\n{title:<26} {:>8}  {:<8} {:<19} {:>8} {:>7} {:>7} {:>6} {:>5} {:>9}  memory",
        "native s", "", "program", "recorder", "reader", "yield", "hits", "lost", "samples"
    );
    let (mut missed, mut costs) = (Vec::new(), Vec::new());
    for mut row in rows.into_iter().filter(|row| options.wants_name(&row.name)) {
        if let Err(reason) = row.prepare()? {
            println!("{:<26} SKIPPED: {reason}", row.name);
            continue;
        }
        match turns(&row, options.pairs.max(1), scratch) {
            Ok((native, of_row)) => {
                print_row(&row, native, &of_row);
                missed.extend(missed_of_row(&row.name, &of_row));
                costs.push((row.name, of_row));
            }
            Err(error) => {
                println!("{:<26} FAILED: {error:#}", row.name);
                missed.push(format!("{} failed", row.name));
            }
        }
    }
    missed.extend(print_summary(title, &costs));
    Ok(missed)
}

/// Median native seconds, and the costs by mode.
fn turns(row: &Row, pairs: usize, scratch: &Path) -> anyhow::Result<(f64, Vec<Cost>)> {
    let modes: Vec<Mode> = [Mode::Native].into_iter().chain(MODES.map(|(_, mode)| mode)).collect();
    let mut told: [Vec<Told>; MODES.len()] = Default::default();
    let samples = row.turns(&modes, (pairs, None), scratch, |which, profile| {
        if let Some(told) = which.checked_sub(1).map(|which| &mut told[which]) {
            told.push(Told::read(profile)?);
        }
        Ok(())
    })?;
    let (native, recorded) = samples.split_first().expect("the native runs are first");
    let together = |(runs, told): (&Vec<Sample>, Vec<Told>)| {
        let runs: Vec<(Sample, Told)> = runs.iter().cloned().zip(told).collect();
        cost(native, &runs)
    };
    let costs = recorded.iter().zip(told).map(together).collect();
    Ok((quartiles(native.iter().map(|sample| sample.cpu)).median, costs))
}

fn cost(native: &[Sample], runs: &[(Sample, Told)]) -> Cost {
    let median = |of: &dyn Fn(&Sample, &Told) -> f64| {
        quartiles(runs.iter().map(|(sample, told)| of(sample, told))).median
    };
    let sum = |of: &dyn Fn(&Told) -> u64| runs.iter().map(|(_, told)| of(told)).sum();
    // The clock that counts processor time has ticks; nothing is over before the first.
    let ratio =
        |(alone, (_, told)): (&Sample, &(Sample, Told))| told.program_cpu / alone.cpu.max(1e-4);
    let alone = quartiles(native.iter().map(|sample| sample.peak_bytes as f64)).median.max(1.0);
    let together = median(&|sample, _| {
        let (own, largest) = (sample.own, sample.peak_bytes as f64);
        // Where the recorder is the largest process, the program is not larger than alone.
        let program = if largest > 1.02 * own.bytes as f64 { largest } else { alone };
        (program + own.with_children_bytes as f64).max(largest)
    });
    Cost {
        program: quartiles(native.iter().zip(runs).map(ratio)),
        recorder: median(&|sample, told| sample.cpu - told.program_cpu),
        reader: median(&|_, told| told.reader_share()),
        samples: sum(&|told| told.samples),
        decoded: sum(&|told| told.decoded),
        lost: sum(&|told| told.lost),
        hits: sum(&|told| told.hits),
        memory: (together / alone, together - alone),
        memory_left: MAX_MEMORY.0 * alone + MAX_MEMORY.1 - together,
    }
}

impl Cost {
    fn decode_yield(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.decoded as f64 / self.samples as f64)
    }
}

fn print_row(row: &Row, native: f64, costs: &[Cost]) {
    for (k, (cost, (mode, _))) in costs.iter().zip(MODES).enumerate() {
        match k {
            0 => print!("{:<26} {native:>8.3}", row.name),
            _ => print!("{:<26} {:>8}", "", ""),
        }
        let Quartiles { lower, median, upper } = cost.program;
        let found = cost.decode_yield();
        println!(
            "  {mode:<8} {median:.3} {:<13} {:>6.3} s {:>5.2} % {:>7} {:>6} {:>5} {:>9}  {:.2}x {:+.0} MB",
            format!("({lower:.3}-{upper:.3})"),
            cost.recorder,
            100.0 * cost.reader,
            found.map_or("-".into(), |share| format!("{:.1} %", 100.0 * share)),
            cost.hits,
            cost.lost,
            cost.samples,
            cost.memory.0,
            cost.memory.1 / 1e6,
        );
    }
}

/// Targets that each row must reach.
fn missed_of_row(name: &str, costs: &[Cost]) -> Vec<String> {
    let mut missed = Vec::new();
    for (cost, (mode, _)) in costs.iter().zip(MODES) {
        if cost.reader > MAX_READER {
            missed.push(format!("{name} {mode}: reader {:.1} % of a CPU", 100.0 * cost.reader));
        }
        if cost.memory_left < 0.0 {
            let (ratio, more) = cost.memory;
            missed.push(format!("{name} {mode}: memory {ratio:.2}x, {:+.0} MB", more / 1e6));
        }
        if let Some(found) = cost.decode_yield().filter(|_| cost.samples >= ENOUGH_SAMPLES)
            && found < MIN_YIELD
        {
            missed.push(format!("{name} {mode}: yield {:.1} %", 100.0 * found));
        }
    }
    missed
}

/// Prints each mode's medians and worst; returns what is missed of the median overhead.
fn print_summary(title: &str, rows: &[(String, Vec<Cost>)]) -> Vec<String> {
    let mut missed = Vec::new();
    if rows.is_empty() {
        return missed;
    }
    for (k, (mode, _)) in MODES.iter().enumerate() {
        let of = |value: &dyn Fn(&Cost) -> f64| quartiles(rows.iter().map(|(_, c)| value(&c[k])));
        let program = of(&|cost| cost.program.median);
        let most = |value: &dyn Fn(&Cost) -> f64| {
            let by = |row: &&(String, Vec<Cost>)| value(&row.1[k]);
            let worst = rows.iter().max_by(|a, b| by(a).total_cmp(&by(b))).expect("not empty");
            (value(&worst.1[k]), worst.0.as_str())
        };
        let ((slowest, slow), (reader, busy)) =
            (most(&|cost| cost.program.median), most(&|cost| cost.reader));
        let samples: u64 = rows.iter().map(|(_, costs)| costs[k].samples).sum();
        let decoded: u64 = rows.iter().map(|(_, costs)| costs[k].decoded).sum();
        let lost: u64 = rows.iter().map(|(_, costs)| costs[k].lost).sum();
        println!(
            "{mode:<8} program median {:.3} (target {MAX_OVERHEAD}), worst {slowest:.3} {slow}; reader \
             at most {:.2} % of a CPU, {busy} (target {:.0} %); yield {:.1} % (target {:.0} %); lost {lost} \
             of {samples}; recorder median {:.3} s",
            program.median,
            100.0 * reader,
            100.0 * MAX_READER,
            100.0 * decoded as f64 / samples.max(1) as f64,
            100.0 * MIN_YIELD,
            of(&|cost| cost.recorder).median,
        );
        if program.median > MAX_OVERHEAD {
            missed.push(format!("{title} {mode}: median {:.3}", program.median));
        }
    }
    missed
}

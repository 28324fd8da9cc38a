//! Runs a kernel natively and recorded, in alternating pairs.

use crate::Options;
use anyhow::ensure;
use std::time::Duration;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk};

/// CPU seconds of two runs, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub native: f64,
    pub recorded: f64,
}

/// The pairs of one kernel compiled with `flags`.
pub fn pairs(
    kernel: &str,
    flags: &[&str],
    threads: usize,
    options: &Options,
) -> anyhow::Result<Vec<Pair>> {
    let target = Target::new(Compiler::Gcc, &format!("benches/kernels/{kernel}.c"));
    let binary = target.flags(flags).flags(&["-fopenmp", "-pthread", "-lm"]).build()?;
    let arguments = [threads.to_string(), options.scale.to_string()];
    let (threadtalk, scratch) = (Threadtalk::built(), Scratch::new());
    let native = || Run::new(&binary).args(&arguments).timeout(Duration::from_secs(300)).run();
    let recorded = || {
        let binary = binary.to_str().expect("the build folder's path is UTF-8");
        let command = [binary, &arguments[0], &arguments[1]];
        let mut run = threadtalk.record(&scratch.join("bench.tt"), &["--force"], &command);
        if let Some(bits) = options.disable {
            run = run.env("THREADTALK_DISABLE", bits.to_string());
        }
        if options.translate_only {
            run = run.env("THREADTALK_COUNT", "0");
        }
        run.timeout(Duration::from_secs(600)).run()
    };
    let mut pairs = Vec::new();
    for pair in 0..options.pairs.max(1) {
        // Whoever runs first may find the machine warmer or colder: take turns.
        let (alone, with) = if pair % 2 == 0 {
            let alone = native();
            (alone, recorded())
        } else {
            let with = recorded();
            (native(), with)
        };
        same(&alone, &with)?;
        pairs.push(Pair { native: alone.cpu.as_secs_f64(), recorded: with.cpu.as_secs_f64() });
    }
    Ok(pairs)
}

fn same(native: &Outcome, recorded: &Outcome) -> anyhow::Result<()> {
    ensure!(native.exit_code == Some(0) && !native.timed_out, "fails natively\n{native}");
    ensure!(recorded.exit_code == Some(0) && !recorded.timed_out, "fails recorded\n{recorded}");
    ensure!(
        native.stdout == recorded.stdout,
        "output changed by the recording\nNATIVE {native}\nRECORDED {recorded}"
    );
    Ok(())
}

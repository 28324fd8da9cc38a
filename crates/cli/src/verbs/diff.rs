//! `threadtalk diff`: what differs between two runs.

use crate::choice::one_of;
use crate::output::{Destination, print};
use crate::{family, input, kind};
use analysis::{Choice, Difference, MatrixKind, Run, difference};
use anyhow::{Context, bail};
use profile::Profile;
use report::{TextStyle, difference_json, difference_text};
use std::path::{Path, PathBuf};
use types::CommMatrix;

/// Compare two profiles or matrices
///
/// Shows which threads communicate differently, and on which cache lines.
///
/// Both matrices are scaled to a maximum of 100 and compared cell by cell. The mean squared error
/// is 0 when they have the same shape, whatever their amounts, and at most 8750 with 8 threads,
/// 9844 with
/// 64. Threads of two profiles are matched by start routine and creator, so a new build or one more
/// helper thread does no harm. Threads of CSV matrices are matched by number.
///
/// Of a profile with several processes, the one that communicates most is compared. For another
/// one, name its folder in processes/.
///
/// With --threshold, the exit code is 1 when the error is larger.
#[derive(clap::Args)]
pub struct Args {
    /// A profile folder (NAME.tt), a square CSV matrix of non-negative integers, or - for one on
    /// stdin
    a: PathBuf,
    /// What to compare it with
    b: PathBuf,
    /// Events of profiles that are compared [default: transfers; undirected if recorded so]
    #[arg(long, value_parser = one_of::<MatrixKind>())]
    kind: Option<MatrixKind>,
    /// Exit with 1 when the mean squared error is larger than this
    #[arg(long, value_name = "MSE", value_parser = threshold)]
    threshold: Option<f64>,
    #[command(flatten)]
    to: Destination,
}

/// Exit code of a difference beyond the threshold.
const BEYOND: i32 = 1;

fn threshold(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("write a mean squared error, a number from 0 to 10000".into()),
    }
}

/// One of the inputs.
enum Input {
    Profile(Box<Profile>, Choice),
    Matrix(CommMatrix),
}

impl Input {
    fn read(path: &Path, kind: Option<MatrixKind>) -> anyhow::Result<Self> {
        match path.is_dir() {
            true => {
                let profile = family::load_saying(path, None)?;
                let choice = kind::choice(&profile, kind, None)
                    .with_context(|| format!("cannot compare '{}'", path.display()))?;
                Ok(Input::Profile(Box::new(profile), choice))
            }
            false => Ok(Input::Matrix(input::matrix(path)?)),
        }
    }

    fn run(&self) -> Run<'_> {
        match self {
            Input::Profile(profile, choice) => Run::Profile(profile, *choice),
            Input::Matrix(matrix) => Run::Matrix(matrix),
        }
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    if args.a.as_os_str() == "-" && args.b.as_os_str() == "-" {
        bail!("only one of the two can be read from stdin; name a file for the other");
    }
    let (a, b) = (Input::read(&args.a, args.kind)?, Input::read(&args.b, args.kind)?);
    let names = [args.a.display().to_string(), args.b.display().to_string()];
    let found = difference(&a.run(), &b.run())
        .with_context(|| format!("cannot compare '{}' with '{}'", names[0], names[1]))?;
    show(&found, [&a.run(), &b.run()], &names, &args.to)?;
    let beyond = args.threshold.is_some_and(|threshold| found.mse > threshold);
    Ok(if beyond { BEYOND } else { 0 })
}

fn show(
    found: &Difference,
    runs: [&Run<'_>; 2],
    names: &[String; 2],
    to: &Destination,
) -> anyhow::Result<()> {
    let out = to.open()?;
    let (colour, width) = (out.wants_colour(), out.width());
    let text = match to.json {
        true => difference_json(found, runs)? + "\n",
        false => {
            let style = TextStyle { colour, width, lines: None };
            difference_text(found, runs, [&names[0], &names[1]], style)
        }
    };
    print(out, &text)
}

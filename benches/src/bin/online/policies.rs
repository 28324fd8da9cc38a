//! Work done by pairs of threads under each policy, over that done under the scheduler alone.

use crate::partners::{How, Of, Partners};
use crate::{Missed, Options};
use benches::statistics::spread;
use std::process::Command;

/// What is compared; the first is what the others are compared with.
const POLICIES: [(&str, How); 12] = [
    ("scheduler", How::Prefixed(&[])),
    ("compact", How::Plan(Of::Compact)),
    ("interleave", How::Prefixed(&["numactl", "--interleave=all"])),
    ("plan", How::Plan(Of::Computed)),
    ("auto, threads", How::Auto(&["--threads-only"])),
    ("auto, data", How::Auto(&["--data-only"])),
    ("auto, both", How::Auto(&[])),
    ("cdsm", How::Auto(&["--policy", "cdsm"])),
    ("kmaf", How::Auto(&["--policy", "kmaf"])),
    ("autopin", How::Auto(&["--policy", "autopin"])),
    ("carrefour", How::Auto(&["--policy", "carrefour"])),
    ("scheduler again", How::Prefixed(&[])),
];
/// What `auto` may lose against the plan.
const MAX_LOSS: f64 = 0.03;
/// Time between two changes of partners, s.
const CHANGE: u32 = 5;

/// Why a policy cannot be tried here.
fn missing(name: &str) -> Option<&'static str> {
    let nodes = std::fs::read_dir("/sys/devices/system/node").map_or(0, |all| {
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let number =
            |name: String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
        all.flatten().map(name).filter(|name| number(name.clone())).count()
    });
    let numactl = || Command::new("numactl").arg("--show").output().is_ok();
    match name {
        "interleave" | "auto, data" | "carrefour" if nodes < 2 => {
            Some("one NUMA node: there is nothing to decide")
        }
        "interleave" if !numactl() => Some("numactl is not installed"),
        _ => None,
    }
}

/// The table.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let partners = Partners::new()?;
    let (seconds, rounds) = (options.pick(10, 3), options.pick(2, 1));
    for two in [false, true] {
        let what = if two { "two applications" } else { "one application" };
        println!("\npolicies, {what}: work over the scheduler's, {rounds} x {seconds} s");
        let mut base = None;
        for (name, how) in &POLICIES {
            if let Some(why) = missing(name) {
                println!("  {name:<16} not tried: {why}");
                continue;
            }
            let turns: Result<Vec<f64>, _> =
                (0..rounds).map(|_| partners.turns(how, two, seconds, 0)).collect();
            let found = spread(turns?.into_iter());
            let base = *base.get_or_insert(found.median);
            let [low, at, high] = [found.least, found.median, found.most].map(|turns| turns / base);
            println!("  {name:<16} {at:5.2}  ({low:.2} to {high:.2})");
        }
    }
    Ok(())
}

/// `auto` against the plan, with fixed and with changing partners.
pub fn against_the_plan(options: &Options) -> anyhow::Result<Vec<String>> {
    let partners = Partners::new()?;
    let seconds = options.pick(30, 8);
    println!(
        "\npartners, {seconds} s: work of auto over that of run --plan (target {})",
        1.0 - MAX_LOSS
    );
    let plan = |partners: &Partners| partners.turns(&How::Plan(Of::Computed), false, seconds, 0);
    let mut missed = Vec::new();
    for (name, change) in [("fixed partners", 0), ("partners change every 5 s", CHANGE)] {
        // A plan fits one pairing only: both are compared with what it does for that.
        let before = plan(&partners)?;
        let turns = partners.turns(&How::Auto(&[]), false, seconds, change)?;
        let after = plan(&partners)?;
        let ratio = 2.0 * turns / (before + after);
        let spread = (before - after).abs() / (before + after);
        println!("  {name:<26} {ratio:.3}  (the plan's own two runs differ by ±{spread:.3})");
        missed.extend(too_little(name, ratio));
    }
    Ok(missed)
}

fn too_little(name: &str, ratio: f64) -> Missed {
    (ratio < 1.0 - MAX_LOSS).then(|| format!("{name}: {ratio:.3} of the plan's work"))
}

//! Solo time tells how much threads slow each other. A file of its own, as other tests beside it
//! would slow them, too.

use serde_json::Value;
use std::path::Path;
use test_support::findings::{PROGRAMS, Program};
use test_support::{Run, Scratch, Threadtalk, probe};

/// Which part of its processor time a program loses because its threads run at once: on one
/// processor it does not.
fn lost_natively(program: &Program, binary: &Path) -> f64 {
    let seconds =
        |run: Run| run.args(program.arguments(1.0)).run().expect_code(0).cpu.as_secs_f64();
    let mut parts: Vec<f64> = (0..3)
        .map(|_| {
            let alone = Run::new("taskset").args(["-c", &probe::first_cpu()]).arg(binary);
            1.0 - seconds(alone) / seconds(Run::new(binary)).max(1e-3)
        })
        .collect();
    parts.sort_by(f64::total_cmp);
    parts[1]
}

/// What the report says of that by solo time: what is likely, and the least.
fn lost_by_solo_time(program: &Program, binary: &Path) -> Option<(f64, f64)> {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("solo.tt");
    let run = threadtalk.verb("record").args(["--budget", "20%", "-o"]).arg(&profile).arg("--");
    run.arg(binary).args(program.arguments(6.0)).run().expect_code(0);
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    let report: Value = serde_json::from_str(&report.stdout_text()).expect("JSON");
    let slowed = &report["measured"]["slowed"];
    Some((slowed["share"].as_f64()?, slowed["low"].as_f64()?))
}

#[test]
fn solo_time_tells_what_running_at_once_costs() {
    let program =
        PROGRAMS.iter().find(|program| program.file == "pi_seeds.c").expect("in the table");
    let [broken, fixed] = [false, true].map(|fixed| program.build(fixed).expect("a compiler"));
    let lost = lost_natively(program, &broken);
    if probe::cpus() < 2 || lost < 0.4 {
        return probe::skip(
            "solo time",
            "threads that share a line do not slow each other here now",
        );
    }
    // Here it is measured in light code, of which it told between none and a half of the loss.
    let is_seen = |told: &Option<(f64, f64)>| told.is_some_and(|(share, _)| share > lost / 3.0);
    let mut told = Vec::new();
    while told.len() < 5 && !told.last().is_some_and(is_seen) {
        told.push(lost_by_solo_time(program, &broken));
    }
    if told.iter().all(Option::is_none) {
        return probe::skip("solo time", "the machine is too busy: threads do not come in time");
    }
    if lost_natively(program, &broken) < 0.4 {
        return probe::skip("solo time", "threads have stopped to slow each other here");
    }
    assert!(told.last().is_some_and(is_seen), "{lost:.2} of the time is lost, but {told:?}");
    let nothing = (0..5).find(|_| {
        lost_by_solo_time(program, &fixed).is_none_or(|(share, low)| share < 0.2 && low < 0.1)
    });
    assert!(nothing.is_some(), "mended threads do not slow each other");
}

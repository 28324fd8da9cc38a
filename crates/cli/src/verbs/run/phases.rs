//! When the placement was switched.

use crate::said::{say, say_more, several};
use placement::PlanPhases;
use recorder::phases::PhaseReport;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Changes that are listed in the text; all are in the JSON.
const LISTED: usize = 10;

/// The changes, and why some did not come. `report` is absent where another program binds the
/// threads.
pub fn tell(planned: &PlanPhases, report: Option<&PhaseReport>) {
    let Some(report) = report else {
        return say(
            "only the plan's first placement was applied: its phases need --via threadtalk",
        );
    };
    lines(planned, report).iter().for_each(|line| say(line));
    if !report.switches.is_empty() {
        say_more(&table(planned, report));
    }
}

fn lines(planned: &PlanPhases, report: &PhaseReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mark = |phase: usize| {
        let begins = planned.phases[phase].begins.as_ref();
        begins.map(ToString::to_string).unwrap_or_default()
    };
    for &phase in &report.unknown {
        lines.push(format!(
            "phase {phase} could not be recognised: the program has no {}; make a plan of this build",
            mark(phase)
        ));
    }
    if let Some(problem) = &report.problem {
        lines.push(format!("the first placement stayed in force: {problem}"));
    } else if report.switches.is_empty() && report.unknown.is_empty() {
        lines.push("the first placement stayed in force: no other phase began".into());
    }
    let refused: usize = report.switches.iter().map(|switch| switch.refused).sum();
    if refused > 0 {
        lines.push(format!("the kernel refused to move {}", several(refused, "thread")));
    }
    if !report.switches.is_empty() {
        lines.push(format!("{} of placement:", several(report.switches.len(), "change")));
    }
    lines
}

fn table(planned: &PlanPhases, report: &PhaseReport) -> String {
    let mut out = String::new();
    for switch in report.switches.iter().take(LISTED) {
        let begins = planned.phases[switch.phase].begins.as_ref();
        let _ = writeln!(
            out,
            "  after {:.3} s phase {} at {}, {} moved",
            switch.after.as_secs_f64(),
            switch.phase,
            begins.map(ToString::to_string).unwrap_or_default(),
            several(switch.moved, "thread")
        );
    }
    if report.switches.len() > LISTED {
        let _ = writeln!(out, "  and {} more", report.switches.len() - LISTED);
    }
    out
}

/// All of it.
pub fn json(report: &PhaseReport) -> Value {
    let switches: Vec<Value> = report
        .switches
        .iter()
        .map(|switch| {
            json!({
                "phase": switch.phase,
                "after_seconds": switch.after.as_secs_f64(),
                "moved": switch.moved,
                "refused": switch.refused,
            })
        })
        .collect();
    json!({
        "switches": switches,
        "not_recognised": report.unknown,
        "not_switched_because": report.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{PlanMark, PlanPhase};

    fn planned() -> PlanPhases {
        let mark = PlanMark { module: "app".into(), offset: 16, ..PlanMark::default() };
        let phase = |begins| PlanPhase { part: 0.5, cost: 1.0, begins, pus: Vec::new() };
        let phases = vec![phase(None), phase(Some(mark))];
        PlanPhases { one: 3.0, cost: 2.0, moving: 0.0, switches: 1, phases }
    }

    #[test]
    fn what_was_not_switched_is_said() {
        let none = PhaseReport::default();
        assert_eq!(
            lines(&planned(), &none),
            ["the first placement stayed in force: no other phase began"]
        );
        let other_build = PhaseReport { unknown: vec![1], ..none.clone() };
        assert_eq!(
            lines(&planned(), &other_build),
            [
                "phase 1 could not be recognised: the program has no (app+0x10); make a plan of this build"
            ]
        );
        let refused = PhaseReport { problem: Some("why".into()), ..none };
        assert_eq!(lines(&planned(), &refused), ["the first placement stayed in force: why"]);
    }
}

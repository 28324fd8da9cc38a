//! What `auto` prints: the status of services, the timeline of a log, and what came of a run.

use crate::said::{say, several};
use anyhow::Context;
use daemon::auto::Outcome;
use daemon::programs::Program;
use daemon::status::Status;
use online::{Replayed, sentence};
use std::fmt::Write as _;
use std::io::Write as _;

/// Exit code where a replay gives other decisions than the log.
const EXIT_DIFFERS: i32 = 1;
/// What `auto` costs is told as a part of the time once it has run for so long: getting ready takes
/// most of the first moments.
const MIN_SECONDS: f64 = 10.0;

/// Prints to standard output; a reader that is gone is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Prints what running services do.
pub fn status(all: &[Status], json: bool) -> anyhow::Result<i32> {
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(all)?))?;
        return Ok(0);
    }
    if all.is_empty() {
        say("no threadtalk auto of this user runs");
    }
    all.iter().try_for_each(|status| print(&status_text(status)))?;
    Ok(0)
}

fn status_text(status: &Status) -> String {
    let Status { pid, target, sense, seconds, cpu_seconds, processes, threads, .. } = status;
    let mut text = format!("process {pid} looks after {target} for {seconds:.0} s\n");
    let _ = writeln!(text, "  sense      {sense}");
    let _ = writeln!(
        text,
        "  now        {}, {}, {} bound",
        several(*processes, "process").replace("processs", "processes"),
        several(*threads, "thread"),
        status.bound.len()
    );
    let _ = writeln!(
        text,
        "  so far     {}, {} moved ({} refused), {} kept, {} undone",
        several(status.binds as usize, "binding"),
        several(status.pages as usize, "page"),
        status.pages_refused,
        status.kept,
        status.undone
    );
    let part = match *seconds >= MIN_SECONDS {
        true => format!(" ({:.2} % of one)", 100.0 * cpu_seconds / seconds),
        false => String::new(),
    };
    let _ = writeln!(text, "  own cost   {cpu_seconds:.2} s of processor time{part}");
    for (command, program) in &status.programs {
        program_text(&mut text, command, program);
    }
    if !status.lines.is_empty() {
        text.push_str("  what was said last\n");
    }
    for (at, line) in &status.lines {
        let _ = writeln!(text, "  {at:7.1} s  {line}");
    }
    text
}

/// What was done for a program.
pub fn program_text(text: &mut String, command: &str, program: &Program) {
    let there = match program.processes {
        0 => "not there now".into(),
        count => format!(
            "{}, {}, {} bound",
            several(count, "process").replace("processs", "processes"),
            several(program.threads, "thread"),
            program.bound
        ),
    };
    let _ = writeln!(text, "  {command}: {there}");
    if program.placed > 0 || program.pages > 0 {
        let _ = writeln!(
            text,
            "    placed {}, {} kept as proved, {} undone; {} moved",
            several(program.placed as usize, "time"),
            program.kept,
            program.undone,
            several(program.pages as usize, "page")
        );
    }
    let with: Vec<&str> = program.with.iter().map(String::as_str).collect();
    let with = match with.is_empty() {
        true => String::new(),
        false => format!(", together with {}", with.join(", ")),
    };
    match (program.gain, program.estimate) {
        (Some([ratio, low, high]), _) => {
            let interval = format!("95 % interval {low:.2} to {high:.2}");
            let _ = writeln!(text, "    last measured: {ratio:.2}x the work ({interval}){with}");
        }
        (None, Some(estimate)) => {
            let _ = writeln!(
                text,
                "    gain: not measured; estimated {:.1} % of the time{with}",
                estimate * 100.0
            );
        }
        (None, None) => {}
    }
    if let Some(why) = &program.left {
        let _ = writeln!(text, "    left alone: {why}");
    }
}

/// Prints the timeline of a log that was replayed.
pub fn timeline(replayed: &Replayed, json: bool) -> anyhow::Result<i32> {
    if json {
        let decisions: Vec<_> = replayed
            .decisions
            .iter()
            .map(|(at_ns, decision)| serde_json::json!({ "at_ns": at_ns, "decision": decision }))
            .collect();
        let all = serde_json::json!({
            "target": replayed.target,
            "sense": replayed.sense,
            "observations": replayed.observations,
            "same_decisions": replayed.difference.is_none(),
            "complete": replayed.complete,
            "decisions": decisions,
        });
        print(&format!("{all:#}\n"))?;
    } else {
        let mut text = format!("{}, seen by {}\n", replayed.target, replayed.sense);
        for (at_ns, decision) in &replayed.decisions {
            for note in &decision.notes {
                let _ = writeln!(text, "{:9.1} s  {}", *at_ns as f64 / 1e9, sentence(note));
            }
        }
        let looks = several(replayed.observations, "observation");
        let _ = writeln!(text, "{looks} replayed");
        print(&text)?;
    }
    if replayed.complete == Some(false) {
        say("the log ends before 'auto' did: that was killed, still runs, or could not write it");
    }
    let Some(difference) = &replayed.difference else { return Ok(0) };
    say(&format!(
        "the decision at {:.3} s is another one than in the log: the log is of another version of \
         threadtalk, or was changed",
        difference.at_ns as f64 / 1e9
    ));
    Ok(EXIT_DIFFERS)
}

/// Says what came of a run.
pub fn outcome(outcome: &Outcome) {
    let status = &outcome.status;
    if status.seconds == 0.0 {
        return say("the program ended before it could be looked at");
    }
    if let Some(why) = &outcome.planless {
        say(&format!("did not begin as recorded: {why}"));
    }
    let moved = match status.pages {
        0 => String::new(),
        pages => format!(", {} moved", several(pages as usize, "page")),
    };
    say(&format!(
        "{} made{moved}, {} kept as proved, {} undone, {} given back what they had; this took \
         {:.2} s of processor time",
        several(status.binds as usize, "binding"),
        several(status.kept as usize, "placement"),
        status.undone,
        several(outcome.restored, "thread"),
        status.cpu_seconds
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_was_done() {
        let status = Status {
            pid: 7,
            target: "user 1000".into(),
            sense: "samples".into(),
            seconds: 100.0,
            cpu_seconds: 0.5,
            processes: 2,
            threads: 9,
            binds: 4,
            kept: 1,
            lines: vec![(3.0, "kept: x".into())],
            ..Status::default()
        };
        let served = Program {
            processes: 1,
            threads: 8,
            bound: 4,
            placed: 2,
            kept: 1,
            gain: Some([1.4, 1.3, 1.5]),
            with: ["other".to_owned()].into(),
            ..Program::default()
        };
        let left = Program { left: Some("it is quiet".into()), ..Program::default() };
        let programs = [("served".to_owned(), served), ("left".to_owned(), left)].into();
        let status = Status { programs, ..status };
        assert_eq!(
            status_text(&status),
            "process 7 looks after user 1000 for 100 s\n\
             \u{20} sense      samples\n\
             \u{20} now        2 processes, 9 threads, 0 bound\n\
             \u{20} so far     4 bindings, 0 pages moved (0 refused), 1 kept, 0 undone\n\
             \u{20} own cost   0.50 s of processor time (0.50 % of one)\n\
             \u{20} left: not there now\n\
             \u{20}   left alone: it is quiet\n\
             \u{20} served: 1 process, 8 threads, 4 bound\n\
             \u{20}   placed 2 times, 1 kept as proved, 0 undone; 0 pages moved\n\
             \u{20}   last measured: 1.40x the work (95 % interval 1.30 to 1.50), together with other\n\
             \u{20} what was said last\n\
             \u{20}     3.0 s  kept: x\n"
        );
        // In the first moments, the part means nothing.
        let early = Status { seconds: 0.1, cpu_seconds: 0.08, ..status };
        assert!(status_text(&early).contains("own cost   0.08 s of processor time\n"));
    }
}

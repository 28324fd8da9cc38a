//! What `auto` prints: the status of services, the timeline of a log, and what came of a run.

use crate::said::{say, several};
use anyhow::Context;
use daemon::auto::Outcome;
use daemon::status::Status;
use online::{Replayed, sentence};
use std::fmt::Write as _;
use std::io::Write as _;

/// Exit code where a replay gives other decisions than the log.
const EXIT_DIFFERS: i32 = 1;

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
        "  so far     {} bound, {} moved ({} refused), {} kept, {} undone",
        several(status.binds as usize, "thread"),
        several(status.pages as usize, "page"),
        status.pages_refused,
        status.kept,
        status.undone
    );
    let part = 100.0 * cpu_seconds / seconds.max(1e-9);
    let _ =
        writeln!(text, "  own cost   {cpu_seconds:.2} s of processor time ({part:.2} % of one)");
    for (at, line) in &status.lines {
        let _ = writeln!(text, "  {at:7.1} s  {line}");
    }
    text
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
        assert_eq!(
            status_text(&status),
            "process 7 looks after user 1000 for 100 s\n\
             \u{20} sense      samples\n\
             \u{20} now        2 processes, 9 threads, 0 bound\n\
             \u{20} so far     4 threads bound, 0 pages moved (0 refused), 1 kept, 0 undone\n\
             \u{20} own cost   0.50 s of processor time (0.50 % of one)\n\
             \u{20}     3.0 s  kept: x\n"
        );
    }
}

//! Whether what was counted is what a program says that it has caused: lines `expect KIND FROM TO
//! COUNT` of its output, and the regions of memory in which it has.

use crate::events;
use std::time::Duration;
use test_support::{Scratch, Threadtalk};

/// Records the command and compares what it expects with what was counted in its regions; or, with
/// too many lines to keep each, with the matrix, to which starts and ends of threads add.
/// `settings` are variables of the recorder's environment.
///
/// # Errors
/// Says what was counted where something else was expected.
#[track_caller]
pub fn truth(
    command: &[&str],
    added: Option<u64>,
    settings: &[(&str, &str)],
) -> Result<(), String> {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("trap.tt");
    let mut record = threadtalk.record(&profile, &[], command).timeout(Duration::from_secs(90));
    for (name, value) in settings {
        record = record.env(name, *value);
    }
    let recorded = record.run();
    if recorded.exit_code != Some(0) || recorded.timed_out {
        return Err(format!("{} fails\n{recorded}", command.join(" ")));
    }
    let output = recorded.stdout_text();
    let expected = events::expected(&output);
    assert!(!expected.is_empty(), "the program expects nothing\n{recorded}");
    let is = match added {
        None => events::cells_in(&profile, &events::regions(&output)),
        Some(_) => events::cells(&profile),
    };
    let right = |cell, count: u64| {
        let is = is.get(cell).copied().unwrap_or(0);
        (count..=count + added.unwrap_or(0)).contains(&is)
    };
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(cell, count)| !right(cell, **count))
        .map(|(cell, count)| format!("{cell:?} is {:?}, not {count}", is.get(cell)))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let few: Vec<String> = wrong.iter().take(10).cloned().collect();
    Err(format!("{}: {} cells are wrong: {}", command.join(" "), wrong.len(), few.join("; ")))
}

//! What a verb that starts programs says on standard error, and how it counts.
//!
//! Neighbours: the verbs `record`, `run`, `auto` and `tune`. Output of the program itself never
//! passes here.

use placement::Plan;
use recorder::{RecorderError, Target};
use std::io::Write;
use types::numbers::grouped;

/// One line of our own on standard error. A closed standard error is no reason to fail.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "threadtalk: {text}");
}

/// Lines that go with the one before.
pub fn say_more(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Says why a program was not started or gave nothing; the result is the exit code.
pub fn refuse(error: &RecorderError) -> i32 {
    say(&error.to_string());
    error.exit_code()
}

/// Says that the plan was made for another program, if it was.
pub fn say_if_of_another(plan: &Plan, target: &Target) {
    let name = target.name();
    if !plan.program.is_empty() && plan.program != name {
        say(&format!(
            "note: the plan is for '{}', and this is '{name}': threads and data that look alike are placed as that \
             program's; make a plan for this one with 'threadtalk record' and 'threadtalk place'",
            plan.program
        ));
    }
}

/// "1 thread", "5,000 threads".
pub fn several(count: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(count as u64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(
            [several(1, "thread"), several(0, "pair"), several(1162, "thread")],
            ["1 thread", "0 pairs", "1,162 threads"]
        );
    }
}

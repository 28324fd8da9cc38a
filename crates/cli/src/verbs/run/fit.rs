//! Whether a plan fits what the threads of this run communicate.

use daemon::DaemonError;
use daemon::fit::{self, Fit, Verdict};
use online::Why;
use recorder::sampled::Choice;
use serde_json::{Value, json};
use std::time::Duration;
use types::numbers::grouped;

/// Part of the program's processor time that looking may cost.
const BUDGET: f64 = 0.01;

/// What came of looking.
pub type Looked = Result<Verdict, DaemonError>;

/// How the program can be looked at. To be asked before it starts.
pub fn choose() -> Result<Choice, DaemonError> {
    fit::choose(BUDGET)
}

/// Looks until it is clear, at most so long.
pub fn look(pid: u32, most: Duration, choice: &Choice, is_over: &dyn Fn() -> bool) -> Looked {
    fit::look(pid, most, choice.clone(), is_over)
}

/// Whether nothing speaks against the plan, and something for it.
pub fn is_good(looked: &Looked) -> bool {
    matches!(looked, Ok(Verdict { fit: Fit::Fits { .. }, .. }))
}

/// In words.
pub fn sentence(looked: &Looked) -> String {
    let verdict = match looked {
        Ok(verdict) => verdict,
        Err(error) => return format!("it is not known whether the plan fits: {error}"),
    };
    let seen =
        format!("in {} samples of {:.1} s", grouped(verdict.samples), verdict.time.as_secs_f64());
    match verdict.fit {
        Fit::Fits { saving } => format!(
            "the plan fits this run: {seen}, no placement was found that makes the communication \
             {}cheaper",
            match saving > 0.0 {
                true => format!("more than {:.0} % ", (saving * 100.0).ceil()),
                false => String::new(),
            }
        ),
        Fit::Differs { saving, moved } => format!(
            "the plan does not fit this run: {seen}, a placement that moves {moved} of the threads \
             makes the communication {:.0} % cheaper; record this run and place again",
            saving * 100.0
        ),
        Fit::Unknown(why) => format!(
            "it is not known whether the plan fits this run: {seen}, {}",
            match why {
                Why::Alone => "fewer than two threads computed".into(),
                Why::TooLittle { events, needed } => format!(
                    "{} was seen ({events:.0} of {needed:.0} events); look longer with --verify=TIME",
                    "too little communication"
                ),
                Why::Chance { saving, error } => format!(
                    "another placement seems to make it {:.0} % cheaper, which may be chance \
                     (standard error {:.0} %); look longer with --verify=TIME",
                    saving * 100.0,
                    error * 100.0
                ),
                _ => "no communication was seen".into(),
            }
        ),
    }
}

/// The same for programs.
pub fn json(looked: &Looked) -> Value {
    let verdict = match looked {
        Ok(verdict) => verdict,
        Err(error) => return json!({ "verdict": "unknown", "why": error.to_string() }),
    };
    let (name, saving) = match verdict.fit {
        Fit::Fits { saving } => ("fits", Some(saving)),
        Fit::Differs { saving, .. } => ("differs", Some(saving)),
        Fit::Unknown(_) => ("unknown", None),
    };
    json!({
        "verdict": name,
        "other_placement_saves": saving,
        "samples": verdict.samples,
        "seconds": verdict.time.as_secs_f64(),
        "why": matches!(verdict.fit, Fit::Unknown(_)).then(|| sentence(looked)),
    })
}

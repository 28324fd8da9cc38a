//! The result of a tuning, for people and as JSON.

use super::compare::{Other, Verdict};
use super::plans;
use super::worth::NotWorth;
use crate::said::several;
use crate::verbs::topo;
use placement::Plan;
use profile::Profile;
use serde_json::{Value, json};
use statistics::{Outcome, Ratio};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use types::numbers::grouped;

/// What is printed at the end.
pub struct Summary {
    text: String,
    json: Value,
    command: String,
}

impl Summary {
    /// Starts with what was recorded.
    pub fn new(command: &[OsString], profile: &Profile, path: &Path) -> Self {
        let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        let command = command.join(" ");
        let (threads, totals) = (profile.threads.len(), &profile.meta.totals);
        let transfers = totals.raw.saturating_add(totals.waw);
        let text = format!(
            "{command}\n  {}, {} cache-line transfers (RAW + WAW; profile {})\n",
            several(threads, "thread"),
            grouped(transfers),
            path.display()
        );
        let json = json!({
            "command": command,
            "profile": path.display().to_string(),
            "threads": threads,
            "transfers": transfers,
        });
        Self { text, json, command }
    }

    /// Where data lies cannot matter.
    pub fn one_node(&mut self) {
        self.text
            .push_str("  There is only one NUMA node, so where data lies makes no difference.\n");
        self.json["data"] = json!("one NUMA node");
    }

    /// Placement cannot matter, and why.
    pub fn does_not_matter(&mut self, reason: &str) {
        let _ =
            writeln!(self.text, "  Placement does not matter here: {reason}. Nothing was timed.");
        self.json["verdict"] = json!("does not matter");
        self.json["reason"] = json!(reason);
    }

    /// The recording does not show who communicates with whom.
    pub fn not_enough(&mut self) {
        let reason = "too little of the run was observed to see any communication";
        let _ = writeln!(
            self.text,
            "  No plan was made: {reason}. Let the program run longer. Nothing was timed."
        );
        self.json["verdict"] = json!("not enough");
        self.json["reason"] = json!(reason);
    }

    /// Another process is the one to tune, and which.
    pub fn elsewhere(&mut self, who: &str) {
        let _ = writeln!(self.text, "  No plan was made: {who}. Nothing was timed.");
        self.json["verdict"] = json!("another process communicates");
        self.json["reason"] = json!(who);
    }

    /// No placement promises anything, with the numbers that say so.
    pub fn not_worth(&mut self, found: &NotWorth) {
        self.does_not_matter(&found.reason);
        self.text.push_str("  To compare all the same, name a policy: --policy locality.\n");
        self.json["numbers"] = found.numbers.clone();
    }

    /// The outcome of a comparison; `kept` is where the plan is, if it won.
    pub fn compared(&mut self, plan: &Plan, verdict: Verdict, kept: Option<&Path>) {
        let out = &mut self.text;
        let _ =
            writeln!(out, "                wall        CPU   (medians of {} runs)", verdict.pairs);
        for (name, times) in [("unplaced", verdict.unplaced), ("placed", verdict.placed)] {
            let _ = writeln!(out, "  {name:<10} {:>7} {:>10}", time(times.wall), time(times.cpu));
        }
        let _ = writeln!(
            out,
            "  placed / unplaced: wall {}, CPU {} (geometric means of {} pairs, 95 % confidence at any time)",
            ratio(verdict.wall),
            ratio(verdict.cpu),
            verdict.pairs
        );
        for other in &verdict.others {
            let _ = writeln!(
                out,
                "  also compared: {}, placed / unplaced: wall {} ({} pairs): {}",
                other.name,
                ratio(other.wall),
                other.pairs,
                outcome_words(other.outcome)
            );
        }
        let _ = writeln!(out, "  {}", conclusion(&verdict, &plans::words(plan)));
        if let Some(path) = kept {
            let _ = writeln!(
                out,
                "  Plan kept in {}; use it with: threadtalk run --plan {} -- {}",
                path.display(),
                quoted(path.as_os_str()),
                self.command
            );
        }
        self.json["policy"] = json!(plan.policy);
        self.json["applied"] = json!(plans::words(plan));
        self.json["pairs"] = json!(verdict.pairs);
        self.json["wall_ratio"] = ratio_json(verdict.wall);
        self.json["cpu_ratio"] = ratio_json(verdict.cpu);
        for (name, times) in [("unplaced", verdict.unplaced), ("placed", verdict.placed)] {
            self.json[name] = json!({ "wall_seconds": times.wall, "cpu_seconds": times.cpu });
        }
        self.json["verdict"] = json!(outcome_words(verdict.outcome));
        let other = |other: &Other| {
            json!({
                "applied": other.name,
                "wall_ratio": ratio_json(other.wall),
                "pairs": other.pairs,
                "verdict": outcome_words(other.outcome),
            })
        };
        self.json["others"] = verdict.others.iter().map(other).collect();
        self.json["seconds"] = json!(verdict.took.as_secs_f64());
        self.json["plan"] = json!(kept.map(|path| path.display().to_string()));
    }

    /// Prints; the result is the exit code.
    pub fn print(&self, as_json: bool) -> anyhow::Result<i32> {
        topo::print(&if as_json { format!("{:#}\n", self.json) } else { self.text.clone() })?;
        Ok(0)
    }
}

fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Faster => "placed is faster",
        Outcome::Slower => "placed is slower",
        Outcome::Same => "no difference",
        Outcome::Open => "not clear",
    }
}

fn conclusion(verdict: &Verdict, policy: &str) -> String {
    let percent = |factor: f64| format!("{:.0} %", (factor - 1.0).abs() * 100.0);
    match verdict.outcome {
        Outcome::Faster => format!(
            "Placed is faster: {} less time, {:.2} times the speed (policy {policy}).",
            percent(verdict.wall.estimate),
            1.0 / verdict.wall.estimate
        ),
        Outcome::Slower => format!(
            "Placed is slower: {} more time; the plan ({policy}) is dropped.",
            percent(verdict.wall.estimate)
        ),
        Outcome::Same => {
            format!("No difference: less than 1 % either way, so the plan ({policy}) is dropped.")
        }
        Outcome::Open => format!(
            "Not clear after {} pairs in {}: {}, so the plan ({policy}) is dropped. A longer --time, or a quieter \
             machine, tells more.",
            verdict.pairs,
            humantime::format_duration(Duration::from_secs(verdict.took.as_secs())),
            between(verdict.wall)
        ),
    }
}

/// From the least to the most, times, of an interval that tells nothing.
const MUCH: f64 = 4.0;

/// `placed takes between 4 % less and 2 % more time`.
fn between(Ratio { low, high, .. }: Ratio) -> String {
    // An interval that allows twice and half the time says nothing.
    if !high.is_finite() || high > MUCH * low {
        return "runs scatter too much".into();
    }
    let side = |factor: f64| {
        let word = if factor < 1.0 { "less" } else { "more" };
        format!("{:.1} % {word}", (factor - 1.0).abs() * 100.0)
    };
    format!("placed takes between {} and {} time", side(low), side(high))
}

fn ratio(ratio: Ratio) -> String {
    format!("{:.3} [{:.3} to {:.3}]", ratio.estimate, ratio.low, ratio.high)
}

fn ratio_json(ratio: Ratio) -> Value {
    json!({ "estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "confidence": 0.95 })
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// A word as it can be pasted into a shell.
pub fn quoted(word: &std::ffi::OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::tune::measure::Times;

    fn verdict(outcome: Outcome, estimate: f64, low: f64, high: f64) -> Verdict {
        let ratio = Ratio { estimate, low, high };
        let times = Times { wall: 0.25, cpu: 1.5 };
        let (unplaced, placed, took) = (times, times, Duration::from_millis(90_500));
        Verdict {
            outcome,
            wall: ratio,
            cpu: ratio,
            unplaced,
            placed,
            pairs: 5,
            took,
            others: Vec::new(),
        }
    }

    #[test]
    fn what_was_not_observed_is_no_reason_against_plans() {
        let profile = profile::sample::profile(profile::sample::threads(2), Vec::new());
        let mut summary = Summary::new(&["./app".into()], &profile, Path::new("app.tt"));
        summary.not_enough();
        assert_eq!(summary.json["verdict"], "not enough");
        assert!(summary.text.contains("Let the program run longer. Nothing was timed."));
    }

    #[test]
    fn conclusions() {
        assert_eq!(
            conclusion(&verdict(Outcome::Faster, 0.5, 0.4, 0.6), "locality"),
            "Placed is faster: 50 % less time, 2.00 times the speed (policy locality)."
        );
        assert_eq!(
            conclusion(&verdict(Outcome::Slower, 1.25, 1.1, 1.4), "locality"),
            "Placed is slower: 25 % more time; the plan (locality) is dropped."
        );
        let same = conclusion(&verdict(Outcome::Same, 1.0, 0.995, 1.004), "compact");
        assert!(same.starts_with("No difference: less than 1 %"), "{same}");
        assert_eq!(
            conclusion(&verdict(Outcome::Open, 0.95, 0.9, 1.02), "compact"),
            "Not clear after 5 pairs in 1m 30s: placed takes between 10.0 % less and 2.0 % more time, so the plan \
             (compact) is dropped. A longer --time, or a quieter machine, tells more."
        );
        let unknown = conclusion(&verdict(Outcome::Open, 1.0, 0.0, f64::INFINITY), "compact");
        assert!(unknown.contains("scatter"), "{unknown}");
    }

    #[test]
    fn words_can_be_pasted() {
        assert_eq!(quoted("./a.out".as_ref()), "./a.out");
        assert_eq!(quoted("it's".as_ref()), "'it'\\''s'");
        assert_eq!(quoted("".as_ref()), "''");
        assert_eq!((time(0.0312), time(12.345)), ("31.2 ms".into(), "12.35 s".into()));
    }
}

//! The result of a tuning, for people and as JSON.

use super::statistics::{Ratio, Verdict, Winner};
use super::worth::NotWorth;
use crate::said::several;
use crate::verbs::topo;
use placement::Plan;
use profile::Profile;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
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

    /// Placement cannot matter, and why.
    pub fn does_not_matter(&mut self, reason: &str) {
        let _ =
            writeln!(self.text, "  Placement does not matter here: {reason}. Nothing was timed.");
        self.json["verdict"] = json!("does not matter");
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
            "  placed / unplaced: wall {}, CPU {} (geometric means of {} pairs, 95 % confidence)",
            ratio(verdict.wall),
            ratio(verdict.cpu),
            verdict.pairs
        );
        let _ = writeln!(out, "  {}", conclusion(&verdict, &plan.policy));
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
        self.json["pairs"] = json!(verdict.pairs);
        self.json["wall_ratio"] = ratio_json(verdict.wall);
        self.json["cpu_ratio"] = ratio_json(verdict.cpu);
        for (name, times) in [("unplaced", verdict.unplaced), ("placed", verdict.placed)] {
            self.json[name] = json!({ "wall_seconds": times.wall, "cpu_seconds": times.cpu });
        }
        self.json["verdict"] = json!(match verdict.winner() {
            Winner::Placed => "placed is faster",
            Winner::Unplaced => "placed is slower",
            Winner::Neither => "no difference",
        });
        self.json["plan"] = json!(kept.map(|path| path.display().to_string()));
    }

    /// Prints; the result is the exit code.
    pub fn print(&self, as_json: bool) -> anyhow::Result<i32> {
        topo::print(&if as_json { format!("{:#}\n", self.json) } else { self.text.clone() })?;
        Ok(0)
    }
}

fn conclusion(verdict: &Verdict, policy: &str) -> String {
    let percent = |factor: f64| format!("{:.0} %", (factor - 1.0).abs() * 100.0);
    match verdict.winner() {
        Winner::Placed => format!(
            "Placed is faster: {} less time, {:.2} times the speed (policy {policy}).",
            percent(verdict.wall.estimate),
            1.0 / verdict.wall.estimate
        ),
        Winner::Unplaced => format!(
            "Placed is slower: {} more time; the plan ({policy}) is dropped.",
            percent(verdict.wall.estimate)
        ),
        Winner::Neither => {
            format!("No difference: the interval contains 1, so the plan ({policy}) is dropped.")
        }
    }
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

    fn verdict(estimate: f64, low: f64, high: f64) -> Verdict {
        let ratio = Ratio { estimate, low, high };
        let times = Times { wall: 0.25, cpu: 1.5 };
        Verdict { wall: ratio, cpu: ratio, unplaced: times, placed: times, pairs: 5 }
    }

    #[test]
    fn conclusions() {
        assert_eq!(
            conclusion(&verdict(0.5, 0.4, 0.6), "locality"),
            "Placed is faster: 50 % less time, 2.00 times the speed (policy locality)."
        );
        assert_eq!(
            conclusion(&verdict(1.25, 1.1, 1.4), "locality"),
            "Placed is slower: 25 % more time; the plan (locality) is dropped."
        );
        assert!(conclusion(&verdict(0.9, 0.7, 1.1), "compact").starts_with("No difference:"));
    }

    #[test]
    fn words_can_be_pasted() {
        assert_eq!(quoted("./a.out".as_ref()), "./a.out");
        assert_eq!(quoted("it's".as_ref()), "'it'\\''s'");
        assert_eq!(quoted("".as_ref()), "''");
        assert_eq!((time(0.0312), time(12.345)), ("31.2 ms".into(), "12.35 s".into()));
    }
}

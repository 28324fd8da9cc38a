//! How far windows and samples are from exact recording, for people.

use super::Printed;
use crate::said::several;
use analysis::{Amount, Calibration, OneSided, Verdict};
use std::fmt::Write;
use types::numbers::grouped;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// The whole text.
pub fn text(printed: &Printed<'_>) -> String {
    let Printed { calibration: sampled, sampling, wall_seconds, windows, .. } = printed;
    let both = [windows.calibration, sampled];
    let mut out = String::new();
    let mut line = |name: &str, values: [String; 3]| {
        let [exact, windows, sampled] = values;
        let _ = writeln!(out, "{name:<22} {exact:>17} {windows:>17} {sampled:>17}");
    };
    line("", ["exact", "windows", "sampled"].map(Into::into));
    let seconds = [wall_seconds[0], windows.wall_seconds, wall_seconds[1]];
    line("seconds", seconds.map(|seconds| format!("{seconds:.2}")));
    let of = |value: fn(&Calibration) -> String| [String::new(), value(both[0]), value(both[1])];
    let amounts = [both[0].exact, both[0].sampled, both[1].sampled];
    line("events (RAW and WAW)", amounts.map(|amount| grouped(amount.events)));
    line("false sharing", amounts.map(share));
    line("of the exact amount", of(ratio));
    line("pairs only there", of(|found| one_sided(found.strangers)));
    line("pairs missing", of(|found| one_sided(found.missed)));
    if sampled.threads > 1 {
        line("mean squared error", of(|found| format!("{:.1}", found.mse)));
    }
    if both.iter().any(|found| found.correlation.is_some()) {
        line("correlation of pairs", of(|found| found.correlation.map_or("-".into(), three)));
    }
    if sampled.threads > 1 {
        let threads = several(sampled.threads, "thread");
        let most = format!("mean squared errors are at most {:.0}, of {threads}", sampled.mse_most);
        wrap(&mut out, "", &most);
    }
    let observed = 100.0 * windows.recording.observed;
    let count = several(windows.recording.windows as usize, "window");
    wrap(&mut out, "", &format!("windows: {count}, {observed:.0} % of the instructions observed"));
    let decoded =
        sampling.decode_yield().map_or(String::new(), |y| format!(", {:.0} % decoded", 100.0 * y));
    let samples = several(sampling.samples as usize, "sample");
    wrap(
        &mut out,
        "",
        &format!("sampled '{}': {samples}{decoded}, {} hits", sampling.source, sampled.hits),
    );
    for (which, found) in ["windows", "samples"].into_iter().zip(both) {
        out.push('\n');
        for (name, verdict) in
            [("shape", &found.shape), ("volume", &found.volume), ("true/false", &found.sharing)]
        {
            trust(&mut out, which, name, verdict);
        }
    }
    out
}

fn ratio(found: &Calibration) -> String {
    let ratio = found.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    let chance = found.chance.map_or(String::new(), |c| format!(" (±{:.0} %)", 100.0 * c));
    ratio + &chance
}

fn three(number: f64) -> String {
    format!("{number:.3}")
}

fn share(amount: Amount) -> String {
    amount.false_share.map_or("-".into(), |share| format!("{:.1} %", 100.0 * share))
}

fn one_sided(found: OneSided) -> String {
    match found.pairs {
        0 => "none".into(),
        pairs => format!("{pairs} ({:.1} %)", 100.0 * found.share),
    }
}

fn trust(out: &mut String, which: &str, name: &str, verdict: &Verdict) {
    let head = format!("trust the {name} by {which}: {}: ", verdict.trust.word());
    wrap(out, &head, &verdict.reason);
}

/// Words in lines of [`WIDTH`] columns, the further ones indented.
fn wrap(out: &mut String, head: &str, words: &str) {
    let mut line = head.trim_end().to_string();
    for word in words.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = "   ".into();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_no_longer_than_a_terminal() {
        let mut out = String::new();
        wrap(&mut out, "head: ", &"word ".repeat(40));
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        assert!(out.starts_with("head: word word"), "{out}");
        assert_eq!(out.matches("word").count(), 40);
    }
}

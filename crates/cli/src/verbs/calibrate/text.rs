//! How far sampling is from exact recording, for people.

use super::Printed;
use crate::said::several;
use analysis::{Amount, Calibration, OneSided, Verdict};
use std::fmt::Write;
use types::numbers::grouped;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// The whole text.
pub fn text(printed: &Printed<'_>) -> String {
    let Printed { calibration: found, sampling, wall_seconds, .. } = printed;
    let mut out = String::new();
    let mut line = |name: &str, values: [String; 2]| {
        let [exact, sampled] = values;
        let _ = writeln!(out, "{name:<24} {exact:>14} {sampled:>14}");
    };
    line("", ["exact".into(), "sampled".into()]);
    line("seconds", wall_seconds.map(|seconds| format!("{seconds:.2}")));
    let both = [found.exact, found.sampled];
    line("events (RAW and WAW)", both.map(|amount| grouped(amount.events)));
    line("false sharing", both.map(share));
    line("pairs only there", [one_sided(found.missed), one_sided(found.strangers)]);
    summary(&mut out, found);
    let decoded =
        sampling.decode_yield().map_or(String::new(), |y| format!(", {:.0} % decoded", 100.0 * y));
    let samples = several(sampling.samples as usize, "sample");
    wrap(
        &mut out,
        "",
        &format!("sampled '{}': {samples}{decoded}, {} hits", sampling.source, found.hits),
    );
    out.push('\n');
    for (name, verdict) in
        [("shape", &found.shape), ("volume", &found.volume), ("true/false", &found.sharing)]
    {
        trust(&mut out, name, verdict);
    }
    out
}

fn summary(out: &mut String, found: &Calibration) {
    let ratio = found.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    let chance = found.chance.map_or(String::new(), |c| format!(" (chance: ±{:.0} %)", 100.0 * c));
    let _ = writeln!(out, "sampled / exact          {ratio}{chance}");
    let _ = writeln!(
        out,
        "mean squared error       {:.1} of at most {:.0}, over {}",
        found.mse,
        found.mse_most,
        several(found.threads, "thread")
    );
    if let Some(r) = found.correlation {
        let _ = writeln!(out, "correlation of pairs     {r:.3}");
    }
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

fn trust(out: &mut String, name: &str, verdict: &Verdict) {
    let head = format!("trust the {name}: {}: ", verdict.trust.word());
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

//! What to change, in the terminal: the weightiest causes first of all, and later the list of all
//! and what would appear elsewhere.

use super::heading;
use super::style::{TextStyle, printable};
use crate::causes::{Cause, CauseKind, share_words};
use crate::findings::Findings;
use std::fmt::{self, Write};
use types::numbers::grouped;

/// The verdict's sentences: causes in three paragraphs each, what is seen, why, and what to change.
pub(super) fn write_first(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    let mut number = 0;
    for detail in &findings.verdict.details {
        match findings.causes.iter().find(|cause| cause.text == *detail) {
            Some(cause) => {
                number += 1;
                write_cause(out, style, number, cause)?;
            }
            None => writeln!(out, "{}", style.wrap(detail, ""))?,
        }
    }
    Ok(())
}

fn write_cause(out: &mut String, style: TextStyle, number: usize, cause: &Cause) -> fmt::Result {
    let title = format!("{number}. {}: {}", printable(&cause.title), weight(cause));
    writeln!(out, "{}", style.bold(&style.wrap(&title, "   ")))?;
    let caveat = cause.cost.caveat();
    let seen = format!("   {}. {caveat}", printable(&cause.evidence));
    writeln!(out, "{}", style.wrap(seen.trim_end(), "   "))?;
    writeln!(out, "{}", style.wrap(&format!("   → {}", printable(&cause.advice)), "     "))
}

/// `86 % of the transfers; costs about 30 % of the processor time (…)`.
fn weight(cause: &Cause) -> String {
    format!("{} of the transfers; {}", share_words(cause.share), cause.cost.words())
}

/// The causes that the verdict does not tell, each in short.
pub(super) fn write_others(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    let told = |cause: &&Cause| !findings.verdict.details.contains(&cause.text);
    let others: Vec<&Cause> = findings.causes.iter().filter(told).collect();
    if others.is_empty() {
        return Ok(());
    }
    let all = others.len() == findings.causes.len();
    heading(out, style, if all { "Causes of transfers" } else { "Other causes of transfers" })?;
    let enough = findings.reliability.as_ref().is_none_or(|found| found.enough);
    for cause in others {
        let worth = match (cause.cost.worth, cause.kind) {
            (true, CauseKind::Transferred) => "Where threads run decides what it costs.",
            // Of what was seen too little may be worth more.
            _ if !enough => "",
            _ => cause.cost.advice(),
        };
        let caveat = cause.cost.caveat();
        let after: String = [worth, &caveat]
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| format!(" {text}"))
            .collect();
        let lines = match cause.lines {
            0 => String::new(),
            1 => ", one line".into(),
            n => format!(", {} lines", grouped(n)),
        };
        let text = format!("  - {}{lines}: {}.{after}", printable(&cause.title), weight(cause));
        writeln!(out, "{}", style.wrap(&text, "     "))?;
    }
    Ok(())
}

/// False sharing that would appear elsewhere, apart from what was counted.
pub(super) fn write_latent(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    if findings.latent.is_empty() {
        return Ok(());
    }
    heading(out, style, "Not here, but elsewhere: false sharing that would appear")?;
    for one in &findings.latent {
        writeln!(out, "{}", style.wrap(&format!("  - {}", printable(&one.text)), "    "))?;
    }
    Ok(())
}

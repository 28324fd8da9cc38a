//! What to change, in the terminal: the weightiest causes first of all, and later the list of all.

use super::heading;
use super::style::{TextStyle, printable};
use crate::causes::{Cause, CauseKind};
use crate::findings::Findings;
use std::fmt::{self, Write};
use types::numbers::{grouped, percent};

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
    writeln!(out, "{}", style.wrap(&format!("   {}.", printable(&cause.evidence)), "   "))?;
    writeln!(out, "{}", style.wrap(&format!("   → {}", printable(&cause.advice)), "     "))
}

/// `86 % of the transfers; costs about 30 % of the processor time (…)`.
fn weight(cause: &Cause) -> String {
    format!("{} of the transfers; {}", percent(cause.share), cause.cost.words())
}

/// The causes that the verdict does not tell, each in short.
pub(super) fn write_causes(out: &mut String, style: TextStyle, causes: &[Cause]) -> fmt::Result {
    if causes.is_empty() {
        return Ok(());
    }
    heading(out, style, "Causes of transfers")?;
    for cause in causes {
        let worth = match (cause.cost.worth, cause.kind) {
            (false, _) => " Hardly worth a change.",
            (true, CauseKind::HandedOver) => " Where threads run decides what it costs.",
            (true, _) => "",
        };
        let lines = match cause.lines {
            0 => String::new(),
            1 => ", one line".into(),
            n => format!(", {} lines", grouped(n)),
        };
        let text =
            format!("  {} {}{lines}: {}.{worth}", cause.id, printable(&cause.title), weight(cause));
        writeln!(out, "{}", style.wrap(&text, "     "))?;
    }
    Ok(())
}

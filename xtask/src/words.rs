//! Words: one term for one thing, in documents, help and report texts.
//!
//! `docs/glossary.md` fixes the terms; [`RETIRED`] lists the phrases that they replace. Documents
//! are searched outside of code; of the command line, the report and its page, string literals, and
//! doc comments of the command line, from which clap makes help texts.

use crate::markdown::prose;
use crate::strings::{script_texts, texts};
use crate::tree::{has_extension, read};
use std::path::{Path, PathBuf};

/// A phrase, in lower case, and what to write instead.
pub type Retired = (&'static str, &'static str);

/// The phrases that are not used any more.
pub const RETIRED: &[Retired] = &[
    ("line of memory", "cache line"),
    ("lines of memory", "cache lines"),
    ("memory line", "cache line"),
    ("memory lines", "cache lines"),
    ("talk", "communication, communicate"),
    ("talks", "communicates"),
    ("talked", "communicated"),
    ("talking", "communicating"),
    ("handed over", "transferred"),
    ("handed on", "transferred"),
    ("hands over", "transfers"),
    ("fetched ahead", "prefetched"),
    ("unwatched", "unrecorded, or natively"),
    ("so many", "a number, that many, or MAX"),
    ("nobody", "no thread, no process"),
    ("somebody", "a thread, a user"),
    ("everybody", "every thread, every user"),
    ("whoever", "the thread that, any thread"),
    ("he", "the thread, it"),
    ("him", "the thread, it"),
    ("his", "its"),
    ("himself", "itself"),
    ("stand up to", "a plain verb: withstand, overlap"),
    ("stands up to", "a plain verb: withstands, overlaps"),
    ("in vain", "without success"),
    ("as many again", "twice as many"),
    ("some times as much", "a few times as much"),
    ("hitherto", "so far"),
    ("thereupon", "then"),
    ("whence", "from which"),
];

/// One sentence for each retired phrase in the documents and in the texts of the binary.
pub fn complaints(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files {
        let help = file.starts_with("crates/cli/src");
        let lines = if has_extension(file, &["md"]) {
            prose(&read(root, file)?)
        } else if has_extension(file, &["ts"]) && file.starts_with("web/src") {
            script_texts(&read(root, file)?)
        } else if has_extension(file, &["rs"]) && (help || file.starts_with("crates/report/src")) {
            texts(&read(root, file)?, help)
        } else {
            continue;
        };
        complaints.extend(judge(&file.to_string_lossy(), &lines, RETIRED));
    }
    Ok(complaints)
}

/// The retired phrases in numbered lines of one file. A phrase may run over the end of a line.
fn judge(name: &str, lines: &[(usize, String)], retired: &[Retired]) -> Vec<String> {
    let words: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|(number, line)| {
            line.split(|c: char| !c.is_alphanumeric() && c != '\'')
                .filter(|word| !word.is_empty())
                .map(|word| (*number, word.to_lowercase()))
        })
        .collect();
    let mut complaints = Vec::new();
    for (phrase, instead) in retired {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        for found in words.windows(phrase.len()) {
            if found.iter().map(|(_, word)| word.as_str()).eq(phrase.iter().copied()) {
                let (line, phrase) = (found[0].0, phrase.join(" "));
                complaints.push(format!("{name}:{line}: instead of \"{phrase}\" write: {instead}"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let lines: Vec<(usize, String)> =
            text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
        judge("a.md", &lines, RETIRED)
    }

    #[test]
    fn a_phrase_is_found_in_any_case_and_over_the_end_of_a_line() {
        assert_eq!(
            found("One\nLine\nof memory."),
            ["a.md:2: instead of \"line of memory\" write: cache line"]
        );
    }

    #[test]
    fn parts_of_words_are_left_alone() {
        assert_eq!(found("Threadtalk shows the history of this thread."), [""; 0]);
    }

    #[test]
    fn every_phrase_is_told() {
        assert_eq!(found("They talk; he listens.").len(), 2);
    }

    #[test]
    fn what_to_write_instead_is_not_retired_itself() {
        for (phrase, instead) in RETIRED {
            assert_eq!(found(instead), [""; 0], "instead of {phrase}");
        }
    }
}

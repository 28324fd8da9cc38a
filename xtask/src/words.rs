//! Words: one term for one thing, in documents, help and report texts.
//!
//! `docs/glossary.md` fixes the terms; [`RETIRED`] lists the phrases that they replace. Documents are
//! searched outside of code; of the command line, the report and its page, string literals, and doc comments
//! of the command line, from which clap makes help texts.

use crate::markdown::prose;
use crate::strings::{script_texts, texts};
use crate::tree::{has_extension, read};
use std::path::{Path, PathBuf};

/// Where a phrase is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In documents and in the report's page.
    Documents,
    /// In documents, help and all report texts.
    Everywhere,
}
use Scope::{Documents, Everywhere};

/// A phrase, in lower case, what to write instead, and where the phrase is refused.
pub type Retired = (&'static str, &'static str, Scope);

/// The phrases that are not used any more.
pub const RETIRED: &[Retired] = &[
    ("line of memory", "cache line", Documents),
    ("lines of memory", "cache lines", Documents),
    ("memory line", "cache line", Documents),
    ("memory lines", "cache lines", Documents),
    ("talk", "communication, communicate", Documents),
    ("talks", "communicates", Documents),
    ("talked", "communicated", Documents),
    ("talking", "communicating", Documents),
    ("handed over", "transferred", Documents),
    ("handed on", "transferred", Documents),
    ("hands over", "transfers", Documents),
    ("fetched ahead", "prefetched", Documents),
    ("unwatched", "unrecorded, or natively", Documents),
    ("so many", "a number, that many, or MAX", Documents),
    ("nobody", "no thread, no process", Documents),
    ("somebody", "a thread, a user", Documents),
    ("everybody", "every thread, every user", Documents),
    ("whoever", "the thread that, any thread", Documents),
    ("he", "the thread, it", Everywhere),
    ("him", "the thread, it", Everywhere),
    ("his", "its", Everywhere),
    ("himself", "itself", Everywhere),
    ("stand up to", "a plain verb: withstand, overlap", Everywhere),
    ("stands up to", "a plain verb: withstands, overlaps", Everywhere),
    ("in vain", "without success", Everywhere),
    ("as many again", "twice as many", Everywhere),
    ("some times as much", "a few times as much", Everywhere),
    ("hitherto", "so far", Everywhere),
    ("thereupon", "then", Everywhere),
    ("whence", "from which", Everywhere),
];

/// One sentence for each retired phrase in the documents and in the texts of the binary.
pub fn complaints(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files {
        let help = file.starts_with("crates/cli/src");
        let (lines, in_documents) = if has_extension(file, &["md"]) {
            (prose(&read(root, file)?), true)
        } else if has_extension(file, &["ts"]) && file.starts_with("web/src") {
            // The page has been rewritten: what is refused in documents is refused there, too.
            (script_texts(&read(root, file)?), true)
        } else if has_extension(file, &["rs"]) && (help || file.starts_with("crates/report/src")) {
            (texts(&read(root, file)?, help), false)
        } else {
            continue;
        };
        complaints.extend(judge(&file.to_string_lossy(), &lines, in_documents, RETIRED));
    }
    Ok(complaints)
}

/// The retired phrases in numbered lines of one file. A phrase may run over the end of a line.
fn judge(
    name: &str,
    lines: &[(usize, String)],
    document: bool,
    retired: &[Retired],
) -> Vec<String> {
    let words: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|(number, line)| {
            line.split(|c: char| !c.is_alphanumeric() && c != '\'')
                .filter(|word| !word.is_empty())
                .map(|word| (*number, word.to_lowercase()))
        })
        .collect();
    let mut complaints = Vec::new();
    for (phrase, instead, scope) in retired {
        if *scope == Documents && !document {
            continue;
        }
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

    fn found(text: &str, document: bool) -> Vec<String> {
        let lines: Vec<(usize, String)> =
            text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
        judge("a.md", &lines, document, RETIRED)
    }

    #[test]
    fn a_phrase_is_found_in_any_case_and_over_the_end_of_a_line() {
        assert_eq!(
            found("One\nLine\nof memory.", true),
            ["a.md:2: instead of \"line of memory\" write: cache line"]
        );
    }

    #[test]
    fn parts_of_words_are_left_alone() {
        assert_eq!(found("Threadtalk shows the history of this thread.", true), [""; 0]);
    }

    #[test]
    fn phrases_of_documents_are_refused_in_documents_only() {
        assert_eq!(found("They talk; he listens.", true).len(), 2);
        assert_eq!(found("They talk; he listens.", false).len(), 1);
    }

    #[test]
    fn what_to_write_instead_is_not_retired_itself() {
        for (phrase, instead, _) in RETIRED {
            assert_eq!(found(instead, true), [""; 0], "instead of {phrase}");
        }
    }
}

//! File sizes: a source file of more than 600 lines holds more than one idea, unless it is a table.

use crate::tree::has_extension;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Maximum number of lines in a source file.
pub const MAX_LINES: usize = 600;

/// Files that may be longer, each with its reason.
const EXCEPTIONS: &[(&str, &str)] =
    &[("web/src/model/page-data.ts", "generated from the Rust types, a table")];

/// What is looked at, by file extension.
const EXTENSIONS: &[&str] =
    &["rs", "c", "h", "cpp", "f90", "s", "ts", "css", "mjs", "js", "py", "sh"];

/// One sentence for each file that is too long, and for each exception that is not needed.
pub fn complaints(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut sizes = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, EXTENSIONS)) {
        let path = root.join(file);
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        sizes.push((file.to_string_lossy().into_owned(), lines));
    }
    Ok(judge(&sizes, EXCEPTIONS))
}

fn judge(sizes: &[(String, usize)], exceptions: &[(&str, &str)]) -> Vec<String> {
    let excepted = |name: &str| exceptions.iter().any(|(file, _)| *file == name);
    let mut complaints: Vec<String> = sizes
        .iter()
        .filter(|(name, lines)| *lines > MAX_LINES && !excepted(name))
        .map(|(name, lines)| {
            format!("{name} has {lines} lines, more than {MAX_LINES}: split it by ideas")
        })
        .collect();
    for (file, _) in exceptions {
        if !sizes.iter().any(|(name, lines)| name == file && *lines > MAX_LINES) {
            complaints.push(format!("{file} needs no exception from the file size any more"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_long_file_without_an_exception_is_named() {
        let sizes = [("a.rs".into(), 600), ("b.rs".into(), 601), ("table.rs".into(), 5000)];
        assert_eq!(
            judge(&sizes, &[("table.rs", "an opcode table")]),
            ["b.rs has 601 lines, more than 600: split it by ideas"]
        );
    }

    #[test]
    fn an_exception_without_need_is_named() {
        let found = judge(&[("a.rs".into(), 10)], &[("a.rs", "was long once")]);
        assert_eq!(found, ["a.rs needs no exception from the file size any more"]);
    }
}

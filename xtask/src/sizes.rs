//! File sizes: a source file of more than 600 lines holds more than one idea, unless it is a table.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Most lines of a source file.
pub const MOST_LINES: usize = 600;

/// Files that may be longer, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// What is looked at, by file extension.
const EXTENSIONS: &[&str] =
    &["rs", "c", "h", "cpp", "f90", "s", "ts", "css", "mjs", "js", "py", "sh"];

/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", "node_modules", "dist", ".git", "demo"];

/// One sentence for each file that is too long, and for each exception that is not needed.
pub fn complaints(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut sizes = Vec::new();
    for file in &files {
        let text = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
        sizes.push((name, lines));
    }
    Ok(judge(&sizes, EXCEPTIONS))
}

fn judge(sizes: &[(String, usize)], exceptions: &[(&str, &str)]) -> Vec<String> {
    let excepted = |name: &str| exceptions.iter().any(|(file, _)| *file == name);
    let mut complaints: Vec<String> = sizes
        .iter()
        .filter(|(name, lines)| *lines > MOST_LINES && !excepted(name))
        .map(|(name, lines)| {
            format!("{name} has {lines} lines, more than {MOST_LINES}: split it by ideas")
        })
        .collect();
    for (file, _) in exceptions {
        if !sizes.iter().any(|(name, lines)| name == file && *lines > MOST_LINES) {
            complaints.push(format!("{file} needs no exception from the file size any more"));
        }
    }
    complaints
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        if kind.is_dir() && !SKIPPED.contains(&name.to_string_lossy().as_ref()) {
            collect(&path, files)?;
        } else if kind.is_file() {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if EXTENSIONS.contains(&extension) {
                files.push(path);
            }
        }
    }
    Ok(())
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

//! The tree's files: everything written by hand, with paths relative to the root.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", "node_modules", "dist", ".git", "demo"];

/// All files below `root`, sorted, relative to it.
pub fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort();
    Ok(files)
}

/// Has the file one of these extensions?
pub fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    file.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
}

/// The file's text.
pub fn read(root: &Path, file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("reading {}", file.display()))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() && !SKIPPED.contains(&name.as_ref()) && !name.ends_with(".tt") {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

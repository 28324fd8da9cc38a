//! Documents against the tree: links, paths in backticks, and the table of crates.

use crate::layering::Row;
use crate::markdown::{anchors, code, links};
use crate::tree::{has_extension, read};
use std::path::{Component, Path, PathBuf};

/// Whatever ends like this in a document is a path of the tree. Other endings (`.json`, `.csv`) are
/// also those of users' files: they are checked only below a folder of the tree.
const SOURCES: &[&str] = &["rs", "c", "h", "cpp", "f90", "ts", "mjs", "css", "sh", "md", "toml"];

/// Folders that are made by building, and missing before.
const BUILT: &[&str] = &["target/", "web/dist", "web/node_modules"];

/// What is read first is short: most lines of README.md, most words of ARCHITECTURE.md.
const MAX_README_LINES: usize = 130;
const MAX_MAP_WORDS: usize = 1500;

/// One sentence for each dead link, each path that is not in the tree, each document that is too
/// long, and each difference between the table in ARCHITECTURE.md and `table`.
pub fn complaints(root: &Path, files: &[PathBuf], table: &[Row]) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, &["md"])) {
        let (name, text) = (file.display(), read(root, file)?);
        for (line, target) in links(&text) {
            if let Some(reason) = dead(root, file, &text, target)? {
                complaints.push(format!("{name}:{line}: the link {target} is dead: {reason}"));
            }
        }
        for (line, path) in code(&text) {
            if looks_like_path(files, path) && !exists(files, path) {
                complaints.push(format!("{name}:{line}: {path} is not in the tree"));
            }
        }
    }
    let map = read(root, Path::new("ARCHITECTURE.md"))?;
    complaints.extend(crates(&map, table));
    complaints.extend(too_long(&read(root, Path::new("README.md"))?, &map));
    Ok(complaints)
}

/// What is too long of README.md and ARCHITECTURE.md.
fn too_long(readme: &str, map: &str) -> Vec<String> {
    let lines = readme.lines().count();
    let words = map.split_whitespace().filter(|w| w.contains(char::is_alphanumeric)).count();
    let mut complaints = Vec::new();
    if lines > MAX_README_LINES {
        complaints.push(format!("README.md: {lines} lines, more than {MAX_README_LINES}"));
    }
    if words > MAX_MAP_WORDS {
        complaints.push(format!("ARCHITECTURE.md: {words} words, more than {MAX_MAP_WORDS}"));
    }
    complaints
}

/// Why a link of `file` leads nowhere, if it does. Links to other sites are not followed.
fn dead(root: &Path, file: &Path, text: &str, link: &str) -> anyhow::Result<Option<String>> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = normal(&file.parent().unwrap_or(Path::new("")).join(path));
    if !path.is_empty() && !root.join(&target).exists() {
        return Ok(Some(format!("there is no {}", target.display())));
    }
    if anchor.is_empty() {
        return Ok(None);
    }
    let known = if path.is_empty() { anchors(text) } else { anchors(&read(root, &target)?) };
    Ok((!known.iter().any(|a| a == anchor)).then(|| format!("no heading makes #{anchor}")))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts
}

fn looks_like_path(files: &[PathBuf], code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if code.is_empty() || code.starts_with(['/', '.']) || !code.chars().all(plain) {
        return false;
    }
    if BUILT.iter().any(|built| code.starts_with(built)) {
        return false;
    }
    let in_folder = code.split_once('/').is_some_and(|(folder, _)| {
        files.iter().any(|file| file.components().count() > 1 && file.starts_with(folder))
    });
    in_folder || has_extension(Path::new(code), SOURCES)
}

/// Is this the end of a path in the tree? `src` may be left out.
fn exists(files: &[PathBuf], code: &str) -> bool {
    let wanted: Vec<&str> = code.split('/').filter(|part| !part.is_empty()).collect();
    let folder = code.ends_with('/') || Path::new(code).extension().is_none();
    files.iter().any(|file| {
        let all: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
        let short: Vec<_> = all.iter().copied().filter(|part| *part != "src").collect();
        [all, short].iter().any(|parts| match folder {
            true => parts.windows(wanted.len()).any(|window| window == wanted),
            false => parts.ends_with(&wanted),
        })
    })
}

/// The pieces of code in one cell of a table.
fn in_backticks(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Differences between the table of crates in `text` and `table`.
fn crates(text: &str, table: &[Row]) -> Vec<String> {
    let written: Vec<(&str, Vec<&str>)> = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .map_while(|line| line.strip_prefix("| "))
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").collect();
            Some((*in_backticks(cells.first()?).first()?, in_backticks(cells.last()?)))
        })
        .collect();
    let differs = "the table of crates in ARCHITECTURE.md differs from xtask/src/layering.rs";
    let mut complaints: Vec<String> = table
        .iter()
        .zip(&written)
        .filter(|((name, uses), (row, row_uses))| name != row || *uses != row_uses.as_slice())
        .map(|((name, uses), row)| format!("{differs}: {row:?} instead of {:?}", (name, uses)))
        .take(1)
        .collect();
    if table.len() != written.len() {
        complaints.push(format!("{differs}: {} rows instead of {}", written.len(), table.len()));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_first_is_short() {
        let (short, long) = ("a line\n".repeat(130), "a line\n".repeat(131));
        let (few, many) = ("word | ".repeat(1500), "word | ".repeat(1501));
        assert!(too_long(&short, &few).is_empty());
        assert_eq!(too_long(&long, &many).len(), 2);
    }

    fn files() -> Vec<PathBuf> {
        ["crates/engine/src/loops.rs", "docs/a.md", "README.md"].map(PathBuf::from).to_vec()
    }

    #[test]
    fn a_path_may_be_short_but_not_wrong() {
        for good in
            ["crates/engine/src/loops.rs", "engine/loops.rs", "loops.rs", "docs/", "README.md"]
        {
            assert!(looks_like_path(&files(), good) && exists(&files(), good), "{good}");
        }
        for bad in ["engine/hoops.rs", "agent/loops.rs", "oops.rs", "docs/b/", "crates/missing"] {
            assert!(looks_like_path(&files(), bad) && !exists(&files(), bad), "{bad}");
        }
    }

    #[test]
    fn what_belongs_to_users_is_no_path() {
        for code in ["matrix.csv", "NAME.tt/processes/", "/proc/PID/maps", "a -o b.rs", "~/.cache"]
        {
            assert!(!looks_like_path(&files(), code), "{code}");
        }
    }

    #[test]
    fn a_link_needs_its_file_and_its_heading() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let dead = |link| dead(root, Path::new("docs/x.md"), "# Here\n", link).unwrap();
        assert_eq!(dead("../Makefile"), None);
        assert_eq!(dead("#here"), None);
        assert_eq!(dead("https://example.org/#there"), None);
        assert_eq!(dead("missing.md").unwrap(), "there is no docs/missing.md");
        assert_eq!(dead("#there").unwrap(), "no heading makes #there");
        assert_eq!(dead("../README.md#no-such").unwrap(), "no heading makes #no-such");
    }

    #[test]
    fn the_table_must_be_equal() {
        let table: &[Row] = &[("low", &[]), ("high", &["low"])];
        let rows = |low: &str, high: &str| {
            format!("| crate | holds | may use |\n| --- | --- | --- |\n{low}\n{high}\n\nText\n")
        };
        let good = rows("| `low` | `x`, y | – |", "| `high` | z | `low` |");
        assert_eq!(crates(&good, table), [""; 0]);
        assert_eq!(crates(&rows("| `low` | y | – |", "| `high` | z | – |"), table).len(), 1);
        assert_eq!(crates(&rows("| `low` | y | – |", ""), table).len(), 1);
        assert_eq!(crates("No table", table).len(), 1);
    }
}

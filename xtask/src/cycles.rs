//! Cycles of modules: files of one crate that need each other in a ring can only be understood
//! together, so a ring has up to [`MAX_FILES`] files.
//!
//! [`imports`](crate::imports) reads which file names something of which other; a name that is only
//! passed on counts for the file that defines it.

use crate::imports::{self, Crate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of files in a cycle.
const MAX_FILES: usize = 3;

/// One sentence for each larger cycle.
pub fn complaints(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for (name, start) in roots(files) {
        found.extend(judge(&name, &imports::read(root, &start)?));
    }
    Ok(found)
}

/// The crates' root files, by the name of the crate's folder.
fn roots(files: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let is_root = |file: &&PathBuf| file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    let name = |file: &PathBuf| Some(file.parent()?.parent()?.to_string_lossy().into_owned());
    files.iter().filter(is_root).filter_map(|file| Some((name(file)?, file.clone()))).collect()
}

fn judge(name: &str, read: &Crate) -> Vec<String> {
    let large = cycles(read).into_iter().filter(|files| files.len() > MAX_FILES);
    large.map(|files| complaint(name, read, &files)).collect()
}

/// Names the files, each with those of them that it needs.
fn complaint(name: &str, read: &Crate, cycle: &[String]) -> String {
    let arrows = |file: &String| {
        let inside = |needed: &&str| cycle.iter().any(|file| file == needed);
        let needed: Vec<&str> = read.needs(file).filter(inside).collect();
        format!("\n  {file} needs {}", needed.join(", "))
    };
    format!(
        "{name}: {} files need each other in a cycle, more than {MAX_FILES}: move what they share \
         below them{}",
        cycle.len(),
        cycle.iter().map(arrows).collect::<String>()
    )
}

/// The rings of a crate's files. A folder's head and the files in it are one room: a ring that does
/// not leave the room counts only where it is one without the head, too.
fn cycles(read: &Crate) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = groups(read, &read.files().collect());
    while let Some(group) = waiting.pop() {
        match head(&group) {
            Some(head) => {
                waiting.extend(groups(read, &group.into_iter().filter(|f| *f != head).collect()));
            }
            None => found.push(group.into_iter().map(String::from).collect()),
        }
    }
    found
}

/// The file in whose folder all others of the group lie.
fn head<'a>(group: &[&'a str]) -> Option<&'a str> {
    group.iter().copied().find(|head| {
        let folder = head.strip_suffix("mod.rs").map(String::from);
        let folder = folder.or_else(|| Some(format!("{}/", head.strip_suffix(".rs")?)));
        folder.is_some_and(|folder| group.iter().all(|f| f == head || f.starts_with(&folder)))
    })
}

/// The groups of files among `files` of which each needs each other, with more than one file, by
/// Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1(2), 1972.
fn groups<'a>(read: &'a Crate, files: &BTreeSet<&'a str>) -> Vec<Vec<&'a str>> {
    let (number, stack, found) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut search = Search { read, files, number, stack, found };
    for file in files {
        if !search.number.contains_key(file) {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'a, 'b> {
    read: &'a Crate,
    files: &'b BTreeSet<&'a str>,
    /// Order of first visit; `usize::MAX` for a file whose group is known.
    number: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    /// Visits `file`; answers with the lowest number that can be reached from it.
    fn visit(&mut self, file: &'a str) -> usize {
        let own = self.number.len();
        self.number.insert(file, own);
        self.stack.push(file);
        let mut low = own;
        for next in self.read.needs(file).filter(|next| self.files.contains(next)) {
            low = low.min(match self.number.get(next) {
                Some(number) => *number,
                None => self.visit(next),
            });
        }
        if low == own {
            let start = self.stack.iter().position(|f| *f == file).expect("on the stack");
            let mut group = self.stack.split_off(start);
            for member in &group {
                self.number.insert(member, usize::MAX);
            }
            if group.len() > 1 {
                group.sort();
                self.found.push(group);
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_cycle_is_named_and_a_small_one_is_not() {
        let three = [("a", &["b"][..]), ("b", &["c"]), ("c", &["a"])];
        assert_eq!(judge("crates/x", &Crate::of(&three)), [""; 0]);
        let four = [("a", &["b"][..]), ("b", &["c"]), ("c", &["d", "e"]), ("d", &["a"])];
        let complaints = judge("crates/x", &Crate::of(&four));
        assert_eq!(complaints.len(), 1);
        let said = &complaints[0];
        assert!(said.starts_with("crates/x: 4 files need each other"), "{said}");
        assert!(said.contains("\n  c needs d\n"), "{said}");
    }

    #[test]
    fn groups_are_those_that_reach_each_other() {
        let read = Crate::of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &[])]);
        assert_eq!(cycles(&read), [["b", "c"]]);
    }

    #[test]
    fn a_head_and_its_folder_are_one_room() {
        let room =
            [("a.rs", &["a/x.rs", "a/y.rs"][..]), ("a/x.rs", &["a.rs"]), ("a/y.rs", &["a.rs"])];
        assert_eq!(cycles(&Crate::of(&room)).len(), 0);
        let through = [("a.rs", &["a/x.rs"][..]), ("a/x.rs", &["b.rs"]), ("b.rs", &["a.rs"])];
        assert_eq!(cycles(&Crate::of(&through)), [["a.rs", "a/x.rs", "b.rs"]]);
        let without =
            [("a.rs", &["a/x.rs"][..]), ("a/x.rs", &["a/y.rs"]), ("a/y.rs", &["a/x.rs", "a.rs"])];
        assert_eq!(cycles(&Crate::of(&without)), [["a/x.rs", "a/y.rs"]]);
    }
}

//! The programs of `tests/programs/findings/`, and what a report should say of each.
//!
//! A program is built as its author wrote it and, with `-DFIXED` (Rust: `--cfg fixed`), as it is
//! once it has followed the advice. Comments `@NAME` in the source mark the lines that [`Expected`]
//! names; `@alloc` marks the line that allocates the object. Neighbours: [`judge`] compares a
//! report with the table, [`table`] holds the programs.

pub mod judge;
pub mod table;

use crate::target::TargetError;
use crate::{Compiler, Target, paths};
use std::path::PathBuf;

pub use judge::Judged;
pub use table::PROGRAMS;

/// A program, and what should be found in it.
#[derive(Debug)]
pub struct Program {
    /// Its file in `tests/programs/findings/`.
    pub file: &'static str,
    /// Its second argument; the first is the number of threads. Natively it takes about a second of
    /// processor time.
    pub work: u64,
    /// `None`: nothing should be said, in either form.
    pub expected: Option<Expected>,
    /// Whether it has a fixed form.
    pub mended: bool,
}

/// What a report should say of the program before it is fixed. Of words in a list, one is enough.
#[derive(Debug)]
pub struct Expected {
    pub kinds: &'static [&'static str],
    /// The variable, or the function that allocates the object.
    pub object: &'static [&'static str],
    /// Fields or elements that threads meet on; empty where a program has none with names.
    pub fields: &'static [&'static str],
    /// The code of each side: the comment that marks its lines, and its functions. One entry: all
    /// threads run the same code.
    pub sides: &'static [(&'static str, &'static [&'static str])],
}

/// Threads of each program, where it can be told how many.
pub const THREADS: u64 = 4;

impl Program {
    pub fn name(&self) -> &'static str {
        self.file.split('.').next().expect("a name")
    }

    /// Compiles the program, optimised and with debug information.
    ///
    /// # Errors
    /// Fails when the compiler is missing or refuses the program.
    pub fn build(&self, fixed: bool) -> Result<PathBuf, TargetError> {
        let (compiler, flags, fix): (_, &[&str], &[&str]) = match self.file.rsplit('.').next() {
            Some("c") => (Compiler::Gcc, &["-O2", "-g", "-pthread", "-fopenmp"], &["-DFIXED"]),
            Some("cpp") => (Compiler::Gxx, &["-O2", "-g", "-pthread"], &["-DFIXED"]),
            Some("F90") => (Compiler::Gfortran, &["-O2", "-g", "-fopenmp"], &["-DFIXED"]),
            _ => {
                let flags = &["--edition", "2021", "-Copt-level=2", "-g"];
                (Compiler::Rustc, flags, &["--cfg", "fixed"])
            }
        };
        let target = Target::new(compiler, &format!("{FOLDER}/{}", self.file)).flags(flags);
        if fixed { target.flags(fix).build() } else { target.build() }
    }

    /// The program's arguments for a part of its work.
    pub fn arguments(&self, part: f64) -> [String; 2] {
        [THREADS.to_string(), ((self.work as f64 * part) as u64).max(1).to_string()]
    }

    /// Numbers of the source's lines that a comment `@NAME` marks.
    pub fn marked(&self, name: &str) -> Vec<u64> {
        let source = paths::root().join(FOLDER).join(self.file);
        let text = std::fs::read_to_string(&source)
            .unwrap_or_else(|error| panic!("reading {}: {error}", source.display()));
        let is_marked = |line: &str| {
            line.rsplit_once('@')
                .is_some_and(|(_, word)| word.trim_end_matches([' ', '*', '/']) == name)
        };
        (1u64..).zip(text.lines()).filter(|(_, line)| is_marked(line)).map(|(k, _)| k).collect()
    }
}

const FOLDER: &str = "tests/programs/findings";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_source_and_the_marks_that_the_table_names() {
        let folder = std::fs::read_dir(paths::root().join(FOLDER)).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut files: Vec<String> = folder.map(name).collect();
        files.sort();
        let mut named: Vec<_> = PROGRAMS.iter().map(|program| program.file).collect();
        named.sort();
        assert_eq!(files, named);
        for program in PROGRAMS {
            for (mark, _) in program.expected.iter().flat_map(|expected| expected.sides) {
                assert!(!program.marked(mark).is_empty(), "{}: @{mark}", program.file);
            }
        }
    }
}

//! Events of a profile on the lines that a program names: lines `region NAME ADDRESS BYTES` of its
//! output. What the threading runtime and the C library do lies elsewhere, so these are exact.

use std::collections::BTreeMap;
use std::path::Path;
use test_support::Threadtalk;

/// A part of the program's memory.
#[derive(Clone, Debug)]
pub struct Region {
    pub name: String,
    pub start: u64,
    pub bytes: u64,
}

/// The regions that a program's output names; panics when there are none.
#[track_caller]
pub fn regions(output: &str) -> Vec<Region> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("region "));
    let region = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = words[2].parse().expect("a number of bytes");
        Region { name: words[0].into(), start: hexadecimal(words[1]), bytes }
    };
    let all: Vec<Region> = lines.map(region).collect();
    assert!(!all.is_empty(), "the program names no region\n{output}");
    all
}

/// A number as `0x12ab`.
#[track_caller]
pub fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text}"))
}

/// A table of a profile as rows by column.
#[track_caller]
pub fn table(profile: &Path, what: &str) -> Vec<BTreeMap<String, String>> {
    let run = Threadtalk::built().verb("export").arg(profile).arg(what);
    let text = run.args(["--format", "csv"]).run().expect_code(0).stdout_text();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a line of names").split(',').collect();
    let row = |line: &str| {
        // Of the columns that are looked at, none holds a comma.
        names.iter().zip(line.split(',')).map(|(n, v)| (n.to_string(), v.to_string())).collect()
    };
    lines.map(row).collect()
}

/// Events on the lines of `regions` by (kind, from, to).
#[track_caller]
pub fn cells_in(profile: &Path, regions: &[Region]) -> BTreeMap<(String, usize, usize), u64> {
    let mut cells = BTreeMap::new();
    for event in table(profile, "events") {
        let line = hexadecimal(&event["line"]);
        if regions.iter().any(|r| line.wrapping_sub(r.start) < r.bytes) {
            let thread = |column: &str| event[column].parse().expect("a thread's number");
            let cell = (event["kind"].clone(), thread("from"), thread("to"));
            *cells.entry(cell).or_insert(0) += event["count"].parse::<u64>().expect("a count");
        }
    }
    cells
}

/// Cells of the matrices by (kind, from, to), over all time and all sharing.
#[track_caller]
pub fn cells(profile: &Path) -> BTreeMap<(String, usize, usize), u64> {
    let mut cells = BTreeMap::new();
    for row in table(profile, "comm") {
        let thread = |column: &str| row[column].parse().expect("a thread's number");
        let cell = (row["kind"].clone(), thread("from"), thread("to"));
        *cells.entry(cell).or_insert(0) += row["count"].parse::<u64>().expect("a count");
    }
    cells
}

/// What the program's output expects, lines `expect KIND FROM TO COUNT`.
#[track_caller]
pub fn expected(output: &str) -> BTreeMap<(String, usize, usize), u64> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("expect "));
    let cell = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |k: usize| words[k].parse().expect("a number");
        ((words[0].to_string(), number(1), number(2)), number(3) as u64)
    };
    lines.map(cell).collect()
}

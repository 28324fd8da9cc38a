//! The processes of a recording besides the first one, each with the profile to look at.

use super::{more, printable};
use crate::table::{Align, Table};
use profile::ProcessRow;
use std::fmt::{self, Write};

/// Most processes that are listed.
const SHOWN: usize = 10;
/// Most characters of a command line.
const COMMAND: usize = 40;

/// What they are to the first one.
pub(super) fn title(all: &[ProcessRow]) -> &'static str {
    if all.iter().any(|process| process.named) { "Other processes" } else { "Child processes" }
}

/// The processes with the most threads first.
pub(super) fn write_processes(out: &mut String, all: &[ProcessRow], width: usize) -> fmt::Result {
    let mut list: Vec<&ProcessRow> = all.iter().collect();
    list.sort_by_key(|process| (std::cmp::Reverse(process.threads), process.number));
    let mut table = Table::new(&[
        ("threads", Align::Right),
        ("command", Align::Left),
        ("profile", Align::Left),
    ])
    .within(width);
    for process in list.iter().take(SHOWN) {
        table.row(vec![
            process.threads.to_string(),
            shortened(&printable(&process.command.join(" "))),
            process.profile.clone().unwrap_or_else(|| "not recorded".into()),
        ]);
    }
    write!(out, "{table}")?;
    more(out, list.len(), SHOWN, "processes", "profile.json")
}

fn shortened(command: &str) -> String {
    match command.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: u32, threads: u32, command: &str) -> ProcessRow {
        ProcessRow {
            number,
            parent: 0,
            named: false,
            pid: 100 + number,
            command: command.split(' ').map(Into::into).collect(),
            threads,
            exit_code: Some(0),
            exit_signal: None,
            profile: (threads > 0).then(|| format!("processes/{number}-x.tt")),
            unrecorded: (threads == 0).then_some(profile::Unrecorded::StaticallyLinked),
        }
    }

    #[test]
    fn the_processes_with_most_threads_come_first_and_the_list_is_cut() {
        let mut all: Vec<_> = (1..=11).map(|number| process(number, 1, "sh -c x")).collect();
        all.push(process(12, 4, &"long ".repeat(20)));
        all.push(process(13, 0, "./static"));
        let mut out = String::new();
        write_processes(&mut out, &all, 80).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert!(
            lines[1].contains("4  long long") && lines[1].ends_with("processes/12-x.tt"),
            "{out}"
        );
        assert!(lines[1].contains('…') && lines[2].ends_with("processes/1-x.tt"), "{out}");
        assert!(out.contains("3 more processes"), "{out}");
        out.clear();
        write_processes(&mut out, &all[12..], 80).unwrap();
        assert!(out.contains("./static  not recorded"), "{out}");
        assert_eq!(title(&all), "Child processes");
        all[3].named = true;
        assert_eq!(title(&all), "Other processes");
    }
}

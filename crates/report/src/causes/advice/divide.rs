//! Where a struct is divided so that names lie on different lines.
//!
//! What is aligned moves, and all that follows it; what comes before stays. So the alignment
//! belongs to the later one of two. Pure. Neighbour: `separate` asks.

use super::{About, LINE, quoted};
use crate::causes::advice::Language;
use crate::causes::memory::array_of;
use crate::wording::list;
use std::collections::{BTreeMap, BTreeSet};

impl About<'_> {
    /// Each list of names, with the other names on the hottest line that only its threads use. If
    /// they were left out, the line could be divided in front of them.
    pub(super) fn with_what_their_threads_use(
        &self,
        mut one: Vec<String>,
        mut other: Vec<String>,
    ) -> [Vec<String>; 2] {
        let mut users: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for ((line, thread), mask) in self.bytes() {
            if Some(line) == self.hottest {
                for name in self.memory.names(line, mask) {
                    users.entry(name).or_default().insert(thread);
                }
            }
        }
        let threads_of = |names: &[String]| -> BTreeSet<u32> {
            names.iter().filter_map(|name| users.get(name)).flatten().copied().collect()
        };
        let (of_one, of_other) = (threads_of(&one), threads_of(&other));
        for (name, threads) in &users {
            if of_one.is_disjoint(&of_other) && !one.contains(name) && !other.contains(name) {
                match (threads.is_subset(&of_one), threads.is_subset(&of_other)) {
                    (true, _) => one.push(name.clone()),
                    (_, true) => other.push(name.clone()),
                    _ => {}
                }
            }
        }
        [one, other]
    }

    /// `put alignas(64) before 'b', so that they lie on different lines`, for names that different
    /// threads use.
    pub(super) fn divided<'n>(
        &self,
        one: impl Iterator<Item = &'n String>,
        other: impl Iterator<Item = &'n String>,
    ) -> String {
        let with_places = |names: Vec<&'n String>| -> Vec<(u64, &'n str)> {
            let mut all: Vec<(u64, &str)> = names
                .into_iter()
                .filter_map(|name| Some((self.place_of(name)?, name.as_str())))
                .collect();
            all.sort_unstable();
            all
        };
        let (one, other) = (with_places(one.collect()), with_places(other.collect()));
        let unknown =
            || format!("{}, so that they lie on different lines", self.on_a_line("the later one"));
        let (Some(first), Some(second)) = (one.first(), other.first()) else { return unknown() };
        let (Some(last), Some(end)) = (one.last(), other.last()) else { return unknown() };
        let later = match (last.0 < second.0, end.0 < first.0) {
            (true, _) => Some(second.1),
            (_, true) => Some(first.1),
            _ => None,
        };
        let allocated = self.allocated_on_a_line();
        match later {
            Some(later) => format!(
                "{}, so that they lie on different lines{allocated}",
                self.on_a_line(&format!("'{}'", array(later)))
            ),
            // They alternate.
            None => format!(
                "declare {} first, then {}, and {}{allocated}",
                list(&named(&one)),
                list(&named(&other)),
                self.on_a_line(&format!("'{}'", array(second.1)))
            ),
        }
    }

    /// How a field begins on a line: in Rust, types are aligned and not fields.
    fn on_a_line(&self, field: &str) -> String {
        let align = self.language.align();
        match self.language {
            Language::Rust => format!("put {field} into a type of its own with {align}"),
            _ => format!("put {align} before {field}"),
        }
    }

    /// Where a name begins on the hottest line.
    fn place_of(&self, name: &String) -> Option<u64> {
        let hottest = self.hottest?;
        (0..LINE).find(|bit| self.memory.names(hottest, 1 << bit).contains(name))
    }

    /// `; allocate it with aligned_alloc …`: in C, what allocates does not know the type.
    fn allocated_on_a_line(&self) -> String {
        let at = self.memory.allocation(self.group.object());
        let at = at.filter(|_| self.language == Language::C);
        at.map_or(String::new(), |at| format!("; allocate it with aligned_alloc(64, …) {at}"))
    }
}

/// An array as a whole instead of one of its elements.
fn array(name: &str) -> &str {
    array_of(name).unwrap_or(name)
}

fn named(names: &[(u64, &str)]) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(|(_, name)| array(name).to_owned()).collect();
    all.dedup();
    quoted(&all)
}

//! Which thread of one run is which of the other.
//!
//! A thread is what started it: the start routine, the creating thread, and how many the same
//! creator had started with that routine before. A program that was built anew has its routines
//! elsewhere, so the symbol is taken where both have one, then the module alone; last the name.

use profile::ThreadRow;
use std::collections::HashMap;

/// Pairs of threads, by the number in A.
pub(crate) fn matched(a: &[ThreadRow], b: &[ThreadRow]) -> Vec<(usize, usize)> {
    let mut partner: Vec<Option<usize>> = vec![None; a.len()];
    let mut taken = vec![false; b.len()];
    let rules: [fn(&ThreadRow) -> String; 4] = [routine, symbol, module, name];
    for rule in rules {
        // Creators have lower ids than those they create, so that they are matched first.
        let mut waiting: HashMap<(String, Option<usize>), Vec<usize>> = HashMap::new();
        for thread in (0..b.len()).rev().filter(|&thread| !taken[thread]) {
            let parent = b[thread].identity.parent.map(|parent| parent.index());
            waiting.entry((rule(&b[thread]), parent)).or_default().push(thread);
        }
        for thread in 0..a.len() {
            let parent = match a[thread].identity.parent {
                None => None,
                Some(parent) => match partner.get(parent.index()).copied().flatten() {
                    None => continue,
                    some => some,
                },
            };
            if partner[thread].is_some() {
                continue;
            }
            let like = waiting.get_mut(&(rule(&a[thread]), parent));
            if let Some(other) = like.and_then(Vec::pop) {
                partner[thread] = Some(other);
                taken[other] = true;
            }
        }
    }
    let pairs = partner.iter().enumerate();
    pairs.filter_map(|(thread, other)| other.map(|other| (thread, other))).collect()
}

/// Module and offset; the number among its like is the order.
fn routine(thread: &ThreadRow) -> String {
    thread.identity.start_routine.clone()
}

fn symbol(thread: &ThreadRow) -> String {
    match thread.start_symbol.as_str() {
        "" => routine(thread),
        symbol => symbol.into(),
    }
}

fn module(thread: &ThreadRow) -> String {
    let routine = &thread.identity.start_routine;
    routine.rsplit_once('+').map_or(routine.as_str(), |(module, _)| module).into()
}

fn name(thread: &ThreadRow) -> String {
    thread.identity.name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::sample;
    use types::{ThreadId, ThreadIdentity};

    /// Threads by (start routine, its symbol, creator).
    fn threads(of: &[(&str, &str, Option<u32>)]) -> Vec<ThreadRow> {
        let row =
            |(id, &(routine, symbol, parent)): (usize, &(&str, &str, Option<u32>))| ThreadRow {
                identity: ThreadIdentity {
                    start_routine: routine.into(),
                    parent: parent.map(ThreadId),
                    ordinal: 0,
                    name: "app".into(),
                },
                start_symbol: symbol.into(),
                ..sample::thread(id as u32)
            };
        of.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_helper_more_shifts_nobody() {
        let (work, help) = (("app+0x10", "work", Some(0)), ("lib+0x99", "", Some(0)));
        let a = threads(&[("", "", None), work, work]);
        let b = threads(&[("", "", None), help, work, work]);
        assert_eq!(matched(&a, &b), [(0, 0), (1, 2), (2, 3)]);
        assert_eq!(matched(&b, &a), [(0, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn a_program_built_anew_has_its_routines_elsewhere() {
        let old = [("", "", None), ("app+0x10", "write", Some(0)), ("app+0x20", "read", Some(0))];
        let new = [("", "", None), ("app+0x48", "read", Some(0)), ("app+0x30", "write", Some(0))];
        assert_eq!(matched(&threads(&old), &threads(&new)), [(0, 0), (1, 2), (2, 1)]);
        // Without symbols the order in the module is what is left.
        let strip = |of: [(&'static str, &str, Option<u32>); 3]| of.map(|(r, _, p)| (r, "", p));
        let (old, new) = (strip(old), strip(new));
        assert_eq!(matched(&threads(&old), &threads(&new)), [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn threads_of_threads_follow_their_creators() {
        let a = threads(&[
            ("", "", None),
            ("x+1", "", Some(0)),
            ("y+1", "", Some(0)),
            ("z+1", "", Some(2)),
        ]);
        let b = threads(&[
            ("", "", None),
            ("y+1", "", Some(0)),
            ("x+1", "", Some(0)),
            ("z+1", "", Some(1)),
        ]);
        assert_eq!(matched(&a, &b), [(0, 0), (1, 2), (2, 1), (3, 3)]);
    }
}

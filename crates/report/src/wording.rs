//! Phrases that several sections use.
//!
//! Pure.

use types::numbers::grouped;

/// Threads are listed one by one up to this many ranges.
const RANGES: usize = 3;

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [start @ .., last] => format!("{} and {last}", start.join(", ")),
    }
}

/// `T1`, `T0, T2 and T4–T7`, `23 threads`; ids in order.
pub(crate) fn thread_list(threads: &[u32]) -> String {
    let runs: Vec<&[u32]> = threads.chunk_by(|a, b| a + 1 == *b).collect();
    if runs.len() > RANGES {
        return format!("{} threads", grouped(threads.len() as u64));
    }
    let run = |run: &&[u32]| match run {
        [one] => vec![format!("T{one}")],
        [one, two] => vec![format!("T{one}"), format!("T{two}")],
        [first, .., last] => vec![format!("T{first}–T{last}")],
        [] => vec![],
    };
    list(&runs.iter().flat_map(run).collect::<Vec<_>>())
}

/// Both lists in order, each thread once.
pub(crate) fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_listed_shortly() {
        for (threads, expected) in [
            (&[1][..], "T1"),
            (&[0, 1], "T0 and T1"),
            (&[0, 2, 4, 5, 6], "T0, T2 and T4–T6"),
            (&[0, 2, 4, 6], "4 threads"),
        ] {
            assert_eq!(thread_list(threads), expected);
        }
        assert_eq!(union(&[1, 3], &[2, 3]), [1, 2, 3]);
    }
}

//! False sharing that is not there, but would be with longer lines, or if the memory began
//! elsewhere.
//!
//! Problem: whether threads' bytes share a line depends on where an allocation happens to begin,
//! and on the machine: adjacent lines are fetched in pairs by many processors, and some have lines
//! of 128 bytes. Approach: lay the bytes that each thread is known to use over other lines, and
//! look whether threads meet there that did not meet before. How often they would is what the
//! thread that comes less often makes of visits. What is predicted is Predator's idea (Liu et al.,
//! PPoPP 2014); here the uses are known rather than sampled. Pure. Neighbour: `report` finds the
//! uses.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a line where programs were recorded.
pub const LINE: u64 = 64;

/// Bytes that a thread uses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Use {
    /// The thread.
    pub thread: u32,
    /// Address of the first byte.
    pub start: u64,
    /// Bytes; more than 0.
    pub bytes: u64,
    /// Whether it writes to them.
    pub writes: bool,
    /// How often it comes to them.
    pub visits: f64,
}

/// What is different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variation {
    /// Lines have so many bytes, a power of two.
    Lines(u64),
    /// The memory begins so many bytes later.
    Later(u64),
}

/// False sharing that would appear.
#[derive(Clone, PartialEq, Debug)]
pub struct Latent {
    /// Threads that would share lines falsely.
    pub threads: BTreeSet<u32>,
    /// Lines, as they would be.
    pub lines: usize,
    /// Visits that would find the line with another thread, at most.
    pub visits: f64,
}

/// A shared line, as it would be: who comes, and how often.
type Meeting = (BTreeSet<u32>, f64);

/// What would appear; `None` if nothing would that is not there now.
pub fn latent(uses: &[Use], variation: Variation) -> Option<Latent> {
    let (line, later) = match variation {
        Variation::Lines(bytes) => (bytes, 0),
        Variation::Later(bytes) => (LINE, bytes),
    };
    let now: BTreeSet<(u32, u32)> =
        meetings(uses, LINE, 0).values().flat_map(|(threads, _)| pairs(threads)).collect();
    let mut found = Latent { threads: BTreeSet::new(), lines: 0, visits: 0.0 };
    for (threads, visits) in meetings(uses, line, later).into_values() {
        if pairs(&threads).iter().all(|pair| now.contains(pair)) {
            continue;
        }
        found.threads.extend(threads);
        found.lines += 1;
        found.visits += visits;
    }
    (found.lines > 0).then_some(found)
}

/// Lines of so many bytes on which several threads use different bytes, and one writes.
fn meetings(uses: &[Use], line: u64, later: u64) -> BTreeMap<u64, Meeting> {
    let mut on_line: BTreeMap<u64, Vec<Use>> = BTreeMap::new();
    for one in uses {
        let start = one.start + later;
        let mut at = start;
        while at < start + one.bytes {
            let end = (at / line * line + line).min(start + one.bytes);
            on_line.entry(at / line).or_default().push(Use { start: at, bytes: end - at, ..*one });
            at = end;
        }
    }
    let meeting = |uses: &Vec<Use>| -> Option<Meeting> {
        let meets = |one: &&Use| uses.iter().any(|other| is_false(one, other));
        let mut of_thread: BTreeMap<u32, f64> = BTreeMap::new();
        for one in uses.iter().filter(meets) {
            *of_thread.entry(one.thread).or_default() += one.visits;
        }
        let most = of_thread.values().copied().fold(0.0, f64::max);
        // The one that comes most often finds it moved as often as the others come.
        let others = of_thread.values().sum::<f64>() - most;
        (of_thread.len() > 1).then(|| (of_thread.into_keys().collect(), 2.0 * others))
    };
    on_line.iter().filter_map(|(at, uses)| Some((*at, meeting(uses)?))).collect()
}

/// Whether the two share a line falsely, given that it is one.
fn is_false(one: &Use, other: &Use) -> bool {
    let apart = one.start + one.bytes <= other.start || other.start + other.bytes <= one.start;
    one.thread != other.thread && apart && (one.writes || other.writes)
}

fn pairs(threads: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let after =
        |one: u32| threads.iter().filter(move |other| **other > one).map(move |o| (one, *o));
    threads.iter().flat_map(|one| after(*one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's own piece of an array, one after the other.
    fn pieces(first: u64, bytes: u64, distance: u64) -> Vec<Use> {
        let one = |k: u32| Use {
            thread: k + 1,
            start: first + distance * u64::from(k),
            bytes,
            writes: true,
            visits: 1e6,
        };
        (0..4).map(one).collect()
    }

    #[test]
    fn padded_to_a_line_they_meet_on_pairs_of_lines() {
        let own_lines = pieces(0x1000, 8, 64);
        let found = latent(&own_lines, Variation::Lines(128)).unwrap();
        assert_eq!((found.lines, found.threads.len(), found.visits), (2, 4, 4e6));
        // 8 bytes do not reach into the next line wherever they begin, as long as they are aligned.
        assert_eq!(latent(&own_lines, Variation::Later(16)), None);
        assert_eq!(latent(&pieces(0x1000, 8, 128), Variation::Lines(128)), None);
    }

    #[test]
    fn whole_lines_meet_if_the_memory_begins_elsewhere() {
        let whole = pieces(0x1000, 64, 64);
        let found = latent(&whole, Variation::Later(16)).unwrap();
        assert_eq!((found.lines, found.threads.len()), (3, 4));
        assert_eq!(latent(&pieces(0x1000, 40, 128), Variation::Later(48)), None);
    }

    #[test]
    fn what_is_there_now_and_what_is_only_read_is_not_latent() {
        let now = pieces(0x1000, 8, 8);
        assert_eq!(latent(&now, Variation::Lines(128)), None);
        let read: Vec<Use> =
            pieces(0x1000, 8, 64).into_iter().map(|one| Use { writes: false, ..one }).collect();
        assert_eq!(latent(&read, Variation::Lines(128)), None);
        let mut same = pieces(0x1000, 8, 64);
        same.iter_mut().for_each(|one| one.thread = 1);
        assert_eq!(latent(&same, Variation::Lines(128)), None, "one thread");
        assert_eq!(latent(&[], Variation::Lines(128)), None);
    }
}

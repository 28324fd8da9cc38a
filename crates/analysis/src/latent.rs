//! False sharing that is not there, but would be with longer lines, if the memory began elsewhere,
//! or if it were divided among more threads.
//!
//! Problem: whether threads' bytes share a line depends on where an allocation happens to begin, on
//! the number of threads, and on the machine: many processors fetch neighbouring lines in pairs,
//! and some have lines of 128 bytes. Approach: lay the bytes that each thread is known to use over
//! other lines, and look whether threads meet there that have lines of their own now. This is the
//! idea of Predator (Liu et al., PPoPP 2014); here uses are known rather than sampled. What it
//! would cost is not computed: that threads come to their lines does not say how often they would
//! find them elsewhere. Pure. Neighbour: `report` finds the uses.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a line where programs were recorded.
pub const LINE_BYTES: u64 = 64;
/// Part of the lines of divided data from which on it matters that threads share them.
const NOTABLE: f64 = 0.25;
/// Part of divided data that threads must use for it to be known how it is divided.
const COVERED: f64 = 0.9;

/// Bytes of one line that a thread uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The thread.
    pub thread: u32,
    /// Address of the first byte.
    pub start: u64,
    /// Bytes; more than 0.
    pub bytes: u64,
    /// Whether it writes to them.
    pub writes: bool,
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latent {
    /// Threads that would share lines falsely.
    pub threads: BTreeSet<u32>,
    /// Lines that they would share, as they would be.
    pub lines: u64,
    /// Positions of their uses among those asked about.
    pub uses: BTreeSet<usize>,
}

/// What would appear between threads that have lines of their own now; `None` if nothing would, or
/// if threads share lines falsely now.
pub fn latent(uses: &[Use], variation: Variation) -> Option<Latent> {
    let (line, later) = match variation {
        Variation::Lines(bytes) => (bytes, 0),
        Variation::Later(bytes) => (LINE_BYTES, bytes),
    };
    if !meetings(uses, LINE_BYTES, 0, are_falsely_shared).is_empty() {
        return None;
    }
    let users: BTreeSet<(u64, u32)> =
        uses.iter().map(|one| (one.start / LINE_BYTES, one.thread)).collect();
    let comes = |thread: u32, to: &Use| users.contains(&((to.start - later) / LINE_BYTES, thread));
    let is_new = |one: &Use, other: &Use| {
        are_falsely_shared(one, other) && !comes(one.thread, other) && !comes(other.thread, one)
    };
    let mut found = Latent::default();
    for met in meetings(uses, line, later, is_new) {
        found.lines += 1;
        found.threads.extend(met.iter().map(|at| uses[*at].thread));
        found.uses.extend(met);
    }
    (found.lines > 0).then_some(found)
}

/// Data that is divided among threads, a piece for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divided {
    /// Address of the first byte.
    pub start: u64,
    /// All bytes.
    pub bytes: u64,
    /// Bytes of an element.
    pub element: u64,
}

/// The least number of threads, up to twice as many as now, that would share a notable part of the
/// lines if they divided the data as threads do now: with how many lines they would share.
///
/// `None` where that is not so, where the pieces do not follow each other, one for each thread and
/// all of about one size, or where they are single elements: an array with an element for each
/// thread grows with the threads.
pub fn with_more_threads(uses: &[Use], data: Divided) -> Option<(u32, u64)> {
    let now = pieces(uses, data)?;
    let elements = data.bytes / data.element;
    let shared = |threads: u32| -> u64 {
        let border =
            |k: u32| data.start + elements * u64::from(k) / u64::from(threads) * data.element;
        let borders = (1..threads).map(border).filter(|at| at % LINE_BYTES != 0);
        borders.map(|at| at / LINE_BYTES).collect::<BTreeSet<_>>().len() as u64
    };
    let lines = data.bytes.div_ceil(LINE_BYTES) as f64;
    if shared(now) > 0 {
        return None;
    }
    let most = (2 * now).min(u32::try_from(elements).unwrap_or(u32::MAX));
    let counted = (now + 1..=most).map(|threads| (threads, shared(threads)));
    counted.into_iter().find(|(_, shared)| *shared as f64 >= lines * NOTABLE)
}

/// Among how many threads the data is divided.
fn pieces(uses: &[Use], data: Divided) -> Option<u32> {
    let mut of_thread: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for one in uses.iter().filter(|one| one.writes) {
        let piece = of_thread.entry(one.thread).or_insert((u64::MAX, 0));
        *piece = (piece.0.min(one.start), piece.1.max(one.start + one.bytes));
    }
    let mut pieces: Vec<(u64, u64)> = of_thread.into_values().collect();
    pieces.sort_unstable();
    let threads = u32::try_from(pieces.len()).ok().filter(|threads| *threads > 1)?;
    let bytes = pieces.iter().map(|(start, end)| end - start);
    let (least, most) = (bytes.clone().min()?, bytes.clone().max()?);
    let alike = least * 10 >= most * 9 && least >= 2 * data.element;
    let in_order = pieces.windows(2).all(|two| two[0].1 <= two[1].0);
    let covered = bytes.sum::<u64>() as f64 >= data.bytes as f64 * COVERED;
    (alike && in_order && covered && data.element > 0).then_some(threads)
}

/// Of each line of so many bytes the uses, by position, that `meet` one another there.
fn meetings(
    uses: &[Use],
    line: u64,
    later: u64,
    meet: impl Fn(&Use, &Use) -> bool,
) -> Vec<BTreeSet<usize>> {
    let mut on_line: BTreeMap<u64, Vec<(usize, Use)>> = BTreeMap::new();
    for (position, one) in uses.iter().enumerate() {
        let (mut at, end) = (one.start + later, one.start + later + one.bytes);
        while at < end {
            let upto = (at / line * line + line).min(end);
            let part = Use { start: at, bytes: upto - at, ..*one };
            on_line.entry(at / line).or_default().push((position, part));
            at = upto;
        }
    }
    let meeting = |uses: Vec<(usize, Use)>| -> BTreeSet<usize> {
        let meets = |one: &Use| uses.iter().any(|(_, other)| meet(one, other));
        uses.iter().filter(|(_, one)| meets(one)).map(|(position, _)| *position).collect()
    };
    on_line.into_values().map(meeting).filter(|met| !met.is_empty()).collect()
}

/// Whether two uses of a line share it falsely: different bytes of it, and one writes.
fn are_falsely_shared(one: &Use, other: &Use) -> bool {
    let apart = one.start + one.bytes <= other.start || other.start + other.bytes <= one.start;
    one.thread != other.thread && apart && (one.writes || other.writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's own piece of an array, one after the other.
    fn own(first: u64, bytes: u64, distance: u64) -> Vec<Use> {
        let one = |k: u32| Use {
            thread: k + 1,
            start: first + distance * u64::from(k),
            bytes,
            writes: true,
        };
        (0..4).map(one).collect()
    }

    #[test]
    fn padded_to_a_line_they_meet_on_pairs_of_lines() {
        let own_lines = own(0x1000, 8, 64);
        let found = latent(&own_lines, Variation::Lines(128)).unwrap();
        assert_eq!((found.lines, found.threads.len(), found.uses.len()), (2, 4, 4));
        // 8 bytes do not reach into the next line wherever they begin, as long as they are aligned.
        assert_eq!(latent(&own_lines, Variation::Later(16)), None);
        assert_eq!(latent(&own(0x1000, 8, 128), Variation::Lines(128)), None);
        // The first and the last one have a pair of lines for themselves here.
        let found = latent(&own(0x1040, 8, 64), Variation::Lines(128)).unwrap();
        assert_eq!((found.lines, found.threads), (1, BTreeSet::from([2, 3])));
    }

    #[test]
    fn whole_lines_meet_if_the_memory_begins_elsewhere() {
        let found = latent(&own(0x1000, 64, 64), Variation::Later(16)).unwrap();
        assert_eq!((found.lines, found.threads.len()), (3, 4));
        assert_eq!(latent(&own(0x1000, 40, 128), Variation::Later(48)), None);
    }

    #[test]
    fn what_is_there_now_and_what_is_only_read_is_not_latent() {
        assert_eq!(latent(&own(0x1000, 8, 8), Variation::Lines(128)), None);
        // Two share a line now: that is another finding, and its fix mends the others, too.
        assert_eq!(latent(&own(0x1000, 8, 48), Variation::Lines(128)), None);
        let all = |change: fn(Use) -> Use| -> Vec<Use> {
            own(0x1000, 8, 64).into_iter().map(change).collect()
        };
        let read = all(|one| Use { writes: false, ..one });
        assert_eq!(latent(&read, Variation::Lines(128)), None);
        let same = all(|one| Use { thread: 1, ..one });
        assert_eq!(latent(&same, Variation::Lines(128)), None, "one thread");
        assert_eq!(latent(&[], Variation::Lines(128)), None);
    }

    #[test]
    fn who_comes_to_the_others_lines_has_none_of_its_own() {
        // T0 reads what the others have written: with longer lines it does no more than that.
        let gathered = |writers: &[Use]| -> Vec<Use> {
            let read = writers.iter().map(|one| Use { thread: 0, writes: false, ..*one });
            writers.iter().copied().chain(read).collect()
        };
        let writers = own(0x1000, 8, 64);
        let found = latent(&gathered(&writers), Variation::Lines(128)).unwrap();
        assert_eq!(found.threads, BTreeSet::from([1, 2, 3, 4]));
        assert_eq!(latent(&gathered(&writers[..1]), Variation::Lines(128)), None);
    }

    #[test]
    fn more_threads_share_lines_where_pieces_are_small() {
        let data = |bytes| Divided { start: 0x1000, bytes, element: 8 };
        // Four pieces of a line each; with five, all borders lie in lines.
        assert_eq!(with_more_threads(&own(0x1000, 64, 64), data(256)), Some((5, 4)));
        // Of 64 lines, even seven borders are few.
        assert_eq!(with_more_threads(&own(0x1000, 1024, 1024), data(4096)), None);
        // There is false sharing now, which is another finding.
        assert_eq!(with_more_threads(&own(0x1000, 40, 40), data(160)), None);
    }

    #[test]
    fn data_that_is_not_divided_says_nothing_about_more_threads() {
        let lines = Divided { start: 0x1000, bytes: 256, element: 64 };
        assert_eq!(with_more_threads(&own(0x1000, 64, 64), lines), None, "an element for each");
        let data = Divided { element: 8, ..lines };
        assert_eq!(with_more_threads(&own(0x1000, 8, 64), data), None, "a word of each line");
        assert_eq!(with_more_threads(&own(0x1000, 64, 64)[..3], data), None, "a part is not used");
        let mut uneven = own(0x1000, 64, 64);
        uneven[3].bytes = 32;
        assert_eq!(with_more_threads(&uneven, data), None);
    }
}

//! How much is handed over in arrays: how often one of their lines is, times the lines that they
//! have.
//!
//! Problem: what a thread waits for tells nothing of arrays. A thread that reads one line after the
//! other has the next ones prefetched meanwhile, so that a line takes a few nanoseconds, not the
//! time of a transfer; and reading may as well take most of its time for computing. Approach: hits
//! on arrays (as `sampling` marks them) wait here. Now and then one line of them is visited by
//! debug registers for a moment: of its writer, and of its reader (`visiting.rs`). That counts how
//! often it is handed over. All lines of an array are, as often as each other; how many there are
//! is seen from where the hits lie.
//!
//! *Arithmetic.* Samples come to a line in proportion to the time spent there, and so to how often
//! it is handed over. The mean over such lines of the *time between* two handovers is then the
//! number of lines over the sum of all their rates: what is handed over per nanosecond is lines /
//! mean, whether or not all lines are alike. That happens while the pair is active, which its hits
//! show ([`IDLE_NS`]); over the weight of its hits in that time it is what a unit of weight stands
//! for.
//!
//! Neighbours: `process` has one of these, `visiting` visits, `follow` takes turns.

use rustc_hash::FxHashMap;
use sampling::{BLOCK_BYTES, Hit};
use types::ThreadId;

/// A pair is not active any more when it has had no hit for so long.
const IDLE_NS: u64 = 500_000_000;
/// Hits from which on a line is worth a visit, and its array's size can be told.
const ENOUGH: usize = 8;
/// A gap of `GAP` times the median one ends an array, if it is at least `MIN_GAP` blocks.
const GAP: u64 = 12;
const MIN_GAP: u64 = 64;
/// Most places that are remembered for each pair, and most hits that wait.
const MAX_PLACES: usize = 2048;
const MAX_WAITING: usize = 4096;
/// Most pairs that are kept apart.
const MAX_PAIRS: usize = 256;

/// Who hands over to whom.
pub type PairOf = (ThreadId, ThreadId);

/// What is known of a pair.
#[derive(Debug, Default)]
struct Pair {
    /// Sum of all its hits' weights; time in which it was active; time of the last hit.
    weight: f64,
    active_ns: u64,
    last_ns: u64,
    /// Blocks with hits, of every `each`th one.
    places: Vec<u64>,
    each: u64,
    hits: u64,
    /// An address of the last one.
    address: u64,
    /// Sum of the times between two handovers of the lines that were visited, and how many were.
    between_ns: f64,
    visits: u32,
    /// Visits that showed nothing.
    empty: u32,
}

/// Hits on arrays of a process, until it is known what they stand for.
#[derive(Debug, Default)]
pub struct Handovers {
    pairs: FxHashMap<PairOf, Pair>,
    /// With the part of it that is communication, as far as is known.
    waiting: Vec<(Hit, f64)>,
    /// Hits that had to go without.
    pub unmeasured: u64,
}

impl Handovers {
    /// Takes a hit in; gives back what cannot wait.
    pub fn take(&mut self, hit: Hit) -> Option<Hit> {
        let key = (hit.from.thread, hit.to.thread);
        let is_known = self.pairs.contains_key(&key);
        if self.waiting.len() >= MAX_WAITING || !is_known && self.pairs.len() >= MAX_PAIRS {
            self.unmeasured += 1;
            return Some(hit);
        }
        self.pairs.entry(key).or_default().note(&hit);
        self.waiting.push((hit, 1.0));
        None
    }

    /// Whether no more can wait.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Says of all that wait, what part of it is communication.
    pub fn judge(&mut self, part: impl Fn(&Hit) -> f64) {
        self.waiting.iter_mut().for_each(|(hit, known)| *known = part(hit));
    }

    /// The pair that has been visited least of those that were active since `since_ns`, how often
    /// it was, and an address to visit.
    pub fn next(&self, since_ns: u64) -> Option<(u32, PairOf, u64)> {
        let active = |pair: &&Pair| pair.hits >= ENOUGH as u64 && pair.last_ns >= since_ns;
        let pairs = self.pairs.iter().filter(|(_, pair)| active(pair));
        pairs.map(|(key, pair)| (pair.visits + pair.empty, *key, pair.address)).min()
    }

    /// A line of the pair was visited; `None`: that showed nothing.
    pub fn visited(&mut self, pair: PairOf, between_ns: Option<f64>) {
        let Some(pair) = self.pairs.get_mut(&pair) else { return };
        match between_ns {
            Some(between_ns) => {
                pair.between_ns += between_ns;
                pair.visits += 1;
            }
            None => pair.empty += 1,
        }
    }

    /// Gives back all hits that wait, weighing what they stand for in units of `transfer_ns`.
    pub fn settle(&mut self, transfer_ns: f64) -> Vec<Hit> {
        let factors: FxHashMap<PairOf, Option<f64>> =
            self.pairs.iter().map(|(key, pair)| (*key, pair.factor())).collect();
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|(_, part)| *part > 0.0);
        let settled = waiting.into_iter().map(|(mut hit, part)| {
            let factor = factors.get(&(hit.from.thread, hit.to.thread)).copied().flatten();
            // Visits have seen themselves what part is communication.
            hit.weight *= factor.map_or(part, |factor| factor * transfer_ns);
            self.unmeasured += u64::from(factor.is_none());
            hit
        });
        settled.collect()
    }
}

impl Pair {
    fn note(&mut self, hit: &Hit) {
        let since = hit.time_ns.saturating_sub(self.last_ns);
        if self.hits > 0 {
            self.active_ns += since.min(IDLE_NS);
        }
        self.last_ns = self.last_ns.max(hit.time_ns);
        self.weight += hit.weight;
        self.address = hit.block + u64::from(hit.to.bytes.trailing_zeros()) % BLOCK_BYTES;
        self.each = self.each.max(1);
        if self.hits.is_multiple_of(self.each) {
            self.places.push(hit.block / BLOCK_BYTES);
        }
        if self.places.len() >= MAX_PLACES {
            let mut keep = false;
            self.places.retain(|_| {
                keep = !keep;
                keep
            });
            self.each *= 2;
        }
        self.hits += 1;
    }

    /// Handovers that a nanosecond of weight stands for. Not known where most lines are handed over
    /// once, as when a part of a matrix comes after the other.
    fn factor(&self) -> Option<f64> {
        let recurs = self.visits > self.empty;
        let known = recurs && self.active_ns > 0 && self.weight > 0.0;
        let between_ns = self.between_ns / f64::from(self.visits.max(1));
        known.then(|| lines(&self.places) / between_ns * self.active_ns as f64 / self.weight)
    }
}

/// Blocks of the arrays that were hit at these places, each as likely as any other.
fn lines(places: &[u64]) -> f64 {
    let mut places = places.to_vec();
    places.sort_unstable();
    places.dedup();
    let mut gaps: Vec<u64> = places.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort_unstable();
    let median = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    let most = (GAP * median).max(MIN_GAP);
    let arrays = places.chunk_by(|one, next| next - one <= most);
    // Between the first and the last of n places are all but 2 of n + 1 equal parts.
    let size = |array: &[u64]| match array {
        [first, .., last] => {
            let n = array.len() as f64;
            (last - first + 1) as f64 * (n + 1.0) / (n - 1.0).max(1.0)
        }
        _ => 1.0,
    };
    arrays.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sampling::Side;
    use types::{CommKind, Evidence, Sharing};

    fn hit(time_ns: u64, block: u64) -> Hit {
        let side = |thread| Side { thread: ThreadId(thread), site: 1, bytes: 0xff00 };
        let (kind, sharing) = (CommKind::Raw, Sharing::True);
        let (from, to, block) = (side(1), side(2), block * BLOCK_BYTES);
        let evidence = Evidence::Sampled;
        Hit {
            time_ns,
            block,
            kind,
            sharing,
            from,
            to,
            weight: 1e6,
            array: true,
            evidence,
            object: 0,
        }
    }

    /// A hit each millisecond, anywhere in two arrays of 1,000 lines far from each other.
    fn two_arrays() -> Handovers {
        let mut handovers = Handovers::default();
        for k in 0..400 {
            let place = k * 619 % 1000;
            assert!(handovers.take(hit(1_000_000 * k, 5000 + 90_000 * (k % 2) + place)).is_none());
        }
        handovers
    }

    #[test]
    fn amounts_are_lines_times_how_often_one_is_handed_over() {
        let mut handovers = two_arrays();
        let (visits, pair, address) = handovers.next(300_000_000).unwrap();
        assert_eq!((visits, address % BLOCK_BYTES), (0, 8));
        assert!(handovers.next(400_000_000).is_none());
        // One line 40 times in a millisecond, another one 10 times: 25 and 100 µs between.
        handovers.visited(pair, Some(25_000.0));
        handovers.visited(pair, Some(100_000.0));
        let hits = handovers.settle(100.0);
        let amount: f64 = hits.iter().map(|hit| hit.weight / 100.0).sum();
        let truth = 2000.0 * 400e6 / 62_500.0;
        assert!((amount / truth - 1.0).abs() < 0.05, "{amount} of {truth}");
        assert_eq!((hits.len(), handovers.unmeasured), (400, 0));
        assert!(handovers.settle(100.0).is_empty());
    }

    #[test]
    fn where_lines_are_handed_over_once_hits_weigh_what_they_did() {
        let mut handovers = two_arrays();
        let (_, pair, _) = handovers.next(0).unwrap();
        handovers.visited(pair, None);
        handovers.visited(pair, Some(25_000.0));
        let hits = handovers.settle(100.0);
        assert!(hits.iter().all(|hit| hit.weight == 1e6));
        assert_eq!(handovers.unmeasured, 400);
    }

    #[test]
    fn what_turns_out_to_be_no_communication_is_dropped() {
        let mut handovers = two_arrays();
        let is_second = |hit: &Hit| hit.block > 50_000 * BLOCK_BYTES;
        handovers.judge(|hit| if is_second(hit) { 0.5 } else { 0.0 });
        let hits = handovers.settle(100.0);
        assert!(hits.iter().all(|hit| is_second(hit) && hit.weight == 0.5e6));
        assert_eq!((hits.len(), handovers.unmeasured), (200, 200));
    }

    #[test]
    fn what_cannot_wait_is_given_back() {
        let mut handovers = Handovers::default();
        let kept = (0..MAX_WAITING as u64 + 10).filter(|&k| handovers.take(hit(k, k)).is_none());
        assert_eq!(kept.count(), MAX_WAITING);
        assert!(handovers.is_full());
        assert_eq!(handovers.unmeasured, 10);
    }
}

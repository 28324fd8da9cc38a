//! What serves a transfer: a cache that still holds the line, or memory.
//!
//! Problem: a line that was written long ago has left the writer's caches. Its next user fetches it
//! from memory, as it would without the writer: such communication costs no cache-to-cache
//! transfer, and neither placement nor layout saves it (temporal false communication: COMPROF,
//! section III; Diener's thesis, 3.1.2). Approach: a cache of C bytes that replaces the least
//! recently used line holds a line as long as its threads come to fewer than C other bytes. How
//! long ago the line was written is known in classes ([`GapClass`]), and so is how much each thread
//! comes to in as long as the shortest gap of a class ([`FootprintRow`]; the footprint of Xiang and
//! others, ASPLOS 2013). Of gaps longer than a window, what all threads came to meanwhile is
//! counted itself. Both rest on tracked lines, a sample. Nothing is said of less than [`MIN_HITS`]
//! events and [`MIN_WINDOWS`] windows. Pure. Neighbour: `report` shows it, and leaves it out of
//! costs.

use profile::{EventRow, FootprintRow};
use std::collections::{BTreeMap, HashMap};
use types::{CommKind, GapClass, ThreadId};

/// Events with a known gap below which nothing is said: with 20, a share is known within 22 points
/// (95 %).
const MIN_HITS: u64 = 20;
/// For how many lines a tracked one stands.
const TRACKED_OF: u64 = 64;
/// Windows of a thread below which its footprint is not used. A footprint is a mean over windows
/// and need not be exact: each level of caches is at least twice as large as the one before.
const MIN_WINDOWS: u64 = 5;

/// What the caches of a machine hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes of the largest cache of a core.
    pub private_bytes: u64,
    /// Bytes of the outermost cache.
    pub outer_bytes: u64,
    /// How many outermost caches the threads have together, evenly.
    pub outer_caches: usize,
}

/// Where transfers are served: shares, which add up to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Residence {
    /// By the private caches of the writer, or by the outer one because these held it too short.
    pub private: f64,
    /// By the outer cache at best: private ones hold less than was used meanwhile.
    pub outer: f64,
    /// By memory: so does the outer one.
    pub memory: f64,
    /// Not known.
    pub unknown: f64,
}

/// How much threads come to in as long as gaps.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Footprints {
    of: HashMap<(ThreadId, GapClass), u64>,
    all: HashMap<GapClass, u64>,
    line_bytes: u64,
}

impl Footprints {
    /// Those of a profile, which has none without windows; communication was counted in lines of
    /// `line_bytes`.
    pub fn of(rows: &[FootprintRow], line_bytes: u64) -> Self {
        let mut found = Self { line_bytes, ..Self::default() };
        let enough = |row: &&FootprintRow| row.windows >= MIN_WINDOWS;
        for row in rows.iter().filter(enough) {
            found.of.insert(row.key(), row.bytes);
            *found.all.entry(row.gap).or_default() += row.bytes;
        }
        found
    }

    /// What can still hold a line that this thread wrote, after a gap.
    fn holder(&self, writer: ThreadId, gap: GapClass, capacity: &Capacity) -> Holder {
        let caches = capacity.outer_caches.max(1) as u64;
        let shortest = if gap.is_late() { GapClass::Late(0) } else { gap };
        let own = self.of.get(&(writer, shortest)).copied();
        let all = match gap {
            GapClass::Late(lines) => Some(tracked_since(lines) * TRACKED_OF * self.line_bytes),
            _ => self.all.get(&gap).copied(),
        };
        match (own, all.map(|all| all / caches)) {
            (_, Some(all)) if all >= capacity.outer_bytes => Holder::Memory,
            (Some(own), _) if own >= capacity.outer_bytes => Holder::Memory,
            (Some(own), _) if own < capacity.private_bytes => Holder::Private,
            (Some(_), _) => Holder::Outer,
            (None, Some(all)) if all * caches < capacity.private_bytes => Holder::Private,
            (None, Some(_)) if gap.is_late() => Holder::Outer,
            (None, _) => Holder::Unknown,
        }
    }
}

/// Tracked lines that all threads have come to since the write, at least: [`GapClass::Late`] has
/// the logarithm.
fn tracked_since(class: u8) -> u64 {
    (1_u64 << class.min(40)) / 2
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Private,
    Outer,
    Memory,
    Unknown,
}

/// Events by what can hold their lines.
#[derive(Clone, Copy, Default)]
struct Sums([f64; 4]);

impl Sums {
    fn add(&mut self, holder: Holder, events: u64) {
        self.0[holder as usize] += events as f64;
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// How long before transfers their lines were written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Gaps {
    /// Transfers and hits by writer and class.
    of: BTreeMap<(ThreadId, Option<GapClass>), (u64, u64)>,
}

impl Gaps {
    /// Adds events, unless they are no transfers.
    pub fn add(&mut self, event: &EventRow) {
        if matches!(event.kind, CommKind::Raw | CommKind::Waw) {
            self.add_to((event.from, event.gap), (event.count, event.hits));
        }
    }

    /// Adds those of others.
    pub fn join(&mut self, others: &Self) {
        others.of.iter().for_each(|(key, events)| self.add_to(*key, *events));
    }

    fn add_to(&mut self, key: (ThreadId, Option<GapClass>), (count, hits): (u64, u64)) {
        let sum = self.of.entry(key).or_default();
        *sum = (sum.0.saturating_add(count), sum.1.saturating_add(hits));
    }

    /// Where the transfers are served; `None` without any.
    pub fn residence(&self, footprints: &Footprints, capacity: &Capacity) -> Option<Residence> {
        let (mut within, mut late) = (Sums::default(), Sums::default());
        let (mut in_windows, mut hits, mut late_hits) = (0.0, 0, 0);
        for (&(writer, gap), &(count, seen)) in &self.of {
            let holder = gap.map(|gap| footprints.holder(writer, gap, capacity));
            match (holder, gap) {
                (Some(holder), Some(GapClass::Late(_))) => {
                    late.add(holder, count);
                    late_hits += seen;
                }
                (Some(holder), _) => {
                    in_windows += count as f64;
                    within.add(holder, seen);
                    hits += seen;
                }
                (None, _) => in_windows += count as f64,
            }
        }
        // Tracked lines speak for all that windows saw.
        let all = in_windows + late.sum();
        let of_one = if hits >= MIN_HITS { in_windows / within.sum() } else { 0.0 };
        let of_late = if late_hits >= MIN_HITS { 1.0 } else { 0.0 };
        let share = |holder: Holder| {
            let place = holder as usize;
            (within.0[place] * of_one + late.0[place] * of_late) / all
        };
        let [private, outer, memory] = [Holder::Private, Holder::Outer, Holder::Memory].map(share);
        let unknown = (1.0 - private - outer - memory).max(0.0);
        (all > 0.0).then_some(Residence { private, outer, memory, unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Evidence, Sharing};

    const CAPACITY: Capacity =
        Capacity { private_bytes: 1 << 20, outer_bytes: 16 << 20, outer_caches: 1 };

    fn event(gap: Option<GapClass>, count: u64, hits: u64) -> EventRow {
        EventRow {
            line: 64,
            from: ThreadId(1),
            to: ThreadId(2),
            kind: CommKind::Raw,
            sharing: Sharing::True,
            from_site: 0,
            to_site: 0,
            count,
            from_bytes: 1,
            to_bytes: 1,
            hits,
            evidence: Evidence::Window,
            object: 0,
            gap,
            streamed: 0,
        }
    }

    /// Footprints of two threads alike.
    fn footprints(bytes: [u64; 5], windows: u64) -> Footprints {
        let row = |thread, (gap, bytes)| FootprintRow { thread, gap, bytes, windows };
        let classes = || GapClass::WITHIN.into_iter().chain([GapClass::Late(0)]);
        let of = |thread| classes().zip(bytes).map(move |of| row(thread, of));
        let rows: Vec<FootprintRow> = [1, 2].map(ThreadId).into_iter().flat_map(of).collect();
        Footprints::of(&rows, 64)
    }

    fn residence(
        events: &[EventRow],
        footprints: &Footprints,
        capacity: &Capacity,
    ) -> Option<Residence> {
        let mut gaps = Gaps::default();
        events.iter().for_each(|event| gaps.add(event));
        gaps.residence(footprints, capacity)
    }

    const STREAM: [u64; 5] = [0, 32 << 10, 256 << 10, 2 << 20, 12 << 20];

    #[test]
    fn lines_leave_caches_as_more_is_used() {
        let found = footprints(STREAM, 40);
        // 4,096 tracked lines stand for 16 MiB.
        let late = [GapClass::Late(12), GapClass::Late(13)];
        let classes = GapClass::WITHIN.into_iter().chain(late);
        let all: Vec<EventRow> = classes.map(|gap| event(Some(gap), 1000, 25)).collect();
        let shares = residence(&all, &found, &CAPACITY).unwrap();
        let near = |found: f64, sixths: f64| (found - sixths / 6.0).abs() < 1e-9;
        assert!(near(shares.private, 3.0) && near(shares.outer, 2.0), "{shares:?}");
        assert!(near(shares.memory, 1.0), "{shares:?}");
        let small = footprints([0, 1 << 10, 2 << 10, 4 << 10, 8 << 10], 40);
        let shares = residence(&all, &small, &CAPACITY).unwrap();
        assert!(near(shares.private, 5.0) && near(shares.memory, 1.0), "{shares:?}");
    }

    #[test]
    fn tracked_lines_speak_for_the_others_in_windows() {
        let found = footprints(STREAM, 40);
        let known = [event(Some(GapClass::Shortest), 30, 30), event(Some(GapClass::Long), 10, 10)];
        let events = [
            known[0],
            known[1],
            event(None, 2460, 2460),
            event(Some(GapClass::Late(20)), 2500, 40),
        ];
        let shares = residence(&events, &found, &CAPACITY).unwrap();
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(near(shares.private, 0.375) && near(shares.outer, 0.125), "{shares:?}");
        assert!(near(shares.memory, 0.5) && shares.unknown == 0.0, "{shares:?}");
    }

    #[test]
    fn little_tells_nothing() {
        let few = [event(Some(GapClass::Short), 19, 19), event(None, 1000, 1000)];
        let shares = residence(&few, &footprints(STREAM, 40), &CAPACITY).unwrap();
        assert_eq!(shares.unknown, 1.0);
        let many = |lines| [event(Some(GapClass::Late(lines)), 6400, 100)];
        let unseen = residence(&many(11), &footprints(STREAM, 4), &CAPACITY).unwrap();
        assert_eq!((unseen.outer, unseen.memory), (1.0, 0.0));
        let far = residence(&many(20), &footprints(STREAM, 4), &CAPACITY).unwrap();
        assert_eq!(far.memory, 1.0, "what was used since needs no windows");
        assert_eq!(residence(&[], &footprints(STREAM, 40), &CAPACITY), None);
    }
}

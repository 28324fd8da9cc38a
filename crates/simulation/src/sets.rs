//! A part of the sets stands for all: set sampling.
//!
//! All caches of a machine have a multiple of some number of sets. Lines that agree modulo that
//! number form a *class*: no line of one class ever meets one of another in a set, so that a class
//! by itself is simulated exactly. Some classes, chosen by a hash, are simulated. Steps are of
//! one kind if thread and instruction are the same, both read or both write, and their lines
//! belonged to the same: the thread, several, or others. A step in a class that is not simulated is
//! given what one of the last steps of its kind in a simulated class was given: it is counted and
//! takes that time, but no cache is looked at. Kinds that have not reached a simulated class yet,
//! such as those of an instruction that only ever accesses one lock, are simulated wherever their
//! lines lie. So are lines at the borders of pages, which stand for no others.
//!
//! The intervals follow from how far what a step is given is from the truth where that is known:
//! each step in a chosen class is also guessed from one of the last of its kind in another chosen
//! class (cross-validation: Stone 1974). The sums of errors of the classes are taken as a sample of
//! those of all, with Student's t at 95 %. Neighbours: `system.rs` asks for each step, `run.rs`
//! takes the intervals.

use crate::coherence::{Served, Source};
use crate::counts::{Counts, LEVELS};
use crate::machine::Machine;
use crate::prepare::PAGE_SHIFT;
use crate::step::{Coming, Step};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use statistics::student;

/// Classes that are simulated at least: fewer tell nothing about their differences.
const MIN_CLASSES: u64 = 4;

/// Steps of a kind that are remembered of each class. With 16, 12 of 116 intervals missed the truth
/// in `tests/sets.rs`, which allows 11.
const REMEMBERED: usize = 4;

/// Lines to be fetched ahead that are remembered of each core and cache.
const FETCHED: usize = 32;

/// Where a line was found: a level of caches, another cache, the own node, another node.
const PLACES: usize = LEVELS + 3;
const TRANSFER: usize = LEVELS;
const LOCAL: usize = LEVELS + 1;
const REMOTE: usize = LEVELS + 2;

/// What becomes of a class of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// It is not simulated.
    Estimated,
    /// It is, and stands for others: its number among such classes.
    Chosen(u32),
    /// It is, and stands for itself: lines at the borders of pages, where nothing is fetched ahead.
    Edge,
}

/// What a chosen class has seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    steps: u64,
    latency_ns: f64,
    /// How much more was found than guessed.
    errors: [f64; PLACES],
    latency_error_ns: f64,
}

/// Steps of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Alike {
    thread: u32,
    site: u32,
    writes: bool,
    coming: Coming,
}

impl Alike {
    /// Those like this one.
    pub fn of(step: &Step) -> Self {
        let Step { thread, site, coming, .. } = *step;
        Self { thread, site, writes: step.kind.writes(), coming }
    }
}

/// What a step was given.
#[derive(Clone, Copy, Debug)]
struct Given {
    served: Served,
    place: usize,
    ns: f64,
    /// Lines that were written back for it.
    written: u32,
}

/// What the last steps of a kind in one class were given.
#[derive(Clone, Debug)]
struct OfClass {
    class: u32,
    last: SmallVec<[Given; REMEMBERED]>,
    /// The next one to be forgotten.
    oldest: usize,
}

/// What steps of a kind were given. A step elsewhere is given what one of these was, by chance: if
/// it were the last one, misses would come in bursts, and overlap.
#[derive(Clone, Debug, Default)]
struct Known {
    classes: SmallVec<[OfClass; MIN_CLASSES as usize]>,
    /// Goes up with each step that is given something.
    asked: u64,
}

impl Known {
    /// What a step was given that was not in class `except`; `None` if there was none.
    fn any(&mut self, except: Option<u32>) -> Option<Given> {
        self.asked += 1;
        let chance = mix(self.asked) as usize;
        let fits = |of: &&OfClass| Some(of.class) != except;
        let count = self.classes.iter().filter(fits).count();
        let of = self.classes.iter().filter(fits).nth(chance % count.max(1))?;
        Some(of.last[(chance >> 32) % of.last.len()])
    }

    fn note(&mut self, class: u32, given: Given) {
        let of = match self.classes.iter_mut().find(|of| of.class == class) {
            Some(of) => of,
            None => {
                self.classes.push(OfClass { class, last: SmallVec::new(), oldest: 0 });
                self.classes.last_mut().expect("just added")
            }
        };
        if of.last.len() < REMEMBERED {
            return of.last.push(given);
        }
        of.last[of.oldest] = given;
        of.oldest = (of.oldest + 1) % REMEMBERED;
    }
}

/// What was simulated and stands for all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sampled {
    /// A part of the sets.
    Sets {
        /// Classes of sets that were simulated.
        classes: u64,
        /// Classes in all.
        of: u64,
        /// Part of the steps, 0 to 1, that were given what others were given.
        estimated: f64,
    },
    /// Windows of the run.
    Windows {
        /// How many.
        count: u64,
        /// Part of all accesses, 0 to 1, that counted, those before the first window among them.
        part: f64,
    },
}

/// Half the widths of the intervals at 95 %, of the counts of all threads together.
#[derive(Clone, PartialEq, Debug)]
pub struct Margins {
    /// What they are due to.
    pub sampled: Sampled,
    /// Hits, by level from 1.
    pub hits: [f64; LEVELS],
    /// Lines from other caches.
    pub transfers: f64,
    /// Lines from the thread's own node.
    pub local: f64,
    /// Lines from other nodes.
    pub remote: f64,
    /// Simulated time, ns: as far as it follows from what misses take.
    pub time_ns: f64,
}

/// Where the last lines came from that were to be fetched ahead into a cache; `None`: that was
/// there.
#[derive(Clone, Debug, Default)]
struct LastFetched {
    last: SmallVec<[Option<Source>; FETCHED]>,
    noted: usize,
    asked: u64,
}

/// Which classes are simulated, and what is known from them.
#[derive(Clone, Debug)]
pub struct Sets {
    kinds: Vec<Class>,
    /// What each chosen class has seen.
    seen: Vec<Seen>,
    /// Classes for which each chosen one stands.
    stands_for: u64,
    /// What the last steps of a kind were given.
    known: FxHashMap<Alike, Known>,
    /// By core and cache (the innermost, the second): where the last lines came from that were to
    /// be fetched ahead.
    fetched: Vec<[LastFetched; 2]>,
    estimated: u64,
}

/// Number of classes of a machine.
pub fn classes_of(machine: &Machine) -> u64 {
    machine.caches.iter().map(|cache| cache.sets).fold(0, crate::machine::gcd).max(1)
}

/// How many of them are simulated for a part of `1 / divisor`.
fn chosen_of(classes: u64, divisor: u64) -> u64 {
    (classes / divisor).max(MIN_CLASSES).min(classes)
}

impl Sets {
    /// One set in `divisor` of a machine, at least [`MIN_CLASSES`] classes; `None` if that is all
    /// of them.
    pub fn new(machine: &Machine, divisor: u64) -> Option<Self> {
        let all = classes_of(machine);
        let lines_of_page = (1 << PAGE_SHIFT) / machine.line_bytes;
        let has_edges = lines_of_page > 2 && all.is_multiple_of(lines_of_page);
        let is_edge = |class: u64| has_edges && (class + 1) % lines_of_page < 2;
        // By a hash, so that what lies at powers of two is not met more often than by chance.
        let mut order: Vec<u64> = (0..all).filter(|class| !is_edge(*class)).collect();
        let count = chosen_of(all, divisor).min(order.len() as u64);
        if count == order.len() as u64 {
            return None;
        }
        order.sort_unstable_by_key(|class| mix(*class));
        let of_edges = |class| if is_edge(class) { Class::Edge } else { Class::Estimated };
        let mut kinds: Vec<Class> = (0..all).map(of_edges).collect();
        for (number, class) in order[..count as usize].iter().enumerate() {
            kinds[*class as usize] = Class::Chosen(number as u32);
        }
        let seen = vec![Seen::default(); count as usize];
        let stands_for = (order.len() as u64 + count / 2) / count;
        let fetched = vec![Default::default(); machine.cores];
        Some(Self { kinds, seen, stands_for, known: FxHashMap::default(), fetched, estimated: 0 })
    }

    fn class(&self, line: u64) -> Class {
        self.kinds[(line % self.kinds.len() as u64) as usize]
    }

    /// Whether a line is in a class that is simulated.
    pub fn has(&self, line: u64) -> bool {
        self.class(line) != Class::Estimated
    }

    /// Lines that a simulated one stands for.
    pub fn weight(&self, line: u64) -> u64 {
        if let Class::Chosen(_) = self.class(line) { self.stands_for } else { 1 }
    }

    /// For a step outside the simulated classes: what a simulated step of its kind was given, and
    /// how long that took, ns, and how many lines were written back. `None` if the step must be
    /// simulated.
    pub fn estimate(&mut self, line: u64, alike: Alike) -> Option<(Served, f64, u32)> {
        if self.has(line) {
            return None;
        }
        let given = self.known.get_mut(&alike)?.any(None)?;
        self.estimated += 1;
        Some((given.served, given.ns, given.written))
    }

    /// A line in a simulated class was to be fetched ahead into a cache of a core, and came from
    /// there.
    pub fn note_fetched(&mut self, core: usize, into: usize, source: Option<Source>) {
        let of = &mut self.fetched[core][into];
        match of.last.len() < FETCHED {
            true => of.last.push(source),
            false => of.last[of.noted % FETCHED] = source,
        }
        of.noted += 1;
    }

    /// Where one outside these classes comes from: as one of the last did, by chance.
    pub fn guess_fetched(&mut self, core: usize, into: usize) -> Option<Source> {
        let of = &mut self.fetched[core][into];
        of.asked += 1;
        *of.last.get(mix(of.asked) as usize % of.last.len().max(1))?
    }

    /// A step was simulated: what it was given, whether by its own node if by memory, and how long
    /// it took, ns, and how many lines were written back.
    pub fn note(
        &mut self,
        line: u64,
        alike: Alike,
        served: Served,
        is_local: bool,
        (ns, written): (f64, u32),
    ) {
        let Class::Chosen(class) = self.class(line) else { return };
        let place = match served.source {
            Source::Cache(level) => usize::from(level).min(LEVELS - 1),
            Source::Transfer { .. } => TRANSFER,
            Source::Memory if is_local => LOCAL,
            Source::Memory => REMOTE,
        };
        let given = Given { served, place, ns, written };
        let seen = &mut self.seen[class as usize];
        seen.steps += 1;
        seen.latency_ns += ns;
        let known = self.known.entry(alike).or_default();
        if let Some(guess) = known.any(Some(class)) {
            seen.errors[place] += 1.0;
            seen.errors[guess.place] -= 1.0;
            seen.latency_error_ns += ns - guess.ns;
        }
        known.note(class, given);
    }

    /// The intervals. `stalled_ns` is how long the thread with the longest time has stalled.
    pub fn margins(&self, total: &Counts, stalled_ns: f64) -> Margins {
        let estimated = self.estimated as f64;
        let of = |place: usize| self.half(|class| class.errors[place]);
        let mut hits = [0.0; LEVELS];
        (1..LEVELS).for_each(|level| hits[level] = of(level));
        let simulated: u64 = self.seen.iter().map(|class| class.steps).sum();
        let latency: f64 = self.seen.iter().map(|class| class.latency_ns).sum();
        let all = latency * (1.0 + estimated / simulated.max(1) as f64);
        let relative =
            if all > 0.0 { self.half(|class| class.latency_error_ns) / all } else { 0.0 };
        Margins {
            sampled: Sampled::Sets {
                classes: self.seen.len() as u64,
                of: self.kinds.len() as u64,
                estimated: estimated / total.touched.max(1) as f64,
            },
            hits,
            transfers: of(TRANSFER),
            local: of(LOCAL),
            remote: of(REMOTE),
            time_ns: stalled_ns * relative,
        }
    }

    /// Half the interval of a sum over all steps that were estimated, from its error in each chosen
    /// class: the errors of as many classes as these steps would fill are those of single classes
    /// and, in all of them, that of their mean.
    fn half(&self, error: impl Fn(&Seen) -> f64) -> f64 {
        let k = self.seen.len() as f64;
        let steps: f64 = self.seen.iter().map(|class| class.steps as f64).sum();
        if steps == 0.0 {
            return 0.0;
        }
        let variance = self.seen.iter().map(|class| error(class).powi(2)).sum::<f64>() / k;
        let others = self.estimated as f64 / (steps / k);
        student(k) * (variance * (others + others * others / k)).sqrt()
    }
}

/// The finaliser of MurmurHash3 (Appleby, public domain).
pub fn mix(value: u64) -> u64 {
    let mut h = value ^ 0x9e37_79b9_7f4a_7c15;
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Topology;

    fn machine(spec: &str) -> Machine {
        Machine::new(&Topology::from_synthetic(spec).unwrap(), "it").unwrap()
    }

    #[test]
    fn classes_are_what_all_caches_have_in_common() {
        let spec = "pack:1 numa:1(memory=1GiB) l2:1(size=256KiB) core:2 l1d:1(size=32KiB) pu:1";
        let machine = machine(spec);
        assert_eq!(classes_of(&machine), 64);
        let sets = Sets::new(&machine, 8).unwrap();
        let simulated: Vec<u64> = (0..64).filter(|line| sets.has(*line)).collect();
        assert_eq!((sets.seen.len(), simulated.len()), (8, 10), "and the borders of a page");
        assert_eq!(sets.weight(simulated[1]), 8);
        assert!([0, 63].iter().all(|edge| simulated.contains(edge) && sets.weight(*edge) == 1));
        assert_eq!(Sets::new(&machine, 1024).unwrap().seen.len(), 4, "never fewer");
        assert!(Sets::new(&machine, 1).is_none());
    }

    #[test]
    fn classes_that_agree_leave_no_doubt_and_others_do() {
        let spec = "pack:1 numa:1(memory=1GiB) core:2 l1d:1(size=32KiB) pu:1";
        let machine = machine(spec);
        let total = Counts { touched: 100, ..Counts::default() };
        let run = |differ: bool| {
            let mut sets = Sets::new(&machine, 16).unwrap();
            let served =
                |hit| Served::at(if hit { Source::Cache(1) } else { Source::Memory }, false);
            let alike = |site| Alike { thread: 0, site, writes: false, coming: Coming::Own };
            let (chosen, others): (Vec<u64>, Vec<u64>) = (1..63).partition(|line| sets.has(*line));
            for (k, line) in chosen.into_iter().enumerate() {
                for n in 0..10 {
                    sets.note(line, alike(1), served(!differ || n % 4 < k), true, (1.0, 0));
                }
            }
            for line in others {
                assert!(sets.estimate(line, alike(1)).is_some());
                assert!(sets.estimate(line, alike(2)).is_none(), "an unknown instruction");
            }
            sets.margins(&total, 10.0)
        };
        assert_eq!(run(false).hits[1], 0.0);
        assert!(run(true).hits[1] > 1.0 && run(true).local > 1.0);
    }
}

//! What to do about objects that are fetched from afar, or all from one controller.
//!
//! The patterns are MemProf's (section 2.1, and its four cases in 5.2 to 5.5). Each piece of advice
//! names the object, what was seen, and what it is predicted to give: the share of all accesses
//! that would be local, or the load of the busiest controller. Nothing is said of objects that are
//! small or little used, nor where next to nothing would be gained. Neighbours: `objects` has the
//! facts, `teams` the threads that belong together, `words` the sentences.

use crate::memory::grid::{Grid, Weighed};
use crate::memory::nodes::Where;
use crate::memory::objects::ObjectUse;
use crate::memory::teams::Teams;
use crate::memory::words;
use serde::Serialize;
use std::cmp::Reverse;
use ts_rs::TS;

/// Fewer accesses than this say nothing, nor do fewer hits of samples.
const MIN_ACCESSES: u64 = 5000;
const MIN_MISSED: u64 = 500;
const MIN_HITS: u64 = 20;
/// Smaller objects stay in a core's caches; where it is known what misses these, only single pages
/// are left out.
const MIN_BYTES: u64 = 64 << 10;
const MIN_BYTES_MISSED: u64 = 16 << 10;
/// Share of all accesses below which an object is idle.
const MIN_SHARE: f64 = 0.02;
/// Share of all accesses that have to become local, or of the busiest controller's load that has to
/// go, to be worth a word.
const MIN_GAIN: f64 = 0.02;
const MIN_LOAD_GAIN: f64 = 0.05;
/// Share of an object's accesses that counts as nearly all, and as hardly any.
const NEARLY_ALL: f64 = 0.9;
const HARDLY_ANY: f64 = 0.1;
/// Share of an object's accesses that its busiest node of the moment makes, and that one node makes
/// over the whole run, where nodes take turns.
const AT_A_TIME: f64 = 0.8;
const OVER_ALL: f64 = 0.7;
/// Share of an object's accesses that others must make than the thread that touched it first, if
/// what that did is to be taken for filling it.
const MIN_AFTER_SET_UP: f64 = 0.6;
/// A pattern holds for at least this share of an object's accesses.
const MOSTLY: f64 = 0.6;
/// Share of writes by others than the first toucher, and of all writes, up to which an object is
/// mostly read.
const FEW_WRITES_BY_OTHERS: f64 = 0.02;
const FEW_WRITES: f64 = 0.25;
/// A controller is loaded when it serves this many times its part.
const LOADED: f64 = 1.5;
/// Share of all accesses of a hot object.
const HOT: f64 = 0.05;
/// How near spreading whole objects has to come to equal loads.
const NEAR_EQUAL: f64 = 1.25;
/// Part of a node's memory that copies may take.
const ROOM_FOR_COPIES: f64 = 0.5;
/// Most pieces of advice.
const MAX: usize = 12;

/// What pattern advice is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum DataPattern {
    /// Threads on different nodes use data of their own on the same pages (MemProf, Psearchy).
    Packed,
    /// Allocated or touched first on one node, used from another.
    RemoteAfterAllocation,
    /// Used by several nodes, one after the other.
    Alternating,
    /// Read by several nodes at the same time, hardly written (MemProf, FaceRec).
    ReadByAll,
    /// Its users form teams that are on several nodes (MemProf, Apache).
    SharersApart,
    /// Used by several nodes at the same time, all from one loaded controller (MemProf,
    /// Streamcluster).
    OneController,
    /// Several such objects on one node.
    HotObjects,
}

/// What advice is predicted to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum GainOf {
    /// Share of all accesses that are local.
    Local,
    /// Share of all accesses that the busiest controller serves.
    BusiestController,
}

/// A piece of advice.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct DataAdvice {
    /// `m1` for the first.
    pub id: String,
    /// The pattern.
    pub pattern: DataPattern,
    /// In a few words.
    pub title: String,
    /// Names of the objects, the first first.
    pub objects: Vec<String>,
    /// Row of the first in the table of objects; `None` where it is not known.
    pub object_row: Option<u32>,
    /// Place of the first in `MemoryUse::objects`.
    pub object_place: u32,
    /// Share of all accesses that are to them, 0 to 1.
    pub share: f64,
    /// What was seen, a sentence without its full stop.
    pub evidence: String,
    /// What to do, sentences.
    pub advice: String,
    /// What is predicted to change.
    pub gain_of: GainOf,
    /// Now, 0 to 1.
    pub before: f64,
    /// With it, 0 to 1.
    pub after: f64,
    /// The prediction in words, a sentence without its full stop.
    pub gain: String,
    /// All of it.
    pub text: String,
}

/// What advice is found from.
pub(crate) struct Facts<'a> {
    pub grid: &'a Grid<'a>,
    pub place: &'a Where,
    /// Most accesses first.
    pub objects: &'a [ObjectUse],
    pub teams: Option<&'a Teams>,
    /// Share of all accesses that are local.
    pub local: f64,
    /// Share of all accesses that each node serves.
    pub loads: &'a [f64],
    pub all: u64,
    pub estimated: bool,
    /// In words; `None` for threads of one process.
    pub processes: &'a [Option<u32>],
}

/// What was found for an object.
pub(crate) struct Found {
    pub pattern: DataPattern,
    /// Places in the list of objects.
    pub objects: Vec<usize>,
    pub before: f64,
    pub after: f64,
}

/// All advice, the one with the largest gain first.
pub(crate) fn advice(facts: &Facts<'_>) -> Vec<DataAdvice> {
    if facts.place.nodes() < 2 || facts.all == 0 {
        return Vec::new();
    }
    let mut found: Vec<Found> = Vec::new();
    let mut rest: Vec<usize> = Vec::new();
    for (number, object) in facts.objects.iter().enumerate().filter(|(_, o)| facts.matters(o)) {
        match facts.alone(number, object) {
            Some(one) => match found.iter_mut().find(|f| joins(f, &one)) {
                Some(known) => {
                    known.after += one.after - one.before;
                    known.objects.extend(one.objects);
                }
                None => found.push(one),
            },
            None => rest.push(number),
        }
    }
    // What is used by one node is where it should be.
    rest.retain(|&number| {
        let object = &facts.objects[number];
        object.part(object.most) < NEARLY_ALL
    });
    found.extend(facts.controllers(&rest, &facts.loads_with(&found)));
    found.retain(|found| found.gain() >= found.least());
    found.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
    found.truncate(MAX);
    let finish = |(number, found): (usize, &Found)| words::finish(facts, number, found);
    found.iter().enumerate().map(finish).collect()
}

/// Teams are brought together once, whatever they share.
fn joins(known: &Found, new: &Found) -> bool {
    known.pattern == DataPattern::SharersApart && new.pattern == known.pattern
}

impl Found {
    pub(crate) fn gain_of(&self) -> GainOf {
        match self.pattern {
            DataPattern::OneController | DataPattern::HotObjects => GainOf::BusiestController,
            _ => GainOf::Local,
        }
    }

    fn gain(&self) -> f64 {
        (self.after - self.before).abs()
    }

    fn least(&self) -> f64 {
        match self.gain_of() {
            GainOf::Local => MIN_GAIN,
            GainOf::BusiestController => MIN_LOAD_GAIN,
        }
    }
}

impl Facts<'_> {
    /// Whether an object is large and used enough to say something of it.
    fn matters(&self, object: &ObjectUse) -> bool {
        let missed = self.grid.weighed == Weighed::Missed;
        let (accesses, bytes) = match missed {
            true => (MIN_MISSED, MIN_BYTES_MISSED),
            false => (MIN_ACCESSES, MIN_BYTES),
        };
        let seen = !self.estimated || object.hits >= MIN_HITS;
        let share = object.total as f64 / self.all as f64;
        seen && share >= MIN_SHARE && object.total >= accesses && object.bytes() >= bytes
    }

    /// Advice that is about one object alone, and makes its accesses local.
    fn alone(&self, number: usize, object: &ObjectUse) -> Option<Found> {
        let remote = 1.0 - object.part(object.local);
        if remote < HARDLY_ANY {
            return None;
        }
        let one = |pattern, local: u64| {
            let more = local.saturating_sub(object.local) as f64 / self.all as f64;
            let (before, after) = (self.local, (self.local + more).min(1.0));
            Some(Found { pattern, objects: vec![number], before, after })
        };
        if object.part(object.packed) >= MOSTLY {
            return one(DataPattern::Packed, object.local.max(object.packed));
        }
        // What filled it need not count: it is over when the others begin.
        let after_set_up = object.most_by_others as f64 >= NEARLY_ALL * object.by_others as f64
            && object.part(object.by_others) >= MIN_AFTER_SET_UP;
        if object.part(object.most) >= NEARLY_ALL || after_set_up {
            return one(DataPattern::RemoteAfterAllocation, object.most);
        }
        if let Some(teams) = self.teams {
            let team = |page: &u32| teams.of_page[*page as usize].map_or(0, |(_, weight)| weight);
            let of_teams: u64 = object.pages.iter().map(team).sum();
            if object.part(of_teams) >= MOSTLY {
                return one(DataPattern::SharersApart, of_teams.max(object.local));
            }
        }
        let alternates = object.part(object.most_by_stretch) >= AT_A_TIME;
        if alternates && object.part(object.most) <= OVER_ALL {
            return one(DataPattern::Alternating, object.most_by_stretch);
        }
        let read_mostly = object.part_of_counts(object.writes_by_others) <= FEW_WRITES_BY_OTHERS
            && object.part_of_counts(object.writes) <= FEW_WRITES;
        let room =
            |bytes: &u64| *bytes == 0 || object.bytes() as f64 <= ROOM_FOR_COPIES * *bytes as f64;
        if read_mostly && self.place.bytes.iter().all(room) {
            return one(DataPattern::ReadByAll, object.total);
        }
        None
    }

    /// Objects to be spread or interleaved, of those that several nodes use at the same time, if
    /// a controller is loaded when all else is done (`loads`) and they lie on its node.
    fn controllers(&self, rest: &[usize], loads: &[f64]) -> Vec<Found> {
        let nodes = loads.len();
        let busiest = (0..nodes).max_by(|a, b| loads[*a].total_cmp(&loads[*b]));
        let Some(busiest) = busiest.filter(|&node| loads[node] * nodes as f64 >= LOADED) else {
            return Vec::new();
        };
        let there = |object: &ObjectUse| object.part(object.served[busiest]) >= MOSTLY;
        let share = |number: &usize| self.objects[*number].total as f64 / self.all as f64;
        let on_it = rest.iter().copied().filter(|&number| there(&self.objects[number]));
        let hot: Vec<usize> = on_it.filter(|number| share(number) >= HOT).collect();
        let before = loads[busiest];
        let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        let mut spread = self.without(loads, &hot);
        for (number, node) in self.spread_over(&hot, &spread.clone()) {
            spread[node] += share(&number);
        }
        if hot.len() > 1 && most(&spread) * nodes as f64 <= NEAR_EQUAL {
            let after = most(&spread);
            return vec![Found { pattern: DataPattern::HotObjects, objects: hot, before, after }];
        }
        let interleaved = |number: usize| {
            let mut loads = self.without(loads, &[number]);
            let part = share(&number) / nodes as f64;
            loads.iter_mut().for_each(|load| *load += part);
            let after = most(&loads);
            Found { pattern: DataPattern::OneController, objects: vec![number], before, after }
        };
        hot.into_iter().map(interleaved).collect()
    }

    /// Loads when what was found makes accesses local.
    fn loads_with(&self, found: &[Found]) -> Vec<f64> {
        let mut loads = self.loads.to_vec();
        for &number in found.iter().flat_map(|found| &found.objects) {
            loads = self.without(&loads, &[number]);
            for (load, used) in loads.iter_mut().zip(&self.objects[number].used) {
                *load += *used as f64 / self.all as f64;
            }
        }
        loads
    }

    /// Loads without these objects.
    fn without(&self, loads: &[f64], objects: &[usize]) -> Vec<f64> {
        let mut loads = loads.to_vec();
        for &number in objects {
            for (load, served) in loads.iter_mut().zip(&self.objects[number].served) {
                *load -= *served as f64 / self.all as f64;
            }
        }
        loads
    }

    /// The node for each of these objects, by loads without them.
    pub(crate) fn spread_over(&self, objects: &[usize], others: &[f64]) -> Vec<(usize, usize)> {
        let mut loads = others.to_vec();
        let mut order = objects.to_vec();
        order.sort_by_key(|&number| Reverse(self.objects[number].total));
        let mut nodes = Vec::new();
        for number in order {
            let least = (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b]));
            let node = least.unwrap_or(0);
            loads[node] += self.objects[number].total as f64 / self.all as f64;
            nodes.push((number, node));
        }
        nodes
    }

    /// Loads without these objects.
    pub(crate) fn loads_without(&self, objects: &[usize]) -> Vec<f64> {
        self.without(self.loads, objects)
    }
}

impl ObjectUse {
    /// Share of loads and stores, whatever they count.
    pub(crate) fn part_of_counts(&self, count: u64) -> f64 {
        let all = self.reads.saturating_add(self.writes);
        if all == 0 { 0.0 } else { count as f64 / all as f64 }
    }
}

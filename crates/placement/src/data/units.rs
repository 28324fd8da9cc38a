//! Pages of an object that are used alike, taken together: what data is decided for.
//!
//! Two pages are alike when the same thread touched them first, and their accesses are spread over
//! threads and stretches of time in the same proportions, as far as a few steps tell. Coarser
//! steps are taken until there are few enough units, so that 10^6 pages take little longer than to
//! read them. A unit with much of all accesses is split, so that it can be spread. Neighbour:
//! `model.rs` takes the accesses of a unit to be spread evenly over its pages.

use crate::data::usage::{DataAccess, DataUse};
use std::collections::{BTreeMap, HashMap};

/// Steps by which proportions are told apart, the finest first.
const STEPS: [f64; 4] = [32.0, 8.0, 2.0, 1.0];
/// More units than this are worth coarser steps.
const MAX_UNITS: usize = 4096;
/// No unit has more than this part of all accesses, unless a page has.
const MAX_PART: f64 = 1.0 / 128.0;

/// Accesses of a thread in a stretch that pass its private caches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Use {
    pub thread: u32,
    pub stretch: u32,
    pub reaching: f64,
}

/// Pages that go together.
#[derive(Clone, PartialEq, Debug)]
pub struct Unit {
    /// Indexes into [`DataUse::pages`].
    pub pages: Vec<u32>,
    /// The thread that touched them first.
    pub touched_by: Option<u32>,
    /// Whether no plan can name them.
    pub rest: bool,
    /// Ordered by thread and stretch.
    pub uses: Vec<Use>,
    /// Sum of them.
    pub reaching: f64,
}

/// The object, who touched first, and parts of the accesses by thread and by stretch.
type Alike = (u32, Option<u32>, Vec<(u32, u32)>, Vec<(u32, u32)>);

/// Accesses that reach memory, by thread and stretch.
type Sums = BTreeMap<(u32, u32), f64>;

/// The units of all pages.
pub fn units(usage: &DataUse) -> Vec<Unit> {
    let mut found = Vec::new();
    for steps in STEPS {
        found = with_steps(usage, steps);
        if found.len() <= MAX_UNITS {
            break;
        }
    }
    found
}

fn with_steps(usage: &DataUse, steps: f64) -> Vec<Unit> {
    let all: f64 = usage.accesses.iter().map(|access| access.reaching).sum();
    let mut open: HashMap<Alike, usize> = HashMap::new();
    let mut units: Vec<(Unit, Sums)> = Vec::new();
    for accesses in usage.by_page() {
        let page = accesses[0].page;
        let at = usage.pages[page as usize];
        let by_thread = parts(accesses, steps, |access| access.thread);
        let by_stretch = parts(accesses, steps / 2.0, |access| access.stretch);
        let alike = (at.object, at.touched_by, by_thread, by_stretch);
        let reaching: f64 = accesses.iter().map(|access| access.reaching).sum();
        let room = |unit: &usize| units[*unit].0.reaching + reaching <= all * MAX_PART;
        let unit = match open.get(&alike).copied().filter(room) {
            Some(unit) => unit,
            None => {
                let rest = !usage.objects[at.object as usize].can_be_placed();
                let touched_by = at.touched_by;
                let unit = Unit { pages: vec![], touched_by, rest, uses: vec![], reaching: 0.0 };
                units.push((unit, BTreeMap::new()));
                open.insert(alike, units.len() - 1);
                units.len() - 1
            }
        };
        let (unit, uses) = &mut units[unit];
        unit.pages.push(page);
        unit.reaching += reaching;
        for access in accesses {
            *uses.entry((access.thread, access.stretch)).or_insert(0.0) += access.reaching;
        }
    }
    let finished = units.into_iter().map(|(unit, uses)| {
        let one = |((thread, stretch), reaching)| Use { thread, stretch, reaching };
        Unit { uses: uses.into_iter().map(one).collect(), ..unit }
    });
    finished.collect()
}

/// Each key's part of the accesses, in steps; keys with less than half a step are left out.
fn parts(accesses: &[DataAccess], steps: f64, key: impl Fn(&DataAccess) -> u32) -> Vec<(u32, u32)> {
    let mut sums: Vec<(u32, f64)> = Vec::new();
    for access in accesses {
        match sums.iter_mut().find(|(known, _)| *known == key(access)) {
            Some((_, sum)) => *sum += access.reaching,
            None => sums.push((key(access), access.reaching)),
        }
    }
    let all = sums.iter().map(|sum| sum.1).sum::<f64>().max(f64::MIN_POSITIVE);
    sums.sort_unstable_by_key(|sum| sum.0);
    let stepped = sums.into_iter().map(|(key, sum)| (key, (sum / all * steps).round() as u32));
    stepped.filter(|part| part.1 > 0).collect()
}

//! Which objects threads meet on more, or less, than before: what confirms a fix.
//!
//! Addresses change from run to run, and so do line numbers and sizes when a program is changed.
//! Objects are matched by what stays: memory and name, then the same without line number and
//! program, blocks of the same size first. Estimates count with their 95 % interval, and what could
//! be chance is called so. Neighbour: `report` words the result.

use crate::evidence::{has_enough_windows, told_by_hit};
use crate::overlap::{MIN_AT_ONCE, Overlap};
use profile::{Counted, EventRow, Mode, ObjectRow, OwnTime, Profile, Wanted};
use serde::Serialize;
use statistics::poisson;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use ts_rs::TS;
use types::{CommKind, Sharing};

/// Objects that are listed.
const MAX_OBJECTS: usize = 1000;
/// Fewer events than these are too few to say that they changed.
const MIN_EVENTS: f64 = 50.0;
/// What is left of something that is gone, at most.
const GONE: f64 = 0.05;
/// Changes by less than this factor are what threads that run in another order make.
const NOTABLE: f64 = 1.25;
/// The same of counts of one run each, which have no interval: four recordings of one program had
/// up to 4.1 times as many events on one line as each other (two threads, two processors).
const NOTABLE_EXACT: f64 = 5.0;

/// How the objects of two runs differ.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct ObjectChanges {
    /// Why amounts of the two runs do not compare; `None`: they do.
    pub incomparable: Option<Incomparable>,
    /// Whether amounts are per second of the program's own time instead of the whole run.
    pub per_second: bool,
    /// RAW and WAW events of each run, in the same unit.
    pub all: [EventCount; 2],
    /// Of these, on no known object.
    pub unknown: [f64; 2],
    /// Seconds that each program takes alone; `None` unless that is known of both.
    pub seconds: Option<[f64; 2]>,
    /// Most events in A or B first.
    pub list: Vec<ObjectChange>,
}

/// What makes amounts of two runs incomparable.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum Incomparable {
    /// One was recorded exactly, the other by samples.
    Modes,
    /// One counts in other blocks than the other.
    Blocks,
    /// The second run executed far less than the first.
    LessDone,
    /// One was recorded in too few windows to tell amounts.
    FewWindows,
    /// In one, threads hardly ran at the same time, but did in the other: the parts of the time in
    /// which they could. That one of them has fewer events [may be certain](Self::tells).
    Apart([f64; 2]),
}

impl Incomparable {
    /// Whether a change is certain all the same: threads that met more often as they ran at once
    /// more often did not do so because of that if there are fewer events.
    pub fn tells(self, change: Change) -> bool {
        let Incomparable::Apart([a, b]) = self else { return false };
        match change {
            Change::Gone | Change::Less => b >= a,
            Change::New | Change::More => a >= b,
            _ => false,
        }
    }
}

/// One object in both runs.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct ObjectChange {
    /// What kind of memory.
    pub region: String,
    /// Its name, see `ObjectRow`; that of B where it has one.
    pub name: String,
    /// Blocks and their bytes in A and in B.
    pub blocks: [u64; 2],
    /// Bytes likewise.
    pub bytes: [u64; 2],
    /// RAW and WAW events in A and in B.
    pub events: [EventCount; 2],
    /// Of these, false sharing.
    pub false_sharing: [EventCount; 2],
    /// What became of the events.
    pub change: Change,
    /// What became of the false sharing.
    pub false_change: Change,
}

/// A number of events with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, TS)]
pub struct EventCount {
    /// Events, of the run or per second.
    pub events: f64,
    /// The least that they may be.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// What shows them: samples, or counted events.
    pub hits: u64,
}

/// What became of an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Neither run has any.
    Nothing,
    /// Next to nothing is left.
    Gone,
    /// Surely fewer.
    Less,
    /// About as many.
    Same,
    /// Surely more.
    More,
    /// There was next to nothing before.
    New,
    /// There are too few events, or samples of them, to say.
    NotEnough,
}

/// How the objects differ; `None` unless both profiles know lines.
pub fn object_changes(a: &Profile, b: &Profile) -> Option<ObjectChanges> {
    let knows = |profile: &Profile| {
        matches!(profile.meta.parameters.counted, Counted::Detail | Counted::Reference)
    };
    if !knows(a) || !knows(b) {
        return None;
    }
    let per_second = seconds(a).is_some() && seconds(b).is_some() && (cut(a) || cut(b));
    let sides = [Side::of(a, per_second), Side::of(b, per_second)];
    let incomparable = incomparable(a, b);
    let mut list: Vec<ObjectChange> = matched(&sides[0].objects, &sides[1].objects)
        .into_iter()
        .map(|pair| change(pair, &sides, incomparable))
        .collect();
    let most = |c: &ObjectChange| c.events[0].events.max(c.events[1].events);
    list.sort_by(|x, y| most(y).total_cmp(&most(x)).then_with(|| x.name.cmp(&y.name)));
    list.truncate(MAX_OBJECTS);
    let all = [0, 1].map(|side: usize| sides[side].amount(sides[side].all));
    let unknown = [0, 1].map(|side: usize| sides[side].unknown as f64 * sides[side].scale);
    let seconds = seconds(a).zip(seconds(b)).map(|(a, b)| [a, b]);
    Some(ObjectChanges { incomparable, per_second, all, unknown, seconds, list })
}

/// Whether only a part of the program's run was recorded, as long as the user wanted.
fn cut(profile: &Profile) -> bool {
    let attached = profile.meta.sampled.as_ref().is_some_and(|sampled| sampled.attached);
    attached || profile.meta.exit_code.is_none()
}

fn seconds(profile: &Profile) -> Option<f64> {
    let own = profile.meta.own_time.map(|OwnTime { seconds, .. }| seconds);
    let real = (profile.meta.mode == Mode::Sampled).then_some(profile.meta.wall_seconds);
    own.or(real).filter(|seconds| *seconds > 0.0)
}

/// A run with a smaller part of the other's instructions did not get far enough to be compared.
const MIN_DONE: f64 = 0.25;

fn incomparable(a: &Profile, b: &Profile) -> Option<Incomparable> {
    let sampled = |profile: &Profile| profile.meta.mode == Mode::Sampled;
    let done = |profile: &Profile| profile.meta.totals.instructions as f64;
    if sampled(a) != sampled(b) {
        Some(Incomparable::Modes)
    } else if a.meta.parameters.block_bytes != b.meta.parameters.block_bytes {
        Some(Incomparable::Blocks)
    } else if done(b) > 0.0 && done(b) < MIN_DONE * done(a) && b.meta.exit_code != Some(0) {
        Some(Incomparable::LessDone)
    } else if ![a, b].into_iter().all(has_enough_windows) {
        Some(Incomparable::FewWindows)
    } else {
        ran_apart(a, b)
    }
}

/// Runs in which threads hardly ran at once do not compare with one in which they did so more than
/// four times as much.
const LESS: f64 = 0.25;

fn ran_apart(a: &Profile, b: &Profile) -> Option<Incomparable> {
    let [a, b] = [Overlap::of_all(a)?, Overlap::of_all(b)?];
    let (less, more) = (a.min(b), a.max(b));
    (less < MIN_AT_ONCE && less < LESS * more).then_some(Incomparable::Apart([a, b]))
}

/// Events with hits: (events, hits).
type Counts = (u64, u64);

/// The objects of a run.
struct Side {
    objects: Vec<Object>,
    all: Counts,
    unknown: u64,
    /// From events of the run to the unit that is compared.
    scale: f64,
    /// Hits that tell as much as one that is independent of all others.
    per_hit: f64,
    /// Events that a hit stands for where there was none.
    weight: f64,
    estimated: bool,
}

struct Object {
    row: ObjectRow,
    events: Counts,
    falsely: Counts,
}

impl Side {
    fn of(profile: &Profile, per_second: bool) -> Self {
        let moving = |e: &&EventRow| matches!(e.kind, CommKind::Raw | CommKind::Waw);
        let mut found: BTreeMap<(u32, String), Object> = BTreeMap::new();
        let texts: HashMap<u64, (&str, &str)> = profile
            .lines
            .iter()
            .map(|line| (line.line, (line.region.as_str(), line.object.as_str())))
            .collect();
        let rows: Vec<ObjectRow> = profile.objects.iter().map(by_who_wanted).collect();
        let (mut all, mut unknown) = ((0, 0), 0_u64);
        for event in profile.events.iter().filter(moving) {
            add(&mut all, event);
            let row = match rows.get(event.object as usize) {
                Some(row) if event.object > 0 => row.clone(),
                // Without objects, what lies in the line.
                _ => row_of_line(texts.get(&event.line).copied().unwrap_or_default()),
            };
            if row.region.is_empty() || row.region == "unknown" {
                unknown = unknown.saturating_add(event.count);
                continue;
            }
            let key = match event.object {
                0 => (0, format!("{} {}", row.region, row.name)),
                number => (number, String::new()),
            };
            let (events, falsely) = Default::default();
            let object = found.entry(key).or_insert(Object { row, events, falsely });
            add(&mut object.events, event);
            if event.sharing == Sharing::False {
                add(&mut object.falsely, event);
            }
        }
        let mut objects: Vec<Object> = found.into_values().collect();
        objects.sort_by_key(|object| Reverse(object.events.0));
        let scale = seconds(profile).filter(|_| per_second).map_or(1.0, |seconds| 1.0 / seconds);
        let whole = profile.meta.windows.as_ref().is_some_and(|windows| windows.whole >= 1.0);
        let estimated = profile.meta.mode != Mode::Exact && !whole;
        let per_hit = told_by_hit(profile);
        let weight = match all.1 {
            0 => profile.meta.sampled.as_ref().map_or(1.0, |sampled| sampled.hit_events),
            hits => all.0 as f64 / (hits as f64 * per_hit).max(1.0),
        };
        Self { objects, all, unknown, scale, per_hit, weight, estimated }
    }

    fn amount(&self, (count, hits): Counts) -> EventCount {
        let events = count as f64 * self.scale;
        if !self.estimated {
            return EventCount { events, low: events, high: events, hits: count };
        }
        let independent = hits as f64 * self.per_hit;
        let weight = if count == 0 { self.weight } else { count as f64 / independent.max(1.0) };
        let (low, high) = poisson(independent.round() as u64);
        let end = |hits: f64| hits * weight * self.scale;
        EventCount { events, low: end(low).min(events), high: end(high).max(events), hits }
    }
}

/// The object, named by who wanted it.
fn by_who_wanted(row: &ObjectRow) -> ObjectRow {
    let Wanted { name, callers, .. } = row.wanted();
    ObjectRow { name, callers: callers.join("; "), wrappers: 0, ..row.clone() }
}

fn add(sum: &mut Counts, event: &EventRow) {
    sum.0 = sum.0.saturating_add(event.count);
    sum.1 = sum.1.saturating_add(event.hits);
}

/// What lies in a line, first symbol only: `a+0x40..0x80 (app): [8]; b (app)` is `a (app)`.
fn row_of_line((region, text): (&str, &str)) -> ObjectRow {
    let first = text.split("; ").next().unwrap_or_default();
    let first = first.find("): ").map_or(first, |end| &first[..=end]);
    let name = match (first.find("+0x"), first.rfind(" (")) {
        (Some(offset), Some(file)) if offset < file => {
            format!("{}{}", &first[..offset], &first[file..])
        }
        _ => first.into(),
    };
    ObjectRow { region: region.into(), name, ..ObjectRow::default() }
}

/// Pairs of objects, by what stays when a program is built anew.
fn matched<'a>(a: &'a [Object], b: &'a [Object]) -> Vec<(Option<&'a Object>, Option<&'a Object>)> {
    let mut partner: Vec<Option<usize>> = vec![None; a.len()];
    let mut taken = vec![false; b.len()];
    let rules: [fn(&ObjectRow) -> String; 5] = [
        |row| format!("{}\n{}\n{}\n{}", row.region, row.name, row.callers, size_class(row)),
        |row| format!("{}\n{}\n{}", row.region, row.name, size_class(row)),
        |row| format!("{}\n{}\n{}", row.region, lasting(&row.name), size_class(row)),
        |row| format!("{}\n{}", row.region, row.name),
        |row| format!("{}\n{}", row.region, lasting(&row.name)),
    ];
    for rule in rules {
        let mut waiting: HashMap<String, Vec<usize>> = HashMap::new();
        for place in (0..b.len()).rev().filter(|&place| !taken[place]) {
            waiting.entry(rule(&b[place].row)).or_default().push(place);
        }
        for place in (0..a.len()).filter(|&place| !a[place].row.name.is_empty()) {
            if partner[place].is_some() {
                continue;
            }
            if let Some(other) = waiting.get_mut(&rule(&a[place].row)).and_then(Vec::pop) {
                partner[place] = Some(other);
                taken[other] = true;
            }
        }
    }
    // Memory without a name is one object of each region.
    for place in (0..a.len()).filter(|&place| a[place].row.name.is_empty()) {
        let like = |&other: &usize| !taken[other] && b[other].row.name.is_empty();
        let same = |&other: &usize| b[other].row.region == a[place].row.region;
        partner[place] = (0..b.len()).filter(like).find(same);
        partner[place].into_iter().for_each(|other| taken[other] = true);
    }
    let of_a = a.iter().zip(&partner).map(|(object, other)| (Some(object), other.map(|o| &b[o])));
    let of_b = b.iter().zip(&taken).filter(|(_, taken)| !**taken).map(|(o, _)| (None, Some(o)));
    of_a.chain(of_b).collect()
}

/// About the same size: powers of two.
fn size_class(row: &ObjectRow) -> u32 {
    row.bytes.checked_div(row.blocks).map_or(0, |bytes| bytes.max(1).ilog2())
}

/// A name without the number of the line (`in f at a.c:7`) and the program (`counters (app)`).
fn lasting(name: &str) -> &str {
    let name = name.rfind(" (").map_or(name, |end| &name[..end]);
    match name.rsplit_once(':') {
        Some((place, line)) if line.bytes().all(|c| c.is_ascii_digit()) => place,
        _ => name,
    }
}

fn change(
    pair: (Option<&Object>, Option<&Object>),
    sides: &[Side; 2],
    incomparable: Option<Incomparable>,
) -> ObjectChange {
    let of = [pair.0, pair.1];
    let row = of[1].or(of[0]).map(|object| &object.row).expect("one of both");
    let amount = |side: usize, counts: fn(&Object) -> Counts| {
        sides[side].amount(of[side].map_or((0, 0), counts))
    };
    let events = [0, 1].map(|side| amount(side, |object| object.events));
    let false_sharing = [0, 1].map(|side| amount(side, |object| object.falsely));
    let judge = |[a, b]: [EventCount; 2]| match judge(a, b) {
        Change::Nothing => Change::Nothing,
        change if incomparable.is_none_or(|why| why.tells(change)) => change,
        _ => Change::NotEnough,
    };
    let size = |wanted: fn(&ObjectRow) -> u64| of.map(|o| o.map_or(0, |o| wanted(&o.row)));
    ObjectChange {
        region: row.region.clone(),
        name: row.name.clone(),
        blocks: size(|row| row.blocks),
        bytes: size(|row| row.bytes),
        events,
        false_sharing,
        change: judge(events),
        false_change: judge(false_sharing),
    }
}

/// What became of `a`, in the same unit as `b`.
fn judge(a: EventCount, b: EventCount) -> Change {
    let exact = [a, b].iter().all(|amount| amount.low == amount.high);
    let notable = if exact { NOTABLE_EXACT } else { NOTABLE };
    if a.hits == 0 && b.hits == 0 {
        Change::Nothing
    } else if (a.hits.max(b.hits) as f64) < MIN_EVENTS && !apart(a, b) {
        Change::NotEnough
    } else if b.high <= GONE * a.low {
        Change::Gone
    } else if a.high <= GONE * b.low {
        Change::New
    } else if b.high * notable < a.low {
        Change::Less
    } else if a.high * notable < b.low {
        Change::More
    } else if exact || b.high < 2.0 * a.low && a.high < 2.0 * b.low {
        Change::Same
    } else {
        Change::NotEnough
    }
}

/// Whether estimates lie apart, few as their hits may be.
fn apart(a: EventCount, b: EventCount) -> bool {
    let estimated = a.low < a.events || b.low < b.events;
    estimated && (b.high * NOTABLE < a.low || a.high * NOTABLE < b.low)
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;

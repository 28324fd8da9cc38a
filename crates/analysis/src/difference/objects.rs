//! Which objects threads meet on more, or less, than before: what confirms a fix.
//!
//! Addresses change from run to run, and so do line numbers and sizes when a program is changed.
//! Objects are matched by what stays: memory and name, then the same without line number and
//! program, blocks of the same size first. Estimates count with their 95 % interval, and what could
//! be chance is called so. Neighbour: `report` words the result.

use crate::evidence::{has_enough_windows, told_by_hit};
use crate::overlap::{MIN_AT_ONCE, Overlap};
use profile::{Counted, EventRow, Mode, ObjectRow, OwnTime, Profile};
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
    /// which they could.
    Apart([f64; 2]),
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
        .map(|pair| change(pair, &sides, incomparable.is_some()))
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
        let (mut all, mut unknown) = ((0, 0), 0_u64);
        for event in profile.events.iter().filter(moving) {
            add(&mut all, event);
            let row = match profile.objects.get(event.object as usize) {
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
        let estimated = profile.meta.mode != Mode::Exact;
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
    incomparable: bool,
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
        _ if incomparable => Change::NotEnough,
        change => change,
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
mod tests {
    use super::*;
    use profile::{Windows, sample};
    use types::{Evidence, ThreadId};

    fn heap(name: &str, blocks: u64, bytes: u64) -> ObjectRow {
        let (region, name) = ("heap".into(), name.into());
        ObjectRow { region, name, blocks, bytes, ..ObjectRow::default() }
    }

    fn variable(name: &str) -> ObjectRow {
        ObjectRow { region: "static".into(), name: name.into(), ..ObjectRow::default() }
    }

    /// A profile with objects and their events, (true, false).
    fn profile(objects: &[(ObjectRow, u64, u64)]) -> Profile {
        let mut profile = sample::profile(sample::threads(3), vec![]);
        profile.meta.parameters.counted = Counted::Detail;
        for (number, (row, truly, falsely)) in (1..).zip(objects) {
            profile.objects.push(row.clone());
            for (sharing, count) in [(Sharing::True, *truly), (Sharing::False, *falsely)] {
                profile.events.push(EventRow {
                    line: u64::from(number) * 64,
                    from: ThreadId(1),
                    to: ThreadId(2),
                    kind: CommKind::Raw,
                    sharing,
                    from_site: 0,
                    to_site: 0,
                    count,
                    from_bytes: 1,
                    to_bytes: 1,
                    hits: 0,
                    evidence: Evidence::Exact,
                    object: number,
                    gap: None,
                    streamed: 0,
                });
            }
        }
        profile.events.retain(|event| event.count > 0);
        profile
    }

    /// The same from samples: a hit stands for 1000 events.
    fn sampled(objects: &[(ObjectRow, u64, u64)]) -> Profile {
        let mut profile = profile(objects);
        profile.meta.mode = Mode::Sampled;
        for event in &mut profile.events {
            (event.hits, event.count) = (event.count, event.count * 1000);
            let (low, high) = poisson(event.hits);
            let whole = profile::CommRow::whole(event.from, event.to, event.kind, event.count);
            let end = |hits: f64| (hits * 1000.0).round() as u64;
            let sampled = profile::Sampled { hits: event.hits, low: end(low), high: end(high) };
            profile.comm.push(profile::CommRow { sampled: Some(sampled), ..whole });
        }
        profile
    }

    fn said(a: &Profile, b: &Profile) -> Vec<(String, Change, Change)> {
        let found = object_changes(a, b).unwrap();
        found.list.into_iter().map(|o| (o.name, o.change, o.false_change)).collect()
    }

    #[test]
    fn a_fix_at_another_line_with_another_size_is_the_same_object() {
        let old = heap("in setup at app.c:30", 1, 320);
        let new = heap("in setup at app.c:33", 1, 512);
        let a = profile(&[(old, 10, 9000), (variable("queue (old)"), 500, 0)]);
        let b = profile(&[(variable("queue (new)"), 510, 0), (new, 12, 0)]);
        let expected = [
            ("in setup at app.c:33".into(), Change::Gone, Change::Gone),
            ("queue (new)".into(), Change::Same, Change::Nothing),
        ];
        assert_eq!(said(&a, &b), expected);
    }

    #[test]
    fn sites_in_one_function_keep_apart_by_line_and_by_size() {
        let small = |line: u32| heap(&format!("in f at a.c:{line}"), 10, 400);
        let large = |line: u32| heap(&format!("in f at a.c:{line}"), 1, 9000);
        let a = profile(&[(small(7), 0, 1000), (large(9), 2000, 0)]);
        let b = profile(&[(large(8), 2000, 0), (small(6), 0, 1000)]);
        assert!(said(&a, &b).iter().all(|(_, change, _)| *change == Change::Same));
        // A site that moved to where another one was.
        let b = profile(&[(small(9), 0, 1000), (large(11), 2000, 0)]);
        assert!(said(&a, &b).iter().all(|(_, change, _)| *change == Change::Same));
    }

    #[test]
    fn what_is_on_one_side_only_is_gone_or_new() {
        let a = profile(&[(variable("a (app)"), 0, 1000)]);
        let b = profile(&[(variable("b (app)"), 0, 1000), (variable("c (app)"), 0, 20)]);
        let expected = [
            ("a (app)".into(), Change::Gone, Change::Gone),
            ("b (app)".into(), Change::New, Change::New),
            ("c (app)".into(), Change::NotEnough, Change::NotEnough),
        ];
        assert_eq!(said(&a, &b), expected);
    }

    #[test]
    fn few_samples_do_not_tell() {
        let object = || variable("a (app)");
        let change = |a: u64, b: u64| {
            said(&sampled(&[(object(), 0, a)]), &sampled(&[(object(), 0, b)]))[0].2
        };
        assert_eq!(change(2, 1), Change::NotEnough);
        assert_eq!(change(20, 12), Change::NotEnough);
        assert_eq!(change(1000, 1010), Change::Same);
        assert_eq!(change(30, 2), Change::Less);
        assert_eq!(change(1000, 10), Change::Gone);
        assert_eq!(change(10, 1000), Change::New);
    }

    #[test]
    fn no_hit_in_b_is_no_proof_after_a_few_in_a() {
        let other = || (variable("b (app)"), 300, 0);
        let b = sampled(&[other()]);
        let of = |hits: u64| {
            let a = sampled(&[(variable("a (app)"), 0, hits), other()]);
            let found = object_changes(&a, &b).unwrap();
            found.list.into_iter().find(|o| o.name.starts_with('a')).unwrap().false_change
        };
        assert_eq!(of(3), Change::NotEnough);
        assert_eq!(of(20), Change::Less);
        assert_eq!(of(200), Change::Gone);
    }

    #[test]
    fn other_ways_of_recording_do_not_compare() {
        let rows = [(variable("a (app)"), 0, 1000)];
        let found = object_changes(&profile(&rows), &sampled(&rows)).unwrap();
        assert_eq!(found.incomparable, Some(Incomparable::Modes));
        assert_eq!(found.list[0].change, Change::NotEnough);
        let matrix = sample::profile(sample::threads(2), vec![]);
        assert_eq!(object_changes(&matrix, &profile(&rows)), None);
    }

    #[test]
    fn runs_whose_threads_never_met_do_not_compare() {
        let on = |pus: [u32; 2]| {
            let mut profile = profile(&[(variable("a (app)"), 0, 1000)]);
            let (cpu_ns, waited_ns) = match pus[0] == pus[1] {
                true => (500_000_000, 500_000_000),
                false => (1_000_000_000, 0),
            };
            let row = |thread: u32| profile::RunningRow {
                slice: 0,
                thread: types::ThreadId(thread),
                pu: pus[thread as usize],
                cpu_ns,
                waited_ns,
            };
            profile.running = vec![row(0), row(1)];
            profile
        };
        let (at_once, in_turn) = (on([0, 1]), on([0, 0]));
        let found = object_changes(&at_once, &in_turn).unwrap();
        assert!(matches!(found.incomparable, Some(Incomparable::Apart([1.0, 0.0]))), "{found:?}");
        assert_eq!(found.list[0].change, Change::NotEnough);
        assert_eq!(object_changes(&at_once, &at_once).unwrap().incomparable, None);
        assert_eq!(object_changes(&in_turn, &in_turn).unwrap().incomparable, None);
    }

    #[test]
    fn too_few_windows_do_not_compare() {
        let of = |events, too_short, whole| {
            let mut profile = sampled(&[(variable("a (app)"), 0, events)]);
            profile.meta.mode = Mode::Windows;
            profile.meta.windows = Some(Windows {
                asked: "2x".into(),
                windows: 9,
                too_short,
                observed: 0.6,
                whole,
                warm_up_ns: 1_000_000,
                missed: 0.0,
                alike: 0.0,
                false_share: None,
            });
            profile
        };
        let of_both = |a: &Profile, b: &Profile| object_changes(a, b).unwrap();
        let few = of_both(&of(1000, false, 0.0), &of(100, true, 0.1));
        assert_eq!(few.incomparable, Some(Incomparable::FewWindows));
        assert_eq!(few.list[0].change, Change::NotEnough);
        let mostly_whole = of_both(&of(1000, false, 0.0), &of(100, true, 0.55));
        assert_eq!(mostly_whole.incomparable, None);
        assert_eq!(mostly_whole.list[0].change, Change::Less);
    }

    #[test]
    fn without_objects_the_names_of_lines_do() {
        let name = |text| row_of_line(("static", text)).name;
        assert_eq!(name("a+0x40..0x80 (app): [8], [9]; b (app)"), "a (app)");
        assert_eq!(name("counters (app)"), "counters (app)");
        let mut a = profile(&[(variable("a (app)"), 0, 1000)]);
        a.events[0].object = 0;
        let (region, object) = ("static".into(), "a+0x0..0x40 (app)".into());
        a.lines = vec![profile::LineRow { region, object, ..profile::LineRow::of(&a.events) }];
        let found = object_changes(&a, &profile(&[])).unwrap();
        assert_eq!((found.list[0].name.as_str(), found.unknown), ("a (app)", [0.0; 2]));
    }
}

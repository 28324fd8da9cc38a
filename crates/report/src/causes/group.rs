//! Puts events together that have one cause.
//!
//! Problem: events come by line, thread pair, kind and pair of sites; a person wants one finding
//! for one fight, be it over an array of many lines, read here and overwritten there. Approach: the
//! events of each line are data or synchronisation; the data of a line is shared truly or falsely
//! by the majority of its events; lines of one object on which the same code meets are one group
//! (union-find over the places of the code), and what is small beside another group of its object
//! joins that. Pure. Neighbours: `code` says where sites are, `causes` makes findings of groups.

mod bytes;
mod elements;
mod guarded;
mod unite;

use crate::causes::code::Origin;
use crate::causes::constants::{BACK_AND_FORTH, HOT_LINES, MAIN_PLACE, SMALL};
use crate::causes::origins::Origins;
use crate::causes::side::Side;
use crate::causes::synchronization::Sync;
use crate::lines::moves_a_line;
use analysis::Gaps;
use profile::{BlockRow, EventRow, Profile};

use elements::Elements;
use guarded::guarded;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use types::{CommKind, Sharing};
pub(super) use unite::joined_by_object;
use unite::unite;

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;

/// How threads share what a group is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// Mostly different bytes of one line.
    False,
    /// Mostly the same bytes.
    True,
    /// Words of synchronisation.
    Sync(Sync),
    /// It is not known which bytes.
    Unknown,
}

/// Events with one cause.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub class: Class,
    /// Events by row of the table of objects.
    pub objects: BTreeMap<u32, u64>,
    /// The same of data that a lock guards elsewhere, which is neither in `lines` nor in `sides`.
    pub guarded: BTreeMap<u32, u64>,
    pub events: u64,
    pub falsely: u64,
    /// Of these, between threads whose bytes lie apart.
    pub apart: u64,
    pub hits: u64,
    /// Events by pair of threads, the lower id first.
    pub pairs: BTreeMap<(u32, u32), u64>,
    /// What threads synchronise by, with the events of each.
    pub syncs: BTreeMap<Sync, u64>,
    /// Events on each known line.
    pub lines: BTreeMap<u64, u64>,
    /// What the code at each origin does.
    pub sides: BTreeMap<u32, Side>,
    /// Events of data between synchronisation and other data on its line.
    pub beside: u64,
    /// Threads that take from others.
    pub takers: BTreeSet<u32>,
    /// How long before the transfers their lines were written.
    pub gaps: Gaps,
    /// Events of which it was seen whether they followed another one, and those that did.
    pub streams: (u64, u64),
    /// The same of those that read.
    pub read_streams: (u64, u64),
}

impl Group {
    fn new(class: Class) -> Self {
        let (objects, guarded, lines, sides, takers) = Default::default();
        let (pairs, syncs, gaps) = Default::default();
        let (events, falsely, apart, hits, beside) = Default::default();
        let (streams, read_streams) = Default::default();
        Self {
            class,
            objects,
            guarded,
            events,
            falsely,
            apart,
            hits,
            pairs,
            syncs,
            lines,
            sides,
            beside,
            takers,
            gaps,
            streams,
            read_streams,
        }
    }

    /// The row of the object with the most events; 0 = not known.
    pub(super) fn object(&self) -> u32 {
        self.objects.iter().rev().max_by_key(|(_, events)| **events).map_or(0, |(row, _)| *row)
    }

    /// The sides that give more than a fiftieth of the events: who wrote once, like the thread that
    /// set it up, is no second writer.
    fn givers(&self) -> impl Iterator<Item = &Side> {
        let least = self.events / 50;
        self.sides.values().filter(move |side| side.gives > least)
    }

    /// The threads that write.
    pub(super) fn writers(&self) -> BTreeSet<u32> {
        self.givers().flat_map(|side| side.writers.keys().copied()).collect()
    }

    /// Whether each line that is known is written by one thread only, like data that each thread
    /// has for itself.
    pub(super) fn has_one_writer_each(&self) -> bool {
        let mut writer_of: BTreeMap<u64, u32> = BTreeMap::new();
        let mut given = self.givers().flat_map(|side| side.given.keys()).peekable();
        given.peek().is_some()
            && given.all(|(line, thread)| *writer_of.entry(*line).or_insert(*thread) == *thread)
    }

    /// Whether most of many lines go back and forth between writers of the same bytes, as those of
    /// a large histogram do, rather than from one that makes what is there to one that uses it.
    /// Threads that take line after line do not fight: they come when the other one is done.
    pub(super) fn is_fought_over(&self) -> bool {
        let lines = self.hot_lines() as u64;
        // A write to a line that was read right before always follows.
        let (seen, followed) = match 4 * self.read_streams.0 >= self.streams.0 {
            true => self.read_streams,
            false => self.streams,
        };
        if lines == 0 || self.events / lines < BACK_AND_FORTH || 2 * followed > seen {
            return false;
        }
        let mut given: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for (key, mask) in self.sides.values().flat_map(|side| &side.given) {
            *given.entry(*key).or_default() |= mask;
        }
        let by_line: Vec<_> = given.into_iter().collect();
        let several = by_line.chunk_by(|(a, _), (b, _)| a.0 == b.0).filter(|writers| {
            let common = |a: u64, b: u64| (a & b).count_ones() * 2 >= a.count_ones().max(1);
            writers.windows(2).any(|two| common(two[0].1, two[1].1))
        });
        several.count() as u64 * 2 > lines
    }

    /// The fewest of the known lines that carry nearly all events there: threads come to others
    /// once, as to what is set up beside a lock.
    pub(super) fn hot_lines(&self) -> usize {
        let mut events: Vec<u64> = self.lines.values().copied().collect();
        events.sort_unstable_by_key(|events| std::cmp::Reverse(*events));
        let all: f64 = events.iter().map(|events| *events as f64).sum();
        let guarded: u64 = self.guarded.values().sum();
        if 2.0 * all < self.events.saturating_sub(guarded) as f64 {
            // Most of them are not known.
            return events.len();
        }
        let mut sum = 0.0;
        let carries = |events: &u64| {
            let before = sum;
            sum += *events as f64;
            before < all * HOT_LINES
        };
        events.iter().copied().take_while(carries).count()
    }

    /// Whether most takes of its lines are by atomic instructions.
    pub(super) fn is_by_atomics(&self, origins: &Origins) -> bool {
        let takes = |atomic: bool| -> u64 {
            let sides = self.sides.iter();
            let of_kind = sides.filter(|(origin, _)| origins.get(**origin).atomic == atomic);
            of_kind.map(|(_, side)| side.takes).sum()
        };
        takes(true) > takes(false)
    }

    /// The known line with the most events.
    pub(super) fn hottest(&self) -> Option<u64> {
        self.lines.iter().rev().max_by_key(|(_, events)| **events).map(|(line, _)| *line)
    }

    fn add(&mut self, one: &One<'_>) {
        let One { event, from, to, beside, same_bytes, .. } = *one;
        self.events = self.events.saturating_add(event.count);
        let pair = (event.from.0.min(event.to.0), event.from.0.max(event.to.0));
        *self.pairs.entry(pair).or_default() += event.count;
        if event.sharing == Sharing::False && !same_bytes {
            self.apart = self.apart.saturating_add(event.count);
        }
        self.hits += event.hits;
        self.gaps.add(event);
        let seen = if event.hits > 0 { event.hits } else { event.count };
        let add = |to: &mut (u64, u64)| *to = (to.0 + seen, to.1 + event.streamed.min(seen));
        add(&mut self.streams);
        if event.kind == CommKind::Raw {
            add(&mut self.read_streams);
        }
        if event.sharing == Sharing::False {
            self.falsely = self.falsely.saturating_add(event.count);
        }
        if beside {
            self.beside = self.beside.saturating_add(event.count);
        }
        *self.objects.entry(event.object).or_default() += event.count;
        if event.line != 0 {
            *self.lines.entry(event.line).or_default() += event.count;
        }
        self.takers.insert(event.to.0);
        let giver = self.sides.entry(from).or_default();
        *giver.writers.entry(event.from.0).or_default() += event.count;
        giver.gives = giver.gives.saturating_add(event.count);
        if event.line != 0 {
            *giver.given.entry((event.line, event.from.0)).or_default() |= event.from_bytes;
        }
        let taker = self.sides.entry(to).or_default();
        let (threads, bytes) = match event.kind {
            CommKind::Waw => (&mut taker.writers, &mut taker.written),
            _ => (&mut taker.readers, &mut taker.read),
        };
        *threads.entry(event.to.0).or_default() += event.count;
        if event.line != 0 {
            *bytes.entry((event.line, event.to.0)).or_default() |= event.to_bytes;
        }
        taker.takes = taker.takes.saturating_add(event.count);
    }

    /// Takes the events of data that this lock guards.
    fn guard(&mut self, other: Group) {
        add_to(&mut self.guarded, other.objects.clone());
        self.count(&other);
    }

    fn merge(&mut self, other: Group) {
        self.count(&other);
        self.beside = self.beside.saturating_add(other.beside);
        add_to(&mut self.syncs, other.syncs);
        add_to(&mut self.guarded, other.guarded);
        add_to(&mut self.objects, other.objects);
        add_to(&mut self.lines, other.lines);
        for (at, side) in other.sides {
            self.sides.entry(at).or_default().merge(side);
        }
    }

    /// Adds events, whatever they are about.
    fn count(&mut self, other: &Group) {
        self.events = self.events.saturating_add(other.events);
        self.falsely = self.falsely.saturating_add(other.falsely);
        self.apart = self.apart.saturating_add(other.apart);
        self.hits += other.hits;
        add_to(&mut self.pairs, other.pairs.clone());
        self.takers.extend(&other.takers);
        self.gaps.join(&other.gaps);
        let add = |to: &mut (u64, u64), own: (u64, u64)| *to = (to.0 + own.0, to.1 + own.1);
        add(&mut self.streams, other.streams);
        add(&mut self.read_streams, other.read_streams);
    }
}

fn add_to<K: Ord>(sums: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    others.into_iter().for_each(|(key, n)| *sums.entry(key).or_default() += n);
}

/// What groups are told apart by before the code is looked at: kind of sharing, and the object.
type Key = (Class, String);

/// The groups of a profile, most events first.
pub(super) fn groups(profile: &Profile, origins: &Origins) -> Vec<Group> {
    let mut data: BTreeMap<Key, Vec<Unit<'_>>> = BTreeMap::new();
    let mut synchronizing: Vec<(Sync, One<'_>)> = Vec::new();
    let mut beside: HashMap<u64, u64> = HashMap::new();
    let events: Vec<&EventRow> =
        profile.events.iter().filter(|event| moves_a_line(event)).collect();
    let elements = Elements::of(profile, &events);
    for chunk in events.chunk_by(|a, b| (a.line, a.object) == (b.line, b.object)) {
        let mut unit = Vec::new();
        for event in chunk.iter().copied() {
            let one = One::of(event, origins, &elements);
            if one.beside {
                *beside.entry(event.line).or_default() += event.count;
            }
            match one.sync {
                Some(sync) => synchronizing.push((sync, one)),
                None => unit.push(one),
            }
        }
        let (by_atomics, unit) = match unit.len() < chunk.len() {
            true => unit.into_iter().partition(|one| one.needs_no_lock(origins)),
            false => (Vec::new(), unit),
        };
        let apart = chunk[0].line == 0;
        for unit in units(unit, apart).into_iter().chain(units(by_atomics, apart)) {
            let key = (unit.class, object_key(profile, chunk[0].object, chunk[0].line));
            data.entry(key).or_default().push(unit);
        }
    }
    let mut all: Vec<(String, Group)> = Vec::new();
    for ((class, object), units) in data {
        all.extend(joined(class, units).into_iter().map(|group| (object.clone(), group)));
    }
    let mut synchronization = by_sync(profile, origins, &synchronizing);
    for group in &mut synchronization {
        let on_its_lines = group.lines.keys().filter_map(|line| beside.get(line));
        group.beside = on_its_lines.fold(0, |sum: u64, count| sum.saturating_add(*count));
    }
    let data = guarded(without_small(all), &mut synchronization, origins, &elements);
    let together = |line, objects: [u32; 2]| {
        objects[0] == objects[1] || are_apart(&profile.blocks, line, objects)
    };
    let by_atomics = |group: &Group| group.is_by_atomics(origins);
    unite(data, synchronization, together, by_atomics)
}

/// Whether what two objects have on a line does not overlap: else one was there after the other.
fn are_apart(blocks: &[BlockRow], line: u64, [one, other]: [u32; 2]) -> bool {
    let on_line = |object: u32| {
        let first = blocks.partition_point(|block| block.object < object);
        let of_object = blocks[first..].iter().take_while(move |block| block.object == object);
        of_object.filter(move |block| {
            block.start < line + LINE_BYTES && block.start + block.bytes > line
        })
    };
    let meet =
        |a: &BlockRow, b: &BlockRow| a.start < b.start + b.bytes && b.start < a.start + a.bytes;
    !on_line(one).any(|a| on_line(other).any(|b| meet(a, b)))
}

/// The groups of synchronisation: by object where the program chose it, else by the code.
fn by_sync(profile: &Profile, origins: &Origins, events: &[(Sync, One<'_>)]) -> Vec<Group> {
    let mut of_place: BTreeMap<(Sync, u32), u64> = BTreeMap::new();
    for (sync, one) in events {
        for origin in BTreeSet::from([one.from, one.to]) {
            *of_place.entry((*sync, origin)).or_default() += one.event.count;
        }
    }
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    for (sync, one) in events {
        // Both directions between two places are one: they go to the place with more.
        let with = |origin: u32| {
            let is = origins.get(origin).sync.is_some();
            (is, of_place[&(*sync, origin)], std::cmp::Reverse(origin))
        };
        let origin = if with(one.from) > with(one.to) { one.from } else { one.to };
        let key = sync_key(profile, one.event.object, *sync, origins.get(origin));
        let class = Class::Sync(*sync);
        let group = groups.entry((class, key)).or_insert_with(|| Group::new(class));
        group.add(one);
        *group.syncs.entry(*sync).or_default() += one.event.count;
    }
    groups.into_values().collect()
}

/// An event with its origins.
#[derive(Clone, Copy)]
struct One<'a> {
    event: &'a EventRow,
    from: u32,
    to: u32,
    /// What it synchronises by; `None`: it is about data.
    sync: Option<Sync>,
    /// Between synchronisation and other data on its line.
    beside: bool,
    /// About different bytes, of those that both threads use.
    same_bytes: bool,
}

impl<'a> One<'a> {
    fn of(event: &'a EventRow, origins: &Origins, elements: &Elements) -> Self {
        let from = origins.of_access(event.from_site, event.from.0);
        let to = origins.of_access(event.to_site, event.to.0);
        let syncs = [origins.get(from).sync, origins.get(to).sync];
        let of_own =
            syncs.into_iter().flatten().all(Sync::lies_in_program) && elements.are_apart(event);
        let beside = !of_own && is_beside(event, syncs);
        let sync = sync_of(syncs).filter(|_| !of_own && !beside);
        Self { event, from, to, sync, beside, same_bytes: false }
    }

    /// Whether both sides are atomic, on the same bytes: what a lock beside them does not guard.
    fn needs_no_lock(&self, origins: &Origins) -> bool {
        let is_atomic = |origin| origins.get(origin).atomic;
        self.event.sharing != Sharing::False && is_atomic(self.from) && is_atomic(self.to)
    }

    /// As it is to be judged.
    fn sharing(&self) -> Sharing {
        if self.same_bytes { Sharing::True } else { self.event.sharing }
    }
}

/// Events of one line, or of one pair of places where lines were not kept, on data.
struct Unit<'a> {
    class: Class,
    events: Vec<One<'a>>,
}

/// Whether an event is about data beside what threads synchronise by; of its two sides.
fn is_beside(event: &EventRow, syncs: [Option<Sync>; 2]) -> bool {
    let mixed = match syncs {
        [Some(sync), None] | [None, Some(sync)] => sync.lies_in_program(),
        _ => false,
    };
    mixed && event.sharing == Sharing::False
}

/// What an event synchronises by, of what its two sides do.
fn sync_of([from, to]: [Option<Sync>; 2]) -> Option<Sync> {
    // Helpers of locks that have no name of their own count as threads' start and end.
    let clear = |sync: &Sync| *sync != Sync::Threads;
    to.filter(clear).or(from.filter(clear)).or(to).or(from)
}

fn sync_key(profile: &Profile, object: u32, sync: Sync, origin: &Origin) -> String {
    let row = profile.objects.get(object as usize);
    match row.filter(|row| !row.name.is_empty() && sync.lies_in_program()) {
        Some(row) => format!("{} {}", row.region, row.wanted().name),
        None if sync.is_of_process() || !origin.of_program => String::new(),
        None => origin.place.short(),
    }
}

/// How the names of mappings begin among what objects are joined by.
const MAPPING: &str = "anonymous ";

/// What objects are joined by: the site of the allocation, whatever the sizes; stacks of all
/// threads are one.
fn object_key(profile: &Profile, object: u32, line: u64) -> String {
    let row = profile.objects.get(object as usize).filter(|row| !row.region.is_empty());
    match row {
        Some(row) if row.region == "thread-local" => row.region.clone(),
        Some(row) if row.region == "stack" => variable_of_stacks(&row.name),
        Some(row) => format!("{} {}", row.region, row.wanted().name),
        None => {
            let at = profile.lines.binary_search_by_key(&line, |row| row.line);
            at.map_or_else(|_| String::new(), |at| profile.lines[at].region.clone())
        }
    }
}

/// What a variable of a function is called on the stacks of all threads, by its object's name
/// `sums (stack of T0 in work)`.
fn variable_of_stacks(name: &str) -> String {
    match name
        .split_once(" (stack of ")
        .and_then(|(name, rest)| Some((name, rest.split_once(" in ")?.1)))
    {
        Some((name, function)) => format!("stack {name} in {function}"),
        None => "stack".into(),
    }
}

fn units(mut events: Vec<One<'_>>, apart: bool) -> Vec<Unit<'_>> {
    if !apart {
        bytes::mark(&mut events);
        let class = class_of(&events);
        return if events.is_empty() { vec![] } else { vec![Unit { class, events }] };
    }
    // Where lines were not kept, each pair of places is looked at alone.
    let mut pairs: BTreeMap<(u32, u32), Vec<One<'_>>> = BTreeMap::new();
    for one in events {
        pairs.entry((one.from.min(one.to), one.from.max(one.to))).or_default().push(one);
    }
    pairs.into_values().map(|events| Unit { class: class_of(&events), events }).collect()
}

fn class_of(events: &[One<'_>]) -> Class {
    let of = |wanted: Sharing| -> f64 {
        events.iter().filter(|one| one.sharing() == wanted).map(|one| one.event.count as f64).sum()
    };
    let (truly, falsely, unknown) = (of(Sharing::True), of(Sharing::False), of(Sharing::Any));
    match () {
        () if falsely > truly + unknown => Class::False,
        () if truly > falsely + unknown || truly + falsely > unknown => Class::True,
        () => Class::Unknown,
    }
}

/// Joins units of one object whose main places are connected.
fn joined(class: Class, units: Vec<Unit<'_>>) -> Vec<Group> {
    let mut parents: HashMap<u32, u32> = HashMap::new();
    let mut main: Vec<u32> = Vec::new();
    for unit in &units {
        let places = main_places(&unit.events);
        let first = places.first().copied().unwrap_or(0);
        let root = find(&mut parents, first);
        for place in places {
            let other = find(&mut parents, place);
            parents.insert(other, root);
        }
        main.push(first);
    }
    let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
    for (unit, place) in units.into_iter().zip(main) {
        let root = find(&mut parents, place);
        let group = groups.entry(root).or_insert_with(|| Group::new(class));
        unit.events.iter().for_each(|one| group.add(one));
    }
    groups.into_values().collect()
}

fn find(parents: &mut HashMap<u32, u32>, place: u32) -> u32 {
    let mut at = place;
    while let Some(&next) = parents.get(&at).filter(|&&next| next != at) {
        at = next;
    }
    parents.insert(place, at);
    at
}

/// Places that take part in a notable part of the events, the most first.
fn main_places(events: &[One<'_>]) -> Vec<u32> {
    let mut by_place: BTreeMap<u32, u64> = BTreeMap::new();
    let mut all = 0_u64;
    for one in events {
        all = all.saturating_add(one.event.count);
        *by_place.entry(one.from).or_default() += one.event.count;
        if one.to != one.from {
            *by_place.entry(one.to).or_default() += one.event.count;
        }
    }
    let mut list: Vec<(u32, u64)> = by_place.into_iter().collect();
    list.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
    let least = all as f64 * MAIN_PLACE;
    list.into_iter().filter(|(_, n)| *n as f64 >= least).map(|(place, _)| place).collect()
}

/// Lets small groups join the largest one of their object. What a program makes of memory that it
/// maps may be many objects, whose changes are not the same.
fn without_small(mut all: Vec<(String, Group)>) -> Vec<Group> {
    all.sort_by_key(|(_, group)| std::cmp::Reverse(group.events));
    let mut list: Vec<Group> = Vec::new();
    let mut largest: HashMap<String, usize> = HashMap::new();
    for (object, group) in all {
        let is_one = !object.is_empty() && !object.starts_with(MAPPING);
        let known = largest.get(&object).copied().filter(|_| is_one);
        match known {
            Some(at) if (group.events as f64) < list[at].events as f64 * SMALL => {
                list[at].merge(group)
            }
            _ => {
                list.push(group);
                largest.entry(object).or_insert(list.len() - 1);
            }
        }
    }
    list
}

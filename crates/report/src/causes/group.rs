//! Puts events together that have one cause.
//!
//! Problem: events come by line, thread pair, kind and pair of sites; a person wants one finding
//! for one fight, be it over an array of many lines, read here and overwritten there. Approach: the
//! events of each line are data or synchronisation; the data of a line is shared truly or falsely
//! by the majority of its events; lines of one object on which the same code meets are one group
//! (union-find over the places of the code), and what is small beside another group of its object
//! joins that. Pure. Neighbours: `code` says where sites are, `causes` makes findings of groups.

mod bytes;
mod unite;

use crate::causes::code::{Origin, leads_from};
use crate::causes::constants::{BACK_AND_FORTH, MAIN_PLACE, SMALL};
use crate::causes::side::Side;
use crate::causes::synchronization::Sync;
use crate::lines::moves_a_line;
use analysis::Gaps;
use profile::{BlockRow, EventRow, Profile, SiteRow};

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
}

impl Group {
    fn new(class: Class) -> Self {
        let (objects, lines, sides, takers) = Default::default();
        let (pairs, syncs, gaps) = Default::default();
        let (events, falsely, apart, hits, beside, streams) = Default::default();
        Self {
            class,
            objects,
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
        let lines = self.lines.len() as u64;
        let (seen, followed) = self.streams;
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

    /// The known line with the most events.
    pub(super) fn hottest(&self) -> Option<u64> {
        self.lines.iter().rev().max_by_key(|(_, events)| **events).map(|(line, _)| *line)
    }

    fn add(&mut self, one: &One<'_>) {
        let One { event, from, to, beside, same_bytes } = *one;
        self.events = self.events.saturating_add(event.count);
        let pair = (event.from.0.min(event.to.0), event.from.0.max(event.to.0));
        *self.pairs.entry(pair).or_default() += event.count;
        if event.sharing == Sharing::False && !same_bytes {
            self.apart = self.apart.saturating_add(event.count);
        }
        self.hits += event.hits;
        self.gaps.add(event);
        let seen = if event.hits > 0 { event.hits } else { event.count };
        self.streams = (self.streams.0 + seen, self.streams.1 + event.streamed.min(seen));
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

    fn merge(&mut self, other: Group) {
        self.events = self.events.saturating_add(other.events);
        self.falsely = self.falsely.saturating_add(other.falsely);
        self.apart = self.apart.saturating_add(other.apart);
        other.pairs.into_iter().for_each(|(pair, n)| *self.pairs.entry(pair).or_default() += n);
        other.syncs.into_iter().for_each(|(sync, n)| *self.syncs.entry(sync).or_default() += n);
        self.hits += other.hits;
        self.beside = self.beside.saturating_add(other.beside);
        other.objects.into_iter().for_each(|(row, n)| *self.objects.entry(row).or_default() += n);
        other.lines.into_iter().for_each(|(line, n)| *self.lines.entry(line).or_default() += n);
        other
            .sides
            .into_iter()
            .for_each(|(at, side)| self.sides.entry(at).or_default().merge(side));
        self.takers.extend(other.takers);
        self.gaps.join(&other.gaps);
        self.streams = (self.streams.0 + other.streams.0, self.streams.1 + other.streams.1);
    }
}

/// The origins of a profile's sites, equal ones once.
pub(super) struct Origins {
    pub list: Vec<Origin>,
    of_site: Vec<u32>,
    /// Of a site and a thread, where threads came there on different ways.
    of_thread: HashMap<(u32, u32), u32>,
}

impl Origins {
    pub(super) fn of(profile: &Profile, paths: &HashMap<u32, Vec<&str>>) -> Self {
        let mut known: BTreeMap<Origin, u32> = BTreeMap::new();
        let mut list = Vec::new();
        let files = files(profile);
        let mut number = |site: &SiteRow, paths: &[&str]| {
            let mut origin = Origin::of(site, paths);
            if let Some(Some(whole)) = files.get(origin.place.file.as_str()) {
                origin.place.file = (*whole).to_owned();
            }
            // One place is one side, whoever calls it.
            let callers = std::mem::take(&mut origin.callers);
            *known.entry(origin.clone()).or_insert_with(|| {
                list.push(Origin { callers, ..origin });
                list.len() as u32 - 1
            })
        };
        let starts = starts(profile);
        let (mut of_site, mut of_thread) = (Vec::new(), HashMap::new());
        for (site, row) in (0_u32..).zip(&profile.sites) {
            let paths = paths.get(&site).map_or(&[][..], Vec::as_slice);
            of_site.push(number(row, paths));
            if paths.len() < 2 {
                continue;
            }
            for (&start, threads) in &starts {
                let own = number(row, &paths_from(start, paths, &starts));
                if of_site.last() != Some(&own) {
                    of_thread.extend(threads.iter().map(|thread| ((site, *thread), own)));
                }
            }
        }
        Self { list, of_site, of_thread }
    }

    /// The origin of an access at a site by a thread.
    fn of_access(&self, site: u32, thread: u32) -> u32 {
        let of_site = || self.of_site.get(site as usize).copied();
        self.of_thread.get(&(site, thread)).copied().or_else(of_site).unwrap_or(0)
    }

    pub(super) fn get(&self, origin: u32) -> &Origin {
        &self.list[origin as usize]
    }
}

/// Whole names of files by their last parts, which is all that frames of callers have; `None`:
/// there are several.
fn files(profile: &Profile) -> HashMap<&str, Option<&str>> {
    let mut files: HashMap<&str, Option<&str>> = HashMap::new();
    for whole in profile.sites.iter().map(|site| site.file.as_str()) {
        let Some((_, last)) = whole.rsplit_once('/') else { continue };
        let known = files.entry(last).or_insert(Some(whole));
        *known = known.filter(|known| *known == whole);
    }
    files
}

/// Threads by the function in which they start.
fn starts(profile: &Profile) -> BTreeMap<&str, Vec<u32>> {
    let mut starts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for row in &profile.threads {
        let start = if row.identity.parent.is_none() { "main" } else { &row.start_symbol };
        starts.entry(start).or_default().push(row.id.0);
    }
    starts
}

/// Those of the paths to a site that a thread with this start may have taken: one lock is taken by
/// several functions, and each has threads of its own.
fn paths_from<'a>(
    start: &str,
    paths: &[&'a str],
    starts: &BTreeMap<&str, Vec<u32>>,
) -> Vec<&'a str> {
    let of = |is: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        paths.iter().copied().filter(|path| is(path)).collect()
    };
    let own = of(&|path| leads_from(path, start));
    if !own.is_empty() {
        return own;
    }
    let others = || starts.keys().filter(|other| **other != start);
    let free = of(&|path| !others().any(|other| leads_from(path, other)));
    if free.is_empty() { paths.to_vec() } else { free }
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
    for chunk in events.chunk_by(|a, b| (a.line, a.object) == (b.line, b.object)) {
        let mut unit = Vec::new();
        for event in chunk.iter().copied() {
            let one = One::of(event, origins);
            if one.beside {
                *beside.entry(event.line).or_default() += event.count;
            }
            match sync_of(&one, origins) {
                Some(sync) => synchronizing.push((sync, one)),
                None => unit.push(one),
            }
        }
        for unit in units(unit, chunk[0].line == 0) {
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
    let together = |line, objects: [u32; 2]| {
        objects[0] == objects[1] || are_apart(&profile.blocks, line, objects)
    };
    unite(without_small(all), synchronization, together)
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
    /// Between synchronisation and other data on its line.
    beside: bool,
    /// About different bytes, of those that both threads use.
    same_bytes: bool,
}

impl<'a> One<'a> {
    fn of(event: &'a EventRow, origins: &Origins) -> Self {
        let from = origins.of_access(event.from_site, event.from.0);
        let to = origins.of_access(event.to_site, event.to.0);
        let beside = is_beside(event, origins.get(from), origins.get(to));
        Self { event, from, to, beside, same_bytes: false }
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

fn is_beside(event: &EventRow, from: &Origin, to: &Origin) -> bool {
    let by_program = |sync: Sync| sync.is_placed_by_program() || sync == Sync::References;
    let mixed = match (from.sync, to.sync) {
        (Some(sync), None) | (None, Some(sync)) => by_program(sync),
        _ => false,
    };
    mixed && event.sharing == Sharing::False
}

/// What an event synchronises by; `None`: it is about data.
fn sync_of(one: &One<'_>, origins: &Origins) -> Option<Sync> {
    if one.beside {
        return None;
    }
    let (from, to) = (origins.get(one.from).sync, origins.get(one.to).sync);
    // Helpers of locks that have no name of their own count as threads' start and end.
    let clear = |sync: &Sync| *sync != Sync::Threads;
    to.filter(clear).or(from.filter(clear)).or(to).or(from)
}

fn sync_key(profile: &Profile, object: u32, sync: Sync, origin: &Origin) -> String {
    let row = profile.objects.get(object as usize);
    let by_object = sync.is_placed_by_program() || sync == Sync::References;
    match row.filter(|row| !row.name.is_empty() && by_object) {
        Some(row) => format!("{} {}", row.region, row.wanted().name),
        None if sync.is_of_process() || !origin.of_program => String::new(),
        None => origin.place.short(),
    }
}

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

/// Lets small groups join the largest one of their object.
fn without_small(mut all: Vec<(String, Group)>) -> Vec<Group> {
    all.sort_by_key(|(_, group)| std::cmp::Reverse(group.events));
    let mut list: Vec<Group> = Vec::new();
    let mut largest: HashMap<String, usize> = HashMap::new();
    for (object, group) in all {
        let known = largest.get(&object).copied().filter(|_| !object.is_empty());
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

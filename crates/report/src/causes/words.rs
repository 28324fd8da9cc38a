//! What was seen, in words: the sides of a finding, and its first sentence.
//!
//! Pure. Neighbours: `group` has what is said, `memory` the names, `advice` what follows from it.

use crate::causes::advice::Language;
use crate::causes::code::Origin;
use crate::causes::group::{Class, Group};
use crate::causes::memory::{LINE, Memory, Piece, array_of};
use crate::causes::origins::Origins;
use crate::causes::own::{Known, are_own};
use crate::causes::side::{ByThread, Side as Seen};
use crate::causes::{CauseKind, Part, Side};
use crate::lines::{AccessKind, base_name, short_name};
use crate::wording::{list, thread_list};
use std::collections::{BTreeMap, BTreeSet};
use types::numbers::percent;

/// Most sides of a finding, and the share of its events that makes one worth it.
const MAX_SIDES: usize = 4;
const NOTABLE_SIDE: f64 = 0.05;
/// Threads whose bytes are told one by one.
const MAX_RANGES: usize = 4;
/// What bytes are of that do not lie in the finding's object.
const OF_ANOTHER_BLOCK: &str = " of a block beside it";
/// Of which block is not known: the object does not reach there.
const OF_THE_LINE: &str = " of its line";
/// Names of fields and variables in a sentence.
const MAX_NAMES: usize = 3;
/// Share of a finding's events from which on all of its lines are known.
const MOST: f64 = 0.99;
/// Most callers of a side.
const MAX_CALLERS: usize = 4;

/// The sides with the most events, the first first; the ones that give and take most are among
/// them. Of synchronisation, a function is one side: it locks, signals and unlocks.
pub(super) fn chosen(group: &Group, origins: &Origins) -> Vec<(u32, Seen)> {
    let mut sides: Vec<(u32, Seen)> =
        group.sides.iter().map(|(at, side)| (*at, side.clone())).collect();
    by_weight(&mut sides, origins);
    if matches!(group.class, Class::Sync(_)) {
        sides = by_function(sides, origins);
    }
    let most = |count: fn(&Seen) -> u64| {
        sides.iter().rev().max_by_key(|(_, side)| count(side)).map(|(at, _)| *at)
    };
    let (giver, taker) = (most(|side| side.gives), most(|side| side.takes));
    let least = group.events as f64 * NOTABLE_SIDE;
    let needed = |at: u32| Some(at) == giver || Some(at) == taker;
    let mut kept: Vec<(u32, Seen)> = Vec::new();
    for (at, side) in sides {
        let notable = side.events() as f64 >= least && kept.len() < MAX_SIDES;
        if notable || needed(at) {
            kept.push((at, side));
        }
    }
    kept
}

/// The sides of each function as one, at the place with the most events.
fn by_function(sides: Vec<(u32, Seen)>, origins: &Origins) -> Vec<(u32, Seen)> {
    let mut joined: Vec<(u32, Seen)> = Vec::new();
    let key = |at: u32| {
        let place = &origins.list[at as usize].place;
        (!place.function.is_empty()).then_some((&place.function, &place.file))
    };
    for (at, side) in sides {
        let known =
            joined.iter_mut().find(|(other, _)| key(at).is_some() && key(*other) == key(at));
        match known {
            Some((_, one)) => one.merge(side),
            None => joined.push((at, side)),
        }
    }
    by_weight(&mut joined, origins);
    joined
}

/// Orders sides by events; what the program does comes before what is not known.
fn by_weight(sides: &mut [(u32, Seen)], origins: &Origins) {
    sides.sort_by_key(|(at, side)| {
        let nowhere = origins.list[*at as usize].place.in_words() == "at unknown code";
        (nowhere, std::cmp::Reverse(side.events()))
    });
}

/// The sides of a finding.
pub(super) fn sides(group: &Group, origins: &Origins, memory: &Memory<'_>) -> Vec<Side> {
    chosen(group, origins)
        .into_iter()
        .map(|(at, seen)| side(&origins.list[at as usize], &seen, group, memory))
        .collect()
}

fn side(origin: &Origin, seen: &Seen, group: &Group, memory: &Memory<'_>) -> Side {
    let fortran = Language::of(&origin.place.file) == Language::Fortran;
    let part = |bytes: &ByThread| part(bytes, group, memory, fortran);
    let (written, read) = seen.written_and_read();
    let is_data = !matches!(group.class, Class::Sync(_));
    let both = seen.kind() == AccessKind::Update && !written.is_empty() && !read.is_empty();
    let split = (is_data && both).then(|| (part(&written), part(&read)));
    // "Bytes of their own" and "many of its bytes" twice tell less than once.
    let unnamed = |part: &Part| part.fields.is_empty() && (part.own || are_scattered(&part.bytes));
    let (what, only_reads) = match split {
        Some((what, read)) if !unnamed(&what) || !unnamed(&read) => (what, Some(read)),
        _ => (part(&seen.bytes()), None),
    };
    // It does not read what it writes.
    let only_writes =
        only_reads.is_some() && seen.read.iter().all(|(key, mask)| read.get(key) == Some(mask));
    let mut callers = origin.place.inlined_into.clone();
    callers.retain(|caller| origin.callers.contains(caller));
    for caller in &origin.callers {
        if !callers.contains(caller) {
            callers.push(caller.clone());
        }
    }
    callers.truncate(MAX_CALLERS);
    Side {
        threads: seen.threads(),
        does: if only_writes { AccessKind::Write } else { seen.kind() },
        atomically: origin.atomic,
        only_gives: seen.takes == 0,
        what,
        only_reads,
        function: origin.place.function.clone(),
        file: origin.place.file.clone(),
        line: origin.place.line,
        callers,
        events: seen.events(),
        place: origin.place.clone(),
    }
}

/// Bytes in words: of the hottest line that they lie on.
fn part(bytes: &ByThread, group: &Group, memory: &Memory<'_>, fortran: bool) -> Part {
    let line = match group.hottest().filter(|line| bytes.keys().any(|(of, _)| of == line)) {
        Some(line) => Some(line),
        None => bytes.keys().map(|(line, _)| *line).next(),
    };
    let Some(line) = line else { return Part::default() };
    let own = are_own(bytes, known(group, memory));
    let names = |line: u64| {
        let of_line = bytes.iter().filter(|((of, _), _)| *of == line);
        let mask = of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b);
        match fortran {
            true => memory.names(line, mask), // its indices are not counted from 0
            false => memory.parts(line, mask),
        }
    };
    let fields = names(line);
    let elsewhere = others(bytes, line, &fields, &names);
    if !elsewhere.is_empty() {
        let fields = fields.into_iter().chain(elsewhere).collect();
        return Part { fields, ..Part::default() };
    }
    let ranges = match fields.is_empty() {
        true => memory.ranges(bytes, line),
        false => memory.ranges(&named(bytes, line), line),
    };
    let of_line = bytes.iter().filter(|((of, _), _)| *of == line);
    let all = of_line.fold(0, |all, (_, mask)| all | mask);
    let pieces = memory.pieces(line, all);
    let is_beside =
        !pieces.is_empty() && pieces.iter().all(|piece| memory.is_beside(piece, group.object()));
    let is_on_line = |piece: Piece| piece.start < line + LINE && piece.start + piece.bytes > line;
    let is_behind = pieces.is_empty() && memory.of_object(group.object()).any(is_on_line);
    let mut bytes = range_words(&ranges);
    if !bytes.is_empty() {
        bytes += match (is_beside, is_behind) {
            (true, _) => OF_ANOTHER_BLOCK,
            (_, true) => OF_THE_LINE,
            _ => "",
        };
    }
    Part { bytes, fields, own }
}

/// The bytes of which the line's names are told: those on it, and those of threads that use nothing
/// there.
fn named(bytes: &ByThread, line: u64) -> ByThread {
    let is_named = |(of, thread): &(u64, u32)| *of == line || !bytes.contains_key(&(line, *thread));
    bytes.iter().filter(|(key, _)| is_named(key)).map(|(key, mask)| (*key, *mask)).collect()
}

/// What is known of a finding's lines.
fn known(group: &Group, memory: &Memory<'_>) -> Known {
    let told: u64 = group.lines.values().sum();
    let pieces = memory.of_object(group.object());
    let lines = pieces.map(|piece| piece.bytes.div_ceil(LINE)).sum();
    Known { all: told as f64 >= group.events as f64 * MOST, lines }
}

/// Names of the fields that threads use which use nothing on the line: those that are not named
/// already.
fn others(
    bytes: &ByThread,
    line: u64,
    fields: &[String],
    names: &dyn Fn(u64) -> Vec<String>,
) -> Vec<String> {
    if fields.is_empty() {
        return Vec::new();
    }
    let on_line = |thread: u32| bytes.contains_key(&(line, thread));
    let mut lines: BTreeMap<u32, u64> = BTreeMap::new();
    for (of, thread) in bytes.keys().filter(|(_, thread)| !on_line(*thread)) {
        lines.entry(*thread).or_insert(*of);
    }
    let lines: BTreeSet<u64> = lines.into_values().collect();
    let mut found: Vec<String> = Vec::new();
    for name in lines.into_iter().take(MAX_NAMES).flat_map(names) {
        let is_alike = |known: &String| {
            *known == name || array_of(known) == array_of(&name) && array_of(&name).is_some()
        };
        if !fields.iter().chain(&found).any(is_alike) {
            found.push(name);
        }
    }
    found
}

/// `0–7`, or `T1 0–7, T2 8–15` where threads use different bytes.
fn range_words(ranges: &[(u32, String)]) -> String {
    let [(_, first), rest @ ..] = ranges else { return String::new() };
    if rest.iter().all(|(_, range)| range == first) {
        return first.clone();
    }
    let each: Vec<String> = ranges
        .iter()
        .take(MAX_RANGES)
        .map(|(thread, range)| format!("T{thread} {range}"))
        .collect();
    let more = if ranges.len() > MAX_RANGES { ", …" } else { "" };
    each.join(", ") + more
}

/// What the sides do, in one sentence without its full stop.
pub(super) fn evidence(sides: &[Side], object: &str) -> String {
    // Where several names are told, the object's own is one of them.
    let object = if neighbours(sides).len() > 1 { "" } else { object };
    let mut all: Vec<String> = Vec::new();
    for words in sides.iter().map(|side| side_words(side, object)) {
        // Several instructions of one line may do the same.
        if !all.contains(&words) {
            all.push(words);
        }
    }
    all.join("; ")
}

/// `; 96 % of this is data that it guards: …`, of a lock.
pub(super) fn guarded(group: &Group, memory: &Memory<'_>) -> String {
    let Some((most, _)) = group.guarded.iter().max_by_key(|(_, events)| **events) else {
        return String::new();
    };
    let all = group.guarded.values().fold(0, |all: u64, events| all.saturating_add(*events));
    let others = match group.guarded.len() {
        1 => "",
        _ => " and others",
    };
    let share = percent(all as f64 / group.events.max(1) as f64);
    format!("; {share} of this is data that it guards: {}{others}", memory.object(*most, None))
}

fn side_words(side: &Side, object: &str) -> String {
    let several = side.threads.len() != 1;
    let verb = match (side.does, several) {
        (AccessKind::Read, true) => "read",
        (AccessKind::Read, false) => "reads",
        (AccessKind::Write, true) => "write",
        (AccessKind::Write, false) => "writes",
        (AccessKind::Update, true) => "update",
        (AccessKind::Update, false) => "updates",
    };
    let what = part_words(&side.what, object);
    let atomically = if side.atomically { " atomically" } else { "" };
    let called = match side.callers.first() {
        Some(caller) => format!(", called from {}", without_folders(caller)),
        None => String::new(),
    };
    let (who, place) = (thread_list(&side.threads), side.place.in_words());
    let reads = match &side.only_reads {
        Some(part) => {
            let read = if several { "read" } else { "reads" };
            format!(" and {read}{}", part_words(part, object))
        }
        None => String::new(),
    };
    format!("{who} {verb}{what}{atomically}{reads} {place}{called}")
}

/// ` 'head' and 'tail' (bytes 0–15)`.
fn part_words(part: &Part, object: &str) -> String {
    // The object's own name says nothing new.
    let new = part.fields.iter().filter(|name| object.split(" (").next() != Some(name.as_str()));
    let all: Vec<String> = new.map(|name| format!("'{name}'")).collect();
    let mut quoted = all[..all.len().min(MAX_NAMES)].to_vec();
    if all.len() > MAX_NAMES {
        quoted.push(format!("{} more", all.len() - MAX_NAMES));
    }
    match (quoted.is_empty(), part.bytes.is_empty()) {
        (true, true) => String::new(),
        (true, false) if part.own && are_scattered(&part.bytes) => " bytes of their own".into(),
        (true, false) if part.own => format!(" bytes of their own ({})", part.bytes),
        (true, false) if are_scattered(&part.bytes) => " many of its bytes".into(),
        (true, false) => format!(" bytes {}", part.bytes),
        (false, true) => format!(" {}", list(&quoted)),
        (false, false) => format!(" {} (bytes {})", list(&quoted), part.bytes),
    }
}

/// `f at a.c:7` of `f at /src/a.c:7`.
fn without_folders(caller: &str) -> String {
    match caller.rsplit_once(" at ") {
        Some((function, at)) => format!("{} at {}", short_name(function), base_name(at)),
        None => caller.to_owned(),
    }
}

/// Whether a thread has more bytes than are named, here and there.
fn are_scattered(bytes: &str) -> bool {
    bytes.split(", ").any(|one| one.ends_with(" …"))
}

/// What a finding is about: `the array counters (app)`, and its first words.
pub(super) fn title(kind: CauseKind, group: &Group, object: &str, sides: &[Side]) -> String {
    match kind {
        CauseKind::FalseSharing => {
            let names = neighbours(sides);
            let own = object.split_once(" (").map_or(object, |(own, _)| own);
            match names.len() {
                // Variables beside each other, of which the object is one.
                2.. if names.contains(&format!("'{own}'")) => {
                    format!("False sharing between {}{}", list(&names), &object[own.len()..])
                }
                2.. => format!("False sharing between {} of {object}", list(&names)),
                _ => format!("False sharing on {object}"),
            }
        }
        CauseKind::Contended => format!("Several threads update {object}"),
        CauseKind::OneWriter if group.writers().len() > 1 => {
            format!("One thread each writes and others read {object}")
        }
        CauseKind::OneWriter => format!("One thread writes and others read {object}"),
        CauseKind::Transferred => format!("Threads transfer data in {object}"),
        CauseKind::Synchronization => synchronization(group, object, sides),
    }
}

fn synchronization(group: &Group, object: &str, sides: &[Side]) -> String {
    let Class::Sync(sync) = group.class else { return object.to_owned() };
    let name = sync.name();
    let caller = sides.iter().find(|side| side.place.line > 0 && !side.place.file.is_empty());
    let of_program = caller.filter(|_| !object.contains(".so"));
    match (sync.is_placed_by_program(), of_program) {
        (true, _) => format!("Synchronization: {name} in {object}"),
        (false, Some(side)) => format!("Synchronization: {name} {}", side.place.in_words()),
        (false, None) => format!("Synchronization: {name}"),
    }
}

/// The different names that sides use, if none is used by two of them.
fn neighbours(sides: &[Side]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for side in sides.iter().filter(|side| side.what.fields.len() == 1) {
        let quoted = format!("'{}'", side.what.fields[0]);
        if !names.contains(&quoted) {
            names.push(quoted);
        }
    }
    names.truncate(MAX_NAMES);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_threads_are_told_apart() {
        let of = |list: &[(u32, &str)]| -> Vec<(u32, String)> {
            list.iter().map(|(thread, range)| (*thread, (*range).to_owned())).collect()
        };
        assert_eq!(range_words(&of(&[(1, "0–7"), (2, "0–7")])), "0–7");
        assert_eq!(range_words(&of(&[(1, "0–7"), (2, "8–15")])), "T1 0–7, T2 8–15");
        assert_eq!(range_words(&[]), "");
        assert!(are_scattered("T1 0 40 …, T2 8") && !are_scattered("T1 0–7, T2 8–15, …"));
    }
}

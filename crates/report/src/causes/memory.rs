//! Names of the memory that a finding is about: variables, blocks, fields; where threads' bytes lie
//! in them, and how far apart their pieces are.
//!
//! Pure. Neighbours: `group` has the bytes by line and thread, `words` and `advice` put names and
//! distances into sentences.

use crate::causes::code::allocated;
use crate::causes::side::ByThread;
use crate::lines::Bytes;
use crate::objects::{Blocks, is_allocated, words};
use profile::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::numbers::grouped;

/// Bytes of a line.
pub(super) const LINE: u64 = 64;
/// Most lines of a group whose bytes are looked at.
pub(super) const LINES_LOOKED_AT: usize = 64;
/// Most runs of bytes of a thread that are named.
const RUNS: usize = 2;

/// A variable or block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub object: u32,
    pub start: u64,
    pub bytes: u64,
    /// How many blocks of the object were allocated before it.
    pub ordinal: u64,
}

/// The memory of a profile.
#[derive(Clone)]
pub(super) struct Memory<'a> {
    profile: &'a Profile,
    /// By start.
    pieces: Rc<[Piece]>,
    /// For each piece, the highest end of it and those before.
    reach: Rc<[u64]>,
    /// Offset, bytes and name of the fields of an object's elements.
    fields: Rc<Fields<'a>>,
    /// Objects on stacks that names are for. What else was there came before or after them.
    on_stacks: BTreeSet<u32>,
}

impl<'a> Memory<'a> {
    pub(super) fn of(profile: &'a Profile) -> Self {
        let (pieces, fields) = tables(profile);
        let farthest = |end: &mut u64, piece: &Piece| {
            *end = (*end).max(piece.start + piece.bytes);
            Some(*end)
        };
        let reach = pieces.iter().scan(0, farthest).collect();
        let on_stacks = BTreeSet::new();
        Self { profile, pieces: pieces.into(), reach, fields: Rc::new(fields), on_stacks }
    }

    /// The same for these objects.
    pub(super) fn about(&self, objects: impl Iterator<Item = u32>) -> Self {
        Self { on_stacks: objects.collect(), ..self.clone() }
    }

    /// Whether a piece is known to have been there with what is told.
    fn is_meant(&self, piece: &Piece) -> bool {
        let is_stack = |row: &profile::ObjectRow| row.region == "stack";
        let row = self.profile.objects.get(piece.object as usize);
        self.on_stacks.contains(&piece.object) || !row.is_some_and(is_stack)
    }

    /// Bytes from one element of an object to the next, where that is known.
    pub(super) fn stride(&self, object: u32) -> Option<u64> {
        stride_of(self.profile, object)
    }

    /// The type of an object's elements; empty where that is not known.
    pub(super) fn element(&self, object: u32) -> &str {
        self.profile.objects.get(object as usize).map_or("", |row| &row.element)
    }

    /// The pieces that bytes of a line lie in, in order.
    pub(super) fn pieces(&self, line: u64, mask: u64) -> Vec<Piece> {
        let overlaps = |piece: &&Piece| {
            piece.start < line + LINE && piece.start + piece.bytes > line && {
                let first = piece.start.saturating_sub(line);
                let end = (piece.start + piece.bytes - line).min(LINE);
                let below = |bits: u64| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
                mask & below(end) & !below(first) != 0
            }
        };
        let end = self.pieces.partition_point(|piece| piece.start < line + LINE);
        let first = self.reach.partition_point(|reach| *reach <= line).min(end);
        let pieces = self.pieces[first..end].iter().filter(overlaps);
        pieces.filter(|piece| self.is_meant(piece)).copied().collect()
    }

    /// The pieces of an object.
    pub(super) fn of_object(&self, object: u32) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.iter().filter(move |piece| piece.object == object).copied()
    }

    /// Variables and fields that bytes of a line lie in, each once, in order.
    pub(super) fn names(&self, line: u64, mask: u64) -> Vec<String> {
        let mut names = Vec::new();
        for piece in self.pieces(line, mask) {
            let variable = self.variable(piece.object);
            let fields = self.fields_in(&piece, line, mask);
            match (fields.is_empty(), variable) {
                (true, Some(name)) => names.push(name),
                (true, None) => {}
                (false, _) => names.extend(fields),
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// The same, with the elements of arrays whose elements have no fields: `seeds[3]`.
    pub(super) fn parts(&self, line: u64, mask: u64) -> Vec<String> {
        let pieces = self.pieces(line, mask);
        let [piece] = pieces[..] else { return self.names(line, mask) };
        let stride = self.stride(piece.object).filter(|stride| *stride < piece.bytes);
        let name = self.variable(piece.object);
        let (Some(stride), Some(name), false) =
            (stride, name, self.fields.contains_key(&piece.object))
        else {
            return self.names(line, mask);
        };
        let bits = (0..LINE).filter(|bit| mask & (1 << bit) != 0);
        let inside = bits.filter_map(|bit| (line + bit).checked_sub(piece.start));
        let indices: BTreeSet<u64> =
            inside.filter(|at| *at < piece.bytes).map(|at| at / stride).collect();
        indices.into_iter().map(|index| format!("{name}[{index}]")).collect()
    }

    fn fields_in(&self, piece: &Piece, line: u64, mask: u64) -> Vec<String> {
        let Some(fields) = self.fields.get(&piece.object) else { return vec![] };
        let stride = self.stride(piece.object).filter(|stride| *stride > 0);
        let mut found = BTreeSet::new();
        for bit in (0..LINE).filter(|bit| mask & (1 << bit) != 0) {
            let Some(offset) = (line + bit).checked_sub(piece.start) else { continue };
            if offset >= piece.bytes {
                continue;
            }
            let inside = stride.map_or(offset, |stride| offset % stride);
            let field =
                fields.iter().position(|(at, bytes, _)| (*at..at + bytes).contains(&inside));
            found.extend(field);
        }
        found.into_iter().map(|index| fields[index].2.to_owned()).collect()
    }

    /// The name of a variable, without the file that holds it.
    pub(super) fn variable(&self, object: u32) -> Option<String> {
        let row = self.profile.objects.get(object as usize)?;
        // A section is no variable that a program could align, and nor is a stack.
        let is_one = match row.region.as_str() {
            "static" => !row.name.is_empty() && !row.name.starts_with('.'),
            "stack" => row.name.contains(" ("),
            _ => false,
        };
        is_one.then(|| without_module(&row.name).to_owned())
    }

    /// What an object is, for people: `the variable counters (app)`, `heap block of 224 bytes
    /// allocated in main at hist.c:10`.
    pub(super) fn object(&self, object: u32, line: Option<u64>) -> String {
        let row = self.profile.objects.get(object as usize).filter(|row| !row.region.is_empty());
        let Some(row) = row else { return self.line_words(line) };
        if is_allocated(row) {
            let at = allocated(&row.wanted());
            return words(&row.region, &at, Blocks::of_row(row));
        }
        match (row.region.as_str(), row.name.is_empty()) {
            ("heap", _) | (_, false) => words(&row.region, &row.name, Blocks::of_row(row)),
            _ => self.line_words(line),
        }
    }

    /// The name of thread-local data of several threads: `mine of several threads`.
    pub(super) fn instances(&self, objects: impl Iterator<Item = u32>) -> Option<String> {
        let rows: Vec<_> = objects.filter_map(|at| self.profile.objects.get(at as usize)).collect();
        let name = |row: &&profile::ObjectRow| {
            let of_thread = row.name.rsplit_once(" of T").filter(|_| row.region == "thread-local");
            of_thread.map(|(name, _)| name.to_owned())
        };
        let mut names = rows.iter().map(name).collect::<Option<BTreeSet<String>>>()?;
        let one = names.pop_first().filter(|_| names.is_empty() && rows.len() > 1)?;
        Some(one + " of several threads")
    }

    /// Whether a piece is of allocated memory that was allocated elsewhere than an object: it only
    /// lies beside that.
    pub(super) fn is_beside(&self, piece: &Piece, object: u32) -> bool {
        let row = |at: u32| self.profile.objects.get(at as usize);
        let place = |row: &profile::ObjectRow| row.wanted().name;
        let of_piece = row(piece.object).filter(|row| is_allocated(row));
        of_piece.is_some_and(|own| row(object).is_none_or(|other| place(own) != place(other)))
    }

    /// What lies on a line, where its object is not known.
    fn line_words(&self, line: Option<u64>) -> String {
        let rows = &self.profile.lines;
        let row = line.and_then(|line| rows.binary_search_by_key(&line, |row| row.line).ok());
        match row.map(|at| &rows[at]) {
            Some(row) if !row.object.is_empty() => {
                let parts: Vec<&str> = row.object.split("; ").take(2).collect();
                parts.join(" and ")
            }
            Some(row) if !row.region.is_empty() => format!("{} memory", row.region),
            _ => "memory that is not known".into(),
        }
    }

    /// What lies on a line, by the variables that its name lists: `m`, `total`.
    pub(super) fn neighbours(&self, line: u64) -> Vec<String> {
        let rows = &self.profile.lines;
        let Ok(at) = rows.binary_search_by_key(&line, |row| row.line) else { return vec![] };
        let row = &rows[at];
        if row.region != "static" {
            return vec![];
        }
        row.object
            .split("; ")
            .filter(|part| !part.is_empty())
            .map(|p| without_module(p).to_owned())
            .collect()
    }

    /// Where an object was allocated: `in main at hist.c:10`, `at app+0x40`.
    pub(super) fn allocation(&self, object: u32) -> Option<String> {
        let row = self.profile.objects.get(object as usize)?;
        let is_heap = row.region == "heap" && !row.name.is_empty();
        is_heap.then(|| allocated(&row.wanted()))
    }

    /// `T1 bytes 0–7, T2 bytes 8–15`: of the block or variable where it is one, else of the line.
    pub(super) fn ranges(&self, bytes: &ByThread, hottest: u64) -> Vec<(u32, String)> {
        let mask = bytes
            .iter()
            .filter(|((line, _), _)| *line == hottest)
            .map(|(_, m)| m)
            .fold(0, |a, b| a | b);
        let piece = match self.pieces(hottest, mask)[..] {
            [one] => Some(one),
            _ => None,
        };
        let mut by_thread: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for ((line, thread), mask) in bytes {
            let inside = match piece {
                Some(piece) => piece.start < line + LINE && piece.start + piece.bytes > *line,
                None => *line == hottest,
            };
            if inside {
                let runs = Bytes(*mask).runs();
                let base = piece.map_or(hottest, |piece| piece.start);
                let at = |offset: u32| (line + u64::from(offset)).saturating_sub(base);
                let list = by_thread.entry(*thread).or_default();
                list.extend(runs.into_iter().map(|(first, last)| (at(first), at(last))));
            }
        }
        by_thread.into_iter().map(|(thread, runs)| (thread, words_of(runs))).collect()
    }
}

/// Fields of the elements of objects: offset, bytes, name.
type Fields<'a> = BTreeMap<u32, Vec<(u64, u64, &'a str)>>;

fn tables(profile: &Profile) -> (Vec<Piece>, Fields<'_>) {
    let piece = |row: &profile::BlockRow| Piece {
        object: row.object,
        start: row.start,
        bytes: row.bytes,
        ordinal: row.ordinal,
    };
    let mut pieces: Vec<Piece> = profile.blocks.iter().map(piece).collect();
    pieces.sort_by_key(|piece| piece.start);
    let mut fields = Fields::new();
    for row in &profile.fields {
        fields.entry(row.object).or_default().push((row.offset, row.bytes, &row.name));
    }
    (pieces, fields)
}

fn stride_of(profile: &Profile, object: u32) -> Option<u64> {
    profile.objects.get(object as usize).map(|row| row.stride).filter(|stride| *stride > 0)
}

/// Runs of bytes in words, those that touch joined.
fn words_of(mut runs: Vec<(u64, u64)>) -> String {
    runs.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in runs {
        match joined.last_mut() {
            Some(end) if first <= end.1 + 1 => end.1 = end.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    let words = |&(first, last): &(u64, u64)| match first == last {
        true => grouped(first),
        false => format!("{}–{}", grouped(first), grouped(last)),
    };
    let more = if joined.len() > RUNS { " …" } else { "" };
    joined.iter().take(RUNS).map(words).collect::<Vec<_>>().join(" ") + more
}

/// The distance between the pieces of different threads: the same between each two that follow each
/// other, or a multiple of it; with where the first begins in its line.
pub(super) fn distance(bytes: &ByThread) -> Option<(u64, u64)> {
    let mut first: BTreeMap<u32, u64> = BTreeMap::new();
    let lines: BTreeSet<u64> = bytes.keys().map(|(line, _)| *line).collect();
    if lines.len() > LINES_LOOKED_AT {
        return None;
    }
    for ((line, thread), mask) in bytes.iter().filter(|(_, mask)| **mask != 0) {
        let at = line + u64::from(mask.trailing_zeros());
        let least = first.entry(*thread).or_insert(at);
        *least = at.min(*least);
    }
    let mut at: Vec<u64> = first.into_values().collect();
    at.sort_unstable();
    let steps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let least = *steps.iter().min()?;
    // Two threads have some distance, whatever they do.
    let regular = steps.len() >= 2 && least > 0 && steps.iter().all(|step| step % least == 0);
    regular.then(|| (least, at[0] % LINE))
}

/// The same of two threads, if the bytes of one are those of the other so much further on.
pub(super) fn shifted(bytes: &ByThread) -> Option<(u64, u64)> {
    let mut by_thread: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for ((line, thread), mask) in bytes.iter().take(LINES_LOOKED_AT) {
        let of_line = (0..LINE).filter(|bit| mask >> bit & 1 == 1).map(|bit| line + bit);
        by_thread.entry(*thread).or_default().extend(of_line);
    }
    let mut threads: Vec<BTreeSet<u64>> = by_thread.into_values().collect();
    threads.sort_unstable();
    let [one, other] = &threads[..] else { return None };
    let (first, second) = (*one.first()?, *other.first()?);
    let distance = second.checked_sub(first).filter(|distance| *distance > 0)?;
    let is_same = one.len() == other.len() && one.iter().all(|at| other.contains(&(at + distance)));
    (is_same && one.is_disjoint(other)).then_some((distance, first % LINE))
}

/// The array of which a name is an element, if it has no fields itself: `id` of `id[1]`.
pub(super) fn array_of(name: &str) -> Option<&str> {
    name.strip_suffix(']')?.rsplit_once('[').map(|(array, _)| array)
}

/// The name of an array of several dimensions, or of structs, without indices, and the struct of
/// it; any other name as it is.
pub(super) fn array_and_element(name: String) -> (String, Option<String>) {
    if let Some((array, rest)) = name.split_once('[')
        && let Some((index, _)) = rest.split_once("].")
    {
        let element = format!("{array}[{index}]");
        return (array.to_owned(), Some(element));
    }
    match array_of(&name).and_then(array_of) {
        None => (name, None),
        Some(mut array) => {
            while let Some(outer) = array_of(array) {
                array = outer;
            }
            (array.to_owned(), None)
        }
    }
}

/// The array of structs of which all of these are members of elements, if of several: `b` of
/// `b[0].lock` and `b[1].count`.
pub(super) fn array_of_structs(names: &[String]) -> Option<String> {
    let (mut arrays, mut elements): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for name in names {
        let (array, element) = array_and_element(name.clone());
        arrays.insert(array);
        elements.insert(element?);
    }
    arrays.pop_first().filter(|_| arrays.is_empty() && elements.len() > 1)
}

/// `counters` of `counters+0x40..0x80 (app): .a`.
fn without_module(name: &str) -> &str {
    let name = name.split_once(" (").map_or(name, |(name, _)| name);
    name.split_once("+0x").map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_pieces_that_its_bytes_lie_in() {
        let mut profile = profile::sample::profile(profile::sample::threads(2), vec![]);
        // A large one, in which others were allocated after it was freed.
        let blocks = [(0x1000, 0x1000), (0x1008, 8), (0x1010, 16), (0x10c0, 8), (0x3000, 8)];
        let block = |(ordinal, (start, bytes))| profile::BlockRow {
            object: 1,
            start,
            ordinal,
            bytes,
            thread: None,
            lifetime_ns: None,
        };
        profile.blocks = (0..).zip(blocks).map(block).collect();
        let memory = Memory::of(&profile);
        let of = |line, mask| -> Vec<u64> {
            memory.pieces(line, mask).iter().map(|piece| piece.ordinal).collect()
        };
        assert_eq!(of(0x1000, u64::MAX), [0, 1, 2]);
        assert_eq!(of(0x1000, 0x0001_0000), [0, 2]);
        assert_eq!(of(0x10c0, u64::MAX), [0, 3]);
        assert_eq!(of(0x1fc0, u64::MAX), [0]);
        assert_eq!(of(0x2000, u64::MAX), [0; 0]);
        assert_eq!(of(0x3000, 0xff), [4]);
    }

    #[test]
    fn runs_that_touch_are_one() {
        assert_eq!(words_of(vec![(56, 63), (0, 7), (64, 71)]), "0–7 56–71");
        assert_eq!(words_of(vec![(0, 0), (4, 4), (8, 8), (1200, 1207)]), "0 4 …");
    }

    #[test]
    fn threads_pieces_are_a_distance_apart() {
        let at = |list: &[u64]| -> ByThread {
            let one = |(thread, at): (usize, &u64)| {
                ((at / 64 * 64, thread as u32), 0xff_u64 << (at % 64))
            };
            list.iter().enumerate().map(one).collect()
        };
        assert_eq!(distance(&at(&[0x1010, 0x1038, 0x1060])), Some((0x28, 0x10)));
        assert_eq!(distance(&at(&[0x1000, 0x1008, 0x1018])), Some((8, 0)), "one is missing");
        assert_eq!(distance(&at(&[0x1000, 0x1008])), None, "two tell nothing");
        assert_eq!(distance(&at(&[0x1000, 0x1008, 0x1014])), None);
        // A member of 8 bytes, and one of 4 further on, on two lines.
        let members = |start: u64| [(start, 0xff_u64), (start + 16, 0xf)];
        let two = |thread: u32, start: u64| {
            members(start).map(|(at, mask)| ((at / 64 * 64, thread), mask << (at % 64)))
        };
        let mut of_two = ByThread::new();
        for (key, mask) in two(1, 0x1010).into_iter().chain(two(2, 0x1038)) {
            *of_two.entry(key).or_default() |= mask;
        }
        assert_eq!(shifted(&of_two), Some((0x28, 0x10)));
        of_two.insert((0x1080, 2), 1);
        assert_eq!(shifted(&of_two), None, "one has more than the other");
    }

    #[test]
    fn elements_are_of_one_array() {
        let of = |name: &str| array_and_element(name.into());
        assert_eq!(of("lat[0][3]").0, "lat");
        assert_eq!(of("a.b[1][2][3]").0, "a.b");
        assert_eq!(of("items[3].hits"), ("items".into(), Some("items[3]".into())));
        assert_eq!((of("id[1]").0, of("n")), ("id[1]".into(), ("n".into(), None)));
    }

    #[test]
    fn members_of_several_elements_are_of_an_array() {
        let of = |names: [&str; 2]| array_of_structs(&names.map(String::from));
        assert_eq!(of(["b[0].lock", "b[1].count"]).as_deref(), Some("b"));
        assert_eq!(of(["b[0].lock", "b[0].count"]), None);
        assert_eq!(of(["b[0].lock", "c[1].count"]), None);
        assert_eq!(of(["b[0].lock", "n"]), None);
    }
}

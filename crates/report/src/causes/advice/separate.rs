//! How bytes that different threads use are put on lines of their own.
//!
//! Pure. Neighbours: `advice` asks, `memory` has names and distances.

use super::{About, LINE, Language, quoted};
use crate::causes::advice::on_line::{OnLine, on_line};
use crate::causes::constants::FEW_LINES;
use crate::causes::memory::{Piece, array_of, distance, shifted};
use crate::causes::side::{ByThread, Side};
use crate::wording::list;
use std::collections::{BTreeMap, BTreeSet};
use types::numbers::grouped;

/// How threads' bytes of a line lie in a variable or block.
enum Lies {
    /// Each in an element of its own, or several in turns, the first of which begins at this offset
    /// of its line.
    Elements { stride: u64, offset: u64 },
    /// Each in several elements: parts of different threads meet on the line.
    Rows,
    /// All in the same element: in different fields of it.
    OneElement,
}

impl About<'_> {
    /// For false sharing.
    pub(super) fn separate(&self) -> String {
        let bytes = self.bytes();
        let pieces = self.pieces_on_hottest(&bytes);
        if self.group.beside * 2 > self.group.events {
            return self.elements_with_locks().unwrap_or_else(|| self.lock_from_data());
        }
        let crowded =
            pieces.iter().find(|piece| self.writers_in(piece) > 1 || self.is_shared_falsely(piece));
        if let Some(text) = self.leave_as_it_is() {
            return text;
        }
        if pieces.len() > 1 && crowded.is_none() {
            return self.separate_pieces(&pieces);
        }
        let lies = crowded.or(pieces.first()).and_then(|piece| self.lies(piece));
        match lies {
            Some(Lies::Elements { stride, offset }) => {
                return self.separate_elements(stride, offset);
            }
            Some(Lies::Rows) => return self.separate_rows(),
            Some(Lies::OneElement) => {
                if let Some(text) = self.separate_parts_of_field(&bytes) {
                    return text;
                }
            }
            None => {
                if let Some((distance, offset)) = distance(&bytes) {
                    if !self.is_within_element(distance) {
                        return self.separate_elements(distance, offset);
                    }
                    if let Some(text) = self.separate_parts_of_field(&bytes) {
                        return text;
                    }
                }
            }
        }
        let by_names = self.separate_elements_of_field().or_else(|| self.separate_fields());
        let by_members = || self.separate_members();
        if let Some(text) = by_names.or_else(by_members) {
            return text;
        }
        self.separate_unnamed(&pieces, &bytes)
    }

    /// The same where no names tell it.
    fn separate_unnamed(&self, pieces: &[Piece], bytes: &ByThread) -> String {
        let object = self.group.object();
        if let Some(stride) =
            self.memory.stride(object).filter(|stride| *stride > 0 && stride % LINE != 0)
        {
            return self.separate_elements(stride, 0);
        }
        let neighbours = self.neighbours();
        if neighbours.len() > 1 && pieces.is_empty() {
            return format!(
                "Give {} lines of their own: declare each with {}.",
                list(&quoted(&neighbours[..neighbours.len().min(3)])),
                self.language.align()
            );
        }
        if let Some(text) = self.separate_by_bytes(bytes) {
            return text;
        }
        if self.on_hottest() == Some(OnLine::Meet) {
            return self.separate_rows();
        }
        if self.group.hot_lines() > FEW_LINES || self.group.lines.is_empty() {
            return self.separate_parts();
        }
        format!(
            "Give each thread lines of its own: {} so that no two threads' bytes lie in the same 64.",
            self.aligned_where(object)
        )
    }

    /// The same by nothing but how the threads' bytes lie.
    fn separate_by_bytes(&self, bytes: &ByThread) -> Option<String> {
        let (stride, offset) = match self.on_hottest() {
            Some(OnLine::Beside { stride, offset }) => (stride, offset),
            Some(OnLine::InTurns { stride }) => (stride, 0),
            Some(OnLine::Meet) => return None,
            None => shifted(bytes)?,
        };
        if self.is_within_element(stride) {
            return None;
        }
        Some(self.separate_elements(stride, offset))
    }

    /// Whether elements whose type is known are larger than this: then it is a distance of fields.
    fn is_within_element(&self, distance: u64) -> bool {
        let object = self.group.object();
        let stride = self.memory.stride(object);
        !self.memory.element(object).is_empty() && stride.is_some_and(|stride| distance < stride)
    }

    fn pieces_on_hottest(&self, bytes: &ByThread) -> Vec<Piece> {
        let Some(hottest) = self.hottest else { return vec![] };
        let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
        let mask = of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b);
        let pieces = self.memory.pieces(hottest, mask);
        // What lies within another one was there before or after it.
        let within = |one: &Piece, other: &Piece| {
            other.start <= one.start
                && one.start + one.bytes <= other.start + other.bytes
                && other.bytes > one.bytes
        };
        let alone = |one: &&Piece| !pieces.iter().any(|other| within(one, other));
        pieces.iter().filter(alone).copied().collect()
    }

    /// The bytes of the hottest line within a piece by thread: those that are written, or all that
    /// are accessed.
    fn in_piece(&self, piece: &Piece, only_written: bool) -> BTreeMap<u32, u64> {
        let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
        let Some(hottest) = self.hottest else { return by_thread };
        let first = piece.start.saturating_sub(hottest).min(LINE);
        let end = (piece.start + piece.bytes).saturating_sub(hottest).min(LINE);
        let inside = (first..end).fold(0, |mask, bit| mask | 1 << bit);
        for side in &self.sides {
            let bytes = if only_written { side.written_and_read().0 } else { side.bytes() };
            for ((_, thread), mask) in bytes.iter().filter(|((line, _), _)| *line == hottest) {
                *by_thread.entry(*thread).or_default() |= mask & inside;
            }
        }
        by_thread.retain(|_, mask| *mask != 0);
        by_thread
    }

    /// How many threads write bytes of their own in a piece.
    fn writers_in(&self, piece: &Piece) -> usize {
        let written = self.in_piece(piece, true);
        let own = |thread: &u32| {
            let others = written.iter().filter(|(other, _)| *other != thread);
            others.fold(written[thread], |own, (_, mask)| own & !mask) != 0
        };
        written.keys().filter(|thread| own(thread)).count()
    }

    /// Whether a thread uses bytes of a piece beside those that another one writes.
    fn is_shared_falsely(&self, piece: &Piece) -> bool {
        let (written, used) = (self.in_piece(piece, true), self.in_piece(piece, false));
        written.iter().any(|(writer, mask)| {
            used.iter().any(|(other, used)| other != writer && used & !mask != 0)
        })
    }

    /// How the threads' bytes lie in a piece; `None` where its elements are not known.
    fn lies(&self, piece: &Piece) -> Option<Lies> {
        let stride = self.memory.stride(piece.object)?;
        let hottest = self.hottest?;
        let elements = |mask: u64| -> BTreeSet<u64> {
            let bits = (0..LINE).filter(|bit| mask >> bit & 1 == 1);
            bits.filter_map(|bit| (hottest + bit).checked_sub(piece.start))
                .map(|at| at / stride)
                .collect()
        };
        let used: Vec<BTreeSet<u64>> =
            self.in_piece(piece, false).into_values().map(elements).collect();
        let used = without_who_set_up(used);
        let all: BTreeSet<u64> = used.iter().flatten().copied().collect();
        let apart = used.iter().map(BTreeSet::len).sum::<usize>() == all.len();
        if all.len() == 1 && used.len() > 1 {
            return Some(Lies::OneElement);
        }
        if !apart || used.len() < 2 {
            return None;
        }
        let first = all.first().map(|index| piece.start + index * stride)?;
        let mut parts: Vec<(u64, u64)> =
            used.iter().filter_map(|own| Some((*own.first()?, *own.last()?))).collect();
        parts.sort_unstable();
        let in_turns = parts.windows(2).any(|pair| pair[1].0 < pair[0].1);
        Some(match in_turns || used.iter().all(|own| own.len() == 1) {
            true => Lies::Elements { stride, offset: first % LINE },
            false => Lies::Rows,
        })
    }

    /// How the threads' bytes lie on the hottest line: those that they write, if several do.
    pub(super) fn on_hottest(&self) -> Option<OnLine> {
        let hottest = self.hottest?;
        let (written, _) = self.written_and_read(hottest);
        if written.len() > 1 {
            return on_line(written.into_iter());
        }
        let bytes = self.bytes();
        let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
        on_line(of_line.map(|((_, thread), mask)| (*thread, *mask)))
    }

    /// Variables and fields on the hottest line: those used, or where that is not known all.
    pub(super) fn neighbours(&self) -> Vec<String> {
        let Some(hottest) = self.hottest else { return vec![] };
        let bytes = self.bytes();
        let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
        let used = self.memory.names(hottest, of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b));
        match used.is_empty() && self.group.object() == 0 {
            true => self.memory.neighbours(hottest),
            false => used,
        }
    }

    /// Variables or blocks that share a line.
    fn separate_pieces(&self, pieces: &[Piece]) -> String {
        let names: Vec<String> =
            pieces.iter().filter_map(|piece| self.memory.variable(piece.object)).collect();
        if names.len() == pieces.len() {
            let each = if self.language == Language::Rust {
                "wrap each in a type with"
            } else {
                "declare each with"
            };
            return format!(
                "Give {} lines of their own: {each} {}, or keep what one thread uses together in one struct.",
                list(&quoted(&names)),
                self.language.align()
            );
        }
        let (first, bytes) = (pieces[0], pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0));
        let at = self.memory.allocation(first.object).map_or(String::new(), |at| format!(" {at}"));
        let same = pieces.iter().all(|piece| piece.object == first.object);
        let rounded = bytes.div_ceil(LINE) * LINE;
        match same {
            true => format!(
                "The allocator packs these blocks of {} bytes side by side{at}. {}, or let each thread allocate its \
                 own from memory of its own.",
                grouped(bytes),
                match self.language {
                    Language::Cpp => format!(
                        "Declare their type with alignas(64), so that each takes {rounded} bytes"
                    ),
                    Language::Rust => "Give their type #[repr(align(64))]".into(),
                    _ => format!("Allocate each with aligned_alloc(64, {rounded})"),
                }
            ),
            false => format!(
                "Blocks that were allocated one after the other share the line{at}. Align those that different threads \
                 write to 64 bytes, and round their sizes up to {rounded}."
            ),
        }
    }

    /// How an object is made to begin on a line.
    pub(super) fn aligned_where(&self, object: u32) -> String {
        let by_type = || format!("pad or align to 64 bytes ({})", self.language.align());
        self.aligned(object).unwrap_or_else(by_type)
    }

    /// The same, where its allocation or variable is known.
    pub(super) fn aligned(&self, object: u32) -> Option<String> {
        if let Some(at) = self.memory.allocation(object) {
            return Some(match self.language {
                Language::C => format!("allocate it with aligned_alloc(64, …) {at}"),
                Language::Cpp => format!("allocate it aligned to 64 bytes {at}"),
                _ => format!("align what is allocated {at} to 64 bytes"),
            });
        }
        let name = self.memory.variable(object)?;
        Some(format!("align '{name}' to 64 bytes ({})", self.language.align()))
    }

    /// Fields of one instance that different code uses.
    fn separate_fields(&self) -> Option<String> {
        let by_side = |only_written: bool| {
            let of = |at: usize| Some(self.names_of(self.sides.get(at)?, only_written));
            Some([of(0)?, of(1)?])
        };
        let used = by_side(false);
        if let Some(text) = used.as_ref().and_then(|names| self.move_apart(names)) {
            return Some(text + self.where_both_are_used());
        }
        let written = by_side(true).and_then(|names| Some((self.move_apart(&names)?, names)));
        if let Some((text, [first, second])) = written {
            let needs = |side: usize, others: &[String]| {
                let own = used.as_ref().map_or(&[][..], |used| &used[side]);
                others.iter().any(|name| own.contains(name))
            };
            let both = needs(0, &second) && needs(1, &first);
            let copies = " Both sides also read what the other one writes, which this alone does not change: let each keep \
                          a copy of that and look again only when it must.";
            return Some(if both { text + copies } else { text });
        }
        self.move_apart(&self.names_by_thread()?)
    }

    /// A warning where the same threads use both fields: then they take the line for one of them
    /// anyway, whichever of the two the event is counted on.
    fn where_both_are_used(&self) -> &'static str {
        let [first, second, ..] = &self.sides[..] else { return "" };
        match self.in_one_function
            && first.threads().len() > 1
            && first.threads() == second.threads()
        {
            true => {
                " That helps only as far as threads use one of them without the other: here, the same threads use both."
            }
            false => "",
        }
    }

    /// What code uses, or only what it writes, on the hottest line.
    fn names_of(&self, side: &Side, only_written: bool) -> Vec<String> {
        let Some(hottest) = self.hottest else { return Vec::new() };
        let bytes = if only_written { side.written_and_read().0 } else { side.bytes() };
        let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
        self.memory.names(hottest, of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b))
    }

    /// That something of each is moved away from something of the other.
    fn move_apart(&self, [first, second]: &[Vec<String>; 2]) -> Option<String> {
        let own = first.iter().find(|name| !second.contains(name))?;
        let other = second.iter().find(|name| !first.contains(name))?;
        let [ones, others] = self.with_what_their_threads_use(
            first.iter().filter(|name| !second.contains(name)).cloned().collect(),
            second.iter().filter(|name| !first.contains(name)).cloned().collect(),
        );
        let apart = self.divided(ones.iter(), others.iter());
        let (own, other) = whole(own, other);
        Some(format!("Move '{own}' away from '{other}': {apart}."))
    }

    /// What two threads use on the hottest line, where the same code does it for both.
    fn names_by_thread(&self) -> Option<[Vec<String>; 2]> {
        let hottest = self.hottest?;
        let bytes = self.bytes();
        let mut names = bytes
            .iter()
            .filter(|((line, _), _)| *line == hottest)
            .map(|(_, mask)| self.memory.names(hottest, *mask));
        let first = names.next()?;
        let second = names.find(|other| other.iter().any(|name| !first.contains(name)))?;
        Some([first, second])
    }

    /// Elements of one array that is a field.
    fn separate_elements_of_field(&self) -> Option<String> {
        let kind = match self.language {
            Language::C => "struct whose only member has _Alignas(64)",
            Language::Cpp => "struct with alignas(64)",
            Language::Rust => "type with #[repr(align(64))]",
            Language::Fortran | Language::Other => return None,
        };
        let hottest = self.hottest?;
        let (mut arrays, mut at): (BTreeSet<String>, BTreeSet<u32>) = Default::default();
        let bytes = self.bytes();
        for (_, mask) in bytes.iter().filter(|((line, _), mask)| *line == hottest && **mask != 0) {
            for name in self.memory.names(hottest, *mask) {
                arrays.insert(array_of(&name)?.to_owned());
                at.insert(mask.trailing_zeros());
            }
        }
        let all = self.arrays_used(&bytes);
        if all.len() > 1 {
            return Some(format!(
                "Put {} of one thread together: make them members of a {}, and that the element of one array.",
                list(&quoted(&all)),
                self.padded_struct()
            ));
        }
        let array = arrays.pop_first().filter(|_| arrays.is_empty())?;
        let at: Vec<u32> = at.into_iter().collect();
        let stride = at.windows(2).map(|pair| pair[1] - pair[0]).min()?;
        let whole = u64::from(stride).div_ceil(LINE) * LINE;
        Some(format!(
            "Stride {stride} → {whole} bytes: make each element of '{array}' a {kind}. Or let each thread count in local \
             variables and store them once at the end."
        ))
    }

    /// A struct that takes whole lines.
    fn padded_struct(&self) -> &'static str {
        match self.language {
            Language::C => "struct whose first member has _Alignas(64)",
            Language::Cpp => "struct with alignas(64)",
            Language::Rust => "struct with #[repr(align(64))]",
            Language::Fortran | Language::Other => "type of 64 bytes",
        }
    }

    /// The arrays of one struct whose elements threads use, on all lines.
    fn arrays_used(&self, bytes: &ByThread) -> Vec<String> {
        let names = bytes.iter().flat_map(|((line, _), mask)| self.memory.names(*line, *mask));
        let mut arrays: Vec<String> = Vec::new();
        for name in names {
            let array = array_of(&name).map(str::to_owned);
            arrays.extend(array.filter(|array| !arrays.contains(array)));
        }
        arrays
    }

    /// The same where fields have no names: bytes that only one of two sides uses.
    fn separate_members(&self) -> Option<String> {
        let hottest = self.hottest.filter(|_| self.group.lines.len() == 1)?;
        let mask = |side: &Side| {
            let bytes = side.bytes();
            bytes
                .iter()
                .filter(|((line, _), _)| *line == hottest)
                .fold(0, |all, (_, mask)| all | mask)
        };
        let (first, second) = (mask(self.sides.first()?), mask(self.sides.get(1)?));
        let (own, other) = (first & !second, second & !first);
        if own == 0 || other == 0 {
            return None;
        }
        let range = |mask: u64| {
            let ranges = self.memory.ranges(&ByThread::from([((hottest, 0), mask)]), hottest);
            ranges.into_iter().next().map(|(_, range)| range)
        };
        Some(format!(
            "Move what lies in bytes {} away from what lies in bytes {}: put {} before what comes later, so that they lie \
             on different lines.",
            range(own)?,
            range(other)?,
            self.language.align()
        ))
    }

    /// Where many lines are used in a way that is not known.
    fn separate_parts(&self) -> String {
        let at = self.aligned_where(self.group.object());
        format!(
            "If each thread has a part of it, begin the parts at multiples of 64 bytes ({at}). If all threads use all of it, \
             padding won't help: let each thread use one part, or use it less often (several items at a time)."
        )
    }

    pub(super) fn separate_rows(&self) -> String {
        let at = self.aligned_where(self.group.object());
        format!(
            "The parts of different threads meet in the middle of lines: {at} and begin each thread's part, row or \
             chunk at a multiple of 64 bytes (8 doubles, 16 ints)."
        )
    }
}

/// The elements that each thread uses, but for those of threads that use all that others use one
/// each: they have set them up, or add them up.
fn without_who_set_up(used: Vec<BTreeSet<u64>>) -> Vec<BTreeSet<u64>> {
    let ones: Vec<BTreeSet<u64>> = used.iter().filter(|own| own.len() == 1).cloned().collect();
    let all: BTreeSet<u64> = ones.iter().flatten().copied().collect();
    let is_apart = ones.len() > 1 && all.len() == ones.len();
    match is_apart && used.iter().all(|own| own.len() == 1 || own.is_superset(&all)) {
        true => ones,
        false => used,
    }
}

/// Names of what can be moved: an array as a whole instead of one of its elements.
fn whole<'a>(own: &'a str, other: &'a str) -> (&'a str, &'a str) {
    let (of_own, of_other) = (array_of(own).unwrap_or(own), array_of(other).unwrap_or(other));
    if of_own == of_other { (own, other) } else { (of_own, of_other) }
}

/// Whether a type of C or C++ with this name, empty where it is not known, may have no members.
pub(super) fn may_be_scalar(kind: &str) -> bool {
    const WORDS: [&str; 13] = [
        "", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "bool",
        "_Bool", "volatile", "_Atomic",
    ];
    const BEGINNINGS: [&str; 5] = ["int", "uint", "size_t", "atomic_", "sig_atomic_t"];
    let first = kind.split([' ', '(']).next().unwrap_or("");
    WORDS.contains(&first) || BEGINNINGS.iter().any(|start| first.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{may_be_scalar, whole, without_who_set_up};

    #[test]
    fn arrays_are_moved_as_a_whole() {
        assert_eq!(whole("limits[1]", "version"), ("limits", "version"));
        assert_eq!(whole("id[0]", "id[1]"), ("id[0]", "id[1]"));
        assert_eq!(whole("rows[2].a", "b"), ("rows[2].a", "b"));
    }

    #[test]
    fn a_thread_that_has_set_up_all_elements_is_left_out() {
        let of = |used: &[&[u64]]| {
            without_who_set_up(used.iter().map(|own| own.iter().copied().collect()).collect()).len()
        };
        assert_eq!(of(&[&[1, 2], &[1], &[2]]), 2);
        assert_eq!(of(&[&[1, 2], &[1], &[1]]), 3, "two threads use one");
        assert_eq!(of(&[&[1, 3], &[1], &[2]]), 3, "it does not use the other");
        assert_eq!(of(&[&[1, 2], &[3, 4]]), 2);
    }

    #[test]
    fn types_without_members_are_told_by_their_names() {
        let scalars = ["", "long", "unsigned long", "double", "uint64_t", "atomic_long", "_Bool"];
        assert!(scalars.into_iter().all(may_be_scalar));
        let others = ["struct counter", "union word", "counter", "pair_t", "std::atomic<long>"];
        assert!(!others.into_iter().any(may_be_scalar));
    }
}

//! What to change, in concrete words with the program's own numbers.
//!
//! Pure. Neighbours: `causes` has the kind of a finding, `memory` names and distances, `words` says
//! what was seen.

use crate::causes::group::{Class, Group, Origins};
use crate::causes::memory::{Memory, Piece, distance};
use crate::causes::side::{ByThread, Side};
use crate::causes::synchronization::Sync;
use crate::causes::{CauseKind, FEW_LINES, words};
use crate::lines::AccessKind;
use crate::wording::list;
use std::collections::BTreeMap;
use types::numbers::{grouped, percent};

/// Bytes of a line.
const LINE: u64 = 64;
/// Pieces this far apart or more are parts of a large array rather than elements of a small one.
const ELEMENT: u64 = 512;
/// Bytes of Fortran's numbers.
const SCALARS: [u64; 3] = [4, 8, 16];
/// Share of a lock's events next to other data from which on that is said.
const NOTABLE_BESIDE: f64 = 0.05;

/// Share of false sharing of contended data from which on that is said.
const NOTABLE_FALSE: f64 = 0.2;
/// The same where names tell what to move: where blocks happen to lie decides how much it is.
const SOME_FALSE: f64 = 0.05;

/// Names as they stand in a sentence.
fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("'{name}'")).collect()
}

/// The language of a source file, as far as it changes the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    C,
    Cpp,
    Rust,
    Fortran,
}

impl Language {
    pub(super) fn of(file: &str) -> Self {
        match file.rsplit('.').next().unwrap_or("") {
            "cpp" | "cc" | "cxx" | "C" | "hpp" | "hh" | "hxx" | "h++" => Language::Cpp,
            "rs" => Language::Rust,
            "f" | "f90" | "F90" | "f95" | "f03" | "f08" | "for" => Language::Fortran,
            _ => Language::C,
        }
    }

    /// How a type or variable is aligned.
    fn align(self) -> &'static str {
        match self {
            Language::C => "_Alignas(64)",
            Language::Cpp => "alignas(64)",
            Language::Rust => "#[repr(align(64))]",
            Language::Fortran => "padding to 64 bytes",
        }
    }
}

/// What to do about a group.
pub(super) fn advice(
    kind: CauseKind,
    group: &Group,
    origins: &Origins,
    memory: &Memory<'_>,
) -> String {
    let about = About::of(group, origins, memory);
    match (kind, group.class) {
        (CauseKind::FalseSharing, _) => about.separate(),
        (CauseKind::Contended, _) => about.share_less(),
        (CauseKind::OneWriter, _) => about.read_less(),
        (CauseKind::Transferred, _) => {
            "Padding won't help: threads need what others wrote. Let the thread that wrote a \
                                       part also use it, or place these threads close together."
                .into()
        }
        (CauseKind::Synchronization, Class::Sync(sync)) => about.synchronize(sync),
        (CauseKind::Synchronization, _) => String::new(),
    }
}

/// Whether a type of C or C++ with this name, empty where it is not known, may have no members.
fn may_be_scalar(kind: &str) -> bool {
    const WORDS: [&str; 13] = [
        "", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "bool",
        "_Bool", "volatile", "_Atomic",
    ];
    const BEGINNINGS: [&str; 5] = ["int", "uint", "size_t", "atomic_", "sig_atomic_t"];
    let first = kind.split([' ', '(']).next().unwrap_or("");
    WORDS.contains(&first) || BEGINNINGS.iter().any(|start| first.starts_with(start))
}

/// What advice looks at.
struct About<'a> {
    group: &'a Group,
    memory: &'a Memory<'a>,
    language: Language,
    /// Sides with the most events, first.
    sides: Vec<Side>,
    hottest: Option<u64>,
}

impl<'a> About<'a> {
    fn of(group: &'a Group, origins: &Origins, memory: &'a Memory<'a>) -> Self {
        let chosen = words::chosen(group, origins);
        let file = chosen.iter().find_map(|(origin, _)| {
            let place = &origins.list[*origin as usize].place;
            (!place.file.is_empty()).then_some(place.file.as_str())
        });
        let language = Language::of(file.unwrap_or(""));
        let sides = chosen.into_iter().map(|(_, side)| side).collect();
        Self { group, memory, language, sides, hottest: group.hottest() }
    }

    /// All bytes of the sides by line and thread.
    fn bytes(&self) -> ByThread {
        let mut all = ByThread::new();
        for side in &self.sides {
            side.bytes().into_iter().for_each(|(key, mask)| *all.entry(key).or_default() |= mask);
        }
        all
    }

    /// For false sharing.
    fn separate(&self) -> String {
        let bytes = self.bytes();
        let pieces = self.pieces_on_hottest(&bytes);
        if self.group.beside * 2 > self.group.events {
            return self.lock_from_data();
        }
        if pieces.len() > 1 {
            return self.separate_pieces(&pieces);
        }
        if let Some((distance, offset)) = distance(&bytes) {
            return self.separate_elements(distance, offset);
        }
        if let Some(text) = self.separate_fields() {
            return text;
        }
        if let Some(text) = self.separate_members() {
            return text;
        }
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
        if self.group.lines.len() > 4 || self.group.lines.is_empty() {
            return self.separate_rows();
        }
        format!(
            "Give each thread lines of its own: {} so that no two threads' bytes lie in the same 64.",
            self.aligned_where(object)
        )
    }

    fn pieces_on_hottest(&self, bytes: &ByThread) -> Vec<Piece> {
        let Some(hottest) = self.hottest else { return vec![] };
        let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
        let mask = of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b);
        self.memory.pieces(hottest, mask)
    }

    /// Variables and fields on the hottest line: those used, or where that is not known all.
    fn neighbours(&self) -> Vec<String> {
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

    /// Elements of one array that are used by one thread each.
    fn separate_elements(&self, distance: u64, offset: u64) -> String {
        let object = self.group.object();
        if distance >= ELEMENT {
            return self.separate_rows();
        }
        let stride = self
            .memory
            .stride(object)
            .filter(|stride| *stride > 0 && distance.is_multiple_of(*stride));
        let stride = stride.unwrap_or(distance);
        let whole = stride.div_ceil(LINE) * LINE;
        if stride == whole {
            return format!(
                "The elements are {stride} bytes, but begin {offset} bytes into a line, so that each lies on two: {}.",
                self.aligned_where(object)
            );
        }
        let kind = self.memory.element(object);
        let is_foreign =
            SCALARS.contains(&stride) && may_be_scalar(kind) || kind.starts_with("std::");
        let element = match self.language {
            Language::C if is_foreign => {
                "make each element a struct whose only member has _Alignas(64)".to_owned()
            }
            Language::C => "pad the element's type (_Alignas(64) on its first member)".to_owned(),
            Language::Cpp if is_foreign => {
                "put each element into a struct with alignas(64)".to_owned()
            }
            Language::Fortran if SCALARS.contains(&stride) => format!(
                "add a first dimension of {} and use only its first element (a(1,k) for a(k))",
                whole / stride
            ),
            Language::Fortran => format!("pad the first dimension or the type to {whole} bytes"),
            other => format!("give the element's type {}", other.align()),
        };
        let align = match self.language {
            Language::C | Language::Cpp => self.aligned(object).map(|how| format!(" and {how}")),
            Language::Rust | Language::Fortran => None,
        };
        let align = align.unwrap_or_default();
        format!(
            "Stride {stride} → {whole} bytes: {element}{align}. Or let each thread count in local variables and store \
             them once at the end."
        )
    }

    /// How an object is made to begin on a line.
    fn aligned_where(&self, object: u32) -> String {
        let by_type = || format!("pad or align to 64 bytes ({})", self.language.align());
        self.aligned(object).unwrap_or_else(by_type)
    }

    /// The same, where its allocation or variable is known.
    fn aligned(&self, object: u32) -> Option<String> {
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
        let hottest = self.hottest?;
        let names = |side: &Side| {
            let bytes = side.bytes();
            let of_line = bytes.iter().filter(|((line, _), _)| *line == hottest);
            self.memory.names(hottest, of_line.map(|(_, mask)| mask).fold(0, |a, b| a | b))
        };
        let [first, second] = [names(self.sides.first()?), names(self.sides.get(1)?)];
        let (own, other) = (
            first.iter().find(|n| !second.contains(n)),
            second.iter().find(|n| !first.contains(n)),
        );
        match (own, other) {
            (Some(own), Some(other)) => Some(format!(
                "Move '{own}' away from '{other}': put {} before one of them, so that they lie on different lines.",
                self.language.align()
            )),
            _ => None,
        }
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
            "Move what lies in bytes {} away from what lies in bytes {}: put {} before one of them, so that they lie on \
             different lines.",
            range(own)?,
            range(other)?,
            self.language.align()
        ))
    }

    fn separate_rows(&self) -> String {
        let at = self.aligned_where(self.group.object());
        format!(
            "The parts of different threads meet in the middle of lines: {at} and begin each thread's part, row or \
             chunk at a multiple of 64 bytes (8 doubles, 16 ints)."
        )
    }

    fn lock_from_data(&self) -> String {
        let names = self.neighbours();
        let what = match names.len() {
            0 | 1 => "the lock and the data beside it".to_owned(),
            some => list(&quoted(&names[..some.min(3)])),
        };
        format!(
            "Threads that wait for the lock take the line from the one that uses the data: put {what} on lines of \
             their own ({}).",
            self.language.align()
        )
    }

    /// The bytes of a line that each thread writes, and those that are only read.
    fn written_and_read(&self, of_line: u64) -> (BTreeMap<u32, u64>, u64) {
        let (mut by_thread, mut read): (BTreeMap<u32, u64>, u64) = Default::default();
        for side in &self.sides {
            let (written, only_read) = side.written_and_read();
            for ((_, thread), mask) in written.iter().filter(|((line, _), _)| *line == of_line) {
                *by_thread.entry(*thread).or_default() |= mask;
            }
            let only_read = only_read.iter().filter(|((line, _), _)| *line == of_line);
            read |= only_read.fold(0, |all, (_, mask)| all | mask);
        }
        let written = by_thread.values().fold(0, |all, mask| all | mask);
        (by_thread, read & !written)
    }

    /// The bytes of a line that are written, if each is written by one thread only, and by how
    /// many.
    fn written_by_one_each(&self, line: u64) -> Option<(u64, usize)> {
        let (by_thread, _) = self.written_and_read(line);
        let mut all = 0;
        for mask in by_thread.values() {
            if all & mask != 0 {
                return None;
            }
            all |= mask;
        }
        (all != 0).then_some((all, by_thread.len()))
    }

    /// Variables and fields of one line that are written by one thread each.
    fn neighbours_of_one_writer(&self) -> Option<Vec<String>> {
        let mut lines: Vec<(u64, u64)> =
            self.group.lines.iter().map(|(line, events)| (*events, *line)).collect();
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(*line));
        lines.into_iter().take(FEW_LINES * 2).find_map(|(_, line)| {
            let (written, _) =
                self.written_by_one_each(line).filter(|(_, writers)| *writers > 1)?;
            let names = self.memory.names(line, written);
            (names.len() > 1).then(|| quoted(&names[..names.len().min(3)]))
        })
    }

    /// `'a' away from 'b' and 'c', which are only read`, on the hottest line.
    fn written_away_from_read(&self) -> Option<String> {
        let hottest = self.hottest?;
        let (by_thread, read) = self.written_and_read(hottest);
        let written = by_thread.values().fold(0, |all, mask| all | mask);
        let (written, read) =
            (self.memory.names(hottest, written), self.memory.names(hottest, read));
        let apart = !written.iter().any(|name| read.contains(name));
        (apart && !written.is_empty() && !read.is_empty()).then(|| {
            let is_one = if read.len() == 1 { "is" } else { "are" };
            let (written, read) = (list(&quoted(&written)), list(&quoted(&read)));
            format!(
                "{written} away from {read}, which {is_one} only read ({})",
                self.language.align()
            )
        })
    }

    /// For memory that all write.
    fn share_less(&self) -> String {
        let falsely = self.group.apart as f64 / self.group.events.max(1) as f64;
        let some_falsely = falsely >= SOME_FALSE;
        if let Some(names) = self.neighbours_of_one_writer().filter(|_| some_falsely) {
            return format!(
                "Put {} on lines of their own ({}): each is written by one thread only. Where others read them, let \
                 those keep a copy and look only when it may have changed.",
                list(&names),
                self.language.align()
            );
        }
        if self.hottest.is_some_and(|line| self.written_by_one_each(line).is_some()) {
            return self.read_less();
        }
        let bytes = self.bytes();
        let widest = bytes.values().map(|mask| mask.count_ones()).max().unwrap_or(0);
        let all_update = self.sides.iter().all(|side| side.kind() == AccessKind::Update);
        let counts = widest <= 16 || (all_update && self.group.lines.len() <= FEW_LINES);
        let copies = match counts {
            true => {
                "Give each thread a copy on a line of its own and add the copies up when the total is needed, or \
                     add once for many items"
            }
            false => {
                "Use it less often (several items at a time), give each thread a part of its own and combine the \
                      parts, or split it (shard)"
            }
        };
        let apart = match (falsely >= NOTABLE_FALSE, self.written_away_from_read()) {
            (true, Some(away)) => {
                format!(" {} of it is false sharing: move {away}.", percent(falsely))
            }
            (true, None) => format!(
                " {} of it is false sharing: put what different threads use on lines of its own ({}).",
                percent(falsely),
                self.language.align()
            ),
            (false, _) => String::new(),
        };
        let turns = match self.group.lines.len() > FEW_LINES {
            true => " If threads take turns with all of it, run them near each other instead.",
            false => "",
        };
        format!("Padding won't help: all use the same bytes. {copies}.{turns}{apart}")
    }

    /// For memory that one thread writes and others read.
    fn read_less(&self) -> String {
        let falsely = self.group.apart as f64 / self.group.events.max(1) as f64;
        let away = match (falsely >= NOTABLE_FALSE, self.written_away_from_read()) {
            (true, Some(away)) => format!(" Move {away}."),
            (true, None) => " Keep what is only read on another line than what is written.".into(),
            (false, _) => String::new(),
        };
        format!(
            "Padding won't help: the readers need what is written. Write less often (several items at a time), or let \
             readers keep a copy and look only when it may have changed.{away}"
        )
    }

    fn synchronize(&self, sync: Sync) -> String {
        let many = self.group.lines.len() > FEW_LINES;
        let less = match sync {
            Sync::Mutex | Sync::SpinLock | Sync::RwLock if many => {
                "There are many of them already: hold each for less, or let each thread mostly take some of its own."
            }
            Sync::Mutex | Sync::SpinLock => {
                "Take it less often (several items at a time), hold it for less, or use several locks (shard)."
            }
            Sync::RwLock => {
                "Readers write to the lock, too: let each thread keep a copy of what is seldom changed, or use several \
                 locks (shard)."
            }
            Sync::Condition => "Wake others less often: pass on several items at a time.",
            Sync::Barrier => {
                "Use fewer barriers: join loops, leave out barriers that nothing depends on ('nowait'), or do more work \
                 between them."
            }
            Sync::Semaphore => "Post for several items at a time.",
            Sync::Once => "Keep what was initialised in a local variable outside the loop.",
            Sync::Loop => "Hand out larger chunks: schedule(dynamic, N) or schedule(static).",
            Sync::Tasks => "Make tasks or messages larger, so that fewer pass through the queue.",
            Sync::References => {
                "Copy the pointer less often: pass a reference, clone once per thread instead of in the loop."
            }
            Sync::Allocator => {
                "Allocate less often in parallel code: reuse blocks, free them in the thread that allocated them, or \
                 link an allocator with memory for each thread (jemalloc, mimalloc)."
            }
            Sync::Streams => {
                "Collect output in a buffer for each thread and write it in large pieces."
            }
            Sync::Threads => "Start threads once and reuse them; give each more work.",
            Sync::Linker => {
                "It happens when functions are first called: link with -Wl,-z,now if it matters."
            }
            Sync::OpenMp => {
                "Use fewer and larger parallel regions and loops, fewer barriers ('nowait'), and larger chunks."
            }
        };
        let beside = self.group.beside as f64 / self.group.events.max(1) as f64;
        if !sync.is_placed_by_program() || beside < NOTABLE_BESIDE {
            return match sync.is_placed_by_program() {
                true => format!("Padding alone won't help. {less}"),
                false => less.into(),
            };
        }
        let lock = sync.name();
        format!(
            "Its line also holds data that others use: give the {lock} a line of its own ({}). {less}",
            self.language.align()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::may_be_scalar;

    #[test]
    fn types_without_members_are_told_by_their_names() {
        let scalars = ["", "long", "unsigned long", "double", "uint64_t", "atomic_long", "_Bool"];
        assert!(scalars.into_iter().all(may_be_scalar));
        let others = ["struct counter", "union word", "counter", "pair_t", "std::atomic<long>"];
        assert!(!others.into_iter().any(may_be_scalar));
    }
}

//! What to change, in concrete words with the program's own numbers.
//!
//! `separate.rs` is for false sharing, `divide.rs` for structs of which different threads use
//! different fields, `field_parts.rs` for those of which they use parts of one array.
//!
//! Pure. Neighbours: `causes` has the kind of a finding, `memory` names and distances, `words` says
//! what was seen.

mod divide;
mod elements;
mod field_parts;
mod on_line;
mod separate;

use crate::causes::constants::{FEW_LINES, LOOKED_AT, NOTABLE_BESIDE, NOTABLE_FALSE, SOME_FALSE};
use crate::causes::group::{Class, Group};
use crate::causes::memory::{Memory, array_of_structs};
use crate::causes::origins::Origins;
use crate::causes::side::{ByThread, Side};
use crate::causes::synchronization::Sync;
use crate::causes::{CauseKind, words};
use crate::lines::AccessKind;
use crate::wording::list;
use std::collections::BTreeMap;
use types::numbers::percent;

/// Bytes of a line.
const LINE: u64 = 64;
/// Most names of what one thread writes, and most threads, that advice names.
const NAMES_OF_WRITER: usize = 2;
const MAX_WRITERS: usize = 4;
/// Bytes of Fortran's numbers.
const SCALARS: [u64; 3] = [4, 8, 16];

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
    /// One that has no words for alignment of its own.
    Other,
}

impl Language {
    pub(super) fn of(file: &str) -> Self {
        Self::told_by(file).unwrap_or(Language::C)
    }

    /// `None`: C and C++ both have files of such a name.
    fn told_by(file: &str) -> Option<Self> {
        let (_, extension) = file.rsplit_once('.')?;
        match extension {
            "c" => Some(Language::C),
            "cpp" | "cc" | "cxx" | "C" | "hpp" | "hh" | "hxx" | "h++" => Some(Language::Cpp),
            "rs" => Some(Language::Rust),
            "f" | "f90" | "F90" | "f95" | "f03" | "f08" | "for" => Some(Language::Fortran),
            "go" | "d" | "zig" | "swift" | "nim" | "jl" | "hs" | "ml" | "adb" | "pas" | "cr" => {
                Some(Language::Other)
            }
            _ => None,
        }
    }

    /// Of a finding's files the first one that tells it; of headers that of most of the others.
    fn of_files<'a>(
        mut own: impl Iterator<Item = &'a str>,
        others: impl Iterator<Item = &'a str>,
    ) -> Self {
        if let Some(told) = own.find_map(Self::told_by) {
            return told;
        }
        let others: Vec<Self> = others.filter_map(Self::told_by).collect();
        let count = |of: &Self| others.iter().filter(|other| *other == of).count();
        let all = [Language::C, Language::Other, Language::Fortran, Language::Rust, Language::Cpp];
        all.into_iter().rev().max_by_key(count).unwrap_or(Language::C)
    }

    /// How a type or variable is aligned.
    fn align(self) -> &'static str {
        match self {
            Language::C => "_Alignas(64)",
            Language::Cpp => "alignas(64)",
            Language::Rust => "#[repr(align(64))]",
            Language::Fortran | Language::Other => "padding to 64 bytes",
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
                                       part also use it; where processors are at different distances, place these threads \
                                       close together."
                .into()
        }
        (CauseKind::Synchronization, Class::Sync(sync)) => about.synchronize(sync),
        (CauseKind::Synchronization, _) => String::new(),
    }
}

/// What advice looks at.
struct About<'a> {
    group: &'a Group,
    memory: &'a Memory<'a>,
    language: Language,
    /// Sides with the most events, first.
    sides: Vec<Side>,
    /// Whether the first two are in the same function.
    in_one_function: bool,
    hottest: Option<u64>,
}

impl<'a> About<'a> {
    fn of(group: &'a Group, origins: &Origins, memory: &'a Memory<'a>) -> Self {
        let chosen = words::chosen(group, origins);
        let file_of = |origin: &u32| origins.list[*origin as usize].place.file.as_str();
        let own = chosen.iter().map(|(origin, _)| file_of(origin));
        let others = origins.list.iter().map(|origin| origin.place.file.as_str());
        let language = Language::of_files(own, others);
        let functions: Vec<(&str, &str)> = chosen
            .iter()
            .map(|(origin, _)| &origins.list[*origin as usize].place)
            .map(|place| (place.function.as_str(), place.file.as_str()))
            .collect();
        let in_one_function =
            matches!(functions[..], [one, other, ..] if one == other && !one.0.is_empty());
        let sides = chosen.into_iter().map(|(_, side)| side).collect();
        Self { group, memory, language, sides, in_one_function, hottest: group.hottest() }
    }

    /// All bytes of the sides by line and thread.
    fn bytes(&self) -> ByThread {
        let mut all = ByThread::new();
        for side in &self.sides {
            side.bytes().into_iter().for_each(|(key, mask)| *all.entry(key).or_default() |= mask);
        }
        all
    }

    fn lock_from_data(&self) -> String {
        let names = self.neighbours();
        if let Some(array) = array_of_structs(&names) {
            return format!(
                "Locks and data of several elements of '{array}' share a line: give the type of its elements {}.",
                self.language.align()
            );
        }
        let what = match names.len() {
            0 | 1 => "the lock and the data beside it".to_owned(),
            some => list(&quoted(&names[..some.min(3)])),
        };
        format!(
            "A thread that takes the lock takes the line from those that use the data beside it: put {what} on lines of their \
             own ({}).",
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

    /// Variables and fields of a line, those of each writer together, if these have some each.
    fn names_by_writer(&self, line: u64) -> Option<Vec<String>> {
        let (written, _) = self.written_and_read(line);
        let mut all: Vec<String> = Vec::new();
        let of_writers = written.values().map(|mask| self.memory.parts(line, *mask));
        for names in of_writers {
            let new = |name: &String| !name.is_empty() && !all.contains(&format!("'{name}'"));
            let names: Vec<String> = names.into_iter().filter(new).collect();
            if let Some(more) = names.len().checked_sub(NAMES_OF_WRITER).filter(|more| *more > 0) {
                let first = quoted(&names[..NAMES_OF_WRITER]).join(", ");
                all.push(format!("{first}, and {more} more"));
            } else if !names.is_empty() {
                all.push(list(&quoted(&names)));
            }
        }
        all.truncate(MAX_WRITERS);
        (all.len() > 1).then_some(all)
    }

    /// Variables and fields of one line that are written by one thread each.
    fn neighbours_of_one_writer(&self) -> Option<Vec<String>> {
        let mut lines: Vec<(u64, u64)> =
            self.group.lines.iter().map(|(line, events)| (*events, *line)).collect();
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(*line));
        lines.into_iter().take(FEW_LINES * 2).find_map(|(_, line)| {
            self.written_by_one_each(line).filter(|(_, writers)| *writers > 1)?;
            self.names_by_writer(line)
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
            let apart = self.divided(written.iter(), read.iter());
            let (written, read) = (list(&quoted(&written)), list(&quoted(&read)));
            format!("{written} away from {read}, which {is_one} only read: {apart}")
        })
    }

    /// Whether code that only reads takes much of it: it depends on what is there, as a thread does
    /// that waits for its turn.
    fn is_looked_at(&self) -> bool {
        let reads = self.sides.iter().filter(|side| side.kind() == AccessKind::Read);
        reads.map(|side| side.takes).sum::<u64>() as f64 >= self.group.events as f64 * LOOKED_AT
    }

    /// For memory that all write.
    fn share_less(&self) -> String {
        let falsely = self.group.apart as f64 / self.group.events.max(1) as f64;
        let some_falsely = falsely >= SOME_FALSE;
        if let Some(names) = self.neighbours_of_one_writer().filter(|_| some_falsely) {
            return self.separate_written(&names);
        }
        if self.hottest.is_some_and(|line| self.written_by_one_each(line).is_some()) {
            return self.read_less();
        }
        let mut written = ByThread::new();
        for (key, mask) in self.sides.iter().flat_map(|side| side.written_and_read().0) {
            *written.entry(key).or_default() |= mask;
        }
        let widest = written.values().map(|mask| mask.count_ones()).max().unwrap_or(0);
        let all_update = self.sides.iter().all(|side| side.kind() == AccessKind::Update);
        let counts = widest <= 16 || (all_update && self.group.hot_lines() <= FEW_LINES);
        let copies = match counts {
            true if self.is_looked_at() => {
                "It is looked at between updates, so it is more than a count: change it less often (several items \
                     at a time), look at it less often, or give each thread or group of threads one of its own"
            }
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
        let turns = match self.group.hot_lines() > FEW_LINES {
            true => " If threads take turns with all of it, run them near each other instead.",
            false => "",
        };
        let why = match falsely >= NOTABLE_FALSE {
            true => "Padding alone is not enough: threads use the same bytes, too",
            false => "Padding won't help: all use the same bytes",
        };
        format!("{why}. {copies}.{turns}{apart}")
    }

    /// For what one thread each writes, its names together.
    fn separate_written(&self, names: &[String]) -> String {
        let align = self.language.align();
        let several = |of_one: &String| of_one.contains("', ") || of_one.contains("' and '");
        let apart = match names.iter().any(several) {
            true => {
                let names = names.join("; ");
                format!("Put on lines of their own ({align}), as one thread writes each: {names}.")
            }
            false => format!(
                "Put {} on lines of their own ({align}): each is written by one thread only.",
                list(names)
            ),
        };
        format!(
            "{apart} Where others read them, let those keep a copy and look only when it may have changed."
        )
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
        let many = self.group.hot_lines() > FEW_LINES;
        let less = match sync {
            Sync::Mutex | Sync::SpinLock | Sync::RwLock if many => {
                "There are many of them already: hold each for less, or let each thread mostly take some of its own."
            }
            Sync::Mutex | Sync::SpinLock | Sync::RwLock if !self.group.guarded.is_empty() => {
                "What it guards moves with it: use several locks, each for a part of the data (shard), take it less \
                 often (several items at a time), or hold it for less."
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
    use super::*;

    #[test]
    fn headers_have_the_language_of_most_files() {
        let of = |own: &[&'static str], others: &[&'static str]| {
            Language::of_files(own.iter().copied(), others.iter().copied())
        };
        assert_eq!(of(&["queue.h", "main.cpp"], &["a.c"]), Language::Cpp);
        assert_eq!(of(&["queue.h"], &["a.c", "b.cc", "c.cc"]), Language::Cpp);
        assert_eq!(of(&["", "raw_vec.rs"], &[]), Language::Rust);
        assert_eq!(of(&["queue.h"], &["", "other.h"]), Language::C);
    }
}

//! How elements of an array, which are used by one thread each, are put on lines of their own, and
//! when not.
//!
//! Pure. Neighbours: `separate` asks where it has found elements, `on_line` says how threads use
//! those of one line.

use super::on_line::OnLine;
use super::separate::may_be_scalar;
use super::{About, LINE, Language, SCALARS};
use crate::causes::constants::{FEW_LINES, MAX_PADDED};
use crate::causes::memory::LINES_LOOKED_AT;
use std::collections::{BTreeMap, BTreeSet};
use types::numbers::grouped;

/// Pieces this far apart or more are parts of a large array rather than elements of a small one.
const ELEMENT: u64 = 512;

impl About<'_> {
    /// Elements of one array that are used by one thread each.
    pub(super) fn separate_elements(&self, distance: u64, offset: u64) -> String {
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
        let in_turns = matches!(self.on_hottest(), Some(OnLine::InTurns { .. }));
        let is_array = self.group.hot_lines() > self.elements_of_threads();
        if in_turns && is_array && stride <= 8 && may_be_scalar(kind) {
            return self.separate_turns();
        }
        if is_array && self.is_too_large_when_padded(stride, whole) {
            return self.separate_scattered(whole);
        }
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
            Language::Other => format!("pad the element's type to {whole} bytes"),
            other => format!("give the element's type {}", other.align()),
        };
        let align = match self.language {
            Language::C | Language::Cpp => self.aligned(object).map(|how| format!(" and {how}")),
            Language::Rust | Language::Fortran | Language::Other => None,
        };
        let align = align.unwrap_or_default();
        let local = match is_array {
            true => "",
            false => " Or let each thread count in local variables and store them once at the end.",
        };
        format!("Stride {stride} → {whole} bytes: {element}{align}.{local}")
    }

    /// For elements of large arrays whose members threads use here and there.
    pub(super) fn leave_as_it_is(&self) -> Option<String> {
        let object = self.group.object();
        let stride = self.memory.stride(object).filter(|stride| (1..ELEMENT).contains(stride))?;
        let whole = stride.div_ceil(LINE) * LINE;
        let is_array = self.group.hot_lines() > self.elements_of_threads();
        let scattered = is_array && stride < whole && self.is_too_large_when_padded(stride, whole);
        (scattered && self.are_of_several_threads(stride)).then(|| self.separate_scattered(whole))
    }

    /// Whether several threads use most of the elements that are known to be used.
    fn are_of_several_threads(&self, stride: u64) -> bool {
        let mut users: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let pieces: Vec<_> = self.memory.of_object(self.group.object()).collect();
        let start_of = |at: u64| {
            let piece = pieces
                .iter()
                .find(|piece| (piece.start..piece.start + piece.bytes).contains(&at))?;
            Some(piece.start + (at - piece.start) / stride * stride)
        };
        for ((line, thread), mask) in self.bytes().into_iter().take(LINES_LOOKED_AT) {
            let bits = (0..LINE).filter(|bit| mask >> bit & 1 == 1);
            let elements: BTreeSet<u64> = bits.filter_map(|bit| start_of(line + bit)).collect();
            for element in elements {
                users.entry(element).or_default().insert(thread);
            }
        }
        2 * users.values().filter(|threads| threads.len() > 1).count() > users.len()
    }

    /// For elements of an array that each have a lock, and threads that use several of them.
    pub(super) fn elements_with_locks(&self) -> Option<String> {
        let hottest = self.hottest?;
        let stride = self.memory.stride(self.group.object())?;
        let all = self.bytes().into_iter().filter(|((line, _), _)| *line == hottest);
        let used = all.fold(0, |used, (_, mask)| used | mask);
        let pieces = self.memory.pieces(hottest, used);
        let piece = pieces.iter().find(|piece| piece.object == self.group.object())?;
        let indices: BTreeSet<u64> = (0..LINE)
            .filter(|bit| used >> bit & 1 == 1)
            .filter_map(|bit| (hottest + bit).checked_sub(piece.start))
            .map(|at| at / stride)
            .collect();
        (indices.len() > 1 && stride % LINE != 0).then(|| self.separate_elements(stride, 0))
    }

    /// Most lines that elements for each thread take.
    fn elements_of_threads(&self) -> usize {
        let threads: BTreeSet<u32> = self.bytes().keys().map(|(_, thread)| *thread).collect();
        FEW_LINES.max(2 * threads.len())
    }

    /// Whether an object of such elements would no longer fit into a core's own caches.
    fn is_too_large_when_padded(&self, stride: u64, whole: u64) -> bool {
        self.bytes_of_object() / stride * whole > MAX_PADDED
    }

    /// Of its blocks that are known, or the lines that threads were seen to meet on.
    fn bytes_of_object(&self) -> u64 {
        let pieces = self.memory.of_object(self.group.object());
        let of_blocks: u64 = pieces.map(|piece| piece.bytes).sum();
        of_blocks.max(self.group.lines.len() as u64 * LINE)
    }

    /// Elements that are too many to pad, and that threads come to here and there.
    fn separate_scattered(&self, whole: u64) -> String {
        format!(
            "Do not pad its elements to {whole} bytes each: they take {} bytes as they are, and caches would hold fewer \
             of them. Rather let each thread update one part of them, which begins at a multiple of 64 bytes, and \
             collect what is to be done to the parts of others for these.",
            grouped(self.bytes_of_object())
        )
    }

    /// Elements of an array that different threads use in turns.
    fn separate_turns(&self) -> String {
        let how = match self.language {
            Language::Rust => "in chunks",
            _ => "with OpenMP, schedule(static) without a chunk size",
        };
        format!(
            "Threads use the elements in turns: give each thread elements that follow each other ({how}), whose parts \
             begin at multiples of 64 bytes."
        )
    }
}

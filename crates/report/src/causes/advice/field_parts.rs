//! Parts of an array that is a field of one struct, each used by another thread.
//!
//! Pure. Neighbours: `separate` asks, `memory` has names and distances.

use super::on_line::OnLine;
use super::{About, LINE, Language};
use crate::causes::memory::{array_and_element, distance, shifted};
use crate::causes::side::ByThread;
use std::collections::{BTreeMap, BTreeSet};

impl About<'_> {
    /// How such parts are put on lines of their own; `None` if threads use several fields.
    pub(super) fn separate_parts_of_field(&self, bytes: &ByThread) -> Option<String> {
        let field = self.only_field(bytes)?;
        let beside = || match self.on_hottest() {
            Some(OnLine::Beside { stride, offset }) => Some((stride, offset)),
            _ => None,
        };
        let apart = distance(bytes).or_else(|| shifted(bytes)).or_else(beside);
        let align = match self.language {
            Language::Rust => "make each part a type with #[repr(align(64))]".to_owned(),
            Language::Fortran => "let them begin at multiples of 64 bytes".to_owned(),
            other => format!("put {} before '{field}'", other.align()),
        };
        let names = bytes.iter().flat_map(|((line, _), mask)| self.memory.names(*line, *mask));
        let are_structs = names.into_iter().any(|name| name.contains("]."));
        let Some((stride, offset)) = apart else {
            return Some(format!(
                "Threads use parts of '{field}' that meet in the middle of lines: begin each part at a multiple of 64 \
                 bytes, and {align}."
            ));
        };
        let whole = stride.div_ceil(LINE) * LINE;
        Some(match stride == whole {
            true => format!(
                "Threads use parts of '{field}' of {stride} bytes, which begin {offset} bytes into a line, so that each \
                 lies on two: {align}."
            ),
            false if are_structs => format!(
                "Stride {stride} → {whole} bytes: give the type of the elements of '{field}' {}. Or let each thread count \
                 in local variables and store them once at the end.",
                self.language.align()
            ),
            false => format!(
                "Stride {stride} → {whole} bytes: pad the part of '{field}' that one thread uses, for instance its rows, \
                 and {align}. Or let each thread count in local variables and store them once at the end."
            ),
        })
    }

    /// The field that all bytes lie in, an array as a whole; `None` if threads use different
    /// members of one of its elements.
    fn only_field(&self, bytes: &ByThread) -> Option<String> {
        let mut arrays = BTreeSet::new();
        let mut user_of: BTreeMap<String, u32> = BTreeMap::new();
        for ((line, thread), mask) in bytes {
            for name in self.memory.names(*line, *mask) {
                let (array, element) = array_and_element(name);
                arrays.insert(array);
                if element.is_some_and(|one| *user_of.entry(one).or_insert(*thread) != *thread) {
                    return None;
                }
            }
        }
        let field = arrays.pop_first()?;
        let is_variable = self.memory.variable(self.group.object()).is_some_and(|own| own == field);
        (arrays.is_empty() && !is_variable).then_some(field)
    }
}

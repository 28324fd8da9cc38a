//! Parts of an array that is a field of one struct, each used by another thread.
//!
//! Pure. Neighbours: `separate` asks, `memory` has names and distances.

use super::on_line::OnLine;
use super::{About, LINE, Language};
use crate::causes::memory::{array_of, distance, shifted};
use crate::causes::side::ByThread;
use std::collections::BTreeSet;

impl About<'_> {
    /// How such parts are put on lines of their own; `None` if threads use several fields, or how
    /// far the parts are apart is not known.
    pub(super) fn separate_parts_of_field(&self, bytes: &ByThread) -> Option<String> {
        let field = self.only_field(bytes)?;
        let beside = || match self.on_hottest() {
            Some(OnLine::Beside { stride, offset }) => Some((stride, offset)),
            _ => None,
        };
        let (stride, offset) = distance(bytes).or_else(|| shifted(bytes)).or_else(beside)?;
        let whole = stride.div_ceil(LINE) * LINE;
        let align = match self.language {
            Language::Rust => "make each part a type with #[repr(align(64))]".to_owned(),
            Language::Fortran => "let them begin at multiples of 64 bytes".to_owned(),
            other => format!("put {} before '{field}'", other.align()),
        };
        Some(match stride == whole {
            true => format!(
                "Threads use parts of '{field}' of {stride} bytes, which begin {offset} bytes into a line, so that each \
                 lies on two: {align}."
            ),
            false => format!(
                "Stride {stride} → {whole} bytes: pad the part of '{field}' that one thread uses, for instance its rows, \
                 and {align}. Or let each thread count in local variables and store them once at the end."
            ),
        })
    }

    /// The field that all bytes lie in.
    fn only_field(&self, bytes: &ByThread) -> Option<String> {
        let names = bytes.iter().flat_map(|((line, _), mask)| self.memory.names(*line, *mask));
        let mut names: BTreeSet<String> = names.map(without_rows).collect();
        let field = names.pop_first()?;
        let is_variable = self.memory.variable(self.group.object()).is_some_and(|own| own == field);
        (names.is_empty() && !is_variable).then_some(field)
    }
}

/// The name of an array of several dimensions without indices, any other as it is.
fn without_rows(name: String) -> String {
    match array_of(&name).and_then(array_of) {
        None => name,
        Some(mut array) => {
            while let Some(outer) = array_of(array) {
                array = outer;
            }
            array.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_rows_are_of_one_array() {
        let of = |name: &str| without_rows(name.into());
        assert_eq!(of("lat[0][3]"), "lat");
        assert_eq!(of("a.b[1][2][3]"), "a.b");
        assert_eq!(
            (of("id[1]"), of("rows[1].x"), of("n")),
            ("id[1]".into(), "rows[1].x".into(), "n".into())
        );
    }
}

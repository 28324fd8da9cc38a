//! Where in the program an access is: function and source line, or as much as is known.

use profile::SiteRow;
use serde::Serialize;
use ts_rs::TS;

/// A place in the program's code. Instructions of one source line in one function are one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
pub struct Place {
    /// Innermost function, inlined ones included; or empty.
    pub function: String,
    /// Source file as the compiler knew it, or empty.
    pub file: String,
    /// From 1; 0 = unknown.
    pub line: u32,
    /// The functions into which `function` was inlined, innermost first, each with the place of its
    /// call: `main at app.c:50`.
    pub inlined_into: Vec<String>,
    /// Path of the mapped file, or empty.
    pub module: String,
    /// Offset in that file; 0 when a source line says where it is.
    pub offset: u64,
}

impl Place {
    /// The place of a site.
    pub fn of(site: &SiteRow) -> Self {
        let inlined = site.inlined.split("; ").filter(|part| !part.is_empty());
        Self {
            function: site.function.clone(),
            file: site.file.clone(),
            line: site.line,
            inlined_into: inlined.map(str::to_owned).collect(),
            module: site.module.clone(),
            offset: match (site.file.as_str(), site.module.as_str()) {
                ("", "") => site.address,
                ("", _) => site.offset,
                _ => 0,
            },
        }
    }

    /// `app.c:31 worker()`, `app+0x1139 worker()`, `app+0x1139`; files without their folders. The
    /// function, which may be long, comes last: a table cuts it there.
    pub fn short(&self) -> String {
        match self.function.as_str() {
            "" => self.where_in_file(),
            function => format!("{} {function}", self.where_in_file()),
        }
    }

    /// `worker() at app.c:31`, for sentences.
    pub(crate) fn in_words(&self) -> String {
        match self.function.as_str() {
            "" => format!("at {}", self.where_in_file()),
            function => format!("in {} at {}", short_name(function), self.where_in_file()),
        }
    }

    fn where_in_file(&self) -> String {
        match (self.file.as_str(), self.module.as_str()) {
            ("", "") if self.offset == 0 => "unknown code".into(),
            ("", "") => format!("{:#x}", self.offset),
            ("", module) => format!("{}+{:#x}", base_name(module), self.offset),
            (file, _) if self.line == 0 => base_name(file).into(),
            (file, _) => format!("{}:{}", base_name(file), self.line),
        }
    }
}

/// Longest name of a function that is told with all its types.
const MAX_NAME: usize = 64;

/// The name of a function for sentences: if it is long, without the types that its types are made
/// of: `<btree::node::Handle<…>>::remove`, `std::vector<…>::push_back`.
pub(crate) fn short_name(function: &str) -> String {
    if function.chars().count() <= MAX_NAME {
        return function.to_owned();
    }
    // A name that begins with a type keeps that.
    let mut kept = i32::from(function.starts_with('<'));
    let (mut short, mut depth, mut last) = (String::new(), 0, ' ');
    for c in function.chars() {
        let is_operator = short.trim_end_matches(['<', '>', '-', '=']).ends_with("operator");
        let is_arrow = c == '>' && matches!(last, '-' | '=');
        last = c;
        match c {
            '<' if !is_operator => {
                depth += 1;
                match depth - kept {
                    1 => short.push_str("<…"),
                    ..1 => short.push('<'),
                    _ => {}
                }
            }
            '>' if !is_operator && !is_arrow => {
                depth -= 1;
                if depth <= kept {
                    short.push('>');
                }
                kept = kept.min(depth);
            }
            _ if depth <= kept => short.push(c),
            _ => {}
        }
    }
    short
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_told_without_the_types_of_their_types() {
        let same = "core::ptr::drop_in_place<alloc::vec::Vec<u64>>";
        assert_eq!(short_name(same), same);
        let types = "alloc::string::String, std::collections::hash::map::HashMap<u64, u64>";
        let long = |before: &str, after: &str| short_name(&format!("{before}<{types}>{after}"));
        assert_eq!(long("std::vector", "::push_back(int)"), "std::vector<…>::push_back(int)");
        assert_eq!(long("<node::Handle", ">::remove"), "<node::Handle<…>>::remove");
        assert_eq!(long("<a::B as c::D", ">::run"), "<a::B as c::D<…>>::run");
        assert_eq!(
            long("std::operator<< ", "(std::ostream&)"),
            "std::operator<< <…>(std::ostream&)"
        );
        assert_eq!(long("Ptr", "::operator->() const"), "Ptr<…>::operator->() const");
        assert_eq!(long("<A as B>::run::", ""), "<A as B>::run::<…>");
        let closure = format!("f::{{closure#0}}<{types}, fn() -> i32>::call");
        assert_eq!(short_name(&closure), "f::{closure#0}<…>::call");
    }

    #[test]
    fn as_much_as_is_known() {
        let full = SiteRow {
            address: 0x55d0_1139,
            module: "/usr/bin/app".into(),
            offset: 0x1139,
            function: "work(int)".into(),
            file: "/src/deep/app.c".into(),
            line: 31,
            inlined: "g at app.c:40; main at app.c:50".into(),
        };
        let place = Place::of(&full);
        assert_eq!(place.short(), "app.c:31 work(int)");
        assert_eq!(place.in_words(), "in work(int) at app.c:31");
        assert_eq!(place.inlined_into, ["g at app.c:40", "main at app.c:50"]);
        let lineless = SiteRow { file: String::new(), line: 0, inlined: String::new(), ..full };
        assert_eq!(Place::of(&lineless).short(), "app+0x1139 work(int)");
        assert_eq!(Place::of(&lineless).inlined_into, [""; 0]);
        let nameless = SiteRow { function: String::new(), ..lineless };
        assert_eq!(Place::of(&nameless).in_words(), "at app+0x1139");
        let homeless = SiteRow { module: String::new(), ..nameless };
        assert_eq!(Place::of(&homeless).short(), "0x55d01139");
        assert_eq!(Place::of(&SiteRow::default()).short(), "unknown code");
    }
}

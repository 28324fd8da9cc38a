//! Functions on the way up the stack, in words; what belongs to libraries and compilers is folded
//! up to the program's own function.
//!
//! Neighbours: `places` says what lies at the addresses; `paths` and `objects` tell the result.

use crate::session::DELETED;
use profile::SiteRow;

/// A place in the program that allocates.
pub struct Allocation {
    /// The program's own function, and where in it: `in f at f.c:7`.
    pub name: String,
    /// Who called that function: `g at f.c:10; h at f.c:20`.
    pub callers: String,
    /// The call.
    pub site: SiteRow,
}

impl Allocation {
    /// Of the calls that led to an allocation, innermost first: functions of libraries are folded
    /// up to their caller.
    pub fn of(sites: Vec<SiteRow>) -> Self {
        let calls: Vec<Step> = sites.iter().flat_map(Step::all).collect();
        let own = calls.iter().position(|step| !step.is_hidden()).unwrap_or(0);
        let name = calls.get(own).map_or(String::new(), |step| match step.function.as_str() {
            "" => format!("at {}", step.at),
            function => format!("in {function} at {}", step.at),
        });
        let told =
            |step: &&Step| !step.function.is_empty() && !step.is_hidden() && !step.starts_program();
        let callers: Vec<String> =
            calls.iter().skip(own + 1).filter(told).map(Step::text).collect();
        let site = sites.into_iter().next().unwrap_or_default();
        Self { name, callers: callers.join("; "), site }
    }
}

/// How many of the functions that [`Allocation::of`] names only allocate for their callers, counted
/// from the first one. Each site comes with the number of its functions that hand on memory without
/// a type. 0 if no function is known that wanted the memory.
pub fn wrappers(sites: impl Iterator<Item = (SiteRow, u32)>) -> u32 {
    let mut found = 0;
    for (site, raw) in sites {
        let steps = Step::all(&site);
        for (place, step) in steps.iter().enumerate() {
            let is_told = !step.function.is_empty() && !step.is_hidden();
            match (is_told && !step.starts_program(), place < raw as usize) {
                (true, true) => found += 1,
                (true, false) => return found,
                (false, _) => {}
            }
        }
        let is_hidden = steps.iter().all(Step::is_hidden);
        if !is_hidden && (raw as usize) < steps.len() {
            break;
        }
    }
    0
}

/// A function on the way up the stack, also one that was inlined, and the place in it.
pub struct Step {
    function: String,
    at: String,
    /// It is in a library of the system's.
    pub is_library: bool,
    /// It comes with the compiler.
    is_generated: bool,
}

impl Step {
    /// The functions at a site, innermost first.
    pub fn all(site: &SiteRow) -> Vec<Step> {
        let is_library = is_library(&site.module);
        let at = match (site.file.as_str(), site.module.as_str()) {
            ("", "") => format!("{:#x}", site.address),
            ("", module) => format!("{}+{:#x}", file_name(module), site.offset),
            (file, _) => format!("{}:{}", file_name(file), site.line),
        };
        let is_generated = is_hidden(&site.function, &site.file);
        let mut steps =
            vec![Step { function: site.function.clone(), at, is_library, is_generated }];
        for outer in site.inlined.split("; ").filter(|part| !part.is_empty()) {
            let (function, at) = outer.rsplit_once(" at ").unwrap_or((outer, ""));
            let is_generated = is_hidden(function, "");
            let (function, at) = (function.into(), at.into());
            steps.push(Step { function, at, is_library, is_generated });
        }
        steps
    }

    /// Whether it says nothing about the program itself.
    fn is_hidden(&self) -> bool {
        self.is_library || self.is_generated
    }

    /// Whether it is what every program or thread begins with.
    pub fn starts_program(&self) -> bool {
        const NAMES: [&str; 6] = [
            "_start",
            "__libc_start_main_impl",
            "__libc_start_call_main",
            "start_thread",
            "clone3",
            "__clone",
        ];
        NAMES.contains(&self.function.as_str())
    }

    /// `f at a.c:10`; without a name only the place.
    pub fn text(&self) -> String {
        match self.function.as_str() {
            "" => self.at.clone(),
            function => format!("{function} at {}", self.at),
        }
    }
}

/// Whether the file at a path is a library of the system's.
fn is_library(path: &str) -> bool {
    let folders = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
    folders.iter().any(|folder| path.starts_with(folder)) && path.contains(".so")
}

/// Whether a function comes with the compiler: templates of C++, generic code of Rust. A program's
/// own `operator new` stands for that of the library.
fn is_hidden(function: &str, file: &str) -> bool {
    let spaces = [
        "std::",
        "__gnu_cxx::",
        "alloc::",
        "core::",
        "__gnu_pbds::",
        "boost::",
        "hashbrown::",
        "allocator_api2::",
    ];
    let name = function.strip_prefix('<').unwrap_or(function);
    let after_type = name.split_once(' ').map_or("", |(_, rest)| rest);
    spaces.iter().any(|space| name.starts_with(space) || after_type.starts_with(space))
        || name.starts_with("operator new")
        || file.starts_with("/usr/include/")
        || file.starts_with("/rustc/")
}

/// The last part of a path as the kernel prints it.
pub fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(function: &str, file: &str, line: u32) -> SiteRow {
        let (function, file) = (function.into(), file.into());
        SiteRow { module: "/home/user/app".into(), function, file, line, ..SiteRow::default() }
    }

    #[test]
    fn wrappers_are_those_below_the_first_function_that_wanted_it() {
        let inlined =
            SiteRow { inlined: "checked at a.c:8; make at a.c:20".into(), ..site("raw", "a.c", 3) };
        let count = |sites: Vec<(SiteRow, u32)>| wrappers(sites.into_iter());
        let main = || (site("main", "a.c", 30), 0);
        let library = || (site("std::allocate", "/usr/include/c++/12/new", 3), 0);
        assert_eq!(count(vec![(inlined.clone(), 2), main()]), 2);
        assert_eq!(count(vec![(inlined.clone(), 0), main()]), 0);
        assert_eq!(count(vec![(site("xalloc", "a.c", 3), 1), main()]), 1);
        assert_eq!(count(vec![library(), (site("xalloc", "a.c", 3), 1), main()]), 1);
        assert_eq!(count(vec![(site("xalloc", "a.c", 3), 1), (site("", "", 0), 0)]), 0);
        assert_eq!(count(vec![(site("xalloc", "a.c", 3), 1)]), 0, "its caller is not known");
    }

    #[test]
    fn callers_end_with_the_programs_own() {
        let found = Allocation::of(vec![
            site("std::make_shared", "/usr/include/c++/12/bits/shared_ptr.h", 1010),
            site("make", "a.cpp", 7),
            site("main", "a.cpp", 9),
            site("_start", "", 0),
        ]);
        assert_eq!((&*found.name, &*found.callers), ("in make at a.cpp:7", "main at a.cpp:9"));
        let own = Allocation::of(vec![
            site("operator new(unsigned long)", "new.cpp", 3),
            site("make", "a.cpp", 7),
        ]);
        assert_eq!(own.name, "in make at a.cpp:7");
    }
}

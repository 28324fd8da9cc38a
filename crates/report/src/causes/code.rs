//! Where in the program an event's code is: the user's line rather than a library's header, and
//! what of it synchronises.
//!
//! A site is an instruction with the functions that it was inlined from. Frames of libraries (C++
//! headers, Rust's library, the C library) are left out up to the first of the program; where all
//! are a library's, sampled call paths say who called. Pure. Neighbours: `synchronization` knows
//! the libraries' names, `group` calls this for each site.

use crate::causes::synchronization::{self, Sync};
use crate::lines::{Place, base_name};
use profile::{SiteRow, Wanted};

/// What the code of a site is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Origin {
    /// The place in the program.
    pub place: Place,
    /// Who called it, innermost first.
    pub callers: Vec<String>,
    /// What it synchronises by, if it does.
    pub sync: Option<Sync>,
    /// Whether an atomic operation of a library did it.
    pub atomic: bool,
    /// Whether the place is the program's own code.
    pub of_program: bool,
}

/// A function and where in it.
struct Frame<'a> {
    function: &'a str,
    /// `app.c:31`, or empty.
    at: &'a str,
}

impl Origin {
    /// The origin of a site with sampled paths of calls, the commonest first, each `f at a.c:1; g
    /// at a.c:2` from the innermost caller.
    pub(super) fn of(site: &SiteRow, paths: &[&str]) -> Self {
        let module = base_name(&site.module);
        let inlined: Vec<Frame<'_>> = frames(&site.inlined);
        let library = is_library_path(&site.file) || is_library_function(&site.function);
        let own_library = is_library_module(module);
        let functions =
            || std::iter::once(site.function.as_str()).chain(inlined.iter().map(|f| f.function));
        let sync = functions()
            .find_map(|function| synchronization::of_frame(function, &site.file, module))
            .filter(|sync| !matches!(sync, Sync::Threads) || own_library || library);
        let atomic = functions().any(is_atomic);
        let own = Place::of(site);
        let called: Vec<Frame<'_>> = paths.first().map(|path| frames(path)).unwrap_or_default();
        let (place, rest, of_program) = if !library && !own_library {
            (own, &inlined[..], true)
        } else if let Some(at) = inlined.iter().position(|f| !own_library && !f.is_library()) {
            (place_of(&inlined[at], site), &inlined[at + 1..], true)
        } else if let Some(at) = called.iter().position(|f| !f.is_library()) {
            (place_of(&called[at], site), &called[at + 1..], true)
        } else if sync.is_some() {
            // Which line of the library it is changes nothing.
            let function = inlined.last().map_or(site.function.as_str(), |frame| frame.function);
            let function = function.strip_prefix("__GI_").unwrap_or(function);
            let function = function.trim_start_matches('_').to_owned();
            let file = site.module.clone();
            (
                Place { function, file, line: 0, inlined_into: vec![], offset: 0, ..own },
                &inlined[..0],
                false,
            )
        } else {
            (own, &inlined[..], false)
        };
        let mut callers: Vec<String> =
            rest.iter().filter(|f| !f.is_library()).map(Frame::words).collect();
        if callers.is_empty() && !called.is_empty() {
            let of_path = called.iter().filter(|f| !f.is_library()).map(Frame::words);
            callers = of_path.filter(|words| !is_place(&place, words)).collect();
        }
        Self { place, callers, sync, atomic, of_program }
    }
}

impl Frame<'_> {
    fn is_library(&self) -> bool {
        let file = self.at.rsplit_once(':').map_or(self.at, |(file, _)| file);
        // Names that begin so are the C library's and the compiler's; `libgomp.so.1+0x1cd8d` has
        // none.
        let reserved = self.function.starts_with("__") || self.function.starts_with("_int_");
        let nameless = self.at.is_empty() && self.function.contains("+0x");
        let starts = ["start_thread", "clone3", "clone"].contains(&self.function);
        reserved
            || starts
            || (nameless && is_library_module(self.function))
            || is_library_function(self.function)
            || is_library_header(file)
    }

    fn words(&self) -> String {
        match self.at {
            "" => self.function.to_owned(),
            at => format!("{} at {at}", self.function),
        }
    }
}

fn is_place(place: &Place, words: &str) -> bool {
    words.starts_with(&place.function) && words.ends_with(&format!(":{}", place.line))
}

/// The frames of `f at a.c:10; g at a.c:20`.
fn frames(text: &str) -> Vec<Frame<'_>> {
    let parts = text.split("; ").filter(|part| !part.is_empty());
    parts
        .map(|part| match part.rsplit_once(" at ") {
            Some((function, at)) => Frame { function, at },
            None => Frame { function: part, at: "" },
        })
        .collect()
}

/// Whether a path of calls comes from this function.
pub(super) fn leads_from(path: &str, function: &str) -> bool {
    let is_it = |frame: &Frame<'_>| {
        let rest = frame.function.strip_prefix(function);
        !function.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
    };
    frames(path).iter().any(is_it)
}

fn place_of(frame: &Frame<'_>, site: &SiteRow) -> Place {
    // `app+0x1139`: a function without a name, in another file than the site.
    if frame.at.is_empty() && frame.function.contains("+0x") {
        let (file, function) = (frame.function.to_owned(), String::new());
        let (inlined_into, module) = Default::default();
        return Place { function, file, line: 0, inlined_into, module, offset: 0 };
    }
    let (file, line) = frame.at.rsplit_once(':').unwrap_or((frame.at, ""));
    let line = line.parse().unwrap_or(0);
    // `app+0x1139` is no source file.
    let in_module = line == 0 && file.contains("+0x");
    Place {
        function: frame.function.to_owned(),
        file: file.to_owned(),
        line,
        inlined_into: vec![],
        module: if in_module { String::new() } else { site.module.clone() },
        offset: 0,
    }
}

/// The name of allocated memory without frames of libraries: `in make at a.c:7`.
pub(super) fn allocated(wanted: &Wanted) -> String {
    let Wanted { name, callers, .. } = wanted;
    let own = name.strip_prefix("in ").unwrap_or(name);
    let parts = std::iter::once(own).chain(callers.iter().map(String::as_str));
    let all: String = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let list = frames(&all);
    match list.iter().find(|frame| !frame.is_library() && !frame.at.is_empty()) {
        Some(frame) => format!("in {}", frame.words()),
        None => name.to_owned(),
    }
}

fn is_atomic(function: &str) -> bool {
    let parts = ["atomic", "__exchange_and_add", "fetch_add", "compare_exchange", "test_and_set"];
    is_library_function(function) && parts.iter().any(|part| function.contains(part))
}

/// Whether a file's code is a library that programs only call.
fn is_library_module(module: &str) -> bool {
    let names = [
        "libc.so",
        "libc-",
        "libc.musl",
        "libpthread",
        "libm.so",
        "libm-",
        "libstdc++",
        "libc++",
        "libgcc_s",
        "ld-linux",
        "ld-musl",
        "libtbb",
        "libjemalloc",
        "libtcmalloc",
        "libmimalloc",
        "libdl",
        "librt",
        "linux-vdso",
        "libgfortran",
        "libatomic",
        "[vdso]",
    ];
    synchronization::is_openmp(module) || names.iter().any(|name| module.starts_with(name))
}

/// Whether a source file is a library's.
fn is_library_path(file: &str) -> bool {
    let folders = [
        "/usr/include/c++/",
        "/usr/lib/gcc/",
        "/include/c++/v1/",
        "/rustc/",
        "/library/std/src/",
        "/library/core/src/",
        "/library/alloc/src/",
        "/.cargo/registry/",
        "/usr/include/tbb/",
        "/usr/include/oneapi/",
        "/usr/include/boost/",
    ];
    folders.iter().any(|folder| file.contains(folder)) || is_library_header(base_name(file))
}

/// Whether a function's name is a library's.
fn is_library_function(function: &str) -> bool {
    let name =
        function.trim_start_matches('<').trim_start_matches("void ").trim_start_matches("bool ");
    let prefixes = [
        "std::",
        "__gnu_cxx::",
        "core::",
        "alloc::",
        "tbb::",
        "__gthread",
        "parking_lot::",
        "parking_lot_core::",
        "lock_api::",
        "hashbrown::",
        "operator new",
        "operator delete",
        "_ZSt",
        "_ZNSt",
    ];
    let own = |prefix: &&str| name.starts_with(*prefix);
    // `<T as alloc::vec::…>::from_elem`: the trait's crate.
    let of_trait = || {
        let (_, after) = name.split_once(" as ")?;
        let generic = name.len() < 4 || name.starts_with("T as ");
        (generic && prefixes.iter().any(|prefix| after.starts_with(prefix))).then_some(())
    };
    prefixes.iter().any(own)
        || (function.starts_with('<') && of_trait().is_some())
        || function.ends_with("@plt")
        || function == "_start"
}

/// Headers of libstdc++ whose names no program is likely to use for its own.
const LIBRARY_HEADERS: [&str; 36] = [
    "alloc_traits.h",
    "allocator.h",
    "new_allocator.h",
    "atomic_base.h",
    "atomicity.h",
    "invoke.h",
    "move.h",
    "std_thread.h",
    "std_mutex.h",
    "std_function.h",
    "unique_ptr.h",
    "unique_lock.h",
    "shared_ptr.h",
    "shared_ptr_base.h",
    "shared_ptr_atomic.h",
    "basic_string.h",
    "char_traits.h",
    "hashtable.h",
    "hashtable_policy.h",
    "unordered_map.h",
    "aligned_buffer.h",
    "ptr_traits.h",
    "gthr-default.h",
    "atomic_wait.h",
    "std_barrier.h",
    "this_thread_sleep.h",
    "predefined_ops.h",
    "functional_hash.h",
    "range_access.h",
    "random.tcc",
    "streambuf_iterator.h",
    "ios_base.h",
    "allocated_ptr.h",
    "refwrap.h",
    "enable_shared_from_this.h",
    "parse_numbers.h",
];
/// The same of the standard's own names.
const STANDARD_HEADERS: [&str; 25] = [
    "tuple",
    "vector",
    "atomic",
    "mutex",
    "thread",
    "future",
    "condition_variable",
    "deque",
    "functional",
    "shared_mutex",
    "array",
    "string",
    "memory",
    "optional",
    "variant",
    "new",
    "ostream",
    "istream",
    "type_traits",
    "numeric",
    "chrono",
    "barrier",
    "latch",
    "semaphore",
    "random",
];

fn is_library_header(file: &str) -> bool {
    LIBRARY_HEADERS.contains(&file)
        || STANDARD_HEADERS.contains(&file)
        || (file.starts_with("stl_") && file.ends_with(".h"))
        || file.ends_with(".tcc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::ObjectRow;

    fn site(function: &str, file: &str, module: &str, inlined: &str) -> SiteRow {
        SiteRow {
            address: 0x1000,
            module: module.into(),
            offset: 0x1000,
            function: function.into(),
            file: file.into(),
            line: 5,
            inlined: inlined.into(),
        }
    }

    #[test]
    fn headers_are_folded_up_to_the_programs_line() {
        let add = site(
            "__gnu_cxx::__atomic_add(int volatile*, int)",
            "/usr/include/c++/12/ext/atomicity.h",
            "/app",
            "std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>::_M_add_ref_copy() at shared_ptr_base.h:152; operator() at sp.cpp:12; __invoke<main()::<lambda()> > at invoke.h:61; run(int) at sp.cpp:20",
        );
        let origin = Origin::of(&add, &[]);
        assert_eq!(origin.place.short(), "sp.cpp:12 operator()");
        assert_eq!(origin.callers, ["run(int) at sp.cpp:20"]);
        assert_eq!((origin.sync, origin.of_program), (Some(Sync::References), true));
        let rust = site(
            "core::sync::atomic::atomic_add",
            "/rustc/5980/library/core/src/sync/atomic.rs",
            "/app",
            "<core::sync::atomic::AtomicU64>::fetch_add at atomic.rs:3167; arc::main::{{closure}} at arc.rs:4; std::sys::backtrace::__rust_begin_short_backtrace at backtrace.rs:166",
        );
        let origin = Origin::of(&rust, &[]);
        assert_eq!(origin.place.short(), "arc.rs:4 arc::main::{{closure}}");
        assert_eq!((origin.sync, origin.atomic), (None, true));
    }

    #[test]
    fn call_paths_name_the_caller_of_a_library() {
        let lock =
            site("___pthread_mutex_lock", "./nptl/pthread_mutex_lock.c", "/lib/libc.so.6", "");
        let origin = Origin::of(&lock, &[]);
        assert_eq!((origin.sync, origin.of_program), (Some(Sync::Mutex), false));
        assert_eq!(origin.place.in_words(), "in pthread_mutex_lock at libc.so.6");
        let paths = [
            "__GI___libc_free at malloc.c:5; std::mutex::lock() at std_mutex.h:100; push at q.cpp:9; libgomp.so.1.0.0+0x1cd; work at q.cpp:30",
        ];
        let origin = Origin::of(&lock, &paths);
        assert_eq!(origin.place.in_words(), "in push at q.cpp:9");
        assert_eq!(origin.callers, ["work at q.cpp:30"]);
        // Of a program without symbols, only addresses are known.
        let origin = Origin::of(&lock, &["app+0x13061; app+0x1717a"]);
        assert_eq!(origin.place.in_words(), "at app+0x13061");
        assert_eq!(origin.callers, ["app+0x1717a"]);
    }

    #[test]
    fn memory_is_named_by_the_program_that_allocated_it() {
        let allocated = |name: &str, callers: &str| {
            let (name, callers) = (name.into(), callers.into());
            allocated(&ObjectRow { name, callers, ..ObjectRow::default() }.wanted())
        };
        let callers = "construct<std::thread> at alloc_traits.h:516; emplace_back<X> at vector.tcc:123; main at sp.cpp:12";
        assert_eq!(
            allocated("in construct<X> at new_allocator.h:175", callers),
            "in main at sp.cpp:12"
        );
        assert_eq!(allocated("in make at a.c:7", "main at a.c:9"), "in make at a.c:7");
        assert_eq!(allocated("in operator new", ""), "in operator new");
    }
}

//! Which code synchronises threads instead of working on the program's data: locks, barriers,
//! queues of runtimes, reference counts, told by the names of functions, files and libraries.
//!
//! Problem: a mutex that many threads take looks like false sharing of its words, and padding it
//! would be bad advice. Approach: a frame of a library says what it is for; names are those of
//! glibc, musl, libgomp, libomp, libstdc++, libc++, Rust's library, parking_lot and TBB. Where a
//! library has no symbols, its name decides. Pure. Neighbours: `code` walks the frames, `group`
//! keeps such events apart, `advice` says what helps.

use serde::Serialize;
use ts_rs::TS;

/// What threads synchronise by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// A mutex or critical section.
    Mutex,
    /// A readers-writer lock.
    RwLock,
    /// A spin lock of a library.
    SpinLock,
    /// A condition variable.
    Condition,
    /// A barrier.
    Barrier,
    /// A semaphore.
    Semaphore,
    /// Initialisation that is done once.
    Once,
    /// How a runtime hands out the iterations of a loop.
    Loop,
    /// A queue of tasks or messages of a runtime.
    Tasks,
    /// A reference count.
    References,
    /// The memory allocator.
    Allocator,
    /// Streams: stdout and files.
    Streams,
    /// Start, end and joining of threads.
    Threads,
    /// The dynamic linker.
    Linker,
    /// The OpenMP runtime, where its functions have no names.
    OpenMp,
}

impl Sync {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sync::Mutex => "mutex",
            Sync::RwLock => "readers-writer lock",
            Sync::SpinLock => "spin lock",
            Sync::Condition => "condition variable",
            Sync::Barrier => "barrier",
            Sync::Semaphore => "semaphore",
            Sync::Once => "initialisation done once",
            Sync::Loop => "handing out of loop iterations",
            Sync::Tasks => "task queue",
            Sync::References => "reference count",
            Sync::Allocator => "memory allocator",
            Sync::Streams => "output streams",
            Sync::Threads => "start and end of threads",
            Sync::Linker => "dynamic linker",
            Sync::OpenMp => "OpenMP runtime (barriers, locks, start of parallel regions)",
        }
    }

    /// Whether there is one for the whole process, whoever uses it.
    pub(super) fn is_of_process(self) -> bool {
        matches!(self, Sync::Allocator | Sync::Streams | Sync::Threads | Sync::Linker)
    }

    /// Whether it lies in the program's own data: what it places, and reference counts.
    pub(super) fn lies_in_program(self) -> bool {
        self.is_placed_by_program() || self == Sync::References
    }

    /// Whether the program has an object for it whose place it chooses.
    pub(super) fn is_placed_by_program(self) -> bool {
        matches!(
            self,
            Sync::Mutex
                | Sync::RwLock
                | Sync::SpinLock
                | Sync::Condition
                | Sync::Barrier
                | Sync::Semaphore
        )
    }
}

/// Parts of names of functions, the first that is found decides.
const NAMES: &[(&str, Sync)] = &[
    ("pthread_cond_", Sync::Condition),
    ("condvar_", Sync::Condition),
    ("condition_variable", Sync::Condition),
    ("pthread_rwlock_", Sync::RwLock),
    ("pthread_mutex_", Sync::Mutex),
    ("pthread_spin_", Sync::SpinLock),
    ("pthread_barrier_", Sync::Barrier),
    ("pthread_once", Sync::Once),
    ("call_once", Sync::Once),
    ("cxa_guard_", Sync::Once),
    ("lll_", Sync::Mutex),
    ("sem_wait", Sync::Semaphore),
    ("sem_post", Sync::Semaphore),
    ("sem_trywait", Sync::Semaphore),
    ("sem_timedwait", Sync::Semaphore),
    ("_M_use_count", Sync::References),
    ("_M_weak_count", Sync::References),
    ("_Sp_counted_base", Sync::References),
    ("__shared_count", Sync::References),
    ("__shared_weak_count", Sync::References),
    ("alloc::sync::Arc<T>::new", Sync::References),
    ("gomp_critical", Sync::Mutex),
    ("gomp_mutex", Sync::Mutex),
    ("omp_set_lock", Sync::Mutex),
    ("omp_unset_lock", Sync::Mutex),
    ("kmpc_critical", Sync::Mutex),
    ("kmpc_end_critical", Sync::Mutex),
    ("kmp_acquire_", Sync::Mutex),
    ("kmp_release_", Sync::Mutex),
    ("kmpc_reduce", Sync::Barrier),
    ("barrier", Sync::Barrier),
    ("gomp_loop", Sync::Loop),
    ("gomp_iter", Sync::Loop),
    ("kmp_dispatch", Sync::Loop),
    ("kmpc_dispatch", Sync::Loop),
    ("task", Sync::Tasks),
    ("arena", Sync::Tasks),
    ("market", Sync::Tasks),
    ("gomp_parallel", Sync::Threads),
    ("gomp_team", Sync::Threads),
    ("kmp_fork", Sync::Threads),
    ("kmp_join", Sync::Threads),
];

/// Functions of allocators, without leading underscores.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "cfree",
    "int_malloc",
    "int_free",
    "int_realloc",
    "tcache_",
    "arena_get",
    "sysmalloc",
    "systrim",
    "malloc_consolidate",
    "unlink_chunk",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "operator new",
    "operator delete",
];

/// Last parts of the names of methods that lock and unlock.
const LOCKING: &[&str] = &[
    "lock",
    "unlock",
    "try_lock",
    "lock_slow",
    "unlock_slow",
    "lock_contended",
    "drop",
    "wake",
    "force_unlock",
    "read",
    "write",
    "try_read",
    "try_write",
    "read_contended",
    "write_contended",
    "read_unlock",
    "write_unlock",
    "wake_writer_or_readers",
    "lock_shared",
    "unlock_shared",
    "lock_exclusive",
    "unlock_exclusive",
    "lock_shared_slow",
    "lock_exclusive_slow",
];

/// What a function of a library synchronises by; `module` is the file that holds its code, `file`
/// its source file as the compiler knew it.
pub(super) fn of_frame(function: &str, file: &str, module: &str) -> Option<Sync> {
    if function.ends_with("@plt") || module.starts_with("ld-linux") || module.starts_with("ld-musl")
    {
        return Some(Sync::Linker);
    }
    if let Some(sync) = of_rust(function).or_else(|| of_parking_lot(function)) {
        return Some(sync);
    }
    if is_openmp(module) {
        return Some(by_name(function).unwrap_or(Sync::OpenMp));
    }
    if module.starts_with("libtbb") || function.contains("tbb::") {
        return by_name(function).or_else(|| module.starts_with("libtbb").then_some(Sync::Tasks));
    }
    if is_allocator(module) {
        return Some(Sync::Allocator);
    }
    if is_c_library(module) {
        return of_c_library(function, file);
    }
    let of_library = module.starts_with("libstdc++") || module.starts_with("libc++");
    if of_library || is_std(function) {
        return by_name(function).filter(|sync| !matches!(sync, Sync::Tasks));
    }
    of_class(function)
}

/// Classes of locks that programs and libraries have of their own, without underscores.
const LOCKS: &[(&str, Sync)] = &[
    ("mutex", Sync::Mutex),
    ("rwlock", Sync::RwLock),
    ("sharedmutex", Sync::RwLock),
    ("spinlock", Sync::SpinLock),
    ("spinmutex", Sync::SpinLock),
    ("ticketlock", Sync::SpinLock),
];

/// By the names of a class and its method: `absl::base_internal::SpinLock::SlowLock()`.
fn of_class(function: &str) -> Option<Sync> {
    let end = function.find('(').filter(|at| *at > 0).unwrap_or(function.len());
    let (path, method) = function[..end].rsplit_once("::")?;
    let plainly = |name: &str| name.to_lowercase().replace(['_', '~'], "");
    let (class, method) = (plainly(path.rsplit("::").next().unwrap_or(path)), plainly(method));
    let (_, sync) = LOCKS.iter().find(|(name, _)| *name == class)?;
    (method != class && method.contains("lock")).then_some(*sync)
}

fn of_c_library(function: &str, file: &str) -> Option<Sync> {
    let name = plain(function);
    let within = |folder: &str| file.contains(folder);
    if ALLOCATORS.iter().any(|known| is_of(name, known)) || within("malloc/") {
        return Some(Sync::Allocator);
    }
    if let Some(sync) = by_name(name).filter(|s| !matches!(s, Sync::Tasks | Sync::Barrier)) {
        return Some(sync);
    }
    if name.starts_with("pthread_barrier") {
        return Some(Sync::Barrier);
    }
    let threads = [
        "start_thread",
        "pthread_create",
        "create_thread",
        "clone",
        "pthread_join",
        "pthread_clockjoin",
        "pthread_timedjoin",
        "nptl_",
        "allocate_stack",
        "pthread_detach",
    ];
    let files = [("pthread_cond", Sync::Condition), ("lowlevellock", Sync::Mutex)];
    if let Some((_, sync)) = files.iter().find(|(part, _)| within(part)) {
        return Some(*sync);
    }
    if threads.iter().any(|known| name.starts_with(known)) || within("nptl/") {
        return Some(Sync::Threads);
    }
    let streams = [
        "IO_",
        "flockfile",
        "funlockfile",
        "vfprintf",
        "printf",
        "fprintf",
        "puts",
        "fwrite",
        "fputs",
        "fflush",
        "new_do_write",
    ];
    if streams.iter().any(|known| name.starts_with(known)) || within("libio/") {
        return Some(Sync::Streams);
    }
    let linker = ["dl_", "tls_get_addr", "call_tls_dtors", "ctype_init"];
    (linker.iter().any(|known| name.starts_with(known)) || within("elf/")).then_some(Sync::Linker)
}

/// Rust's standard library.
fn of_rust(function: &str) -> Option<Sync> {
    let has = |part: &str| function.contains(part);
    let std = ["std::", "core::", "alloc::"].iter().any(|krate| has(krate));
    if !std {
        return None;
    }
    if has("alloc::sync::Arc<") || has("alloc::sync::Weak<") {
        let counts = ["clone", "drop", "downgrade", "upgrade", "is_unique", "drop_slow"];
        return counts.contains(&last(function)).then_some(Sync::References);
    }
    if has("std::sync::mpmc") || has("std::sync::mpsc") {
        return Some(Sync::Tasks);
    }
    let table = [
        ("::condvar::", Sync::Condition),
        ("::barrier::", Sync::Barrier),
        ("::once::", Sync::Once),
        ("::once_lock::", Sync::Once),
        ("::thread_parking::", Sync::Condition),
        ("thread::lifecycle::", Sync::Threads),
        ("thread::spawn", Sync::Threads),
        ("thread::scoped::", Sync::Threads),
        ("backtrace::__rust_begin_short_backtrace", Sync::Threads),
    ];
    let locks = [("::mutex::", Sync::Mutex), ("::rwlock::", Sync::RwLock)];
    let lock = locks.iter().find(|(part, _)| has(part) && LOCKING.contains(&last(function)));
    let other = || table[..6].iter().find(|(part, _)| has(part));
    lock.or_else(other).map(|(_, sync)| *sync)
}

fn of_parking_lot(function: &str) -> Option<Sync> {
    let of_it = ["parking_lot::", "lock_api::", "parking_lot_core::"];
    if !of_it.iter().any(|krate| function.contains(krate)) || !LOCKING.contains(&last(function)) {
        return None;
    }
    let lower = function.to_lowercase();
    match (lower.contains("rwlock"), lower.contains("mutex")) {
        (true, _) => Some(Sync::RwLock),
        (_, true) => Some(Sync::Mutex),
        _ => function.contains("parking_lot_core").then_some(Sync::Condition),
    }
}

fn by_name(function: &str) -> Option<Sync> {
    let lower = function.to_lowercase();
    let found = NAMES.iter().find(|(part, _)| {
        function.contains(part) || (part.starts_with(char::is_lowercase) && lower.contains(part))
    });
    if let Some((_, sync)) = found {
        return Some(*sync);
    }
    // They write in an object of their own; what they call takes the lock.
    if ["lock_guard<", "unique_lock<", "scoped_lock<", "shared_lock<"]
        .iter()
        .any(|of| lower.contains(of))
    {
        return None;
    }
    let shared = lower.contains("shared_mutex") && LOCKING.contains(&last(function));
    let mutex = lower.contains("mutex") && LOCKING.contains(&last(function));
    match (shared, mutex) {
        (true, _) => Some(Sync::RwLock),
        (_, true) => Some(Sync::Mutex),
        _ => None,
    }
}

/// Whether a name is that of a function, or, if that ends with `_`, begins with it.
fn is_of(name: &str, known: &str) -> bool {
    let with_parameters =
        || name.strip_prefix(known).is_some_and(|rest| rest.starts_with(['(', '[']));
    name == known || with_parameters() || (known.ends_with('_') && name.starts_with(known))
}

/// The name of a function without what glibc puts before it.
fn plain(function: &str) -> &str {
    let mut name = function;
    loop {
        let next = ["_", "GI_", "libc_", "new_"].iter().find_map(|part| name.strip_prefix(part));
        match next {
            Some(rest) => name = rest,
            None => return name,
        }
    }
}

/// The last part of a path of names, without parameters: `lock` of `a::B<c::D>::lock(int)`.
fn last(function: &str) -> &str {
    let end = function.find('(').filter(|at| *at > 0).unwrap_or(function.len());
    let name = &function[..end];
    // Parameters of types may stand last: `f::<T>`.
    let name = match name.rfind("::<") {
        Some(at) if name.ends_with('>') => &name[..at],
        _ => name,
    };
    name.rsplit("::").next().unwrap_or(name)
}

fn is_std(function: &str) -> bool {
    ["std::", "__gnu_cxx::", "__gthread"].iter().any(|prefix| function.contains(prefix))
}

/// Whether a file is an OpenMP runtime.
pub(super) fn is_openmp(module: &str) -> bool {
    ["libgomp", "libomp", "libiomp"].iter().any(|name| module.starts_with(name))
}

fn is_allocator(module: &str) -> bool {
    ["libjemalloc", "libtcmalloc", "libmimalloc"].iter().any(|name| module.starts_with(name))
}

fn is_c_library(module: &str) -> bool {
    ["libc.so", "libc-", "libpthread", "libc.musl"].iter().any(|name| module.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries_are_known() {
        let libc = "libc.so.6";
        let cases = [
            ("___pthread_mutex_lock", "./nptl/pthread_mutex_lock.c", libc, Some(Sync::Mutex)),
            ("__lll_lock_wait", "", libc, Some(Sync::Mutex)),
            ("__GI___pthread_mutex_unlock_usercnt", "", libc, Some(Sync::Mutex)),
            ("___pthread_cond_signal", "", libc, Some(Sync::Condition)),
            ("__condvar_dec_grefs", "./nptl/pthread_cond_wait.c", libc, Some(Sync::Condition)),
            ("__new_sem_post", "", libc, Some(Sync::Semaphore)),
            ("start_thread", "./nptl/pthread_create.c", libc, Some(Sync::Threads)),
            ("__libc_malloc", "", libc, Some(Sync::Allocator)),
            ("tcache_put", "./malloc/malloc.c", libc, Some(Sync::Allocator)),
            ("_IO_file_xsputn", "", libc, Some(Sync::Streams)),
            ("__memmove_avx_unaligned_erms", "../sysdeps/x86_64/multiarch/m.S", libc, None),
            ("qsort_r", "./stdlib/msort.c", libc, None),
            ("GOMP_barrier", "", "libgomp.so.1.0.0", Some(Sync::Barrier)),
            ("GOMP_loop_dynamic_start", "", "libgomp.so.1.0.0", Some(Sync::Loop)),
            ("", "", "libgomp.so.1.0.0", Some(Sync::OpenMp)),
            ("__kmp_hyper_barrier_release", "", "libomp.so.5", Some(Sync::Barrier)),
            ("pthread_mutex_lock@plt", "", "app", Some(Sync::Linker)),
            (
                "std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>::_M_release()",
                "",
                "app",
                Some(Sync::References),
            ),
            ("std::atomic<long>::fetch_add(long)", "", "app", None),
            ("absl::base_internal::SpinLock::SlowLock()", "", "app", Some(Sync::SpinLock)),
            ("ticket_lock::unlock()", "", "app", Some(Sync::SpinLock)),
            ("absl::Mutex::ReaderLock()", "", "app", Some(Sync::Mutex)),
            ("Spinlock::Spinlock()", "", "app", None),
            ("Block::lock()", "", "app", None),
            ("<std::sys::sync::mutex::futex::Mutex>::lock", "", "app", Some(Sync::Mutex)),
            (
                "<std::sync::poison::mutex::MutexGuard<T> as core::ops::deref::Deref>::deref",
                "",
                "app",
                None,
            ),
            (
                "<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop",
                "",
                "app",
                Some(Sync::References),
            ),
            ("<alloc::sync::Arc<T,A> as core::ops::deref::Deref>::deref", "", "app", None),
            ("core::sync::atomic::atomic_add", "", "app", None),
            (
                "<parking_lot::raw_mutex::RawMutex as lock_api::mutex::RawMutex>::lock",
                "",
                "app",
                Some(Sync::Mutex),
            ),
            ("deflate_medium", "", "libz.so.1", None),
            ("std::unique_lock<std::mutex>::unlock()", "", "app", None),
            ("my_barrier_data", "app.c", "app", None),
            ("spin_lock", "app.c", "app", None),
        ];
        for (function, file, module, expected) in cases {
            assert_eq!(of_frame(function, file, module), expected, "{function} {module}");
        }
    }
}

//! Events that the kernel itself has names for (`tools/perf/util/parse-events.c`): software,
//! generalised events of processors, and those of their caches.

use crate::event::Event;
use perf_event_open_sys::bindings as b;

/// Each with its aliases.
const SOFTWARE: [(&str, u32); 10] = [
    ("cpu-clock", b::PERF_COUNT_SW_CPU_CLOCK),
    ("task-clock", b::PERF_COUNT_SW_TASK_CLOCK),
    ("page-faults", b::PERF_COUNT_SW_PAGE_FAULTS),
    ("faults", b::PERF_COUNT_SW_PAGE_FAULTS),
    ("minor-faults", b::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    ("major-faults", b::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    ("context-switches", b::PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("cpu-migrations", b::PERF_COUNT_SW_CPU_MIGRATIONS),
    ("alignment-faults", b::PERF_COUNT_SW_ALIGNMENT_FAULTS),
    ("emulation-faults", b::PERF_COUNT_SW_EMULATION_FAULTS),
];

const HARDWARE: [(&str, u32); 11] = [
    ("cycles", b::PERF_COUNT_HW_CPU_CYCLES),
    ("cpu-cycles", b::PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", b::PERF_COUNT_HW_INSTRUCTIONS),
    ("cache-references", b::PERF_COUNT_HW_CACHE_REFERENCES),
    ("cache-misses", b::PERF_COUNT_HW_CACHE_MISSES),
    ("branches", b::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-instructions", b::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-misses", b::PERF_COUNT_HW_BRANCH_MISSES),
    ("bus-cycles", b::PERF_COUNT_HW_BUS_CYCLES),
    ("stalled-cycles-backend", b::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    ("ref-cycles", b::PERF_COUNT_HW_REF_CPU_CYCLES),
];

const CACHES: [(&str, u32); 4] = [
    ("L1-dcache", b::PERF_COUNT_HW_CACHE_L1D),
    ("LLC", b::PERF_COUNT_HW_CACHE_LL),
    ("dTLB", b::PERF_COUNT_HW_CACHE_DTLB),
    ("node", b::PERF_COUNT_HW_CACHE_NODE),
];

/// What is done with a cache: operation, and whether those count that miss.
const USES: [(&str, u32, u32); 6] = [
    ("loads", b::PERF_COUNT_HW_CACHE_OP_READ, b::PERF_COUNT_HW_CACHE_RESULT_ACCESS),
    ("load-misses", b::PERF_COUNT_HW_CACHE_OP_READ, b::PERF_COUNT_HW_CACHE_RESULT_MISS),
    ("stores", b::PERF_COUNT_HW_CACHE_OP_WRITE, b::PERF_COUNT_HW_CACHE_RESULT_ACCESS),
    ("store-misses", b::PERF_COUNT_HW_CACHE_OP_WRITE, b::PERF_COUNT_HW_CACHE_RESULT_MISS),
    ("prefetches", b::PERF_COUNT_HW_CACHE_OP_PREFETCH, b::PERF_COUNT_HW_CACHE_RESULT_ACCESS),
    ("prefetch-misses", b::PERF_COUNT_HW_CACHE_OP_PREFETCH, b::PERF_COUNT_HW_CACHE_RESULT_MISS),
];

/// The event of this name, if the kernel has one.
pub(super) fn event(name: &str) -> Option<Event> {
    let code = |list: &[(&str, u32)]| {
        let found = list.iter().find(|(known, _)| *known == name);
        found.map(|(_, code)| u64::from(*code))
    };
    let plain = |kind, code| Event::plain(name, kind, code);
    code(&SOFTWARE)
        .map(|code| plain(b::PERF_TYPE_SOFTWARE, code))
        .or_else(|| code(&HARDWARE).map(|code| plain(b::PERF_TYPE_HARDWARE, code)))
        .or_else(|| of_cache(name).map(|code| plain(b::PERF_TYPE_HW_CACHE, code)))
}

/// `CACHE-USE`: cache, operation and result in a byte each.
fn of_cache(name: &str) -> Option<u64> {
    let with_cache = |(cache, code): &(&str, u32)| {
        let (_, operation, result) =
            USES.iter().find(|(used, ..)| name.strip_prefix(cache) == Some(&format!("-{used}")))?;
        Some(u64::from(code | operation << 8 | result << 16))
    };
    CACHES.iter().find_map(with_cache)
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = String> {
    let plain = SOFTWARE.iter().chain(&HARDWARE).map(|(name, _)| (*name).to_string());
    let uses = |(cache, _): &'static (&str, u32)| {
        USES.iter().map(move |(used, ..)| format!("{cache}-{used}"))
    };
    plain.chain(CACHES.iter().flat_map(uses))
}

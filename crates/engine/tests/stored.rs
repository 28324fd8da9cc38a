//! Blocks that come from a store are byte for byte what translation makes at the same place: the C
//! library's code, translated at one address, is used again at another, in a region at another
//! distance, with other numbers for links and sites and another table of branches.

use engine::Statistics;
use engine::cache::Stubs;
use engine::indirect::{BYTES, Tables};
use engine::superblock::Superblock;
use engine::{Engine, Host, Mode, Options};
use engine::{Kind, fingerprint};
use iced_x86::FlowControl;
use std::collections::{HashMap, HashSet};
use types::tally::{self, Meaning};

/// Most blocks that are compared.
const MAX_BLOCKS: usize = 6000;
const GIB: u64 = 1 << 30;

/// Records by the distance of their code from the module's beginning, and its kind.
type Store = HashMap<(u64, Kind), &'static [u8]>;

/// A copy of a module's code somewhere, and the place for the engine's memory.
struct Place {
    code: std::ops::Range<u64>,
    /// Where the next region is mapped.
    next: u64,
    mapped: Vec<(u64, u64)>,
    salt: u32,
    uses: bool,
    store: Store,
}

impl Host for Place {
    fn map_region(&mut self, _near: u64, bytes: u64) -> Option<u64> {
        let at = map_at(self.next, bytes);
        self.mapped.push((at, bytes));
        self.next += bytes;
        Some(at)
    }

    fn is_translatable(&self, pc: u64) -> bool {
        self.code.contains(&pc)
    }

    fn code_around(&self, _pc: u64) -> (u64, u64) {
        (self.code.start, self.code.end)
    }

    fn site(&self, pc: u64) -> u32 {
        (pc - self.code.start) as u32 + self.salt
    }

    /// Other numbers at each place.
    fn tally(&self, meaning: Meaning) -> Option<u32> {
        Some((meaning.bits() + self.salt) % tally::MAX as u32)
    }

    fn stored(&mut self, pc: u64, kind: Kind, block: &mut Vec<u8>) -> bool {
        let found = self.store.get(&(pc - self.code.start, kind)).filter(|_| self.uses);
        block.extend_from_slice(found.copied().unwrap_or_default());
        found.is_some()
    }

    fn store(&mut self, pc: u64, kind: Kind, block: &[u8]) {
        self.store.insert((pc - self.code.start, kind), block.to_vec().leak());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for (at, bytes) in &self.mapped {
            // SAFETY: mapped by `map_region`, and nothing runs there.
            unsafe { libc::munmap(*at as *mut _, *bytes as _) };
        }
    }
}

/// Fresh memory at an address where there is none.
fn map_at(address: u64, bytes: u64) -> u64 {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let at = unsafe { libc::mmap(address as *mut _, bytes as usize, 7, flags, -1, 0) };
    assert_eq!(at as u64, address, "{}", std::io::Error::last_os_error());
    address
}

/// The executable mapping that holds `pc`.
fn mapping_of(pc: u64) -> std::ops::Range<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bounds = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(bounds).find(|range| range.contains(&pc)).unwrap()
}

/// The C library's code, and functions in it, as distances from its beginning.
fn module() -> (&'static [u8], Vec<u64>) {
    let functions = [
        libc::printf as *const () as u64,
        libc::qsort as *const () as u64,
        libc::getaddrinfo as *const () as u64,
        libc::malloc as *const () as u64,
        libc::strtod as *const () as u64,
        libc::glob as *const () as u64,
        libc::strlen as *const () as u64,
        libc::strncpy as *const () as u64,
        libc::wmemchr as *const () as u64,
    ];
    let range = mapping_of(functions[1]);
    let bytes = (range.end - range.start) as usize;
    // SAFETY: mapped, and stays.
    let code = unsafe { std::slice::from_raw_parts(range.start as *const u8, bytes) };
    (code, functions.map(|f| f - range.start).to_vec())
}

/// Distances of the blocks that the functions lead to directly.
fn blocks(place: &Place, functions: &[u64], options: &Options) -> Vec<u64> {
    let mut seen: HashSet<u64> = functions.iter().copied().collect();
    let mut list = functions.to_vec();
    let mut next = 0;
    while next < list.len() && list.len() < MAX_BLOCKS {
        let readable = |pc: u64| place.is_translatable(pc);
        let pc = place.code.start + list[next];
        // SAFETY: only code in the copy is read.
        let block = unsafe { Superblock::decode(pc, options, &readable) };
        let branches = block.instructions.iter().filter(|i| {
            use FlowControl::{Call, ConditionalBranch, UnconditionalBranch};
            matches!(i.flow_control(), Call | ConditionalBranch | UnconditionalBranch)
        });
        let targets = branches.map(|i| i.near_branch_target()).chain([block.end]);
        let inside = targets.filter(|t| place.is_translatable(*t)).map(|t| t - place.code.start);
        list.extend(inside.filter(|t| seen.insert(*t)));
        next += 1;
    }
    list
}

/// A table in low memory, where it stays.
fn table() -> Tables {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    // SAFETY: a fresh mapping.
    let table = unsafe { libc::mmap(std::ptr::null_mut(), BYTES as usize, 3, flags, -1, 0) };
    Tables { base: i32::try_from(table as u64).unwrap(), first: 0, count: 1 }
}

/// Asks for all blocks; returns what lies in the regions then.
fn run(
    place: &mut Place,
    list: &[u64],
    options: Options,
    tables: Tables,
    first: u64,
) -> (Vec<u8>, Statistics) {
    let mut engine = Engine::new(options, Stubs::default(), tables);
    for distance in std::iter::once(&first).chain(list) {
        // SAFETY: nothing runs; the code is mapped.
        unsafe { engine.look_up(place.code.start + distance, place) };
    }
    let (at, bytes) = *place.mapped.last().unwrap();
    let used = engine.cache_bytes() as usize;
    // What runs and what seldom does.
    let parts = [at, at + engine::cache::hot_bytes(bytes)];
    // SAFETY: mapped by `map_region`.
    let part = |at: u64| unsafe { std::slice::from_raw_parts(at as *const u8, used) };
    (parts.map(part).concat(), engine.statistics)
}

/// What blocks of usual code are known by.
fn kind(options: &Options) -> Kind {
    Kind { returns_flags: false, fingerprint: fingerprint(options) }
}

fn compare(mode: Mode) {
    compare_as(mode, 0);
}

fn compare_as(mode: Mode, poll: i32) {
    let (code, functions) = module();
    let options = Options { stores: true, poll, ..Options::new(mode, 6, 0) };
    let starts = [0x1111_0000_0000u64, 0x2222_1234_5000].map(|at| at + (mode as u64) * 16 * GIB);
    for start in starts {
        map_at(start, code.len() as u64);
        // SAFETY: just mapped, writable.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
    }
    let place = |k: usize, salt, uses, store| Place {
        code: starts[k]..starts[k] + code.len() as u64,
        next: (starts[k] & !0xffff) - (k as u64 + 1) * (GIB / 2),
        mapped: Vec::new(),
        salt,
        uses,
        store,
    };
    let (first, second) = (table(), table());
    let mut here = place(0, 7, false, Store::new());
    let list = blocks(&here, &functions, &options);
    let (_, made) = run(&mut here, &list, options, first, functions[0]);
    let store = std::mem::take(&mut here.store);
    let (expected, translated) = {
        let mut there = place(1, 1000, false, Store::new());
        run(&mut there, &list, options, second, functions[0])
    };
    let mut there = place(1, 1000, true, store);
    let (found, loaded) = run(&mut there, &list, options, second, functions[0]);
    assert!(list.len() > 2000 && made.stored == 0, "{} blocks", list.len());
    let has_loops = matches!(mode, Mode::Matrix | Mode::Detail | Mode::Undirected);
    assert_eq!(made.loops > 20, has_loops, "{} loops", made.loops);
    assert!(loaded.stored * 100 > made.blocks * 98, "{} of {}", loaded.stored, made.blocks);
    let counts =
        |s: &Statistics| [s.blocks, s.loops, s.instructions, s.checks, s.accesses, s.unseen];
    assert_eq!(counts(&loaded), counts(&translated));
    let differ = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), differ), (expected.len(), None), "{mode:?}");
}

#[test]
fn stored_blocks_are_what_translation_makes_when_nothing_is_counted() {
    compare(Mode::Translate);
}

#[test]
fn stored_blocks_are_what_translation_makes_without_checks() {
    compare_as(Mode::Count, 0x1234);
}

#[test]
fn stored_blocks_are_what_translation_makes_of_a_matrix() {
    compare(Mode::Matrix);
}

#[test]
fn stored_blocks_are_what_translation_makes_in_detail() {
    compare(Mode::Detail);
}

#[test]
fn stored_blocks_are_what_translation_makes_for_the_other_definition() {
    compare(Mode::Undirected);
}

#[test]
fn stored_blocks_are_what_translation_makes_of_traces() {
    compare(Mode::Trace);
}

#[test]
fn other_code_and_damaged_records_are_translated() {
    let (code, functions) = module();
    let options = Options { stores: true, ..Options::new(Mode::Matrix, 6, 0) };
    let start = map_at(0x3333_0000_0000, code.len() as u64);
    // SAFETY: just mapped, writable.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
    let tables = table();
    let place = |uses, store| Place {
        code: start..start + code.len() as u64,
        next: start - GIB,
        mapped: Vec::new(),
        salt: 0,
        uses,
        store,
    };
    let mut first = place(false, Store::new());
    run(&mut first, &[], options, tables, functions[0]);
    let record = first.store[&(functions[0], kind(&options))];
    drop(first);
    let stored = |record: &[u8]| {
        let store = Store::from([((functions[0], kind(&options)), &*record.to_vec().leak())]);
        run(&mut place(true, store), &[], options, tables, functions[0]).1.stored
    };
    assert_eq!(stored(record), 1);
    for bytes in (0..record.len()).step_by(7) {
        assert_eq!(stored(&record[..bytes]), 0, "the first {bytes} bytes");
    }
    // Another first instruction: nop.
    // SAFETY: writable.
    unsafe { std::ptr::write_bytes((start + functions[0]) as *mut u8, 0x90, 1) };
    assert_eq!(stored(record), 0);
}

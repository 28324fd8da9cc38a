//! How long translation takes: translates functions of libc and everything that they lead to,
//! without running it, and prints the time for an instruction. `cargo run --release -p
//! threadtalk-engine --example bench_translate [MODE [ROUNDS]]`, MODE translate, matrix or detail.

use engine::cache::Stubs;
use engine::indirect::{BYTES, Tables};
use engine::superblock::Superblock;
use engine::{Engine, Host, Mode, Options};
use iced_x86::FlowControl;
use std::collections::HashSet;
use std::time::Duration;
use types::tally::{self, Meaning};

/// Most blocks of a round.
const MAX_BLOCKS: usize = 20_000;

/// Code that may be read, and places for regions below it.
struct Code {
    start: u64,
    end: u64,
    /// With their lengths.
    regions: Vec<(u64, u64)>,
}

impl Host for Code {
    fn map_region(&mut self, _near: u64, bytes: u64) -> Option<u64> {
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        let around = self.start & !(bytes - 1);
        (1..99).map(|k| around - k * bytes).find_map(|hint| {
            // SAFETY: replaces nothing.
            let at = unsafe { libc::mmap(hint as *mut _, bytes as _, 7, flags, -1, 0) };
            (at as u64 == hint).then(|| {
                self.regions.push((hint, bytes));
                hint
            })
        })
    }

    fn is_translatable(&self, pc: u64) -> bool {
        (self.start..self.end).contains(&pc)
    }

    fn site(&self, _pc: u64) -> u32 {
        1
    }

    fn tally(&self, meaning: Meaning) -> Option<u32> {
        Some(meaning.bits() % tally::MAX as u32)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        for (region, bytes) in &self.regions {
            // SAFETY: mapped by `map_region`, and nothing runs there.
            unsafe { libc::munmap(*region as *mut _, *bytes as _) };
        }
    }
}

/// The executable mapping that holds `pc`.
fn mapping_of(pc: u64) -> (u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let bounds = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let found = maps.lines().filter_map(bounds).find(|(start, end)| (*start..*end).contains(&pc));
    found.expect("functions are mapped")
}

/// Addresses of blocks, by following all direct exits from `seeds`.
fn blocks(seeds: &[u64], code: &Code, options: &Options) -> Vec<u64> {
    let mut seen: HashSet<u64> = seeds.iter().copied().collect();
    let mut list = seeds.to_vec();
    let mut next = 0;
    while next < list.len() && list.len() < MAX_BLOCKS {
        let readable = |pc: u64| code.is_translatable(pc);
        // SAFETY: only code in the mapping is read.
        let block = unsafe { Superblock::decode(list[next], options, &readable) };
        let branches = block.instructions.iter().filter(|i| {
            use FlowControl::{Call, ConditionalBranch, UnconditionalBranch};
            matches!(i.flow_control(), Call | ConditionalBranch | UnconditionalBranch)
        });
        let targets = branches.map(|i| i.near_branch_target()).chain([block.end]);
        list.extend(targets.filter(|t| code.is_translatable(*t) && seen.insert(*t)));
        next += 1;
    }
    list
}

/// CPU time of this thread: other programs may be running.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = match arguments.next().as_deref() {
        Some("translate") => Mode::Translate,
        Some("matrix") => Mode::Matrix,
        _ => Mode::Detail,
    };
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let seeds = [
        libc::printf as *const () as u64,
        libc::qsort as *const () as u64,
        libc::getaddrinfo as *const () as u64,
        libc::malloc as *const () as u64,
        libc::strtod as *const () as u64,
        libc::glob as *const () as u64,
        libc::setlocale as *const () as u64,
        libc::realpath as *const () as u64,
    ];
    let (start, end) = mapping_of(seeds[1]);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    // SAFETY: a fresh mapping.
    let table = unsafe { libc::mmap(std::ptr::null_mut(), BYTES as usize, 3, flags, -1, 0) };
    let table = i32::try_from(table as u64).expect("MAP_32BIT gives low memory");
    let options = Options::new(mode, 6, 0);
    let mut best = Duration::MAX;
    let mut told = String::new();
    for _ in 0..rounds {
        let mut code = Code { start, end, regions: Vec::new() };
        let list = blocks(&seeds, &code, &options);
        let mut engine =
            Engine::new(options, Stubs::default(), Tables { base: table, first: 0, count: 1 });
        let began = cpu_time();
        for pc in list {
            // SAFETY: nothing runs; the code is mapped.
            unsafe { engine.look_up(pc, &mut code) };
        }
        let took = cpu_time() - began;
        if took < best {
            best = took;
            let s = engine.statistics;
            told = format!(
                "{mode:?}: {} blocks, {} instructions, {} bytes of code each; {:.0} ns for an instruction",
                s.blocks,
                s.instructions,
                engine.cache_bytes() / s.instructions,
                took.as_nanos() as f64 / s.instructions as f64
            );
        }
    }
    println!("{told}");
}

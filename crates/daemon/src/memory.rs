//! Names memory so that processes that share it meet: private memory by its process, shared memory
//! by its file (device and inode) and the offset there. Also tells how large pages are.
//!
//! `/proc/PID/maps` is read again when an address is in none of the known mappings, and now and
//! then; what that costs is bounded.

use recorder::clock::cpu_time;
use rustc_hash::FxHashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Longest time for which mappings are taken as known, and what reading them may cost: 1/`SHARE` of
/// a processor.
const LONGEST: Duration = Duration::from_secs(5);
const SHARE: u32 = 500;

/// Pages of the kernel's usual size, and transparent huge ones.
const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;

#[derive(Clone, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    /// Space and offset, if processes share it.
    shared: Option<(u64, u64)>,
    /// It consists of huge pages where they fit.
    huge: bool,
}

#[derive(Debug)]
struct Process {
    mappings: Vec<Mapping>,
    next: Instant,
    latest: Instant,
}

/// The memory of processes.
#[derive(Debug, Default)]
pub struct Memory {
    processes: FxHashMap<u32, Process>,
    /// Whether page sizes are wanted, which takes longer to read.
    sizes: bool,
}

impl Memory {
    /// Knows nothing; `sizes` says whether page sizes will be asked for.
    pub fn new(sizes: bool) -> Self {
        Self { processes: FxHashMap::default(), sizes }
    }

    /// Forgets processes that are gone, or have executed another program.
    pub fn retain(&mut self, there: impl Fn(u32) -> bool) {
        self.processes.retain(|pid, _| there(*pid));
    }

    /// The space of an address in a process, and its address there.
    pub fn name(&mut self, pid: u32, address: u64) -> (u64, u64) {
        let private = (u64::from(pid), address);
        let Some(mapping) = self.mapping(pid, address) else { return private };
        match mapping.shared {
            Some((space, offset)) => (space, offset + (address - mapping.start)),
            None => private,
        }
    }

    /// The size of the page at an address.
    pub fn page_bytes(&mut self, pid: u32, address: u64) -> u64 {
        let start = address / HUGE_PAGE * HUGE_PAGE;
        match self.mapping(pid, address) {
            Some(found) if found.huge && found.start <= start && start + HUGE_PAGE <= found.end => {
                HUGE_PAGE
            }
            _ => PAGE,
        }
    }

    fn mapping(&mut self, pid: u32, address: u64) -> Option<Mapping> {
        let now = Instant::now();
        let sizes = self.sizes;
        let process = self.processes.entry(pid).or_insert_with(|| read(pid, sizes, now));
        let found = find(&process.mappings, address);
        let stale = now >= process.latest || (found.is_none() && now >= process.next);
        if !stale {
            return found;
        }
        *process = read(pid, sizes, now);
        find(&process.mappings, address)
    }
}

fn find(mappings: &[Mapping], address: u64) -> Option<Mapping> {
    let at = mappings.partition_point(|mapping| mapping.end <= address);
    mappings.get(at).filter(|mapping| mapping.start <= address).cloned()
}

fn read(pid: u32, sizes: bool, now: Instant) -> Process {
    let before = cpu_time();
    let name = if sizes { "smaps" } else { "maps" };
    let text = fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mappings = parse(&text);
    let spent = cpu_time().saturating_sub(before);
    let next = Instant::now() + (spent * SHARE).max(Duration::from_millis(50));
    Process { mappings, next, latest: next.max(now + LONGEST) }
}

/// The mappings in `maps`, or in `smaps`, which tells of huge pages.
fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        match (parse_line(line), mappings.last_mut()) {
            (Some(mapping), _) => mappings.push(mapping),
            (None, Some(last)) => {
                let huge = ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"]
                    .iter()
                    .find_map(|name| line.strip_prefix(name));
                last.huge |= huge.is_some_and(|amount| amount.trim() != "0 kB");
            }
            (None, None) => {}
        }
    }
    mappings
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let rights = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?);
    let inode: u64 = fields.next()?.parse().ok()?;
    // Numbers of processes are below 2^22, these are above.
    let space = (1 << 63) | (device.0 << 51) ^ (device.1 << 43) ^ inode;
    let shared = (rights.as_bytes().get(3) == Some(&b's') && inode != 0).then_some((space, offset));
    Some(Mapping { start, end, shared, huge: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00401000 r-xp 00000000 08:01 42 /bin/x
Size: 4 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
AnonHugePages:      4096 kB
7f0000500000-7f0000502000 rw-s 00001000 00:01 77 /dev/shm/a (deleted)
AnonHugePages:         0 kB
";

    #[test]
    fn shared_memory_has_one_name_and_private_memory_its_process() {
        let mappings = parse(SMAPS);
        assert_eq!(mappings.len(), 3);
        let shared = mappings[2].shared.unwrap();
        assert_eq!(shared.1, 0x1000);
        let elsewhere = parse("10000-12000 rw-s 00000000 00:01 77 /dev/shm/a");
        assert_eq!(elsewhere[0].shared.unwrap().0, shared.0);
        assert_eq!(mappings[0].shared, None);
        assert!(mappings[1].huge && !mappings[2].huge);
        assert!(
            find(&mappings, 0x7f0000500fff).is_some() && find(&mappings, 0x7f0000400000).is_none()
        );
    }

    #[test]
    fn our_own_memory_is_private() {
        let mut memory = Memory::new(false);
        let (pid, value) = (std::process::id(), 7_u64);
        let address = (&raw const value) as u64;
        assert_eq!(memory.name(pid, address), (u64::from(pid), address));
        assert_eq!(memory.page_bytes(pid, address), 4096);
        memory.retain(|_| false);
        assert!(memory.processes.is_empty());
    }
}

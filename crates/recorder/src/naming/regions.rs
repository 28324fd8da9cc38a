//! What kinds of memory a process has had, from `/proc/PID/maps` looked at from time to time.
//!
//! A process is gone when its profile is made, so what was mapped is noted while it runs; memory
//! that has been unmapped in between stays known unless something else came into its place. Static
//! data does not depend on this: `places` finds it in the files of the modules. Neighbours:
//! `monitor` looks, `places` asks.

use std::collections::BTreeMap;

/// What a range of memory is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The break's heap or an arena of glibc's malloc.
    Heap,
    /// The initial thread's stack.
    Stack,
    /// A file, or shared memory with a name; its path.
    File(String),
    /// Anything else without a file: large allocations, stacks of threads, mmap.
    Anonymous,
}

/// Known memory of a process, by start address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Regions {
    /// Start to end and kind; they do not overlap.
    ranges: BTreeMap<u64, (u64, Kind)>,
}

/// glibc's arenas lie at multiples of this (HEAP_MAX_SIZE in malloc/arena.c, 64-bit).
const ARENA_BYTES: u64 = 64 << 20;

/// One line of the kernel's table.
struct Mapped<'a> {
    start: u64,
    end: u64,
    permissions: &'a str,
    path: &'a str,
}

impl Regions {
    /// Notes what is mapped now: the text of `/proc/PID/maps`. Lines that cannot be read are left
    /// out.
    pub fn note(&mut self, maps: &str) {
        let mapped: Vec<Mapped> = maps.lines().filter_map(parse).collect();
        let mut now = BTreeMap::new();
        for (i, range) in mapped.iter().enumerate() {
            if range.permissions.starts_with('r') || range.permissions[1..].starts_with('w') {
                now.insert(range.start, (range.end, kind(range, mapped.get(i + 1))));
            }
        }
        let before = std::mem::replace(&mut self.ranges, now);
        for (start, (end, kind)) in before {
            let below = self.ranges.range(..end).next_back();
            if below.is_none_or(|(_, (below_end, _))| *below_end <= start) {
                self.ranges.insert(start, (end, kind));
            }
        }
    }

    /// The range around `address`, and what it is.
    pub fn find(&self, address: u64) -> Option<(std::ops::Range<u64>, &Kind)> {
        let (start, (end, kind)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some((*start..*end, kind))
    }
}

fn parse(line: &str) -> Option<Mapped<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next().filter(|text| text.len() == 4 && text.is_ascii())?;
    let path = fields.nth(3).unwrap_or("").trim_start();
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapped { start: address(start)?, end: address(end)?, permissions, path })
}

/// What `range` is for; `next` is the line after it.
fn kind(range: &Mapped, next: Option<&Mapped>) -> Kind {
    match range.path {
        "[heap]" => Kind::Heap,
        "[stack]" => Kind::Stack,
        // What shared anonymous memory looks like.
        "/dev/zero (deleted)" => Kind::Anonymous,
        path if path.starts_with('/') => Kind::File(path.into()),
        "" if is_arena(range, next) => Kind::Heap,
        _ => Kind::Anonymous,
    }
}

/// Whether the range is an arena: at its place, with the rest of it reserved behind.
fn is_arena(range: &Mapped, next: Option<&Mapped>) -> bool {
    let whole = range.start + ARENA_BYTES;
    let reserved = |next: &Mapped| {
        next.start == range.end && next.end == whole && next.permissions.starts_with("---")
    };
    let full = range.end == whole;
    range.start.is_multiple_of(ARENA_BYTES)
        && range.permissions.starts_with("rw-p")
        && (full || next.is_some_and(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5581a0000000-5581a0001000 r--p 00000000 08:01 11 /usr/bin/two words
5581a0004000-5581a0005000 rw-p 00003000 08:01 11 /usr/bin/two words
5581a1000000-5581a1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f0010000000-7f0010800000 rw-p 00000000 00:00 0 
7f0020000000-7f0020001000 rw-s 00000000 00:01 7                          /dev/zero (deleted)
7f0020002000-7f0020003000 rw-s 00000000 00:01 8                          /dev/shm/ring
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
nonsense
";

    #[test]
    fn memory_is_known_by_what_it_is_for() {
        let mut regions = Regions::default();
        regions.note(MAPS);
        let at = |address| regions.find(address).map(|(_, kind)| kind.clone());
        let file = |path: &str| Some(Kind::File(path.into()));
        assert_eq!(at(0x5581_a000_4fff), file("/usr/bin/two words"));
        assert_eq!(at(0x5581_a000_5000), None);
        assert_eq!(at(0x5581_a100_0040), Some(Kind::Heap));
        assert_eq!(at(0x7f00_0000_0040), Some(Kind::Heap));
        assert_eq!(at(0x7f00_0003_0000), None);
        assert_eq!(at(0x7f00_1000_0000), Some(Kind::Anonymous));
        assert_eq!(at(0x7f00_2000_0000), Some(Kind::Anonymous));
        assert_eq!(at(0x7f00_2000_2000), file("/dev/shm/ring"));
        assert_eq!(at(0x7ffc_0000_0000), Some(Kind::Stack));
        let range = regions.find(0x7ffc_0000_0040).unwrap().0;
        assert_eq!(range, 0x7ffc_0000_0000..0x7ffc_0002_1000);
    }

    #[test]
    fn what_is_unmapped_stays_known_until_its_place_is_taken() {
        let mut regions = Regions::default();
        regions.note("1000-3000 rw-p 0 0:0 0 /a\n5000-6000 rw-p 0 0:0 0 /b\n");
        regions.note("2000-4000 rw-p 0 0:0 0 /c\n");
        let at = |address| regions.find(address).map(|(_, kind)| kind.clone());
        assert_eq!(at(0x1000), None);
        assert_eq!(at(0x2800), Some(Kind::File("/c".into())));
        assert_eq!(at(0x5800), Some(Kind::File("/b".into())));
    }

    #[test]
    fn this_process_has_a_stack_and_a_heap() {
        let mut regions = Regions::default();
        regions.note(&std::fs::read_to_string("/proc/self/maps").unwrap());
        static STATIC: u64 = 7;
        let (_, kind) = regions.find(&raw const STATIC as u64).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(*kind, Kind::File(exe.to_str().unwrap().into()));
        // Tests run in threads of their own, whose memory comes from arenas.
        let boxed = Box::new(7);
        let (_, kind) = regions.find(&raw const *boxed as u64).unwrap();
        assert_eq!(*kind, Kind::Heap);
    }
}

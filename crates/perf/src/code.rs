//! The code of a running program, read from outside.
//!
//! Problem: the process may be gone by the time that a sample is looked at, it may have executed another
//! program, and reading its memory needs more permission than sampling it. Approach: code that is mapped
//! from a file is read from the file ([`Mapping::open`]); everything else (code made at run time, the vDSO,
//! files that cannot be reached) from `/proc/PID/mem`, if that is allowed.
//!
//! What is mapped is learnt from records, and from `/proc/PID/maps` when an address is not known.

use crate::mapped::Mapping;
use crate::sample::Record;
use access::Code;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often the list of mappings is read again for addresses that are not in it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A file that code is mapped from.
#[derive(Debug)]
struct Source {
    file: File,
    device: u64,
    inode: u64,
}

/// A piece of executable memory.
#[derive(Clone, Debug)]
struct Region {
    start: u64,
    end: u64,
    offset: u64,
    /// None: read from memory.
    source: Option<Rc<Source>>,
}

/// The code of one process.
#[derive(Debug)]
pub(crate) struct ProcessCode {
    pid: u32,
    regions: Vec<Region>,
    memory: Option<File>,
    looked: Option<Instant>,
}

impl ProcessCode {
    pub fn new(pid: u32) -> Self {
        Self { pid, regions: Vec::new(), memory: None, looked: None }
    }

    /// Takes note of a mapping. Returns whether it replaces code that was known.
    pub fn note(&mut self, record: &Record) -> bool {
        let Some(mapping) = record.mapping() else { return false };
        let region = self.region_of(&mapping);
        let known = self.regions.len();
        self.regions.retain(|r| r.end <= region.start || r.start >= region.end);
        let replaces = self.regions.len() != known;
        let at = self.regions.partition_point(|r| r.start < region.start);
        self.regions.insert(at, region);
        replaces
    }

    fn region_of(&self, mapping: &Mapping<'_>) -> Region {
        let Mapping { start, end, offset, .. } = *mapping;
        Region { start, end, offset, source: self.source(mapping) }
    }

    fn source(&self, mapping: &Mapping<'_>) -> Option<Rc<Source>> {
        if !mapping.is_file() {
            return None;
        }
        let Mapping { device, inode, .. } = *mapping;
        let same = |s: &&Rc<Source>| (s.device, s.inode) == (device, inode);
        if let Some(known) = self.regions.iter().filter_map(|r| r.source.as_ref()).find(same) {
            return Some(Rc::clone(known));
        }
        let file = mapping.open(self.pid)?;
        Some(Rc::new(Source { file, device, inode }))
    }

    /// The region that holds `address`.
    fn region(&mut self, address: u64) -> Option<Region> {
        if let Some(found) = find(&self.regions, address) {
            return Some(found.clone());
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return None;
        }
        self.looked = Some(Instant::now());
        self.look();
        find(&self.regions, address).cloned()
    }

    /// Reads the list of mappings, if the process is still there.
    fn look(&mut self) {
        let Ok(maps) = fs::read(format!("/proc/{}/maps", self.pid)) else { return };
        let maps = String::from_utf8_lossy(&maps);
        let found: Vec<Region> = maps
            .lines()
            .filter_map(Mapping::of_line)
            .filter(|mapping| mapping.executable)
            .map(|mapping| self.region_of(&mapping))
            .collect();
        if !found.is_empty() {
            self.regions = found;
        }
    }

    fn read_memory(&mut self, address: u64, into: &mut [u8]) -> usize {
        // The descriptor is bound to the program that ran when it was opened.
        for _ in 0..2 {
            if self.memory.is_none() {
                self.memory = File::open(format!("/proc/{}/mem", self.pid)).ok();
            }
            let Some(memory) = &self.memory else { return 0 };
            match memory.read_at(into, address) {
                Ok(count) if count > 0 => return count,
                _ => self.memory = None,
            }
        }
        0
    }
}

impl Code for ProcessCode {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let Some(region) = self.region(address) else { return 0 };
        let room = (region.end - address).min(into.len() as u64) as usize;
        let into = &mut into[..room];
        let Some(source) = &region.source else { return self.read_memory(address, into) };
        let offset = region.offset + (address - region.start);
        match source.file.read_at(into, offset) {
            Ok(count) if count > 0 => count,
            _ => self.read_memory(address, into),
        }
    }

    fn is_fixed(&mut self, address: u64) -> bool {
        find(&self.regions, address).is_some_and(|region| region.source.is_some())
    }
}

fn find(regions: &[Region], address: u64) -> Option<&Region> {
    let after = regions.partition_point(|region| region.start <= address);
    regions[..after].last().filter(|region| address < region.end)
}

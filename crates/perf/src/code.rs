//! The code of a running program, read from outside.
//!
//! Problem: the process may be gone by the time that a sample is looked at, it may have executed another
//! program, and reading its memory needs more permission than sampling it. Approach: code that is mapped
//! from a file is read from the file, which is found as the process sees it (`map_files`, then its root,
//! then ours) and only taken if device and inode are those of the mapping; everything else (code made at
//! run time, the vDSO, deleted files) from `/proc/PID/mem`, if that is allowed.
//!
//! What is mapped is learnt from records, and from `/proc/PID/maps` when an address is not known.

use crate::sample::Record;
use access::Code;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
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
        let Record::Mapped { start, bytes, file_offset, path, device, inode, .. } = record else {
            return false;
        };
        let number = libc::makedev(device.0, device.1);
        let region = Region {
            start: *start,
            end: start.saturating_add(*bytes),
            offset: *file_offset,
            source: self.source(*start, *start + *bytes, path, number, *inode),
        };
        let known = self.regions.len();
        self.regions.retain(|r| r.end <= region.start || r.start >= region.end);
        let replaces = self.regions.len() != known;
        let at = self.regions.partition_point(|r| r.start < region.start);
        self.regions.insert(at, region);
        replaces
    }

    fn source(
        &self,
        start: u64,
        end: u64,
        path: &str,
        device: u64,
        inode: u64,
    ) -> Option<Rc<Source>> {
        // Names of what is no file: [vdso], //anon.
        if inode == 0 || !path.starts_with('/') || path.starts_with("//") {
            return None;
        }
        let same = |s: &&Rc<Source>| (s.device, s.inode) == (device, inode);
        if let Some(known) = self.regions.iter().filter_map(|r| r.source.as_ref()).find(same) {
            return Some(Rc::clone(known));
        }
        let pid = self.pid;
        let candidates = [
            format!("/proc/{pid}/map_files/{start:x}-{end:x}"),
            format!("/proc/{pid}/root{path}"),
            path.to_string(),
        ];
        candidates.iter().find_map(|name| open(&PathBuf::from(name), device, inode)).map(Rc::new)
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
            .filter_map(mapping)
            .filter(|m| m.executable)
            .map(|m| Region {
                start: m.start,
                end: m.end,
                offset: m.offset,
                source: self.source(m.start, m.end, m.path, m.device, m.inode),
            })
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

/// Opens a file if it is the mapped one.
fn open(path: &PathBuf, device: u64, inode: u64) -> Option<Source> {
    // Devices and pipes may do things when they are opened.
    let is_it = |meta: &fs::Metadata| {
        meta.is_file() && meta.ino() == inode && (device == 0 || meta.dev() == device)
    };
    if !is_it(&fs::metadata(path).ok()?) {
        return None;
    }
    let file = File::open(path).ok()?;
    is_it(&file.metadata().ok()?).then_some(Source { file, device, inode })
}

/// A line of /proc/PID/maps.
#[derive(Debug, PartialEq)]
struct MappingLine<'a> {
    start: u64,
    end: u64,
    executable: bool,
    offset: u64,
    device: u64,
    inode: u64,
    path: &'a str,
}

fn mapping(line: &str) -> Option<MappingLine<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(MappingLine {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable,
        offset,
        device: libc::makedev(number(major)?, number(minor)?),
        inode: fields.next()?.parse().ok()?,
        path: fields.next().unwrap_or_default().trim_start(),
    })
}

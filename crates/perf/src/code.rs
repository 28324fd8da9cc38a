//! The code of a running program, read from outside.
//!
//! Problem: the process may be gone by the time that a sample is looked at, it may have executed
//! another program, and reading its memory needs more permission than sampling it. Approach: code
//! that is mapped from a file is read from the file, at its path or by [`Mapping::open`];
//! everything else (code made at run time, the vDSO, files that cannot be reached) from
//! `/proc/PID/mem`, if that is allowed.
//!
//! What is mapped is learnt from records, and from `/proc/PID/maps` when an address is not known.

use crate::mapped::Mapping;
use crate::sample::Record;
use access::Code;
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often the list of mappings is read again for addresses that are not in it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Bytes of a file that are read at once, and most such pieces of one file that are kept.
const PIECE: u64 = 4096;
const MAX_PIECES: usize = 1024;

/// A file that code is mapped from.
#[derive(Debug)]
struct Source {
    /// Opened when it is first read: of most of a program's libraries no code is ever looked at.
    /// `None`: it is not there any more.
    file: OnceCell<Option<File>>,
    /// Where it is, unless it is open already.
    path: PathBuf,
    device: u64,
    inode: u64,
    /// What has been read: code around samples is asked for instruction by instruction. The last
    /// one of a file is shorter.
    pieces: RefCell<FxHashMap<u64, Vec<u8>>>,
}

impl Source {
    fn of(mapping: &Mapping<'_>, file: OnceCell<Option<File>>, path: PathBuf) -> Self {
        let Mapping { device, inode, .. } = *mapping;
        Self { file, path, device, inode, pieces: RefCell::default() }
    }

    /// One that is open.
    fn open(mapping: &Mapping<'_>, file: File) -> Self {
        Self::of(mapping, OnceCell::from(Some(file)), PathBuf::new())
    }

    /// One that is at `path`.
    fn at(mapping: &Mapping<'_>, path: &Path) -> Self {
        Self::of(mapping, OnceCell::new(), path.into())
    }

    fn file(&self) -> Option<&File> {
        let Self { device, inode, .. } = *self;
        let same = Mapping { device, inode, ..Mapping::default() };
        self.file.get_or_init(|| same.open_at(&self.path)).as_ref()
    }

    /// Fills `into` from a byte of the file on; returns how many bytes there are.
    fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut pieces = self.pieces.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            if pieces.len() >= MAX_PIECES && !pieces.contains_key(&(at / PIECE)) {
                pieces.clear();
            }
            let piece = pieces.entry(at / PIECE).or_insert_with(|| self.piece(at / PIECE));
            let rest = piece.get((at % PIECE) as usize..).unwrap_or_default();
            let count = rest.len().min(into.len() - done);
            if count == 0 {
                break;
            }
            into[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
        }
        done
    }

    fn piece(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; PIECE as usize];
        let read = |file: &File| file.read_at(&mut bytes, number * PIECE).ok();
        let count = self.file().and_then(read).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }
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

/// What noting a mapping has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// It replaces code that was known.
    pub replaces: bool,
    /// Whether the mapped file is at its path, where that had to be looked at.
    pub is_at_path: Option<bool>,
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

    /// Takes note of a mapping.
    pub fn note(&mut self, record: &Record) -> Noted {
        let Some(mapping) = record.mapping() else { return Noted::default() };
        let (region, is_at_path) = self.region_of(&mapping);
        let known = self.regions.len();
        self.regions.retain(|r| r.end <= region.start || r.start >= region.end);
        let replaces = self.regions.len() != known;
        let at = self.regions.partition_point(|r| r.start < region.start);
        self.regions.insert(at, region);
        Noted { replaces, is_at_path }
    }

    /// And whether the file is at its path, if that had to be looked at.
    fn region_of(&self, mapping: &Mapping<'_>) -> (Region, Option<bool>) {
        let Mapping { start, end, offset, .. } = *mapping;
        let (source, is_at_path) = self.source(mapping);
        (Region { start, end, offset, source }, is_at_path)
    }

    fn source(&self, mapping: &Mapping<'_>) -> (Option<Rc<Source>>, Option<bool>) {
        if !mapping.is_file() {
            return (None, None);
        }
        let Mapping { device, inode, .. } = *mapping;
        let same = |s: &&Rc<Source>| (s.device, s.inode) == (device, inode);
        if let Some(known) = self.regions.iter().filter_map(|r| r.source.as_ref()).find(same) {
            return (Some(Rc::clone(known)), None);
        }
        let name = Path::new(mapping.name());
        let is_at_path = mapping.is_at(name);
        let source = match is_at_path {
            true => Some(Source::at(mapping, name)),
            // Only the process leads there, as long as it lives.
            false => mapping.open(self.pid).map(|file| Source::open(mapping, file)),
        };
        (source.map(Rc::new), Some(is_at_path))
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
        let found: Vec<Region> =
            Mapping::executable(&maps).map(|mapping| self.region_of(&mapping).0).collect();
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
        match source.read(offset, into) {
            0 => self.read_memory(address, into),
            count => count,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_files_are_read_once_and_joined() {
        let path = std::env::current_exe().expect("we are a file");
        let whole = fs::read(&path).expect("our own file");
        let file = File::open(&path).expect("our own file");
        let source = Source::open(&Mapping::default(), file);
        let read = |offset: usize, bytes: usize| {
            let mut into = vec![0; bytes];
            let count = source.read(offset as u64, &mut into);
            into.truncate(count);
            into
        };
        assert_eq!(read(5000, 15), whole[5000..5015]);
        assert_eq!(source.pieces.borrow().len(), 1);
        assert_eq!(read(4000, 9000), whole[4000..13_000]);
        assert_eq!(source.pieces.borrow().len(), 4);
        let end = whole.len();
        assert_eq!(read(end - 10, 100), whole[end - 10..]);
        assert!(read(end, 10).is_empty());
        for piece in 0..2 * MAX_PIECES {
            read(piece * PIECE as usize, 1);
        }
        assert!(source.pieces.borrow().len() <= MAX_PIECES);
        assert_eq!(read(5000, 15), whole[5000..5015]);
    }

    #[test]
    fn a_file_is_opened_when_its_code_is_read_and_only_if_it_is_still_the_same() {
        let pid = std::process::id();
        let maps = fs::read("/proc/self/maps").expect("we may look at ourselves");
        let path = std::env::current_exe().expect("we are a file");
        let mine = Mapping::all(&maps).find(|m| m.path == path && m.executable).expect("our code");
        let source = ProcessCode::new(pid).source(&mine).0.expect("our own file");
        assert!(source.file.get().is_none());
        let mut bytes = [0; 4];
        assert_eq!((source.read(0, &mut bytes), &bytes), (4, b"\x7fELF"));
        let other = Source::at(&Mapping { inode: mine.inode + 1, ..mine }, &path);
        assert_eq!(other.read(0, &mut bytes), 0);
    }
}

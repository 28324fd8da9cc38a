//! The store of translated code, so that a program's code is translated once and not in every run.
//!
//! It is a file in the user's cache folder, one for each build of the engine: nothing that another
//! build has translated is ever used. Its layout is `wire::code`'s; processes read it while they
//! run, and when they are gone what they have translated anew is added. It can be removed at any
//! time, and costs nothing but time when it cannot be used: all errors here mean doing without.
//!
//! Neighbours: [`user_cache`](crate::user_cache) says where it lies and whether it is safe,
//! [`record`](crate::record) opens it before and adds to it after a run.

use crate::memory::without_size_signal;
use crate::session::Session;
use crate::user_cache::{self, NoCache};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use wire::code::{self, FileHeader, RecordHead, Slot};

/// What the files' names begin with.
const PREFIX: &str = "code-";
/// Most bytes of all files; those that have not been used for longest go first.
const MAX_IN_ALL: u64 = 2 * code::MAX_BYTES;

const HEADER_BYTES: usize = size_of::<FileHeader>();
const SLOT_BYTES: usize = size_of::<Slot>();
/// Slots that are read at once.
const SLOTS_READ: usize = 8;

/// An open store.
pub struct CodeStore {
    file: File,
    path: PathBuf,
}

/// What the first page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    end: u64,
    records: u64,
}

impl Header {
    /// Of a store without records.
    const EMPTY: Header = Header { end: code::RECORDS_OFFSET, records: 0 };

    /// `None` for one that is not ours, or of another version.
    fn parse(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let word = |k: usize| u64::from_le_bytes(std::array::from_fn(|b| bytes[8 * k + b]));
        let is_known = word(0) == code::MAGIC && word(1) == u64::from(code::VERSION);
        is_known.then(|| Header { end: word(2).max(code::RECORDS_OFFSET), records: word(3) })
    }

    fn bytes(self) -> Vec<u8> {
        let words = [code::MAGIC, code::VERSION.into(), self.end, self.records];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// What is about to be added.
#[derive(Default)]
struct Addition {
    records: Vec<u8>,
    /// Taken slots of the index, with key and place of what belongs there.
    slots: HashMap<usize, [u64; 2]>,
}

impl CodeStore {
    /// Opens the user's store for this build of the engine, whose library is `agent`; makes it if
    /// need be.
    pub fn open(agent: &Path) -> Result<Self, NoCache> {
        Self::open_in(&user_cache::folder()?, agent)
    }

    fn open_in(folder: &Path, agent: &Path) -> Result<Self, NoCache> {
        user_cache::prepare(folder)?;
        let path = folder.join(format!("{PREFIX}{:016x}", number_of(agent)?));
        let is_new = !path.exists();
        let file = user_cache::open(&path, true)?;
        let store = CodeStore { file, path };
        store.prepare()?;
        if is_new {
            // Of other builds; of this one, what it may grow to.
            user_cache::remove_unused(&store.path, PREFIX, MAX_IN_ALL - code::MAX_BYTES);
        }
        Ok(store)
    }

    /// The descriptor under which processes find it.
    pub fn descriptor(&self) -> u32 {
        self.file.as_raw_fd() as u32
    }

    /// Makes an empty store of an empty file; refuses one that is something else.
    fn prepare(&self) -> io::Result<()> {
        if !self.is_ready() {
            // It may be in the making.
            let _lock = Lock::take(&self.file)?;
            if self.file.metadata()?.len() == 0 {
                self.make()?;
            } else if !self.is_ready() {
                // Damaged: the next recording makes a new one.
                fs::remove_file(&self.path)?;
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        user_cache::note_use(&self.file);
        Ok(())
    }

    /// An empty index takes its room on the disk at once: reading a mapped hole may need some, too,
    /// and there is no way to say then that there is none.
    fn make(&self) -> io::Result<()> {
        let bytes = code::RECORDS_OFFSET as libc::off_t;
        let fd = self.file.as_raw_fd();
        // SAFETY: our own descriptor.
        match without_size_signal(|| unsafe { libc::posix_fallocate(fd, 0, bytes) }) {
            0 => self.file.write_all_at(&Header::EMPTY.bytes(), 0),
            error => {
                // Not to be found half made.
                let _ = fs::remove_file(&self.path);
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Whether it has an index, and is one that we know.
    fn is_ready(&self) -> bool {
        let is_large_enough =
            self.file.metadata().is_ok_and(|data| data.len() >= code::RECORDS_OFFSET);
        is_large_enough && matches!(self.header(), Ok(Some(_)))
    }

    fn header(&self) -> io::Result<Option<Header>> {
        let mut bytes = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(Header::parse(bytes))
    }

    /// Adds what the first `segments` processes of a recording have translated.
    pub fn add(&self, session: &Session, segments: u32) -> io::Result<()> {
        for segment in 0..segments {
            let bytes = session.of_segment(segment).code().map_err(io::Error::other)?;
            if !bytes.is_empty() && !without_size_signal(|| self.add_records(&bytes))? {
                break;
            }
        }
        Ok(())
    }

    /// False if the store is full, and was given up.
    fn add_records(&self, bytes: &[u8]) -> io::Result<bool> {
        let _lock = Lock::take(&self.file)?;
        let header = self.header()?.ok_or(io::Error::from(io::ErrorKind::InvalidData))?;
        let mut new = Addition::default();
        for (head, whole) in records(bytes) {
            let key = code::key(head.module, head.offset);
            if let Some(slot) = self.slot_for(&new, key, &head)? {
                new.slots.insert(slot, [key, header.end.saturating_add(new.records.len() as u64)]);
                new.records.extend_from_slice(whole);
            }
        }
        let end = header.end.saturating_add(new.records.len() as u64);
        let records = header.records.saturating_add(new.slots.len() as u64);
        if end > code::MAX_BYTES || records > code::MAX_RECORDS {
            // Processes that read it now keep it; the next recording begins a new one.
            fs::remove_file(&self.path)?;
            return Ok(false);
        }
        // A writer that ends here half done leaves records that no reader finds, or that the next
        // ones overwrite.
        self.file.write_all_at(&new.records, header.end)?;
        for (slot, words) in new.slots {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.file.write_all_at(&bytes, slot_offset(slot))?;
        }
        self.file.write_all_at(&Header { end, records }.bytes(), 0)?;
        Ok(true)
    }

    /// Where in the index a record belongs; `None` if it is there, or about to be, or if there is
    /// no room.
    fn slot_for(&self, new: &Addition, key: u64, head: &RecordHead) -> io::Result<Option<usize>> {
        let mut read = [0; SLOTS_READ * SLOT_BYTES];
        let mut known = 0..0;
        for slot in code::slots(key) {
            if let Some([taken, _]) = new.slots.get(&slot) {
                if *taken == key {
                    return Ok(None);
                }
                continue;
            }
            if !known.contains(&slot) {
                known = slot..(slot + SLOTS_READ).min(code::SLOTS);
                let bytes = &mut read[..known.len() * SLOT_BYTES];
                self.file.read_exact_at(bytes, slot_offset(slot))?;
            }
            let word = |k: usize| {
                let at = (slot - known.start) * SLOT_BYTES + 8 * k;
                u64::from_le_bytes(std::array::from_fn(|b| read[at + b]))
            };
            match word(0) {
                0 => return Ok(Some(slot)),
                found if found == key => {
                    return Ok((!self.is_whole(word(1), head)).then_some(slot));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Whether the record at `place` is one for the same code, undamaged.
    fn is_whole(&self, place: u64, like: &RecordHead) -> bool {
        let mut head = [0; code::HEAD_BYTES as usize];
        if self.file.read_exact_at(&mut head, place).is_err() {
            return false;
        }
        let bytes = u64::from_le_bytes(head[24..].try_into().expect("eight bytes"));
        if bytes > like.bytes.saturating_mul(2) {
            return false;
        }
        let mut whole = vec![0; (code::HEAD_BYTES + bytes) as usize];
        self.file.read_exact_at(&mut whole, place).is_ok()
            && code::record(&whole).is_some_and(|(found, _)| {
                (found.module, found.offset) == (like.module, like.offset)
            })
    }
}

/// The undamaged records in a process's part of a recording, each with its padding.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (RecordHead, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = code::record(bytes)?;
        let length = code::padded(code::HEAD_BYTES + head.bytes) as usize;
        let (whole, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some((head, whole))
    })
}

/// A number for the build of the engine in that file.
fn number_of(agent: &Path) -> io::Result<u64> {
    let build = fs::metadata(agent)?;
    let words = [build.dev(), build.ino(), build.size()].into_iter();
    let times = [build.mtime(), build.mtime_nsec(), build.ctime(), build.ctime_nsec()];
    let words = words.chain(times.map(|time| time as u64));
    Ok(words.fold(0, |all: u64, word| code::mix(all.rotate_left(9) ^ word)))
}

fn slot_offset(slot: usize) -> u64 {
    code::INDEX_OFFSET + (slot * SLOT_BYTES) as u64
}

/// Keeps other recorders from adding at the same time.
struct Lock<'a>(&'a File);

impl<'a> Lock<'a> {
    fn take(file: &'a File) -> io::Result<Self> {
        // SAFETY: our own descriptor.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(Lock(file)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
#[path = "code_store_tests.rs"]
mod tests;

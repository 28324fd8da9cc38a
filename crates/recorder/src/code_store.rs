//! The store of translated code, so that a program's code is translated once and not in every run.
//!
//! It is a file in the user's cache folder, one for each build of the engine: nothing that another build
//! has translated is ever used. Its layout is `wire::code`'s; processes read it while they run, and when
//! they are gone what they have translated anew is added. It can be removed at any time, and costs
//! nothing but time when it cannot be used: all errors here mean doing without.
//!
//! Whoever can write into the file can have code run by whatever is recorded next, so folder and file
//! must belong to the user, and nobody else may write into them.
//!
//! Neighbours: [`record`](crate::record) opens it before and adds to it after a run.

use crate::session::Session;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, SystemTime};
use wire::code::{self, FileHeader, RecordHead, Slot};

/// What the files' names begin with.
const PREFIX: &str = "code-";
/// Files of other builds are removed when they have not been used for so long.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// An open store.
pub struct CodeStore {
    file: File,
    path: PathBuf,
}

impl CodeStore {
    /// Opens the user's store for this build of the engine, whose library is `agent`; makes it if
    /// need be.
    pub fn open(agent: &Path) -> Option<Self> {
        let folder = match std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
            Some(folder) if folder.is_absolute() => folder,
            _ => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?)
                .join(".cache"),
        };
        Self::open_in(&folder.join("threadtalk"), agent).ok()
    }

    fn open_in(folder: &Path, agent: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        check_owner(&fs::metadata(folder)?)?;
        let build = fs::metadata(agent)?;
        let words = [build.dev(), build.ino(), build.size()].into_iter();
        let times = [build.mtime(), build.mtime_nsec(), build.ctime(), build.ctime_nsec()];
        let words = words.chain(times.map(|time| time as u64));
        let number = words.fold(0, |all: u64, word| code::mix(all.rotate_left(9) ^ word));
        let path = folder.join(format!("{PREFIX}{number:016x}"));
        let is_new = !path.exists();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&path)?;
        check_owner(&file.metadata()?)?;
        let store = CodeStore { file, path };
        store.prepare()?;
        if is_new {
            store.remove_unused(folder);
        }
        Ok(store)
    }

    /// The descriptor under which processes find it.
    pub fn descriptor(&self) -> u32 {
        self.file.as_raw_fd() as u32
    }

    /// Makes an empty store of an empty file; refuses one that is something else.
    fn prepare(&self) -> io::Result<()> {
        if self.file.metadata()?.len() == 0 {
            let _lock = Lock::take(&self.file)?;
            if self.file.metadata()?.len() == 0 {
                self.file.set_len(code::RECORDS_OFFSET)?;
                let view = View::of(&self.file)?;
                view.header().end.store(code::RECORDS_OFFSET, Relaxed);
                view.header().version.store(code::VERSION, Relaxed);
                view.header().magic.store(code::MAGIC, Release);
            }
        }
        let fits = self.file.metadata()?.len() >= code::RECORDS_OFFSET;
        if !fits || !View::of(&self.file)?.header().is_known() {
            // Damaged: the next recording makes a new one.
            fs::remove_file(&self.path)?;
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// Removes what other builds have left long ago.
    fn remove_unused(&self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let used = entry.metadata().and_then(|data| Ok(data.accessed()?.max(data.modified()?)));
            let is_old = used.is_ok_and(|used| {
                SystemTime::now().duration_since(used).is_ok_and(|ago| ago > UNUSED)
            });
            if is_ours && is_old && entry.path() != self.path {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Adds what the first `segments` processes of a recording have translated.
    pub fn add(&self, session: &Session, segments: u32) -> io::Result<()> {
        for segment in 0..segments {
            let bytes = session.of_segment(segment).code().map_err(io::Error::other)?;
            if !bytes.is_empty() && !self.add_records(&bytes)? {
                break;
            }
        }
        Ok(())
    }

    /// False if the store is full, and was given up.
    fn add_records(&self, bytes: &[u8]) -> io::Result<bool> {
        let _lock = Lock::take(&self.file)?;
        let view = View::of(&self.file)?;
        let header = view.header();
        let start = header.end.load(Relaxed).max(code::RECORDS_OFFSET);
        let mut end = start;
        let mut new = Vec::new();
        for (head, whole) in records(bytes) {
            let key = code::key(head.module, head.offset);
            let Some(slot) = self.slot_for(&view, key, &head, start) else { continue };
            let length = whole.len() as u64;
            let taken = header.records.fetch_add(1, Relaxed);
            if end + length > code::MOST_BYTES || taken >= code::MOST_RECORDS {
                // Whoever reads it now keeps it; the next recording begins a new one.
                fs::remove_file(&self.path)?;
                return Ok(false);
            }
            // Until the record is there, its checksum is not.
            slot.place.store(end, Relaxed);
            slot.key.store(key, Release);
            new.extend_from_slice(whole);
            end += length;
        }
        self.file.write_all_at(&new, start)?;
        header.end.store(end, Relaxed);
        Ok(true)
    }

    /// Where in the index a record belongs; `None` if it is there, or about to be (from `coming` on), or
    /// if there is no room.
    fn slot_for<'a>(
        &self,
        view: &'a View,
        key: u64,
        head: &RecordHead,
        coming: u64,
    ) -> Option<&'a Slot> {
        for slot in code::slots(key) {
            let slot = &view.index()[slot];
            match slot.key.load(Acquire) {
                0 => return Some(slot),
                found if found == key => {
                    let place = slot.place.load(Relaxed);
                    let is_there = place >= coming || self.is_whole(place, head);
                    return (!is_there).then_some(slot);
                }
                _ => {}
            }
        }
        None
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

/// Neither somebody else's nor for others to write into.
fn check_owner(data: &fs::Metadata) -> io::Result<()> {
    // SAFETY: no arguments, cannot fail.
    let is_ours = data.uid() == unsafe { libc::geteuid() };
    match is_ours && data.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
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

/// Header and index, mapped.
struct View(*mut libc::c_void);

impl View {
    /// The file must be large enough for both.
    fn of(file: &File) -> io::Result<Self> {
        let (protection, bytes) = (libc::PROT_READ | libc::PROT_WRITE, code::RECORDS_OFFSET);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let at = unsafe {
            let none = std::ptr::null_mut();
            libc::mmap(none, bytes as usize, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(View(at))
    }

    fn header(&self) -> &FileHeader {
        // SAFETY: mapped as long as self lives; all fields are atomic.
        unsafe { &*self.0.cast() }
    }

    fn index(&self) -> &[Slot] {
        // SAFETY: as above; the index lies behind the header.
        unsafe {
            let at = self.0.cast::<u8>().add(code::INDEX_OFFSET as usize);
            std::slice::from_raw_parts(at.cast(), code::SLOTS)
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.0, code::RECORDS_OFFSET as usize) };
    }
}

#[cfg(test)]
#[path = "code_store_tests.rs"]
mod tests;

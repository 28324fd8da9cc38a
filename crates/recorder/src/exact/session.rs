//! One exact recording in shared memory: created for the agent, read back without touching holes.

use crate::error::RecorderError;
use crate::memory::{Mapping, SharedMemory};
use crate::switching;
use profile::Counted;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use std::{io, mem};
use types::ThreadId;
use types::tally::{self, Executed, Meaning};
use wire::detail::WEIGHT_OF_ONE;
use wire::detail::{CHUNK_BYTES, gap};
use wire::pages::known;
use wire::session::{self, Calls, Header, Module, ThreadArea, ThreadPage, mode};
use wire::trace::Filter;
use wire::windows::leave;

/// Bytes of the blocks with which the engine can count accesses by page.
const PAGES_BLOCK_BYTES: u64 = 64;

/// Settings of a recording.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SessionOptions {
    /// Memory block in which communication is counted, bytes; a power of two between 16 and 1 MiB.
    pub block_bytes: u64,
    /// Engine optimisations to switch off (bit set, see the engine); 0 = all on.
    pub disable: u32,
    /// Translated code after which the engine's cache is full and flushed, KiB; 0 = as by default.
    pub cache_kib: u32,
    /// How much detail is counted.
    pub counted: Counted,
    /// In `Matrix` and `Detail`, also trace accesses, but for those that this leaves out.
    pub trace: Filter,
    /// Record child processes, each into a segment of its own; false: they run natively.
    pub follow: bool,
    /// Most child processes that are recorded.
    pub children: u32,
    /// Length of a time slice; zero: the run is one slice.
    pub slice: Duration,
    /// Most memory for events by line and code site, and for cells of the matrices; counting goes
    /// on coarser beyond. Of each process.
    pub event_bytes: u64,
    /// Most memory for cells of the matrices, of each process.
    pub cell_bytes: u64,
    /// Use translated code of earlier recordings, and keep what is translated now.
    pub code_cache: bool,
    /// Follow what the program allocates, so that events on the heap have an object.
    pub objects: bool,
    /// Count who accesses which page.
    pub pages: bool,
    /// With a trace, find out what lies on each page, even if accesses are not counted by page.
    pub name_pages: bool,
    /// Observe accesses in windows only, as this dial says; `None`: always.
    pub windows: Option<windows::Dial>,
    /// For tests: with windows, change the phase each time that so much has passed, whatever the
    /// dial says, µs; 0 = as it says.
    pub switch_us: u32,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            block_bytes: 64,
            disable: 0,
            cache_kib: 0,
            counted: Counted::Detail,
            trace: Filter::default(),
            follow: true,
            children: session::MAX_SEGMENTS - 1,
            slice: Duration::from_millis(10),
            event_bytes: 64 << 20,
            cell_bytes: 512 << 20,
            code_cache: true,
            objects: true,
            pages: false,
            name_pages: false,
            windows: None,
            switch_us: 0,
        }
    }
}

impl SessionOptions {
    /// The agent's [`mode`].
    fn mode(&self) -> u32 {
        match self.counted {
            Counted::Translate => mode::TRANSLATE,
            Counted::Matrix => mode::MATRIX,
            Counted::Detail => mode::DETAIL,
            Counted::Undirected => mode::UNDIRECTED,
            Counted::Reference => mode::TRACE,
        }
    }

    /// Whether accesses come in a ring.
    pub fn traces(&self) -> bool {
        self.counted == Counted::Reference || self.trace.is_some()
    }

    /// Whether the engine counts accesses by page. (The reference does without its help.)
    pub fn counts_pages(&self) -> bool {
        self.pages && matches!(self.counted, Counted::Matrix | Counted::Detail)
    }

    /// Whether slow paths note what lies on pages, and nothing is counted by page.
    pub fn names_pages(&self) -> bool {
        let can = matches!(self.counted, Counted::Matrix | Counted::Detail);
        can && self.name_pages && self.trace.is_some() && !self.pages
    }

    /// Refuses block sizes that the shadow memory cannot have.
    fn check(&self) -> Result<(), RecorderError> {
        let bytes = self.block_bytes;
        if !bytes.is_power_of_two() || !(16..=1 << 20).contains(&bytes) {
            return Err(RecorderError::BlockSize { bytes });
        }
        if self.counts_pages() && bytes != PAGES_BLOCK_BYTES {
            return Err(RecorderError::BlockSizeWithPages { bytes });
        }
        Ok(())
    }
}

/// What one process of a recording writes into: a segment of the recording's memory.
#[derive(Clone)]
pub struct Session {
    memory: Arc<SharedMemory>,
    /// Number of the segment; 0 is the process that was started.
    segment: u32,
}

/// One thread as the agent left it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RawThread {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// The kernel's thread id.
    pub tid: u32,
    /// The creating thread; `None` for the initial thread.
    pub parent: Option<ThreadId>,
    /// One of [`wire::session::life`].
    pub life: u32,
    /// Address of the start routine; 0 when unknown.
    pub start_routine: u64,
    /// CLOCK_MONOTONIC when it started, ns.
    pub started_ns: i64,
    /// CLOCK_MONOTONIC when it ended, ns.
    pub ended_ns: i64,
    /// Last known name.
    pub name: String,
    /// Stack pointer with which it was created; 0 when unknown.
    pub stack: u64,
    /// Bytes of its stack, which end there; 0 when unknown.
    pub stack_bytes: u64,
    /// Thread pointer with which it was created; 0 when unknown.
    pub thread_pointer: u64,
    /// Tracked blocks for which it has counted the first late event.
    pub late_blocks: u64,
    /// Tracked blocks that it came to first in windows, by the window's age: see
    /// `wire::detail::Footprint`.
    pub touched: [u64; gap::ENDS.len() + 1],
    /// Windows that it came into.
    pub windows: u64,
}

/// A mapped file with code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawModule {
    /// Address of its first byte.
    pub start: u64,
    /// Address behind its last byte.
    pub end: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Path in the program's mount namespace.
    pub path: String,
    /// Where the file can be read.
    pub file: ModuleFile,
}

/// What the kernel adds to the path of a mapped file that was deleted.
pub const DELETED: &str = " (deleted)";

/// Where a mapped file can be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ModuleFile {
    /// Under the module's path.
    #[default]
    AtPath,
    /// Elsewhere: what has that path now is another file, or none.
    At(PathBuf),
    /// It cannot.
    Unreachable,
}

impl RawModule {
    /// The path to read it from, if it can be read.
    pub fn readable(&self) -> Option<&Path> {
        match &self.file {
            ModuleFile::AtPath => Some(Path::new(&self.path)),
            ModuleFile::At(path) => Some(path),
            ModuleFile::Unreachable => None,
        }
    }
}

impl Session {
    /// Creates an empty session.
    ///
    /// # Errors
    /// Fails when the options are refused or the kernel grants no memory.
    pub fn create(options: SessionOptions) -> Result<Self, RecorderError> {
        options.check()?;
        let memory = SharedMemory::create("recording", c"threadtalk-session", session::FILE_BYTES)?;
        let session = Self { memory: Arc::new(memory), segment: 0 };
        {
            let mapping = session.header()?;
            let header = &mapping.records()[0];
            header.version.store(session::VERSION, Relaxed);
            header.block_shift.store(options.block_bytes.trailing_zeros(), Relaxed);
            header.disable.store(options.disable, Relaxed);
            header.cache_kib.store(options.cache_kib, Relaxed);
            header.mode.store(options.mode(), Relaxed);
            header.trace_ways.store(options.trace.ways, Relaxed);
            header.trace_lines.store(options.trace.lines, Relaxed);
            let chunks = |bytes: u64| (bytes / CHUNK_BYTES).min(session::MAX_CHUNKS as u64) as u32;
            header.event_chunks.store(chunks(options.event_bytes), Relaxed);
            header.cell_chunks.store(chunks(options.cell_bytes), Relaxed);
            header.objects.store(u32::from(options.objects), Relaxed);
            let known = match (options.counts_pages(), options.names_pages()) {
                (true, _) => known::COUNTED,
                (_, true) => known::NAMED,
                _ => known::NONE,
            };
            header.pages.store(known, Relaxed);
            header.follow.store(u32::from(options.follow), Relaxed);
            header.segments.store(1, Relaxed);
            header.max_segments.store(options.children.saturating_add(1), Relaxed);
            header.parent_segment.store(u32::MAX, Relaxed);
            header.windows.store(switching::way(options.windows), Relaxed);
            header.leave.0.store(leave::LIGHT, Relaxed);
            if let Some(dial) = options.windows {
                header.phase.store(switching::first_word(dial), Relaxed);
                header.weights.iter().for_each(|weight| weight.store(WEIGHT_OF_ONE, Relaxed));
            }
            header.magic.store(session::MAGIC, Relaxed);
        }
        Ok(session)
    }

    /// What goes into the environment variable [`session::ENV`].
    pub fn path(&self) -> std::ffi::OsString {
        self.memory.path()
    }

    /// The recording of another process, by the number of its segment.
    pub fn of_segment(&self, segment: u32) -> Self {
        Self { memory: Arc::clone(&self.memory), segment }
    }

    /// Offset in the file of `offset` in the segment.
    fn at(&self, offset: u64) -> u64 {
        u64::from(self.segment) * session::SEGMENT_BYTES + offset
    }

    /// The first page.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn header(&self) -> Result<Mapping<'_, Header>, RecorderError> {
        self.memory.map(self.at(0), 1)
    }

    /// The first page of process `segment`.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn header_of(&self, segment: u32) -> Result<Mapping<'_, Header>, RecorderError> {
        self.memory.map(u64::from(segment) * session::SEGMENT_BYTES, 1)
    }

    /// What all threads that process `segment` may have of it. Reading what no thread has written
    /// takes memory.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn areas_of(&self, segment: u32) -> Result<Mapping<'_, ThreadArea>, RecorderError> {
        let start = u64::from(segment) * session::SEGMENT_BYTES;
        self.memory.map(start + session::THREADS_OFFSET, session::MAX_THREADS)
    }

    /// Which threads of process `segment` are in system calls.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn calls_of(&self, segment: u32) -> Result<Mapping<'_, Calls>, RecorderError> {
        let start = u64::from(segment) * session::SEGMENT_BYTES;
        self.memory.map(start + session::CALLS_OFFSET, session::MAX_THREADS)
    }

    /// What the tallies of process `segment` mean.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn meanings_of(&self, segment: u32) -> Result<Mapping<'_, AtomicU32>, RecorderError> {
        let start = u64::from(segment) * session::SEGMENT_BYTES;
        self.memory.map(start + session::MEANINGS_OFFSET, tally::MAX)
    }

    /// Number of the segment.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// The memory of all processes.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The first `count` threads.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn threads(&self, count: usize) -> Result<Vec<RawThread>, RecorderError> {
        let meanings = self.meanings()?;
        (0..count.min(session::MAX_THREADS))
            .map(|id| {
                // SAFETY: ThreadPage is plain data, valid for every bit pattern.
                let page = unsafe { self.read::<ThreadPage>(session::thread_offset(id)) }?;
                let tallied = self.tallied(id, &meanings)?;
                Ok(raw_thread(&page, page.executed(|| tallied)))
            })
            .collect()
    }

    /// What the tallies mean that are in use.
    fn meanings(&self) -> Result<Vec<Meaning>, RecorderError> {
        let used = self.header()?.records()[0].tallies.load(Relaxed);
        (0..(used as usize).min(tally::MAX))
            .map(|number| {
                // SAFETY: a number.
                let bits =
                    unsafe { self.read::<u32>(session::MEANINGS_OFFSET + 4 * number as u64) };
                bits.map(Meaning::from_bits)
            })
            .collect()
    }

    /// Sum of the tallies of thread `id`.
    fn tallied(&self, id: usize, meanings: &[Meaning]) -> Result<Executed, RecorderError> {
        let (start, bytes) = (self.at(session::tallies_offset(id)), 8 * meanings.len() as u64);
        let mut used = Vec::new();
        for_each_counter(self.memory.file(), start, bytes, |number, times| {
            used.push((meanings[number], times));
        })
        .map_err(RecorderError::ReadBack)?;
        Ok(tally::sum(used.into_iter()))
    }

    /// The first `count` modules.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn modules(&self, count: usize) -> Result<Vec<RawModule>, RecorderError> {
        (0..count.min(session::MAX_MODULES))
            .map(|i| {
                let offset = session::MODULES_OFFSET + (i * size_of::<Module>()) as u64;
                // SAFETY: Module is plain data, valid for every bit pattern.
                unsafe { self.read::<Module>(offset) }.map(raw_module)
            })
            .collect()
    }

    /// Program addresses of the first `count` code sites, by site; 0 where none was noted.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn sites(&self, count: usize) -> Result<Vec<u64>, RecorderError> {
        self.words(session::SITES_OFFSET, count.min(session::MAX_SITES))
    }

    /// `count` words from an offset of the segment on.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn words(&self, offset: u64, count: usize) -> Result<Vec<u64>, RecorderError> {
        let mut words = vec![0; count];
        self.for_each_word(offset, 8 * count as u64, |k, word| words[k] = word)?;
        Ok(words)
    }

    /// Calls `found(index, value)` for every u64 that is not 0 in `bytes` bytes from an offset of
    /// the segment on.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn for_each_word(
        &self,
        offset: u64,
        bytes: u64,
        found: impl FnMut(usize, u64),
    ) -> Result<(), RecorderError> {
        for_each_counter(self.memory.file(), self.at(offset), bytes, found)
            .map_err(RecorderError::ReadBack)
    }

    /// Calls `found` with each chunk of the pool that was ever written, in order.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn for_each_chunk(&self, mut found: impl FnMut(&[u8])) -> Result<(), RecorderError> {
        let bytes = session::MAX_CHUNKS as u64 * CHUNK_BYTES;
        for_each_data(self.memory.file(), self.at(session::POOL_OFFSET), bytes, |_, data| {
            data.chunks_exact(CHUNK_BYTES as usize).for_each(&mut found);
        })
        .map_err(RecorderError::ReadBack)
    }

    /// Tells the processes where they find the store of code.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn offer_code(&self, descriptor: u32) -> Result<(), RecorderError> {
        let header = self.header()?;
        header.records()[0].code_store.store(descriptor + 1, Relaxed);
        Ok(())
    }

    /// What the process has translated and is to be kept, one record behind the other.
    ///
    /// # Errors
    /// Fails when the session cannot be read.
    pub fn code(&self) -> Result<Vec<u8>, RecorderError> {
        let used = self.header()?.records()[0].code_used.load(Acquire).min(session::CODE_BYTES);
        let mut bytes = vec![0; used as usize];
        let at = self.at(session::CODE_OFFSET);
        self.memory.file().read_exact_at(&mut bytes, at).map_err(RecorderError::ReadBack)?;
        Ok(bytes)
    }

    /// Writes as the agent would.
    #[cfg(test)]
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) {
        self.memory.file().write_all_at(bytes, self.at(offset)).unwrap();
    }

    /// Reads one record; a hole reads as zeroes and stays a hole.
    ///
    /// # Safety
    /// Every bit pattern must be a valid `T`.
    pub(crate) unsafe fn read<T>(&self, offset: u64) -> Result<T, RecorderError> {
        let mut record = mem::MaybeUninit::<T>::zeroed();
        // SAFETY: zeroed, so initialised as bytes; exactly the record's bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(record.as_mut_ptr().cast::<u8>(), size_of::<T>())
        };
        self.memory
            .file()
            .read_exact_at(bytes, self.at(offset))
            .map_err(RecorderError::ReadBack)?;
        // SAFETY: all bytes are initialised, and the caller vouches for the type.
        Ok(unsafe { record.assume_init() })
    }
}

/// Calls `found(index, value)` for every u64 that is not 0 in `bytes` bytes at `start`, skipping
/// holes.
fn for_each_counter(
    file: &File,
    start: u64,
    bytes: u64,
    mut found: impl FnMut(usize, u64),
) -> io::Result<()> {
    for_each_data(file, start, bytes, |at, data| {
        for (i, word) in data.chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
            if value != 0 {
                found((at / 8) as usize + i, value);
            }
        }
    })
}

/// Bytes that are read at a time: a multiple of every record, and of a page.
const READ_BYTES: u64 = 1 << 20;

/// Calls `found(offset from start, data)` with what is written in `bytes` bytes at `start`, a page,
/// or several, at a time, in order, skipping holes.
fn for_each_data(
    file: &File,
    start: u64,
    bytes: u64,
    mut found: impl FnMut(u64, &[u8]),
) -> io::Result<()> {
    let end = start + bytes;
    let mut buffer = Vec::new();
    let mut at = start;
    while let Some(data) = seek(file, at, libc::SEEK_DATA)?.filter(|&data| data < end) {
        let stop = seek(file, data, libc::SEEK_HOLE)?.unwrap_or(end).min(end);
        let mut data = data;
        while data < stop {
            let next = stop.min(data + READ_BYTES);
            buffer.resize((next - data) as usize, 0);
            file.read_exact_at(&mut buffer, data)?;
            found(data - start, &buffer);
            data = next;
        }
        at = stop;
    }
    Ok(())
}

/// The next data or hole at or after `from`; `None` when there is none.
fn seek(file: &File, from: u64, whence: i32) -> io::Result<Option<u64>> {
    // SAFETY: plain integers; the descriptor is open.
    let offset = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
    if offset >= 0 {
        return Ok(Some(offset as u64));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
}

fn raw_thread(page: &ThreadPage, [instructions, loads, stores, _]: Executed) -> RawThread {
    let parent = page.parent.load(Relaxed);
    RawThread {
        instructions,
        loads,
        stores,
        tid: page.tid.load(Relaxed),
        parent: (parent != u32::MAX).then_some(ThreadId(parent)),
        life: page.life.load(Relaxed),
        start_routine: page.start_routine.load(Relaxed),
        started_ns: page.started_ns.load(Relaxed),
        ended_ns: page.ended_ns.load(Relaxed),
        name: text(&page.name),
        stack: page.stack.load(Relaxed),
        stack_bytes: page.stack_bytes.load(Relaxed),
        thread_pointer: page.thread_pointer.load(Relaxed),
        late_blocks: page.late_blocks.load(Relaxed),
        touched: page.footprint.touched.each_ref().map(|count| count.load(Relaxed)),
        windows: page.footprint.windows.load(Relaxed),
    }
}

fn raw_module(module: Module) -> RawModule {
    let path = text(&module.path);
    let file = match is_replaced(&module, &path) {
        true => ModuleFile::Unreachable,
        false => ModuleFile::AtPath,
    };
    RawModule {
        start: module.start.load(Relaxed),
        end: module.end.load(Relaxed),
        file_offset: module.file_offset.load(Relaxed),
        path,
        file,
    }
}

/// Whether the file that was mapped is not the one that has its path now, or was written since.
fn is_replaced(module: &Module, path: &str) -> bool {
    let inode = module.inode.load(Relaxed);
    if inode == 0 {
        return path.ends_with(DELETED);
    }
    let written = module.written.each_ref().map(|word| word.load(Relaxed));
    std::fs::metadata(path).map_or(true, |now| {
        inode != now.ino() || written != [now.mtime() as u64, now.mtime_nsec() as u64]
    })
}

/// Bytes up to the first NUL.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

//! One recording by the exact engine: a sparse memfd that the recorder creates and reads.
//!
//! Layout, all offsets constant:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], one page |
//! | [`MODULES_OFFSET`] | [`MAX_MODULES`] × [`Module`] |
//! | [`MEANINGS_OFFSET`] | [`tally::MAX`] × u32: what one of each tally means, index = number of the tally |
//! | [`CALLS_OFFSET`] | [`MAX_THREADS`] × [`Calls`], index = logical thread id |
//! | [`THREADS_OFFSET`] | [`MAX_THREADS`] × [`ThreadArea`], index = logical thread id |
//! | [`SITES_OFFSET`] | [`MAX_SITES`] × u64: program address of each code site, index = site |
//! | [`TRACE_OFFSET`] | [`trace::RECORDS`](crate::trace::RECORDS) × [`Access`](crate::trace::Access), the reference's ring |
//! | [`POOL_OFFSET`] | [`MAX_CHUNKS`] × [`Chunk`](crate::detail::Chunk): cells and events |
//! | [`GROUPS_OFFSET`] | [`MAX_GROUPS`] × [`Group`](crate::objects::Group): what was allocated, index = number of the group |
//! | [`BLOCKS_OFFSET`] | [`MAX_BLOCKS`] × [`Block`](crate::objects::Block): single blocks |
//! | [`PATHS_OFFSET`] | [`MAX_PATHS`] × [`Path`](crate::paths::Path): call paths of code sites |
//! | [`ZONES_OFFSET`] | [`MAX_ZONES`] × [`Zone`](crate::objects::Zone): memory of lines that were not kept |
//! | [`MAPPINGS_OFFSET`] | [`MAX_MAPPINGS`] × [`Mapping`](crate::objects::Mapping): files mapped while the program ran |
//! | [`FRAMES_OFFSET`] | [`MAX_FRAMES`] × [`StackFrame`](crate::stacks::StackFrame): functions on stacks |
//! | [`CODE_OFFSET`] | translated code to be kept, [`Header::code_used`] bytes |
//! | [`PAGES_OFFSET`] | who accesses which page ([`pages`](crate::pages)), where that is asked for |
//!
//! Each process that is recorded has a session of its own, a *segment* of one memory file: segment
//! k starts at `k * SEGMENT_BYTES`. Segment 0 belongs to the process that the recorder started; a
//! process takes the next number from segment 0's [`Header::segments`] for a child.
//!
//! Untouched pages take no memory; readers must look for data with `SEEK_DATA`, because reading a
//! hole through a mapping would allocate it.

use crate::detail::Footprint;
pub use crate::failure;
use crate::lone;
use crate::objects::{
    Allocating, Block, Group, MAX_BLOCKS, MAX_GROUPS, MAX_MAPPINGS, MAX_ZONES, Mapping, Zone,
};
use crate::paths::{MAX_PATHS, Path};
use crate::stacks::{MAX_FRAMES, StackFrame};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use types::tally::{self, Executed};

/// First eight bytes of a session.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTSESS\0\0");
/// Changes with every change of this layout. 1: first version; 2: segments, modes, sites, cells and
/// events by time slice, trace; 3: store of translated code; 4: tallies; 5: which threads wait in
/// system calls; 6: windows; 7: checks in tallies, tracked blocks, memory shared by processes,
/// objects; 8: call paths, zones, mapped files; 9: pages; 10: light code between windows; 11: first
/// writes of unknown blocks; 12: filtered traces; 13: which file a mapping was of; 14: lone
/// programs; 15: returns; 16: native time; 18: gaps; 21: solo time; 24: lifetimes; 25: frames; 26:
/// writes among returns.
pub const VERSION: u32 = 27;
/// Environment variable that tells the agent where the session is: a path to open.
pub const ENV: &str = "THREADTALK_SESSION";
/// Added where otherwise an odd number of variables would be taken out again: see
/// `injected::environment`.
pub const EVEN: &str = "THREADTALK_SESSION_EVEN";

/// Page size assumed by the layout, bytes.
pub const PAGE: u64 = 4096;
/// Most modules (mapped files with code) that are described.
pub const MAX_MODULES: usize = 4096;
/// Most threads over a whole run that have an id of their own. Later threads run unprofiled and are
/// counted in [`Header::threads_unprofiled`]. Ids are 16 bits in the shadow, 0 meaning no thread.
pub const MAX_THREADS: usize = 65_534;

/// Where the modules begin, bytes.
pub const MODULES_OFFSET: u64 = PAGE;
/// Where the meanings of tallies begin, bytes.
pub const MEANINGS_OFFSET: u64 = MODULES_OFFSET + (MAX_MODULES * size_of::<Module>()) as u64;
/// Where the system calls of threads begin, bytes.
pub const CALLS_OFFSET: u64 = MEANINGS_OFFSET + tally::MAX as u64 * 4;
/// Where the threads begin, bytes.
pub const THREADS_OFFSET: u64 =
    CALLS_OFFSET + (MAX_THREADS as u64 * size_of::<Calls>() as u64).next_multiple_of(PAGE);
/// Most code sites; site 0 means unknown.
pub const MAX_SITES: usize = 1 << 24;
/// Most chunks of cells and events in a session.
pub const MAX_CHUNKS: usize = 1 << 26;
/// Where the code sites begin, bytes.
pub const SITES_OFFSET: u64 = THREADS_OFFSET + MAX_THREADS as u64 * AREA_BYTES;
/// Where the trace begins, bytes.
pub const TRACE_OFFSET: u64 = SITES_OFFSET + MAX_SITES as u64 * 8;
/// Where the pool of chunks begins, bytes.
pub const POOL_OFFSET: u64 = TRACE_OFFSET + crate::trace::BYTES;
/// Where the groups of allocated blocks begin, bytes.
pub const GROUPS_OFFSET: u64 = POOL_OFFSET + MAX_CHUNKS as u64 * crate::detail::CHUNK_BYTES;
/// Where single blocks begin, bytes.
pub const BLOCKS_OFFSET: u64 = GROUPS_OFFSET + (MAX_GROUPS * size_of::<Group>()) as u64;
/// Where call paths begin, bytes.
pub const PATHS_OFFSET: u64 = BLOCKS_OFFSET + (MAX_BLOCKS * size_of::<Block>()) as u64;
/// Where zones begin, bytes.
pub const ZONES_OFFSET: u64 = PATHS_OFFSET + (MAX_PATHS * size_of::<Path>()) as u64;
/// Where mapped files begin, bytes.
pub const MAPPINGS_OFFSET: u64 = ZONES_OFFSET + (MAX_ZONES * size_of::<Zone>()) as u64;
/// Where frames on stacks begin, bytes.
pub const FRAMES_OFFSET: u64 = MAPPINGS_OFFSET + (MAX_MAPPINGS * size_of::<Mapping>()) as u64;
/// Distance of the sessions of two processes in the file.
pub const SEGMENT_BYTES: u64 = 1 << 42;
/// Most processes of one recording.
pub const MAX_SEGMENTS: u32 = 1 << 16;
/// Where the [passing maps](crate::windows) of the first process lie in the file, behind all
/// segments; those of the others follow.
pub const PASSING_OFFSET: u64 = MAX_SEGMENTS as u64 * SEGMENT_BYTES;
/// Bytes of all passing maps of a process.
pub const PASSING_SEGMENT_BYTES: u64 = crate::windows::PASSING_MAPS * crate::windows::PASSING_BYTES;
/// Bytes of the passing maps of all processes.
pub const ALL_PASSING_BYTES: u64 = MAX_SEGMENTS as u64 * PASSING_SEGMENT_BYTES;
/// Bytes of a file that has room for all of them.
pub const FILE_BYTES: u64 = crate::shared::OFFSET + crate::shared::BYTES;
/// Most bytes of a command line that are kept.
pub const COMMAND_BYTES: usize = 2048;
/// Size of the whole (sparse) session, bytes.
pub const SESSION_BYTES: u64 = PAGES_OFFSET + crate::pages::BYTES;
/// Where it begins to say who accesses which page. What lies before is all that is needed where
/// that is not asked for.
pub const PAGES_OFFSET: u64 = CODE_OFFSET + CODE_BYTES;
/// Where translated code lies that is to be kept; see [`code`](crate::code).
pub const CODE_OFFSET: u64 =
    (FRAMES_OFFSET + (MAX_FRAMES * size_of::<StackFrame>()) as u64).next_multiple_of(PAGE);
/// Most bytes of it. What a process translates beyond is not kept.
pub const CODE_BYTES: u64 = 64 << 20;

/// Bytes of what a thread has in a session.
pub const AREA_BYTES: u64 = size_of::<ThreadArea>() as u64;
/// Bytes of its tallies, which come first.
pub const TALLIES_BYTES: u64 = AREA_BYTES - PAGE;

/// Offset of the [`Calls`] of `thread`.
pub const fn calls_offset(thread: usize) -> u64 {
    CALLS_OFFSET + thread as u64 * size_of::<Calls>() as u64
}

/// Offset of the tallies of `thread`.
pub const fn tallies_offset(thread: usize) -> u64 {
    THREADS_OFFSET + thread as u64 * AREA_BYTES
}

/// Offset of the page of `thread`.
pub const fn thread_offset(thread: usize) -> u64 {
    tallies_offset(thread) + TALLIES_BYTES
}

/// What is counted, in [`Header::mode`].
pub mod mode {
    /// Nothing: translate only.
    pub const TRANSLATE: u32 = 0;
    /// The communication matrices.
    pub const MATRIX: u32 = 1;
    /// Matrices by true and false sharing, and events by line and code site.
    pub const DETAIL: u32 = 2;
    /// The thesis' Algorithm 3.1 (numalize): undirected, two most recent accessors of each block.
    pub const UNDIRECTED: u32 = 3;
    /// Every access goes to the recorder through the trace, which counts by the definitions.
    pub const TRACE: u32 = 4;
}

/// What the agent says about itself in [`Header::state`].
pub mod state {
    /// The agent never ran (static program, loader refused the library).
    pub const NOT_LOADED: u32 = 0;
    /// The agent took the program over.
    pub const RUNNING: u32 = 1;
    /// The agent could not start; [`super::Header::failure`] says why.
    pub const FAILED: u32 = 2;
    /// The process runs natively because its program cannot be recorded; [`super::Header::failure`]
    /// says why, [`super::Header::command`] names it.
    pub const NATIVE: u32 = 3;
}

/// Which code threads shall leave: see [`windows::leave`](crate::windows::leave). Nothing else that
/// changes lies near, because translated code looks there all the time.
#[repr(C, align(64))]
pub struct Leave(pub AtomicU32);

/// First page of a session.
#[repr(C, align(4096))]
pub struct Header {
    // Written by the recorder before the program starts.
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// log2 of the memory block in which communication is counted.
    pub block_shift: AtomicU32,
    /// Bit set of engine optimisations to switch off (for benchmarks and tests); 0 = all on.
    pub disable: AtomicU32,
    /// KiB of code after which the code cache is full; 0 = as by default.
    pub cache_kib: AtomicU32,
    /// One of [`mode`].
    pub mode: AtomicU32,
    /// In a mode with checks: [`Filter::ways`](crate::trace::Filter::ways) of the trace.
    pub trace_ways: AtomicU32,
    /// [`Filter::lines`](crate::trace::Filter::lines) of it.
    pub trace_lines: AtomicU32,
    /// 1: child processes get segments of their own; 0: they run natively.
    pub follow: AtomicU32,
    /// Most chunks for events (lines and sites) and for cells; counting goes on coarser beyond.
    pub event_chunks: AtomicU32,
    /// Most chunks for cells.
    pub cell_chunks: AtomicU32,
    /// 1: what the program allocates is followed; 0: events on the heap have no object.
    pub objects: AtomicU32,
    /// Number of this segment.
    pub segment: AtomicU32,
    /// Segment of the process that created this one; `u32::MAX` for the first.
    pub parent_segment: AtomicU32,

    // Written by the recorder while the program runs.
    /// Current time slice: (now - start of the recording) / length of a slice. 0 without slices.
    pub slice: AtomicU32,
    /// Segments given out so far (first segment only).
    pub segments: AtomicU32,

    // Written by the agent.
    /// Process that is recorded; 0 until the agent runs in it.
    pub pid: AtomicU32,
    /// One of [`state`].
    pub state: AtomicU32,
    /// One of [`failure`].
    pub failure: AtomicU32,
    /// Number of `execve` the recorded process has done after the agent started; the session holds
    /// the last program.
    pub execs: AtomicU32,
    /// Logical thread ids given out so far.
    pub threads: AtomicU32,
    /// Modules described so far.
    pub modules: AtomicU32,
    /// Tallies that have a meaning so far.
    pub tallies: AtomicU32,
    /// CLOCK_MONOTONIC when the agent took over, ns.
    pub started_ns: AtomicI64,

    // Cursors.
    /// Sites given out; the first is 1.
    pub sites: AtomicU32,
    /// Chunks given out, for both purposes.
    pub chunks: AtomicU32,
    /// Chunks given out for events.
    pub event_chunks_used: AtomicU32,
    /// Chunks given out for cells.
    pub cell_chunks_used: AtomicU32,
    /// Groups of allocated blocks given out, with the unused first one and that of all others.
    pub groups: AtomicU32,
    /// Single blocks given out.
    pub blocks_described: AtomicU32,
    /// Next record to be written by the agent, and next to be read by the recorder.
    pub trace_head: AtomicU64,
    /// Next record of the trace to be read by the recorder.
    pub trace_tail: AtomicU64,

    // Limits reached, counted rather than fatal.
    /// Events whose line was given up because there were too many lines (kept by code site). Summed
    /// by the recorder.
    pub events_without_line: AtomicU64,
    /// Events of the matrices that are missing from the table of lines and sites.
    pub events_without_site: AtomicU64,
    /// Allocated blocks of which the place is not told, because there are too many places, or no
    /// memory for more blocks.
    pub blocks_unknown: AtomicU64,
    /// Events counted in an earlier time slice because there was no chunk left.
    pub cells_late: AtomicU64,
    /// Events lost because there was no chunk left.
    pub cells_lost: AtomicU64,
    /// Child processes (fork, vfork, posix_spawn) that ran unprofiled.
    pub children_unprofiled: AtomicU64,
    /// Threads that ran unprofiled because no slot or id was left.
    pub threads_unprofiled: AtomicU64,
    /// Threads that left the code cache for good because they ran code that is not in a mapped
    /// file (a just-in-time compiler's, a stack trampoline's).
    pub threads_detached: AtomicU64,
    /// Reads by exited threads that were forgotten when their slots were reused, because too many
    /// are kept already: invalidations of those readers are not counted.
    pub readers_forgotten: AtomicU64,
    /// Mappings of the program that lie a multiple of 16 TiB away from others while more than one
    /// bank of shadow memory is in use: the banks cannot tell them apart.
    pub mappings_folded: AtomicU64,
    /// Accesses whose address the engine could not compute (%gs).
    pub sites_unseen: AtomicU64,
    /// Modules beyond [`MAX_MODULES`].
    pub modules_dropped: AtomicU64,

    /// Children that have been forked and still copy from this segment.
    pub births: AtomicU32,
    /// Most segments of the recording (first segment only, written by the recorder).
    pub max_segments: AtomicU32,
    /// Processes that ran natively because [`Header::segments`] had reached its limit (first
    /// segment only).
    pub children_beyond: AtomicU64,
    /// Processes that ran natively because engine or recording cannot be opened from where they are
    /// (first segment only).
    pub children_out_of_reach: AtomicU64,

    // The process, written by the agent.
    /// [`EXITED`] with the exit code in the low byte, once the process has asked to end.
    pub exit_status: AtomicU32,
    /// Why the recording ends where the process executed its last program, one of [`failure`]; the
    /// program is in [`Header::left_for`].
    pub left_reason: AtomicU32,
    /// CLOCK_MONOTONIC when it asked to end, ns.
    pub ended_ns: AtomicI64,
    /// CPU time that it had used by then, all threads, ns.
    pub cpu_ns: AtomicU64,
    /// Bytes of [`Header::command`] in use.
    pub command_bytes: AtomicU32,
    /// Which phase of which window it is, with [`Header::windows`]: see
    /// [`windows`](crate::windows). Of the first segment, written by the recorder.
    pub phase: AtomicU32,
    /// Command line, each word followed by a NUL; cut at its end.
    pub command: [u8; COMMAND_BYTES],
    /// Path of the program for which a process left the recording, NUL-terminated, cut.
    pub left_for: [u8; 256],

    // Statistics of the engine.
    /// Blocks translated.
    pub blocks: AtomicU64,
    /// Instructions translated.
    pub instructions_translated: AtomicU64,
    /// Bytes of the code cache in use.
    pub cache_bytes: AtomicU64,
    /// Loops split into a checked head and an unchecked body.
    pub loops_versioned: AtomicU64,
    /// Checks emitted.
    pub checks_emitted: AtomicU64,
    /// Accesses seen in translated code.
    pub accesses_seen: AtomicU64,
    /// How often the dispatcher was entered.
    pub dispatches: AtomicU64,
    /// How often the code cache was full and all code was translated anew.
    pub flushes: AtomicU64,
    /// Blocks that were not translated but came from the store of code.
    pub blocks_stored: AtomicU64,
    /// Bytes of translated code to be kept, whatever programs the process has executed.
    pub code_used: AtomicU64,
    /// Number of the recorder's descriptor for the store of code, plus one; 0 = none. Beside the
    /// path of the recording's own.
    pub code_store: AtomicU32,
    /// Whether accesses are observed in windows only, one of [`used`](crate::windows::used). Of the
    /// first segment, written by the recorder.
    pub windows: AtomicU32,
    /// Which code threads shall leave.
    pub leave: Leave,
    /// In the first segment, by the recorder: one of [`unfollowed`](crate::objects::unfollowed).
    pub unfollowed: AtomicU32,
    /// Likewise: by how many percent light code is slower.
    pub light_slower: AtomicU32,
    /// Likewise: odd while threads in light code are to wait but for one.
    pub solo: AtomicU32,
    /// Kernel thread id of that one; 0: none of them runs.
    pub solo_thread: AtomicU32,
    /// Functions that allocate or free unseen in native time.
    pub functions_without_door: AtomicU32,

    /// Processes that were killed (first segment only).
    deaths: Deaths,

    /// Call paths given out.
    pub paths: AtomicU32,
    /// Frames on stacks given out.
    pub frames: AtomicU32,
    /// Zones given out, with the first one.
    pub zones: AtomicU32,
    /// Mapped files given out.
    pub mappings: AtomicU32,

    /// One of [`known`](crate::pages::known). Written by the recorder before the program starts.
    pub pages: AtomicU32,
    /// 1: the recorder can call threads of this process back, so they may run natively between
    /// windows. Written by the recorder while the program runs.
    pub may_go_native: AtomicU32,
    /// Records of the past of pages given out.
    pub past: AtomicU64,
    /// Accesses that are counted for no page, because another page has the place or no record was
    /// left.
    pub page_accesses_lost: AtomicU64,
    /// In the first segment, by the recorder if there are windows: what an event that is counted
    /// now stands for, in parts of [`crate::detail::WEIGHT_OF_ONE`], and what a late one does.
    pub weights: [AtomicU32; 2],
    /// Programs whose processes have been alone so far (first segment only).
    pub lone: lone::Table,
    /// In the first segment, by all threads: looks at large blocks while small ones were not
    /// followed.
    pub large_looks: AtomicU64,
}

/// Most deaths that are noted.
pub const MAX_DEATHS: usize = 64;
/// Where the process id starts in a noted death; the signal is below.
pub const DEATH_PID_SHIFT: u32 = 32;

/// Processes that a signal has ended, as their parents were told (`wait4`, `waitid`).
#[repr(C)]
pub struct Deaths {
    /// How many there were; those beyond [`MAX_DEATHS`] are only counted.
    pub count: AtomicU64,
    /// Process id from [`DEATH_PID_SHIFT`] on, signal below; 0 while it is being written.
    pub each: [AtomicU64; MAX_DEATHS],
}

impl Deaths {
    /// Process ids and signals, in order.
    pub fn noted(&self) -> impl Iterator<Item = (u32, i32)> {
        let each = self.each.iter().map(|death| death.load(Ordering::Relaxed));
        each.filter(|death| *death != 0)
            .map(|death| ((death >> DEATH_PID_SHIFT) as u32, death as i32))
    }
}

impl Header {
    /// Processes that were killed; of the first segment.
    pub fn deaths(&self) -> &Deaths {
        &self.deaths
    }
}

/// In [`Header::exit_status`]: the low byte is an exit code.
pub const EXITED: u32 = 0x100;

/// Most bytes of the path of a mapped file.
pub const MAX_PATH: usize = 463;

/// A mapped file with code.
#[repr(C)]
pub struct Module {
    /// First address of the mapping.
    pub start: AtomicU64,
    /// One past its last address.
    pub end: AtomicU64,
    /// Offset of `start` in the file.
    pub file_offset: AtomicU64,
    /// Inode of the file; 0 = unknown.
    pub inode: AtomicU64,
    /// When its contents were written last: seconds and nanoseconds.
    pub written: [AtomicU64; 2],
    /// Path, NUL-terminated, cut at [`MAX_PATH`] bytes.
    pub path: [u8; MAX_PATH + 1],
}

/// Life of a thread, in [`ThreadPage::life`].
pub mod life {
    /// No thread has had this place.
    pub const UNUSED: u32 = 0;
    /// It runs.
    pub const ALIVE: u32 = 1;
    /// It has ended.
    pub const EXITED: u32 = 2;
    /// Left the code cache for good; counts end there.
    pub const DETACHED: u32 = 3;
}

/// Tells a reader which threads have executed nothing since it looked last: those of all threads
/// lie together, so that thousands are looked at in no time, though not in one line of memory,
/// because each system call writes there.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Calls {
    /// Changes with each system call that the thread makes from the code cache. Its lowest byte is
    /// 1 while the thread is in it and executes nothing that counts, else 0; a call that a signal
    /// has interrupted may look as left.
    pub word: AtomicU32,
}

/// What a thread has in a session: its tallies, numbered as the meanings, and its page.
#[repr(C, align(4096))]
pub struct ThreadArea {
    /// How often code with each meaning has run; see [`tally`].
    pub tallies: [AtomicU64; tally::MAX],
    /// The page.
    pub page: ThreadPage,
}

/// How often a reader begins anew whose thread is leaving: it leaves once.
const ATTEMPTS: usize = 4;

impl ThreadPage {
    /// What it has executed so far; `tallied` sums the thread's tallies up. While the thread runs,
    /// what it executes meanwhile may be counted in part.
    pub fn executed(&self, tallied: impl Fn() -> Executed) -> Executed {
        let read = |of: [&AtomicU64; 4]| of.map(|n| n.load(Ordering::Relaxed));
        let mut sums = Executed::default();
        for _ in 0..ATTEMPTS {
            let folds = self.folds.load(Ordering::Acquire);
            if folds % 2 == 1 {
                return read(self.folded.each_ref());
            }
            let (own, more) = (read(self.counters()), tallied());
            sums = core::array::from_fn(|k| u64::wrapping_add(own[k], more[k]));
            fence(Ordering::Acquire);
            if self.folds.load(Ordering::Relaxed) == folds {
                break;
            }
        }
        sums
    }

    /// Adds the tallies up, which `clear` then clears. Whenever the thread is killed or looked at,
    /// its counts are whole.
    pub fn fold(&self, tallied: impl Fn() -> Executed, clear: impl FnOnce()) {
        let sums = self.executed(tallied);
        let next = (self.folds.load(Ordering::Relaxed) | 1) + 1;
        self.folded.iter().zip(sums).for_each(|(to, sum)| to.store(sum, Ordering::Relaxed));
        self.folds.store(next - 1, Ordering::Release);
        clear();
        for (to, sum) in self.counters().into_iter().zip(sums) {
            to.store(sum, Ordering::Relaxed);
        }
        self.folds.store(next, Ordering::Release);
    }

    fn counters(&self) -> [&AtomicU64; 4] {
        [&self.instructions, &self.loads, &self.stores, &self.waited]
    }
}

/// Everything about one thread; its first bytes are the thread's control block, which translated
/// code addresses through %gs.
#[repr(C, align(4096))]
pub struct ThreadPage {
    /// Private to the agent: spill slots and state of translated code.
    pub control: [AtomicU64; 128],
    /// Loads and stores executed, by instruction operand, that no tally counts.
    pub loads: AtomicU64,
    /// Stores executed that no tally counts.
    pub stores: AtomicU64,
    /// The same of instructions; a repeated string instruction counts once.
    pub instructions: AtomicU64,
    /// Kernel thread id.
    pub tid: AtomicU32,
    /// Logical id of the creating thread; `u32::MAX` for the initial thread.
    pub parent: AtomicU32,
    /// One of [`life`].
    pub life: AtomicU32,
    /// Whether the thread runs the program's own code: one of
    /// [`windows::native`](crate::windows::native).
    pub native: AtomicU32,
    /// Address of the start routine given to `pthread_create`; 0 when unknown or initial.
    pub start_routine: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub started_ns: AtomicI64,
    /// CLOCK_MONOTONIC when it ended, ns.
    pub ended_ns: AtomicI64,
    /// Last known name (prctl PR_SET_NAME or `/proc/self/task/TID/comm`), NUL-padded.
    pub name: [u8; 16],
    /// Stack pointer with which it was created; 0 for the initial thread.
    pub stack: AtomicU64,
    /// %fs base with which it was created: end of its static thread-local data; 0 when unknown.
    pub thread_pointer: AtomicU64,
    /// [`Executed`] of a thread that exits, while its tallies are added up: while [`Self::folds`]
    /// is odd, that is all that it has executed.
    pub folded: [AtomicU64; 4],
    /// Odd while the tallies are added up; see [`Self::folded`].
    pub folds: AtomicU64,
    /// First reads and writes of blocks whose last writer may have been forgotten, in counting
    /// parts of windows, scaled to all such blocks.
    pub unknown: AtomicU64,
    /// Transfers that were counted, with those that late ones stand for.
    pub transfers: AtomicU64,
    /// Those that late ones stand for.
    pub far: AtomicU64,
    /// Events that the thread has counted, of all kinds but late ones.
    pub events: AtomicU64,
    /// Tracked blocks for which the thread has counted the first late event.
    pub late_blocks: AtomicU64,
    /// How much memory the thread comes to in windows.
    pub footprint: Footprint,
    /// What it allocates and frees.
    pub allocating: Allocating,
    /// Ticks of the processor's clock in the dispatcher, which translates.
    pub translating: AtomicU64,
    /// Of an ended thread: instructions that waited.
    pub waited: AtomicU64,
    /// Bytes of its stack, which end at [`Self::stack`]; 0 where the call that created it has not
    /// said so.
    pub stack_bytes: AtomicU64,
}

const _: () = assert!(size_of::<Header>() as u64 == PAGE);
const _: () = assert!(SESSION_BYTES <= SEGMENT_BYTES);
const _: () = assert!(size_of::<ThreadPage>() as u64 == PAGE);
const _: () = assert!(TALLIES_BYTES == tally::MAX as u64 * 8);
const _: () = assert!(THREADS_OFFSET.is_multiple_of(PAGE) && PAGES_OFFSET.is_multiple_of(PAGE));
const _: () = assert!(size_of::<Module>() == 512);

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

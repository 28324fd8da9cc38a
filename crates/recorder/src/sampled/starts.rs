//! Start routines of the threads of a process, as the C library's own debugging interface finds
//! them.
//!
//! Problem: the kernel tells of a new thread, but not what it runs; and without that another run's
//! threads are only known by their names. glibc keeps a descriptor of each thread, the start
//! routine in it, in two lists (stacks of its own and of the program's making), and says where all
//! of this lies: as data that it exports for libthread_db (`_thread_db_*`, three words each: bits,
//! elements, offset; glibc `nptl_db/structs.def`, `td_ta_thr_iter.c`; in this form since 2.34).
//! Approach: read what they say, then walk both lists in the process's memory, while it runs. A
//! descriptor is believed if it bears the number of a thread; the kernel clears that number when a
//! thread ends, so what stands beside it is the thread's own.
//!
//! Unknown, then, in static programs, other C libraries, processes that see other numbers for their
//! threads than we do (containers), threads that come and go between two looks, and where memory
//! may not be read. Neighbours: `process` looks, `collect` names.

use crate::session::RawModule;
use object::elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, gnu_hash};
use object::read::elf::{FileHeader, GnuHashTable, ProgramHeader, Sym, SymbolTable, VersionTable};
use object::{Endianness, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const LIBRARY: &str = "libc.so.6";
const LOADER: &str = "ld-linux-x86-64.so.2";
/// More threads than any process has; lists that are longer are damaged.
const MAX_THREADS: usize = 1 << 17;
/// Descriptors are smaller (2,304 bytes in glibc 2.36).
const MAX_BYTES: u64 = 1 << 14;

/// Where a process keeps its threads' descriptors.
#[derive(Debug)]
pub struct Starts {
    /// Addresses of the heads of both lists.
    heads: [u64; 2],
    layout: Layout,
}

/// Offsets in a descriptor, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    list: u64,
    tid: u64,
    routine: u64,
}

impl Layout {
    /// Bytes of a descriptor that are looked at.
    fn range(self) -> std::ops::Range<u64> {
        let first = self.list.min(self.tid).min(self.routine);
        first..self.list.max(self.tid).max(self.routine) + 8
    }
}

impl Starts {
    /// Looks for the lists of the process `pid` that has mapped `modules`; `None` where there are
    /// none, or not yet.
    pub fn find(pid: u32, modules: &[RawModule]) -> Option<Self> {
        let memory = Memory::of(pid)?;
        let (library, loader) = (module_of(modules, LIBRARY)?, module_of(modules, LOADER)?);
        let (library_file, loader_file) = (open(library)?, open(loader)?);
        let library = Symbols::of(library, &library_file)?;
        let loader = Symbols::of(loader, &loader_file)?;
        let offset = |name: &str| {
            let address = library.address(&format!("_thread_db_{name}"))?;
            let [_bits, _elements, offset] = memory.read(address).map(words)?;
            Some(u64::from(offset)).filter(|offset| *offset < MAX_BYTES)
        };
        let global = loader.address("_rtld_global")?;
        let heads = [offset("rtld_global__dl_stack_used")?, offset("rtld_global__dl_stack_user")?];
        let layout = Layout {
            list: offset("pthread_list")?,
            tid: offset("pthread_tid")?,
            routine: offset("pthread_start_routine")?,
        };
        // The list's next is its first word in all glibc versions, and said to be.
        (offset("list_t_next")? == 0).then_some(())?;
        Some(Self { heads: heads.map(|head| global.wrapping_add(head)), layout })
    }

    /// Start routines by the kernel's number of the thread; the initial thread has none.
    pub fn read(&self, pid: u32) -> HashMap<u32, u64> {
        let mut found = HashMap::new();
        let Some(memory) = Memory::of(pid) else { return found };
        for head in self.heads {
            self.walk(&memory, head, &mut found);
        }
        found
    }

    fn walk(&self, memory: &Memory, head: u64, found: &mut HashMap<u32, u64>) {
        let Layout { list, tid, routine } = self.layout;
        let range = self.layout.range();
        let mut buffer = vec![0; (range.end - range.start) as usize];
        let Some(mut node) = memory.read(head).map(u64::from_ne_bytes) else { return };
        // The program may change the list meanwhile: what was read is then left at the next look.
        for _ in 0..MAX_THREADS {
            let descriptor = node.wrapping_sub(list);
            if node == head || !memory.fill(descriptor.wrapping_add(range.start), &mut buffer) {
                return;
            }
            let word = |offset: u64| {
                let at = (offset - range.start) as usize;
                u64::from_ne_bytes(buffer[at..at + 8].try_into().unwrap_or_default())
            };
            let (number, address) = (word(tid) as u32, word(routine));
            if number != 0 && address != 0 {
                found.insert(number, address);
            }
            node = word(list);
        }
    }
}

fn words(bytes: [u8; 12]) -> [u32; 3] {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
    [word(0), word(4), word(8)]
}

/// The memory of a process, of the program that it runs now.
struct Memory(File);

impl Memory {
    fn of(pid: u32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    fn fill(&self, address: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, address).is_ok()
    }

    fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(address, &mut bytes).then_some(bytes)
    }
}

/// The file of a mapped library; of thousands of names that it exports, a few are looked up.
type LibraryFile = ReadCache<File>;
type Elf = FileHeader64<Endianness>;

/// What a mapped library exports.
struct Symbols<'data> {
    endian: Endianness,
    table: SymbolTable<'data, Elf, &'data LibraryFile>,
    hashes: GnuHashTable<'data, Elf>,
    /// What is to be added to the addresses in the file.
    bias: u64,
}

/// The mapping of the library of that name.
fn module_of<'a>(modules: &'a [RawModule], name: &str) -> Option<&'a RawModule> {
    let is = |module: &&RawModule| module.path.rsplit('/').next() == Some(name);
    modules.iter().rev().find(is)
}

fn open(module: &RawModule) -> Option<LibraryFile> {
    Some(ReadCache::new(File::open(module.readable()?).ok()?))
}

impl<'data> Symbols<'data> {
    fn of(module: &RawModule, file: &'data LibraryFile) -> Option<Self> {
        let header = Elf::parse(file).ok()?;
        let endian = header.endian().ok()?;
        // The mapping begins with the page in which its segment does.
        const PAGE: u64 = 4096;
        let segment = header.program_headers(endian, file).ok()?.iter().find(|segment| {
            let (start, bytes) = segment.file_range(endian);
            let maps = start / PAGE * PAGE == module.file_offset / PAGE * PAGE && bytes > 0;
            maps && segment.p_type(endian) == PT_LOAD
        })?;
        let bias = module.start.wrapping_sub(segment.p_vaddr(endian) / PAGE * PAGE);
        let sections = header.sections(endian, file).ok()?;
        let table = sections.symbols(endian, file, SHT_DYNSYM).ok()?;
        let (hashes, _) = sections.gnu_hash(endian, file).ok()??;
        Some(Self { endian, table, hashes, bias })
    }

    fn address(&self, name: &str) -> Option<u64> {
        let Self { endian, table, hashes, .. } = self;
        let (name, any) = (name.as_bytes(), VersionTable::default());
        let (_, symbol) = hashes.find(*endian, name, gnu_hash(name), None, table, &any)?;
        Some(symbol.st_value(*endian).wrapping_add(self.bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf::Mapping;
    use std::sync::mpsc::channel;

    fn modules(pid: u32) -> Vec<RawModule> {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).expect("we may look");
        let code = Mapping::executable(&maps);
        code.map(|mapping| RawModule {
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.offset,
            path: mapping.path.to_string_lossy().into_owned(),
            file: Default::default(),
        })
        .collect()
    }

    extern "C" fn routine(descriptors: *mut libc::c_void) -> *mut libc::c_void {
        let mut byte = 0u8;
        // SAFETY: two descriptors that live as long as the thread; a buffer of one byte.
        unsafe {
            let [say, wait] = *descriptors.cast::<[i32; 2]>();
            let tid = libc::gettid().to_ne_bytes();
            libc::write(say, tid.as_ptr().cast(), tid.len());
            libc::read(wait, (&raw mut byte).cast(), 1);
        }
        std::ptr::null_mut()
    }

    fn pipe() -> [i32; 2] {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        ends
    }

    #[test]
    fn our_own_threads_start_routines_are_known_by_their_numbers() {
        let pid = std::process::id();
        let ([hear, say], [wait, let_go]) = (pipe(), pipe());
        let mut descriptors = [say, wait];
        let mut thread = 0;
        let mut tid = [0; 4];
        // SAFETY: valid pointers; `descriptors` outlives the thread, which is joined below.
        unsafe {
            let argument = (&raw mut descriptors).cast();
            let none = std::ptr::null();
            assert_eq!(libc::pthread_create(&mut thread, none, routine, argument), 0);
            assert_eq!(libc::read(hear, tid.as_mut_ptr().cast(), 4), 4);
        }
        let tid = u32::from_ne_bytes(tid);
        let starts = Starts::find(pid, &modules(pid)).expect("tests run with glibc");
        assert_eq!(starts.read(pid).get(&tid), Some(&(routine as *const () as u64)));
        // SAFETY: our own descriptors and thread.
        unsafe {
            assert_eq!(libc::write(let_go, b"x".as_ptr().cast(), 1), 1);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
            for fd in [hear, say, wait, let_go] {
                libc::close(fd);
            }
        }
        assert_eq!(starts.read(pid).get(&tid), None, "it has ended");
        // Threads of Rust's library all start at the same place.
        let (send, receive) = channel::<()>();
        let other = std::thread::spawn(move || receive.recv());
        let known = starts.read(pid).len();
        assert!(known >= 2, "{known}");
        drop(send);
        assert!(other.join().is_ok());
    }

    #[test]
    fn who_has_no_such_lists_has_no_start_routines() {
        assert!(Starts::find(std::process::id(), &[]).is_none());
        assert!(Starts::find(u32::MAX, &modules(std::process::id())).is_none());
    }
}

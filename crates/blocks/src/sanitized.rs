//! Programs that must not get the library: those built with a sanitizer, whose runtime ends the
//! program when another library comes before it.
//!
//! The file's list of libraries is read (DT_NEEDED), by a few reads of the kernel's and on the
//! stack only: children of vfork come here.

use core::ffi::{CStr, c_char};
use injected::raw;

/// Beginnings of the names of such runtimes.
const RUNTIMES: [&[u8]; 6] = [
    b"libasan.so",
    b"libtsan.so",
    b"liblsan.so",
    b"libhwasan.so",
    b"libclang_rt.asan",
    b"libclang_rt.hwasan",
];

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Most headers of segments, and most entries of the dynamic section, that are looked at.
const MAX_SEGMENTS: u64 = 64;
const MAX_ENTRIES: u64 = 512;
/// Where a program without a path is looked for if nothing else is said.
const USUAL: &[u8] = b"/usr/local/bin:/bin:/usr/bin";
const PATH_BYTES: usize = 1024;

/// Whether the program at a path must not get it. `search`: a name without a folder is looked for
/// in PATH.
///
/// # Safety
/// `path` is null or a string, if it can be read at all; it is the caller's to know.
pub unsafe fn refuses(path: *const c_char, search: bool) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: as the caller vouches.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !search || name.contains(&b'/') {
        return File::open(name, b"").is_some_and(|file| file.needs_runtime().unwrap_or(false));
    }
    let folders = path_variable().unwrap_or(USUAL);
    found_in(folders, name).is_some_and(|file| file.needs_runtime().unwrap_or(false))
}

/// The first file of that name in these folders, as PATH has them; an empty one is the working
/// directory (POSIX).
fn found_in(folders: &[u8], name: &[u8]) -> Option<File> {
    let folders = folders.split(|byte| *byte == b':');
    let mut folders = folders.map(|folder| if folder.is_empty() { &b"."[..] } else { folder });
    folders.find_map(|folder| File::open(folder, name))
}

fn path_variable() -> Option<&'static [u8]> {
    let mut at = injected::environment::current();
    if at.is_null() {
        return None;
    }
    // SAFETY: the process's environment, a null-terminated array of strings.
    unsafe {
        while !(*at).is_null() {
            if let Some(value) = CStr::from_ptr(*at).to_bytes().strip_prefix(b"PATH=") {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

struct File(i32);

impl Drop for File {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

impl File {
    /// `folder/name`, or `folder` alone.
    fn open(folder: &[u8], name: &[u8]) -> Option<Self> {
        let mut path = [0_u8; PATH_BYTES];
        let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
        if folder.len() + name.len() + 2 > path.len() {
            return None;
        }
        let bytes = folder.iter().chain(slash).chain(name);
        path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        raw::open(CStr::from_bytes_until_nul(&path).ok()?).map(Self)
    }

    fn read<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0_u8; N];
        let into = bytes.as_mut_ptr() as usize;
        let (file, offset) = (self.0 as usize, offset as usize);
        // SAFETY: the buffer is as long as said.
        let got = unsafe { raw::raw(libc::SYS_pread64, file, into, N, offset) };
        (got > 0).then_some(bytes)
    }

    fn word(&self, offset: u64) -> Option<u64> {
        self.read(offset).map(u64::from_le_bytes)
    }

    fn needs_runtime(&self) -> Option<bool> {
        let head: [u8; 64] = self.read(0)?;
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|k| head[at + k]));
        let (headers, count) = (word(32), u64::from(head[56]) | u64::from(head[57]) << 8);
        let segments = || {
            (0..count.min(MAX_SEGMENTS))
                .filter_map(|k| self.read::<56>(headers.checked_add(k * 56)?))
        };
        let field = |segment: &[u8; 56], at: usize| {
            u64::from_le_bytes(core::array::from_fn(|k| segment[at + k]))
        };
        let is = |kind: u32| move |segment: &[u8; 56]| segment[..4] == kind.to_le_bytes();
        let dynamic = segments().find(is(PT_DYNAMIC))?;
        let (start, end) = (field(&dynamic, 8), field(&dynamic, 32) / 16);
        let entries = || {
            (0..end.min(MAX_ENTRIES)).filter_map(move |k| {
                let at = start.checked_add(k * 16)?;
                Some((self.word(at)?, self.word(at + 8)?))
            })
        };
        let (_, strings) = entries().find(|(tag, _)| *tag == DT_STRTAB)?;
        // Where the address of the strings lies in the file.
        let holds = |s: &[u8; 56]| {
            (field(s, 16)..field(s, 16).saturating_add(field(s, 32))).contains(&strings)
        };
        let segment = segments().filter(is(PT_LOAD)).find(holds)?;
        let strings = (strings - field(&segment, 16)).checked_add(field(&segment, 8))?;
        let is_runtime = |(_, at): (u64, u64)| {
            let name = strings.checked_add(at).and_then(|at| self.read::<24>(at));
            name.is_some_and(|name| RUNTIMES.iter().any(|runtime| name.starts_with(runtime)))
        };
        Some(entries().filter(|(tag, _)| *tag == DT_NEEDED).any(is_runtime))
    }
}

#[cfg(test)]
#[path = "sanitized_tests.rs"]
mod tests;

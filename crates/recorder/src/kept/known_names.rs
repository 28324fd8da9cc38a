//! Names of code and data, kept from recording to recording.
//!
//! Problem: reading the debug information of the C library alone takes longer than many programs
//! run. Approach: what was asked about a file is kept in the user's cache folder, a file for each,
//! and holds as long as the file, its debug files (also those that are not there) and the build of
//! this program are the same.
//!
//! Neighbours: `symbols` asks and answers, [`user_cache`](crate::user_cache) says where it is kept.

use crate::user_cache;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use symbols::{Keeper, Known, Resolver};
use wire::code;

/// What the files' names begin with.
const PREFIX: &str = "names-";
/// Most bytes of all of them.
const MAX_IN_ALL: u64 = 64 << 20;
const MAX_BYTES: u64 = 8 << 20;

/// Names of the files of one recording, or more; begins with what is kept if `cached`, and keeps
/// more.
pub fn resolver(cached: bool) -> Resolver {
    match user_cache::folder() {
        Ok(folder) if cached => Resolver::keeping(Arc::new(Folder(folder))),
        _ => Resolver::new(),
    }
}

/// Where it is kept.
struct Folder(PathBuf);

impl Keeper for Folder {
    fn recall(&self, sources: &[PathBuf]) -> Known {
        let (path, key) = self.place_of(sources);
        read(&path, key).map(Known::of_text).unwrap_or_default()
    }

    fn keep(&self, sources: &[PathBuf], text: &str) {
        let (path, key) = self.place_of(sources);
        // What others have kept meanwhile is lost; next time it takes as long again, that is all.
        if user_cache::replace(&path, &[first_line(key, text).as_bytes(), text.as_bytes()]).is_ok()
        {
            user_cache::remove_unused(&path, PREFIX, MAX_IN_ALL);
        }
    }
}

impl Folder {
    fn place_of(&self, sources: &[PathBuf]) -> (PathBuf, u64) {
        let key = key(sources);
        (self.0.join(format!("{PREFIX}{key:016x}")), key)
    }
}

/// A number for the files that answers depend on, as they are now, and for the program that
/// answers.
fn key(sources: &[PathBuf]) -> u64 {
    let mut all = Vec::new();
    for path in sources.iter().map(PathBuf::as_path).chain([Path::new("/proc/self/exe")]) {
        all.extend(path.as_os_str().as_bytes());
        let Ok(data) = fs::metadata(path) else { continue };
        let numbers = [data.dev(), data.ino(), data.size()].into_iter();
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        let numbers = numbers.chain(times.map(|time| time as u64));
        all.extend(numbers.flat_map(u64::to_le_bytes));
    }
    code::checksum(&all)
}

fn first_line(key: u64, text: &str) -> String {
    format!("{key:016x} {:016x}\n", code::checksum(text.as_bytes()))
}

fn read(path: &Path, key: u64) -> Option<String> {
    let mut whole = String::new();
    let file = user_cache::open(path, false).ok()?;
    user_cache::note_use(&file);
    file.take(MAX_BYTES).read_to_string(&mut whole).ok()?;
    let end = whole.find('\n')? + 1;
    let text = whole.split_off(end);
    (whole == first_line(key, &text)).then_some(text)
}

#[cfg(test)]
#[path = "known_names_tests.rs"]
mod tests;

//! The machine that a recording is made on, for its profile.
//!
//! Problem: hwloc reads some hundred files of /sys for each few CPUs, which takes longer than many
//! programs run. Approach: what it found is kept in the user's cache folder, and holds as long as
//! nothing that decides it has changed: this boot of this machine, the CPUs that are there, those
//! and the memory that we may use, the view of the file system, and the build of this program.
//!
//! Neighbours: `topology` looks, [`user_cache`](crate::user_cache) says where to keep it.

use crate::user_cache;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use topology::Topology;
use wire::code;

/// Name of the file. There is one only: machines and masks seldom change back and forth.
const FILE: &str = "machine";
/// Begins with this, and what the rest of the first line must be.
const MAGIC: &str = "threadtalk machine 2";

/// What a profile says of the machine, and what recording needs of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Bytes of its lines of cache.
    pub line_bytes: u64,
    /// Bytes that the innermost cache of a core holds, its private ones, and all caches of the
    /// outermost level together; 0 = not known.
    pub caches: [u64; 3],
    /// Its topology as hwloc XML; empty when neither hwloc nor /sys says anything.
    pub xml: String,
}

impl Machine {
    /// The machine this runs on; from the cache folder if `cached`, and if it is there.
    pub fn here(cached: bool) -> Self {
        let key = if cached { key() } else { None };
        let path = user_cache::folder().ok().map(|folder| folder.join(FILE));
        let (Some(key), Some(path)) = (key, path) else { return Self::look() };
        if let Some(known) = Self::read(&path, key) {
            return known;
        }
        let found = Self::look();
        // Next time it takes as long again, that is all.
        let _ = found.keep(&path, key);
        found
    }

    fn look() -> Self {
        match Topology::discover() {
            Ok(found) => {
                let (line_bytes, caches) = (found.line_bytes().into(), found.cache_levels());
                Machine { line_bytes, caches, xml: found.to_xml().to_string() }
            }
            Err(_) => Machine { line_bytes: 64, caches: [0; 3], xml: String::new() },
        }
    }

    fn first_line(&self, key: u64) -> String {
        let [innermost, private, outermost] = self.caches;
        let numbers = format!("{innermost} {private} {outermost} {}", self.line_bytes);
        let sum = code::checksum(self.xml.as_bytes()) ^ code::checksum(numbers.as_bytes());
        format!("{MAGIC} {key:016x} {sum:016x} {numbers}\n")
    }

    fn read(path: &Path, key: u64) -> Option<Self> {
        const MAX_BYTES: u64 = 64 << 20;
        let mut text = String::new();
        user_cache::open(path, false).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let (line, xml) = text.split_once('\n')?;
        let mut numbers = line.rsplitn(5, ' ').map(|word| word.parse().ok());
        let line_bytes = numbers.next()??;
        let [outermost, private, innermost] =
            [numbers.next()??, numbers.next()??, numbers.next()??];
        let caches = [innermost, private, outermost];
        let known = Machine { line_bytes, caches, xml: xml.to_string() };
        (known.first_line(key).trim_end() == line).then_some(known)
    }

    fn keep(&self, path: &Path, key: u64) -> Result<(), user_cache::NoCache> {
        if self.xml.is_empty() {
            return Ok(());
        }
        user_cache::replace(path, &[self.first_line(key).as_bytes(), self.xml.as_bytes()])
    }
}

/// A number for everything that decides what would be found; `None` if that cannot be said.
pub(crate) fn key() -> Option<u64> {
    let settings = std::env::vars_os().any(|(name, _)| is_setting(&name));
    let mask = topology::inherited_mask();
    if settings || mask.is_empty() {
        return None;
    }
    let mut all = format!("{mask}\n").into_bytes();
    for file in [
        "/proc/sys/kernel/random/boot_id",
        "/proc/sys/kernel/hostname",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/node/online",
    ] {
        all.extend(start_of(file).unwrap_or_default());
    }
    // Of a container it may be another's.
    let status = String::from_utf8(start_of("/proc/self/status")?).ok()?;
    let allowed = |line: &&str| line.starts_with("Cpus_allowed_list") || line.starts_with("Mems_");
    all.extend(status.lines().filter(allowed).flat_map(str::bytes));
    for path in ["/", "/sys/devices/system", "/proc/self/exe"] {
        let data = fs::metadata(path).ok()?;
        let words = [data.dev(), data.ino(), data.size(), data.mtime() as u64];
        let of_build = if path == "/proc/self/exe" { 4 } else { 2 };
        all.extend(words[..of_build].iter().flat_map(|word| word.to_le_bytes()));
    }
    Some(code::checksum(&all))
}

/// Whether a variable of that name may tell hwloc to look elsewhere.
fn is_setting(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"HWLOC_")
}

/// A small file; more of it than any of those has.
pub(crate) fn start_of(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(1 << 16).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::Scratch;

    #[test]
    fn what_was_found_is_found_again_unless_something_has_changed() {
        let scratch = Scratch::new();
        let path = scratch.join("cache").join(FILE);
        let xml = "<topology>\nä\n</topology>\n".into();
        let machine = Machine { line_bytes: 128, caches: [1 << 15, 1 << 20, 1 << 25], xml };
        assert_eq!(Machine::read(&path, 7), None);
        machine.keep(&path, 7).unwrap();
        assert_eq!(Machine::read(&path, 7), Some(machine.clone()));
        assert_eq!(Machine::read(&path, 8), None);
        let bytes = fs::read(&path).unwrap();
        for k in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[k] ^= 4;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(Machine::read(&path, 7), None, "byte {k}");
            fs::write(&path, &bytes[..k]).unwrap();
            assert_eq!(Machine::read(&path, 7), None, "{k} bytes");
        }
        // The next one replaces it, and nothing else is left.
        machine.keep(&path, 9).unwrap();
        assert_eq!(Machine::read(&path, 9), Some(machine));
        assert_eq!(fs::read_dir(scratch.join("cache")).unwrap().count(), 1);
    }

    #[test]
    fn the_machine_here_is_known_by_what_decides_it() {
        // While another test asks hwloc, settings for it are in the environment.
        assert!((0..1000).any(|_| key() == key()));
        assert!(is_setting(OsStr::new("HWLOC_SYNTHETIC")) && !is_setting(OsStr::new("HWLOCK")));
        let looked = Machine::look();
        assert_eq!(Machine::here(false), looked);
        assert!(looked.line_bytes.is_power_of_two());
    }
}

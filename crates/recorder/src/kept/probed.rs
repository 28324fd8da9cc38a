//! What can be sampled here, kept from recording to recording.
//!
//! Problem: finding out takes longer than many programs run. Approach: what was found is kept in
//! the user's cache folder, and holds as long as nothing that decides it has changed: the machine
//! as `machine` knows it (this boot, so this kernel), the processor, and what we are permitted.
//!
//! Neighbours: `perf::probe` tries, `perf::Known` says what need not be tried again.

use crate::machine::{self, start_of};
use crate::user_cache;
use perf::Known;
use perf::probe::{Probed, probe, probe_unknown};
use std::io::Read;
use std::path::Path;
use wire::code;

/// Name of the file.
const FILE: &str = "probed";

/// What can be sampled here, by what was found before.
pub fn probed() -> Probed {
    probe_beside(|path, key| read(path, key).unwrap_or_default())
}

/// What can be sampled here, all of it tried; what was found before is forgotten.
pub fn probed_anew() -> Probed {
    probe_beside(|_, _| Known::default())
}

fn probe_beside(read: impl FnOnce(&Path, u64) -> Known) -> Probed {
    let path = user_cache::folder().ok().map(|folder| folder.join(FILE));
    let (Some(key), Some(path)) = (key(), path) else { return probe() };
    let before = read(&path, key);
    let mut known = before.clone();
    let found = probe_unknown(&mut known);
    if known != before {
        // Next time it takes as long again, that is all.
        let _ = user_cache::replace(&path, &[written(&known, key).as_bytes()]);
    }
    found
}

/// A number for everything that decides what responds.
fn key() -> Option<u64> {
    let mut all = machine::key()?.to_le_bytes().to_vec();
    for file in ["/proc/sys/kernel/perf_event_paranoid", "/proc/sys/kernel/perf_event_mlock_kb"] {
        all.extend(start_of(file).unwrap_or_default());
    }
    let permitted = ["Uid:", "Gid:", "CapEff:", "CapBnd:", "Seccomp:"];
    let status = String::from_utf8(start_of("/proc/self/status")?).ok()?;
    let of_us = |line: &&str| permitted.iter().any(|name| line.starts_with(name));
    all.extend(status.lines().filter(of_us).flat_map(str::bytes));
    let processor = String::from_utf8(start_of("/proc/cpuinfo")?).ok()?;
    let described = ["vendor_id", "cpu family", "model", "stepping", "microcode", "flags"];
    let first = processor.split("\n\n").next().unwrap_or_default();
    let of_it = |line: &&str| described.iter().any(|name| line.starts_with(name));
    all.extend(first.lines().filter(of_it).flat_map(str::bytes));
    let mut locked = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for one.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut locked) };
    all.extend(locked.rlim_cur.to_le_bytes());
    Some(code::checksum(&all))
}

fn written(known: &Known, key: u64) -> String {
    let text = known.to_text();
    format!("{key:016x} {:016x}\n{text}", code::checksum(text.as_bytes()))
}

fn read(path: &Path, key: u64) -> Option<Known> {
    const MAX_BYTES: u64 = 1 << 20;
    let mut text = String::new();
    user_cache::open(path, false).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let known = Known::of_text(text.split_once('\n')?.1)?;
    (written(&known, key) == text).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use test_support::Scratch;

    #[test]
    fn what_was_found_holds_for_this_machine_and_these_rights_only() {
        let scratch = Scratch::new();
        let path = scratch.join("cache").join(FILE);
        let mut known = Known::default();
        probe_unknown(&mut known);
        assert_eq!(read(&path, 7), None);
        user_cache::replace(&path, &[written(&known, 7).as_bytes()]).unwrap();
        assert_eq!(read(&path, 7), Some(known));
        assert_eq!(read(&path, 8), None);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\t1\t", "\t3\t")).unwrap();
        assert_eq!(read(&path, 7), None);
        assert_eq!(key(), key());
    }
}

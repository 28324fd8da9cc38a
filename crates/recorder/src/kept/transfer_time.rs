//! What a line of memory takes from one core to another here, kept from recording to recording.
//!
//! Problem: amounts of a profile sampled by time are divided by it, so that it should be the same
//! in all profiles of a machine; but a busy machine only ever adds time, several times as much at
//! worst, and measuring may then take seconds. Approach: the first few recordings measure, the
//! least counts, and the later ones take it from the user's cache folder.
//!
//! Neighbours: `machine` keeps what hwloc says there, the crate `latency` measures.

use crate::machine;
use crate::user_cache::{self, NoCache};
use std::io::Read;
use std::path::Path;
use wire::code;

/// Name of the file.
const FILE: &str = "transfer";
/// Its first words.
const MAGIC: &str = "threadtalk transfer 1";
/// After that many measurements the least is no longer doubted.
const ENOUGH: u32 = 5;

/// The least of some measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Least {
    ns: f64,
    measurements: u32,
}

/// What a transfer takes, nanoseconds: from the cache folder, or by `measure`, which says nothing
/// where it cannot.
pub fn transfer_ns(measure: impl FnOnce() -> Option<f64>) -> Option<f64> {
    let path = user_cache::folder().ok().map(|folder| folder.join(FILE));
    match (machine::key(), path) {
        (Some(key), Some(path)) => kept(&path, key, measure),
        _ => measure(),
    }
}

fn kept(path: &Path, key: u64, measure: impl FnOnce() -> Option<f64>) -> Option<f64> {
    let known = read(path, key);
    if let Some(known) = known.filter(|known| known.measurements >= ENOUGH) {
        return Some(known.ns);
    }
    let Some(ns) = measure() else { return known.map(|known| known.ns) };
    let least = Least {
        ns: known.map_or(ns, |known| known.ns.min(ns)),
        measurements: known.map_or(0, |known| known.measurements) + 1,
    };
    // Next time it takes as long again, that is all.
    let _ = keep(path, key, least);
    Some(least.ns)
}

fn line(key: u64, least: Least) -> String {
    let Least { ns, measurements } = least;
    let sum = code::mix(ns.to_bits() ^ u64::from(measurements));
    format!("{MAGIC} {key:016x} {sum:016x} {measurements} {ns}\n")
}

fn read(path: &Path, key: u64) -> Option<Least> {
    const MAX_BYTES: u64 = 256;
    let mut text = String::new();
    user_cache::open(path, false).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let mut words = text.trim_end().rsplit(' ');
    let ns = words.next()?.parse().ok()?;
    let measurements = words.next()?.parse().ok()?;
    let known = Least { ns, measurements };
    (line(key, known) == text).then_some(known)
}

fn keep(path: &Path, key: u64, least: Least) -> Result<(), NoCache> {
    user_cache::replace(path, &[line(key, least).as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use test_support::Scratch;

    #[test]
    fn the_least_of_the_first_few_measurements_is_kept() {
        let scratch = Scratch::new();
        let path = scratch.join("cache").join(FILE);
        let measured = [90.0, 210.5, 48.25, 60.0, 99.0];
        let told = measured.map(|ns| kept(&path, 7, || Some(ns)));
        assert_eq!(told, [90.0, 90.0, 48.25, 48.25, 48.25].map(Some));
        assert_eq!(kept(&path, 7, || panic!("measured again")), Some(48.25));
        // Another machine, or a file into which something else was written.
        assert_eq!(kept(&path, 8, || Some(70.0)), Some(70.0));
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("70", "10")).unwrap();
        assert_eq!(kept(&path, 8, || None), None);
        assert_eq!(fs::read_dir(scratch.join("cache")).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_measured_now_may_be_known() {
        let scratch = Scratch::new();
        let path = scratch.join("cache").join(FILE);
        assert_eq!(kept(&path, 7, || None), None);
        assert_eq!(kept(&path, 7, || Some(80.0)), Some(80.0));
        assert_eq!(kept(&path, 7, || None), Some(80.0));
    }
}

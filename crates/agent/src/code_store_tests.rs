//! Kept code: what is found again, and what is too long, damaged or full.

use super::*;
use crate::session::testing::recording;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use wire::session::mode;

const KIND: Kind = Kind { returns_flags: false, fingerprint: 0x1234 };

/// A store in a file, which this process has mapped as long as it lives.
struct Store {
    file: File,
    end: u64,
    mapped: [u64; 2],
}

impl Drop for Store {
    fn drop(&mut self) {
        STORE.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // SAFETY: mapped by `new`.
        unsafe { sys::unmap(self.mapped[0], self.mapped[1], sys::MAP_SHARED) };
    }
}

impl Store {
    fn new(bytes: u64) -> Self {
        let name = std::format!("threadtalk-code-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = || File::options().read(true).write(true).create(true).truncate(true).clone();
        let file = options().open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(bytes).unwrap();
        let flags = sys::MAP_SHARED | sys::MAP_NORESERVE;
        let fd = file.as_raw_fd().into();
        let start = sys::map_away(bytes, sys::PROT_READ, flags, fd, 0).unwrap();
        let mapped = [start, bytes];
        STORE.iter().zip(mapped).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        Store { file, end: code::RECORDS_OFFSET, mapped }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).unwrap();
    }

    /// Adds a slot `behind` the first one that the key may have.
    fn add_slot(&self, key: u64, behind: usize, place: u64) {
        let slot = code::slots(key).nth(behind).unwrap();
        let at = code::INDEX_OFFSET + (slot * size_of::<Slot>()) as u64;
        self.write(at, &[key.to_le_bytes(), place.to_le_bytes()].concat());
    }

    /// Adds what the recording holds as the only record, as the recorder does.
    fn add_kept(&mut self, key: u64) -> u64 {
        let used = session::header().code_used.swap(0, Ordering::Relaxed);
        // SAFETY: within the recording, written by `keep`.
        let kept = unsafe {
            core::slice::from_raw_parts(session::code(0, used).unwrap() as *const u8, used as usize)
        };
        let at = self.end;
        self.write(at, kept);
        self.end += used;
        self.add_slot(key, 0, at);
        at
    }
}

fn found(file: u64, kind: Kind, offset: u64) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    find(file, kind, offset, &mut block).map(|()| block)
}

fn key(offset: u64) -> u64 {
    code::key(module(7, KIND), offset)
}

fn begin() {
    session::header().code_used.store(0, Ordering::Relaxed);
}

#[test]
fn what_one_run_keeps_a_later_one_finds() {
    let _held = recording(mode::MATRIX);
    begin();
    assert_eq!(found(7, KIND, 0x40), None, "without a store");
    let mut store = Store::new(code::RECORDS_OFFSET + 8192);
    let blocks = [&b"translated"[..], b"", &[9; 100]];
    for (k, block) in blocks.iter().enumerate() {
        let offset = 0x40 + k as u64;
        keep(7, KIND, offset, block);
        store.add_kept(key(offset));
        assert_eq!(found(7, KIND, offset).as_deref(), Some(*block));
    }
    assert_eq!(found(7, KIND, 0x40).as_deref(), Some(blocks[0]));
    // Other code, and the same translated in another way.
    assert_eq!(found(7, KIND, 0x30), None);
    assert_eq!(found(8, KIND, 0x40), None);
    assert_eq!(found(7, Kind { returns_flags: true, ..KIND }, 0x40), None);
    assert_eq!(found(7, Kind { fingerprint: 1, ..KIND }, 0x40), None);
}

#[test]
fn records_follow_on_each_other_until_their_part_is_full() {
    let _held = recording(mode::MATRIX);
    begin();
    let used = || session::header().code_used.load(Ordering::Relaxed);
    keep(7, KIND, 1, b"one");
    keep(7, KIND, 2, b"seventeen bytes..");
    assert_eq!(used(), 48 + 64);
    // SAFETY: within the recording.
    let kept =
        unsafe { core::slice::from_raw_parts(session::code(0, 112).unwrap() as *const u8, 112) };
    let second = code::record(&kept[48..]).unwrap();
    assert_eq!((second.0.offset, second.1), (2, &b"seventeen bytes.."[..]));
    let last = wire::session::CODE_BYTES - 48;
    session::header().code_used.store(last, Ordering::Relaxed);
    keep(7, KIND, 3, b"seventeen bytes..");
    assert_eq!(used(), last);
    keep(7, KIND, 4, b"sixteen bytes...");
    assert_eq!(used(), last + 48);
    keep(7, KIND, 5, b"");
    assert_eq!(used(), last + 48);
    begin();
}

#[test]
fn a_damaged_store_finds_nothing() {
    let _held = recording(mode::MATRIX);
    begin();
    let bytes = code::RECORDS_OFFSET + 4096;
    let mut store = Store::new(bytes);
    keep(7, KIND, 1, b"translated");
    let at = store.add_kept(key(1));
    assert!(found(7, KIND, 1).is_some());
    // Slots that lead nowhere, into the middle of a record, and to where no head has room.
    for place in [at + 8, at + 16, bytes, bytes - 16, bytes - 32 + 1, u64::MAX, !15, 0] {
        store.add_slot(key(1), 0, place);
        assert_eq!(found(7, KIND, 1), None, "{place:x}");
    }
    // Another record under the same key.
    keep(7, KIND, 2, b"other");
    store.add_kept(key(1));
    assert_eq!(found(7, KIND, 1), None);
    store.add_slot(key(1), 0, at);
    assert_eq!(found(7, KIND, 1).as_deref(), Some(&b"translated"[..]));
    // Lengths that are not true: one more, up to the end of the file, beyond it, and around.
    for length in [11, bytes - at - 32, bytes - at - 31, u64::MAX, u64::MAX - 31, 0] {
        store.write(at + 24, &length.to_le_bytes());
        assert_eq!(found(7, KIND, 1), None, "{length:x}");
    }
    store.write(at + 24, &10u64.to_le_bytes());
    assert!(found(7, KIND, 1).is_some());
    store.write(at + 33, b"R");
    assert_eq!(found(7, KIND, 1), None);
}

#[test]
fn a_search_passes_over_other_keys_and_ends_where_there_is_none() {
    let _held = recording(mode::MATRIX);
    begin();
    let mut store = Store::new(code::RECORDS_OFFSET + 4096);
    keep(7, KIND, 1, b"translated");
    let at = store.add_kept(key(1));
    let last = code::MAX_PROBES - 1;
    let others = |store: &Store, to: usize| {
        for k in 0..to {
            let slot = code::slots(key(1)).nth(k).unwrap();
            let at = code::INDEX_OFFSET + (slot * size_of::<Slot>()) as u64;
            store.write(at, &[3u64.to_le_bytes(), at.to_le_bytes()].concat());
        }
    };
    others(&store, last);
    assert_eq!(found(7, KIND, 1), None);
    store.add_slot(key(1), last, at);
    assert!(found(7, KIND, 1).is_some());
    // No further than that, however full the index is.
    others(&store, code::MAX_PROBES);
    assert_eq!(found(7, KIND, 1), None);
}

#[test]
fn pages_that_are_let_go_still_hold_what_they_held() {
    let _held = recording(mode::MATRIX);
    begin();
    let mut store = Store::new(code::RECORDS_OFFSET + (4 << 20));
    let block: Vec<u8> = (0..3u32 << 20).map(|k| (k >> 8 ^ k) as u8).collect();
    keep(7, KIND, 1, &block);
    store.add_kept(key(1));
    for _ in 0..4 {
        assert!(found(7, KIND, 1).as_ref() == Some(&block));
    }
    for offset in 2..5 {
        keep(7, KIND, offset, &block);
    }
    let used = session::header().code_used.load(Ordering::Relaxed);
    let each = (used / 3) as usize;
    // SAFETY: within the recording.
    let kept = unsafe {
        core::slice::from_raw_parts(session::code(0, used).unwrap() as *const u8, used as usize)
    };
    for (record, offset) in kept.chunks(each).zip(2..) {
        let (head, body) = code::record(record).unwrap();
        assert!(head.offset == offset && body == block);
    }
    begin();
}

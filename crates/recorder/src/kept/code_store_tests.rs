//! Tests of the store of translated code.

use super::*;
use crate::session::SessionOptions;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

/// A folder of its own that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("threadtalk-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        Folder(folder)
    }

    /// A store for the engine in the file of that name.
    fn open(&self, agent: &str) -> Result<CodeStore, NoCache> {
        let agent = self.0.join(agent);
        if !agent.exists() {
            fs::write(&agent, "engine").unwrap();
        }
        CodeStore::open_in(&self.0.join("cache"), &agent)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(module: u64, offset: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [0, module, offset, body.len() as u64].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(body);
    let sum = code::checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(code::padded(bytes.len() as u64) as usize, 0);
    bytes
}

/// What a process finds.
fn find(store: &CodeStore, module: u64, offset: u64) -> Option<Vec<u8>> {
    let key = code::key(module, offset);
    let bytes = fs::read(&store.path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let slot = code::slots(key).map(|slot| slot_offset(slot) as usize).find(|at| word(*at) == key);
    let (head, body) = code::record(bytes.get(word(slot? + 8) as usize..)?)?;
    ((head.module, head.offset) == (module, offset)).then(|| body.to_vec())
}

fn header(store: &CodeStore) -> Header {
    store.header().unwrap().unwrap()
}

fn set_header(store: &CodeStore, header: Header) {
    store.file.write_all_at(&header.bytes(), 0).unwrap();
}

fn is_unsafe(opened: Result<CodeStore, NoCache>) -> bool {
    matches!(opened, Err(NoCache::Unsafe { foreign: false, .. }))
}

#[test]
fn what_is_added_is_found_and_added_once() {
    let folder = Folder::new("add");
    let store = folder.open("agent").unwrap();
    let session = Session::create(SessionOptions::default()).unwrap();
    let bodies: Vec<Vec<u8>> = (0..500).map(|k| vec![k as u8; k]).collect();
    let all: Vec<u8> =
        bodies.iter().enumerate().flat_map(|(k, body)| record(7, k as u64, body)).collect();
    let twice = [&all[..], &record(7, 3, b"again")].concat();
    session.write_at(&twice, wire::session::CODE_OFFSET);
    session.header().unwrap().records()[0].code_used.store(twice.len() as u64, Relaxed);
    assert_eq!(session.code().unwrap(), twice);
    store.add(&session, 1).unwrap();
    let length = store.file.metadata().unwrap().len();
    for (k, body) in bodies.iter().enumerate() {
        assert_eq!(find(&store, 7, k as u64).as_ref(), Some(body));
    }
    assert_eq!(find(&store, 8, 3), None);
    // Another recorder, the same code.
    folder.open("agent").unwrap().add(&session, 1).unwrap();
    assert_eq!(store.file.metadata().unwrap().len(), length);
    assert_eq!(header(&store).records, 500);
}

#[test]
fn a_damaged_record_is_not_found_and_replaced() {
    let folder = Folder::new("damage");
    let store = folder.open("agent").unwrap();
    assert!(store.add_records(&record(1, 2, &[5; 100])).unwrap());
    store.file.write_all_at(&[6], code::RECORDS_OFFSET + 80).unwrap();
    assert_eq!(find(&store, 1, 2), None);
    assert!(store.add_records(&record(1, 2, &[7; 100])).unwrap());
    assert_eq!(find(&store, 1, 2), Some(vec![7; 100]));
    // What a process leaves behind may be damaged, too.
    let mut damaged = record(1, 3, &[8; 100]);
    damaged[90] ^= 1;
    assert!(store.add_records(&damaged).unwrap());
    assert_eq!(find(&store, 1, 3), None);
}

#[test]
fn another_build_of_the_engine_has_another_store() {
    let folder = Folder::new("builds");
    let store = folder.open("agent").unwrap();
    let again = folder.open("agent").unwrap();
    assert_eq!(store.path, again.path);
    assert_ne!(store.path, folder.open("another").unwrap().path);
    fs::write(folder.0.join("agent"), "another engine").unwrap();
    assert_ne!(store.path, folder.open("agent").unwrap().path);
}

#[test]
fn what_others_may_change_or_nobody_knows_is_not_used() {
    let folder = Folder::new("refuse");
    let store = folder.open("agent").unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&store.path, 0o622);
    assert!(is_unsafe(folder.open("agent")));
    mode(&store.path, 0o600);
    mode(&folder.0.join("cache"), 0o770);
    assert!(is_unsafe(folder.open("agent")));
    mode(&folder.0.join("cache"), 0o700);
    store.file.write_all_at(&(code::VERSION + 1).to_le_bytes(), 8).unwrap();
    assert!(folder.open("agent").is_err());
    // It was removed, and the next one is new.
    assert!(folder.open("agent").unwrap().add_records(&record(1, 2, b"x")).unwrap());
    fs::write(&store.path, "short").unwrap();
    assert!(folder.open("agent").is_err() && folder.open("agent").is_ok());
}

#[test]
fn a_full_store_is_given_up_for_a_new_one() {
    let folder = Folder::new("full");
    let store = folder.open("agent").unwrap();
    set_header(&store, Header { end: code::MAX_BYTES - 64, ..header(&store) });
    assert!(!store.add_records(&record(1, 2, &[1; 100])).unwrap());
    let new = folder.open("agent").unwrap();
    assert!(new.add_records(&record(1, 2, &[1; 100])).unwrap());
    assert_eq!(find(&new, 1, 2), Some(vec![1; 100]));
}

#[test]
fn a_damaged_header_costs_records_and_nothing_else() {
    let folder = Folder::new("header");
    let store = folder.open("agent").unwrap();
    let body = |k: u64| vec![k as u8; 100];
    assert!(store.add_records(&record(1, 1, &body(1))).unwrap());
    // What was there is overwritten, and then no longer found.
    set_header(&store, Header { end: 0, records: 0 });
    assert!(store.add_records(&record(1, 2, &body(2))).unwrap());
    assert_eq!([1, 2].map(|k| find(&store, 1, k)), [None, Some(body(2))]);
    set_header(&store, Header { end: u64::MAX - 7, records: u64::MAX });
    assert!(!store.add_records(&record(1, 3, &body(3))).unwrap());
    // Cut off, and added to nevertheless.
    let new = folder.open("agent").unwrap();
    assert!(new.add_records(&record(1, 1, &body(1))).unwrap());
    new.file.set_len(code::RECORDS_OFFSET + 50).unwrap();
    assert!(new.add_records(&record(1, 2, &body(2))).unwrap());
    assert_eq!([1, 2].map(|k| find(&new, 1, k)), [None, Some(body(2))]);
}

#[test]
fn stores_of_other_builds_go_when_they_are_old_or_too_large() {
    let folder = Folder::new("others");
    let now = SystemTime::now();
    let days = |days: u32| now - Duration::from_secs(24 * 3600) * days;
    let make = |name: &str, bytes: u64, modified| {
        let path = folder.0.join("cache").join(name);
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(modified).unwrap();
        path
    };
    let store = folder.open("agent").unwrap();
    let old = make("code-1", 10, days(31));
    let foreign = make("something", 10, days(31));
    let recent = make("code-2", code::MAX_BYTES - 100, days(1));
    let small = make("code-3", 90, days(2));
    let beyond = make("code-4", 20, days(3));
    user_cache::remove_unused(&store.path, PREFIX, MAX_IN_ALL - code::MAX_BYTES);
    assert_eq!(
        [&store.path, &old, &foreign, &recent, &small, &beyond].map(|path| path.exists()),
        [true, false, true, true, true, false]
    );
}

#[test]
fn many_recorders_at_once_lose_nothing() {
    let folder = Folder::new("parallel");
    // The store's name has the time at which the engine was written.
    fs::write(folder.0.join("agent"), "engine").unwrap();
    std::thread::scope(|scope| {
        for k in 0..8 {
            let folder = &folder;
            scope.spawn(move || {
                let store = folder.open("agent").unwrap();
                for n in 0..50 {
                    // Half of them belong to a module that all threads share.
                    let module = if n % 2 == 0 { 100 } else { k };
                    assert!(store.add_records(&record(module, n, &[n as u8; 60])).unwrap());
                }
            });
        }
    });
    let store = folder.open("agent").unwrap();
    for n in 0..50u64 {
        for k in 0..8 {
            let module = if n % 2 == 0 { 100 } else { k };
            assert_eq!(find(&store, module, n), Some(vec![n as u8; 60]));
        }
    }
    assert_eq!(header(&store).records, 25 + 8 * 25);
}

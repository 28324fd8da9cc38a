//! Tests of the store of translated code.

use super::*;
use crate::session::SessionOptions;
use std::os::unix::fs::PermissionsExt;

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
    fn open(&self, agent: &str) -> io::Result<CodeStore> {
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
    let view = View::of(&store.file).unwrap();
    let key = code::key(module, offset);
    let index = view.index();
    let slot = code::slots(key).find(|slot| index[*slot].key.load(Relaxed) == key)?;
    let bytes = fs::read(&store.path).unwrap();
    let (_, body) = code::record(&bytes[index[slot].place.load(Relaxed) as usize..])?;
    Some(body.to_vec())
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
    assert_eq!(View::of(&store.file).unwrap().header().records.load(Relaxed), 500);
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
    assert_eq!(folder.open("agent").err().unwrap().kind(), io::ErrorKind::PermissionDenied);
    mode(&store.path, 0o600);
    mode(&folder.0.join("cache"), 0o770);
    assert_eq!(folder.open("agent").err().unwrap().kind(), io::ErrorKind::PermissionDenied);
    mode(&folder.0.join("cache"), 0o700);
    View::of(&store.file).unwrap().header().version.store(code::VERSION + 1, Relaxed);
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
    View::of(&store.file).unwrap().header().end.store(code::MOST_BYTES - 64, Relaxed);
    assert!(!store.add_records(&record(1, 2, &[1; 100])).unwrap());
    let new = folder.open("agent").unwrap();
    assert!(new.add_records(&record(1, 2, &[1; 100])).unwrap());
    assert_eq!(find(&new, 1, 2), Some(vec![1; 100]));
}

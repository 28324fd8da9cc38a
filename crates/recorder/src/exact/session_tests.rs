use super::*;
use std::fs;
use test_support::Scratch;

fn session() -> Session {
    Session::create(SessionOptions::default()).unwrap()
}

fn write(session: &Session, offset: u64, value: u64) {
    session.memory.file().write_all_at(&value.to_le_bytes(), offset).unwrap();
}

#[test]
fn the_header_says_what_to_do() {
    let options = SessionOptions {
        block_bytes: 4096,
        disable: 5,
        counted: Counted::Translate,
        event_bytes: 5 << 10,
        ..SessionOptions::default()
    };
    let session = Session::create(options).unwrap();
    let mapping = session.header().unwrap();
    let header = &mapping.records()[0];
    assert_eq!(header.magic.load(Relaxed).to_le_bytes(), *b"TTSESS\0\0");
    assert_eq!(header.block_shift.load(Relaxed), 12);
    assert_eq!(header.disable.load(Relaxed), 5);
    assert_eq!((header.mode.load(Relaxed), header.follow.load(Relaxed)), (mode::TRANSLATE, 1));
    assert_eq!(header.event_chunks.load(Relaxed), 5);
    assert_eq!(header.cell_chunks.load(Relaxed), 512 << 10);
}

#[test]
fn the_segments_of_a_recording_are_apart() {
    let first = session();
    let last = first.of_segment(session::MAX_SEGMENTS - 1);
    last.write_at(&5u64.to_le_bytes(), session::SITES_OFFSET + 8);
    first.write_at(&6u64.to_le_bytes(), session::SITES_OFFSET + 16);
    assert_eq!(first.sites(3).unwrap(), [0, 0, 6]);
    assert_eq!(last.sites(3).unwrap(), [0, 5, 0]);
    last.header().unwrap().records()[0].pid.store(9, Relaxed);
    assert_eq!(first.header().unwrap().records()[0].pid.load(Relaxed), 0);
}

#[test]
fn block_sizes_that_the_shadow_cannot_have_are_refused() {
    for bytes in [0, 8, 48, 2 << 20] {
        let options = SessionOptions { block_bytes: bytes, ..SessionOptions::default() };
        let error = Session::create(options).err().unwrap();
        assert!(error.to_string().starts_with(&format!("{bytes} is not a block size")));
    }
}

#[test]
fn holes_stay_holes() {
    let session = session();
    write(&session, session::POOL_OFFSET + 5 * CHUNK_BYTES, 7);
    write(&session, session::POOL_OFFSET + (1 << 25) * CHUNK_BYTES, 8);
    let before = session.memory.file().metadata().unwrap().blocks();
    let mut found: Vec<u8> = Vec::new();
    session
        .for_each_chunk(|chunk| {
            assert_eq!(chunk.len() as u64, CHUNK_BYTES);
            found.extend(chunk.iter().filter(|byte| **byte != 0));
        })
        .unwrap();
    assert_eq!(found, [7, 8]);
    session.threads(1001).unwrap();
    session.sites(1 << 20).unwrap();
    assert_eq!(session.memory.file().metadata().unwrap().blocks(), before);
}

#[test]
fn threads_and_modules_are_read_field_by_field() {
    let session = session();
    {
        let areas = session.areas_of(0).unwrap();
        let page = &areas.records()[1].page;
        page.parent.store(0, Relaxed);
        page.tid.store(77, Relaxed);
        page.loads.store(5, Relaxed);
        page.start_routine.store(0x1234, Relaxed);
        areas.records()[0].page.parent.store(u32::MAX, Relaxed);
        session.header().unwrap().records()[0].tallies.store(2, Relaxed);
        let meanings = session.meanings_of(0).unwrap();
        let meaning = Meaning::new(9, 4, 1).unwrap();
        meanings.records()[1].store(meaning.bits(), Relaxed);
        areas.records()[1].tallies[1].store(10, Relaxed);
        // It has no meaning yet.
        areas.records()[1].tallies[2].store(10, Relaxed);
    }
    let name = session::thread_offset(1) + mem::offset_of!(ThreadPage, name) as u64;
    session.memory.file().write_all_at(b"worker", name).unwrap();
    let threads = session.threads(2).unwrap();
    assert_eq!((threads[0].parent, threads[1].parent), (None, Some(ThreadId(0))));
    assert_eq!((threads[1].tid, threads[1].loads, threads[1].stores), (77, 45, 10));
    assert_eq!((threads[0].instructions, threads[1].instructions), (0, 90));
    assert_eq!((threads[1].start_routine, threads[1].name.as_str()), (0x1234, "worker"));
    write(&session, session::MODULES_OFFSET + 512, 0x1000);
    let path = session::MODULES_OFFSET + 512 + mem::offset_of!(Module, path) as u64;
    session.memory.file().write_all_at(b"/lib/x.so", path).unwrap();
    let modules = session.modules(2).unwrap();
    assert_eq!((modules[1].start, modules[1].path.as_str()), (0x1000, "/lib/x.so"));
    assert_eq!(modules[1].file, ModuleFile::AtPath);
}

#[test]
fn a_file_that_was_replaced_or_written_since_it_was_mapped_has_no_names() {
    let scratch = Scratch::new();
    let file = scratch.join("file");
    fs::write(&file, "").unwrap();
    let (path, now) = (file.to_str().unwrap(), fs::metadata(&file).unwrap());
    let read = |path: &str, inode: u64, seconds: u64| {
        let session = Session::create(SessionOptions::default()).unwrap();
        let at = |field: usize| session::MODULES_OFFSET + field as u64;
        write(&session, at(mem::offset_of!(Module, inode)), inode);
        write(&session, at(mem::offset_of!(Module, written)), seconds);
        write(&session, at(mem::offset_of!(Module, written) + 8), now.mtime_nsec() as u64);
        let at = at(mem::offset_of!(Module, path));
        session.memory.file().write_all_at(path.as_bytes(), at).unwrap();
        session.modules(1).unwrap()[0].file.clone()
    };
    let written = now.mtime() as u64;
    assert_eq!(read(path, now.ino(), written), ModuleFile::AtPath);
    assert_eq!(read(path, 0, 0), ModuleFile::AtPath);
    assert_eq!(read(path, now.ino() + 1, written), ModuleFile::Unreachable);
    assert_eq!(read(path, now.ino(), written + 1), ModuleFile::Unreachable);
    assert_eq!(read("/gone", now.ino(), written), ModuleFile::Unreachable);
    assert_eq!(read("/gone (deleted)", 0, 0), ModuleFile::Unreachable);
}

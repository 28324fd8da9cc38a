use super::*;
use std::io::Cursor;

fn accesses(count: u64) -> Vec<Access> {
    let access = |k: u64| Access {
        thread: (k / 7 % 3) as u32,
        what: [What::Read, What::Write, What::Read, What::Forget][(k * k % 4) as usize],
        address: if k.is_multiple_of(50) {
            k.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        } else {
            0x7000_0000 + k * 8
        },
        bytes: 1 << (k % 5),
        site: (k % 11) as u32,
        skipped: [0, 3, 1 << 40][(k % 3) as usize],
        held: k.is_multiple_of(5),
        ways: 0,
    };
    (0..count).map(access).collect()
}

fn written(accesses: &[Access], max_bytes: u64) -> Vec<u8> {
    let mut writer = TraceWriter::new(Cursor::new(Vec::new()), max_bytes).unwrap();
    accesses.iter().for_each(|access| writer.access(access));
    writer.finish(|end| end.command = vec!["a".into()]).unwrap().0.into_inner()
}

fn read(bytes: &[u8]) -> Result<(Vec<Access>, TraceEnd), StreamError> {
    let mut reader = TraceReader::new(Cursor::new(bytes), "'x'")?;
    let mut all = Vec::new();
    while reader.read(&mut all)? {}
    Ok((all, reader.end().clone()))
}

#[test]
fn what_is_written_is_read() {
    for count in [0, 1, 1000, 200_000] {
        let all = accesses(count);
        let bytes = written(&all, u64::MAX);
        let (found, end) = read(&bytes).unwrap();
        assert!(found == all, "{count}");
        assert_eq!((end.accesses, end.cut, end.command), (count, None, vec!["a".into()]));
    }
}

#[test]
fn ways_are_kept_where_the_filter_is_a_cache() {
    let with_ways = |(k, access)| Access { ways: (k % 200) as u8, ..access };
    let all: Vec<Access> = accesses(1000).into_iter().enumerate().map(with_ways).collect();
    let writer = TraceWriter::new(Cursor::new(Vec::new()), u64::MAX).unwrap();
    let mut writer = writer.with_ways(8);
    all.iter().for_each(|access| writer.access(access));
    let (found, end) = read(&writer.finish(|_| {}).unwrap().0.into_inner()).unwrap();
    assert!(found == all);
    assert_eq!(end.cache_ways, 8);
}

#[test]
fn regular_accesses_take_little() {
    let walk: Vec<Access> =
        (0..1_000_000).map(|k| Access::new(0, What::Read, k * 8, 8, 3)).collect();
    let bytes = written(&walk, u64::MAX).len();
    assert!(bytes < 100_000, "{bytes}");
}

#[test]
fn a_full_trace_says_why_it_ends() {
    let all = accesses(400_000);
    let (found, end) = read(&written(&all, 100_000)).unwrap();
    assert!(found.len() < all.len() && found == all[..found.len()]);
    assert_eq!(end.accesses, found.len() as u64);
    assert!(end.cut.unwrap().starts_with("the limit of"));
}

#[test]
fn traces_that_are_written_together_share_their_room() {
    const ROOM: u64 = 400_000;
    let room = Arc::new(Room::new(ROOM));
    let new = || TraceWriter::sharing(Cursor::new(Vec::new()), room.clone()).unwrap();
    let mut writers = [new(), new()];
    let all = accesses(400_000);
    all.iter().for_each(|access| writers.iter_mut().for_each(|writer| writer.access(access)));
    let ends = writers.map(|writer| writer.finish(|_| {}).unwrap().1);
    let alone = read(&written(&all, ROOM)).unwrap().1;
    assert!(alone.cut.is_some() && ends.iter().all(|end| end.cut.is_some()));
    // Each may be in the middle of a block when there is no more room.
    let both: u64 = ends.iter().map(|end| end.accesses).sum();
    assert!(both <= alone.accesses + BLOCK_RECORDS as u64, "{both} of {}", alone.accesses);
    assert!(alone.accesses > BLOCK_RECORDS as u64, "several blocks");
}

/// Takes so many bytes and then no more, but lets what was written be overwritten.
struct Full(Cursor<Vec<u8>>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.position() as usize + bytes.len() > self.1 {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn windows_are_told() {
    let mut all = accesses(100);
    for (at, part) in [(10, Part::Unseen), (40, Part::WarmUp), (60, Part::Counted)] {
        all.insert(at, Access { skipped: 7, ..Access::window(1, 3, part) });
    }
    let (found, _) = read(&written(&all, u64::MAX)).unwrap();
    assert_eq!(found, all);
}

#[test]
fn a_full_disk_cuts_the_trace() {
    let all = accesses(400_000);
    let whole = written(&all, u64::MAX).len();
    let mut writer = TraceWriter::new(Full(Cursor::new(Vec::new()), whole / 2), u64::MAX).unwrap();
    all.iter().for_each(|access| writer.access(access));
    let (full, end) = writer.finish(|_| ()).unwrap();
    assert!(end.cut.unwrap().starts_with("it could not be written"));
    let (found, _) = read(&full.0.into_inner()).unwrap();
    assert!(!found.is_empty() && found == all[..found.len()]);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let all = accesses(70_000);
    let bytes = written(&all, u64::MAX);
    for at in (0..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = read(&damaged).expect_err("damage goes unseen");
        assert!(error.to_string().contains("'x'"), "{error}");
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
    }
    assert!(read(b"something else entirely").unwrap_err().to_string().contains("no trace"));
    let mut newer = bytes;
    newer[8] = 9;
    assert!(read(&newer).unwrap_err().to_string().contains("version 9"));
    newer[8] = 1;
    assert!(read(&newer).unwrap_err().to_string().contains("not read any more"));
}

//! Algorithm 1 of ComDetective: what is published, what is a match, what a trap tells.

use super::*;
use core::sync::atomic::AtomicU64;
use wire::watch::RECORDS;

const PLACE: u64 = 0x7f00_0000_1000;
const ME: u32 = 10;
const OTHER: u32 = 20;

/// A session of which nothing else knows, for the calling thread, which has no debug registers.
fn session() -> Session {
    // SAFETY: zeroes are valid atomics; tests are few, so it may stay for good.
    let session = unsafe {
        Session {
            header: Box::leak(Box::new_zeroed().assume_init()),
            segment: Box::leak(Box::new_zeroed().assume_init()),
            records: Box::leak(Box::new_zeroed_slice(RECORDS).assume_init()),
        }
    };
    thread::forget();
    thread::with(|thread| {
        thread.tid.set(ME);
        thread.random.set(1);
    });
    session
}

fn access(kind: AccessKind, address: u64, bytes: u32) -> Access {
    Access { address, bytes, kind, site: 0x40_1000 }
}

fn found(access: Access) -> Found {
    Found { access, step: access::Step::Before(1) }
}

fn post(address: u64, tid: u32, time_ns: u64) -> Post {
    Post { time_ns, address, bytes: 8, tid, site: 0x50_2000 }
}

fn publish(session: Session, post: &Post) {
    assert!(board::publish(board::place(&session.segment.board, post.line()), post));
}

fn there(session: Session, address: u64) -> Option<Post> {
    board::read(board::place(&session.segment.board, line_of(address)))
}

fn sample(session: Session, access: Access, now_ns: u64) {
    sampled(session, &[found(access)], now_ns, 0);
}

fn counted(session: Session) -> [u64; 3] {
    let s = session.segment;
    [&s.matches, &s.published, &s.tail].map(|count| count.load(Relaxed))
}

#[test]
fn an_access_to_what_another_thread_has_published_is_communication_once() {
    let session = session();
    let load = access(AccessKind::Load, PLACE + 12, 4);
    publish(session, &post(PLACE + 8, OTHER, 100));
    sample(session, load, 200);
    assert_eq!(counted(session), [1, 0, 1]);
    let r = &session.records[0];
    assert_eq!([&r.time_ns, &r.from_ns, &r.line].map(|f| f.load(Relaxed)), [200, 100, PLACE]);
    assert_eq!([&r.to_site, &r.from_site].map(|f| f.load(Relaxed)), [0x40_1000, 0x50_2000]);
    assert_eq!([&r.to_bytes, &r.from_bytes].map(|f| f.load(Relaxed)), [0xf000, 0xff00]);
    let numbers = [&r.to, &r.from, &r.kind, &r.how, &r.exact].map(|f| f.load(Relaxed));
    assert_eq!(numbers, [ME, OTHER, kind::LOAD, how::MATCH, 1]);
    sample(session, load, 300);
    assert_eq!(counted(session), [1, 0, 1]);
    // A newer store is met anew, also after another line with another place.
    publish(session, &post(PLACE + 64, OTHER, 310));
    publish(session, &post(PLACE, OTHER, 320));
    sample(session, access(AccessKind::Load, PLACE + 64, 1), 330);
    sample(session, load, 340);
    sample(session, access(AccessKind::Load, PLACE + 64, 1), 350);
    assert_eq!(counted(session), [3, 0, 3]);
}

#[test]
fn own_stores_and_stores_to_other_lines_of_a_place_are_no_communication() {
    let session = session();
    publish(session, &post(PLACE, ME, 100));
    sample(session, access(AccessKind::Load, PLACE, 8), 200);
    publish(session, &post(PLACE + LINE * wire::watch::BOARD as u64, OTHER, 300));
    sample(session, access(AccessKind::Load, PLACE, 8), 400);
    // Addresses of the kernel, and a thread that has ended.
    publish(session, &post(1 << 63, OTHER, 500));
    sample(session, access(AccessKind::Load, 1 << 63, 8), 600);
    publish(session, &post(PLACE, OTHER, 700));
    thread::with(|thread| thread.tid.set(0));
    sample(session, access(AccessKind::Load, PLACE, 8), 800);
    sampled(session, &[], 900, 0);
    assert_eq!(counted(session), [0, 0, 0]);
}

#[test]
fn stores_are_published_where_nothing_younger_of_another_line_is() {
    let session = session();
    let store = |address, now| sample(session, access(AccessKind::Store, address, 4), now);
    let far = PLACE + LINE * wire::watch::BOARD as u64;
    sample(session, access(AccessKind::Load, PLACE, 4), 100);
    assert!(there(session, PLACE).is_none());
    store(PLACE + 4, 200);
    let expected = Post { time_ns: 200, address: PLACE + 4, bytes: 4, tid: ME, site: 0x40_1000 };
    assert!(there(session, PLACE) == Some(expected));
    // The last writer of a line is the one that communicates.
    sample(session, access(AccessKind::Update, PLACE, 4), 300);
    assert!(there(session, PLACE).is_some_and(|post| post.time_ns == 300));
    // Another line with this place: the post is not old at this thread's next store, which follows
    // the one at 300, but it is at the one after that.
    store(far, 400);
    assert!(there(session, PLACE).is_some_and(|post| post.time_ns == 400));
    publish(session, &post(PLACE, OTHER, 450));
    store(far, 500);
    assert!(there(session, far).is_some_and(|post| post.time_ns == 450));
    store(far, 600);
    assert!(there(session, far).is_some_and(|post| post.time_ns == 600));
    assert_eq!(counted(session), [0, 4, 0]);
}

#[test]
fn a_sample_stands_for_a_published_line_then_a_store_then_the_likeliest_access() {
    let session = session();
    let load = |at| found(access(AccessKind::Load, at, 8));
    let store = found(access(AccessKind::Store, PLACE + 0x80, 8));
    let all = [load(PLACE), load(PLACE + 0x40), store];
    let which = |found: &[Found]| {
        thread::with(|thread| chosen(session, thread, found)).map(|access| access.address)
    };
    assert_eq!(which(&all), Some(PLACE + 0x80));
    assert_eq!(which(&all[..2]), Some(PLACE));
    assert_eq!(which(&[]), None);
    publish(session, &post(PLACE + 0x40, ME, 100));
    assert_eq!(which(&all), Some(PLACE + 0x80));
    publish(session, &post(PLACE + 0x40, OTHER, 200));
    assert_eq!(which(&all), Some(PLACE + 0x40));
}

#[test]
fn the_last_samples_are_kept_with_the_last_one_first() {
    let times = Cell::new([0; thread::SAMPLES]);
    (1..=5).for_each(|now| push_time(&times, now));
    assert_eq!((times.get(), times.get()[PREVIOUS]), ([5, 4, 3], 4));
}

#[test]
fn published_bytes_are_watched_in_runs_that_registers_can() {
    let runs = |offset: u64, bytes: u32| {
        let post = Post { bytes, ..post(PLACE + offset, OTHER, 1) };
        let (pieces, count) = published_pieces(&post);
        pieces[..count].iter().map(|p| (p.address - PLACE, p.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(runs(8, 8), [(8, 8)]);
    assert_eq!(runs(3, 1), [(3, 1)]);
    assert_eq!(runs(4, 8), [(4, 4), (8, 4)]);
    assert_eq!(runs(1, 7), [(1, 1), (2, 2), (4, 4)]);
    assert_eq!(runs(7, 8), [(7, 1), (8, 4), (12, 2), (14, 1)]);
    assert_eq!(runs(0, 32), [(0, 8), (8, 8), (16, 8), (24, 8)]);
    // More than there are registers; over the line's end.
    assert_eq!(runs(0, 64), runs(0, 32));
    assert_eq!(runs(60, 16), [(60, 4)]);
    assert_eq!(runs(63, 2), [(63, 1)]);
    for (offset, bytes) in (0..64).flat_map(|offset| [1, 2, 3, 5, 16, 64].map(|b| (offset, b))) {
        let all = runs(offset, bytes);
        let fits = |&(at, n): &(u64, u32)| [1, 2, 4, 8].contains(&n) && at % u64::from(n) == 0;
        assert!(all.iter().all(fits) && all[0].0 == offset);
        assert!(all.windows(2).all(|w| w[0].0 + u64::from(w[0].1) == w[1].0));
        let end = all.last().map_or(0, |(at, n)| at + u64::from(*n));
        assert!(end <= (offset + u64::from(bytes)).min(LINE));
    }
}

#[test]
fn random_pieces_are_different_ones_of_the_line_and_come_by_all_of_it() {
    let _ = session();
    let seen = AtomicU64::new(0);
    for _ in 0..200 {
        let (pieces, count) =
            thread::with(|thread| random_pieces(&post(PLACE + 20, OTHER, 1), thread));
        let now = pieces.iter().fold(0_u64, |seen, piece| {
            assert!(piece.bytes == 8 && piece.address % 8 == 0);
            seen | 1 << ((piece.address - PLACE) / 8)
        });
        assert_eq!((count, now.count_ones()), (REGISTERS, REGISTERS as u32));
        seen.fetch_or(now, Relaxed);
    }
    assert_eq!(seen.load(Relaxed), 0xff);
}

#[test]
fn a_trap_of_the_watched_line_is_reported_once() {
    let session = session();
    let watch = || {
        let pieces = core::array::from_fn(|k| Piece { address: PLACE + 8 * k as u64, bytes: 8 });
        let (post, mode) = (post(PLACE + 8, OTHER, 100), mode::PIECES);
        let watched = Watched { post, pieces, registers: 3, mode, since_ns: 150 };
        thread::with(|thread| thread.watched.set(Some(watched)));
    };
    let trap = |piece, address| Trap { piece, address, now_ns: 200 };
    watch();
    trapped(session, trap(1, PLACE + LINE), None);
    assert_eq!(session.segment.stale.load(Relaxed), 1);
    // An access that is not known, and one that did not touch what trapped.
    trapped(session, trap(1, PLACE + 8), None);
    trapped(session, trap(1, PLACE + 8), None);
    assert_eq!(session.segment.stale.load(Relaxed), 2);
    watch();
    trapped(session, trap(2, PLACE + 16), Some(&access(AccessKind::Store, PLACE + 8, 8)));
    watch();
    trapped(session, trap(2, PLACE + 16), Some(&access(AccessKind::Store, PLACE + 20, 2)));
    let told = [0, 1, 2].map(|k| {
        let r = &session.records[k];
        let numbers = [&r.kind, &r.how, &r.registers, &r.length, &r.exact];
        (r.to_bytes.load(Relaxed), r.to_site.load(Relaxed), numbers.map(|f| f.load(Relaxed)))
    });
    assert_eq!(told[0], (0xff00, 0, [kind::LOAD, how::TRAP, 3, 8, 0]));
    assert_eq!(told[1], (0xff_0000, 0, [kind::LOAD, how::TRAP, 3, 8, 0]));
    assert_eq!(told[2], (0x30_0000, 0x40_1000, [kind::STORE, how::TRAP, 3, 8, 1]));
    assert_eq!(session.segment.trapped.load(Relaxed), 3);
}

#[test]
fn an_access_touches_a_piece_if_they_share_a_byte() {
    let piece = Piece { address: PLACE + 8, bytes: 8 };
    for (at, bytes, expected) in
        [(8, 8, true), (15, 1, true), (16, 1, false), (7, 1, false), (7, 2, true), (0, 64, true)]
    {
        let access = access(AccessKind::Load, PLACE + at, bytes);
        assert_eq!(touches(&access, piece), expected, "{at} {bytes}");
    }
}

#[test]
fn the_instruction_that_trapped_is_read_back_from_the_code_before() {
    let read = |instruction: &[u8], rdi: u64| {
        let mut code = [0x90_u8; 32];
        code[16 - instruction.len()..16].copy_from_slice(instruction);
        let ip = code.as_ptr() as u64 + 16;
        let mut general = [0; 16];
        (general[0], general[7]) = (PLACE, rdi);
        let registers = Registers { general, flags: 0, fs_base: None, gs_base: None };
        let trap = Trap { piece: 0, address: PLACE + 8, now_ns: 1 };
        let mut describer = Describer::default();
        let access = read_back(&mut describer, ip, &registers, &trap)?;
        assert_eq!(access.site, ip - instruction.len() as u64);
        Some((access.address - PLACE, access.bytes, access.kind))
    };
    // mov [rdi+8], rax: without its prefix it would be a shorter store.
    assert_eq!(read(&[0x48, 0x89, 0x47, 8], PLACE), Some((8, 8, AccessKind::Store)));
    // lock add dword ptr [rdi], 1
    assert_eq!(read(&[0xf0, 0x83, 0x07, 1], PLACE + 12), Some((12, 4, AccessKind::Update)));
    // The same elsewhere did not trap; mov rax, [rax+8] has overwritten its address.
    assert_eq!(read(&[0x48, 0x89, 0x47, 8], PLACE + 8), None);
    assert_eq!(read(&[0x48, 0x8b, 0x40, 8], 0), None);
}

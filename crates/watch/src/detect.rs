//! Algorithm 1 of ComDetective: what a thread does when it is sampled, and when it comes to a line
//! that it watches.
//!
//! A sampled access to a line that another thread has published is communication. Else the thread
//! watches a line that another one has published since its last sample: its next access there traps
//! and is communication, too. Sampled stores are published, unless what is published in their place
//! is not old yet. One access is enough to know: the watch is over with the first trap.
//!
//! Two things differ from the paper. A newer store to the same line is always published: the last
//! writer is the one that communicates, and a post that stays would let busy lines count less than
//! others. And a thread remembers what it has met line by line, for the same reason.

use crate::board::{self, Post, line_of, mask};
use crate::events::{self, Piece};
use crate::price;
use crate::queue::{Report, push};
use crate::session::Session;
use crate::thread::{self, Thread, Watched};
use access::{Access, AccessKind, Code, Describer, Found, Registers, decode};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use wire::watch::{LINE, REGISTERS, how, kind, mode};

/// Index of the sample before the present one, in the times of samples.
const PREVIOUS: usize = 1;
/// Below a thread's stack pointer, so much is its stack, too.
const STACK_BELOW: u64 = 1 << 20;
/// Where the program's addresses end, with the most that x86 has (5 levels of page tables).
const USER_END: u64 = 1 << 56;
/// Bytes of a piece that is watched: the most that a debug register can.
const PIECE: u64 = 8;

/// A watched access.
pub struct Trap {
    /// Which debug register.
    pub piece: usize,
    /// The watched address.
    pub address: u64,
    pub now_ns: u64,
}

/// At every sample, with an access or not: what is armed must be worth what it costs.
pub fn weigh(session: Session) {
    thread::with(|thread| {
        if thread.tid.get() == 0 {
            return;
        }
        let affordable = price::registers(session, thread);
        thread.affordable.set(affordable);
        if thread.watched.get().is_some_and(|watched| watched.registers > affordable) {
            disarm(thread);
        }
    });
}

/// A sample of the calling thread: the accesses were made at about `now_ns`, at least one, the
/// likeliest first.
pub fn sampled(session: Session, found: &[Found], now_ns: u64, stack_pointer: u64) {
    thread::with(|thread| {
        // A last sample while the thread ends must not open anything.
        if thread.tid.get() == 0 {
            return;
        }
        let chosen = chosen(session, thread, found);
        let Some(access) = &chosen.filter(|access| access.address < USER_END) else { return };
        push_time(&thread.samples, now_ns);
        if access.kind.writes() {
            push_time(&thread.stores, now_ns);
        }
        let line = line_of(access.address);
        let place = board::place(&session.segment.board, line);
        let there = board::read(place);
        let met = &thread.met[(line / LINE) as usize % thread::LINES_MET];
        let new = |post: &Post| met.get() != (line, post.time_ns);
        let others = |post: &Post| post.line() == line && post.tid != thread.tid.get();
        match there.filter(|post| others(post) && new(post)) {
            Some(post) => {
                met.set((line, post.time_ns));
                session.segment.matches.fetch_add(1, Relaxed);
                report(
                    session,
                    thread,
                    &post,
                    how::MATCH,
                    (0, 0, mode::PIECES),
                    now_ns,
                    Ok(*access),
                );
            }
            None => try_to_watch(session, thread, now_ns, stack_pointer),
        }
        let old = there.is_none_or(|post| {
            post.line() == line || post.time_ns <= thread.stores.get()[PREVIOUS]
        });
        if access.kind.writes() && old {
            let Access { address, bytes, site, .. } = *access;
            let post = Post { time_ns: now_ns, address, bytes, tid: thread.tid.get(), site };
            if board::publish(place, &post) {
                session.segment.published.fetch_add(1, Relaxed);
            }
        }
    });
}

/// Which access a sample stands for: the first to a line that another thread has published, else
/// the first store, which others may want to know of, else the likeliest.
fn chosen(session: Session, thread: &Thread, found: &[Found]) -> Option<Access> {
    let is_published = |access: &Access| {
        let line = line_of(access.address);
        let post = board::read(board::place(&session.segment.board, line));
        post.is_some_and(|post| post.line() == line && post.tid != thread.tid.get())
    };
    let accesses = || found.iter().map(|found| found.access);
    let store = || accesses().find(|access| access.kind.writes());
    accesses().find(is_published).or_else(store).or_else(|| accesses().next())
}

fn push_time(times: &Cell<[u64; thread::SAMPLES]>, now: u64) {
    let [first, second, _] = times.get();
    times.set([now, first, second]);
}

/// xorshift64.
fn random(thread: &Thread) -> u64 {
    let mut x = thread.random.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    thread.random.set(x);
    x
}

/// Watches a recently published line, unless one is watched that is not old yet.
fn try_to_watch(session: Session, thread: &Thread, now_ns: u64, stack_pointer: u64) {
    let previous = thread.samples.get()[PREVIOUS];
    let registers = thread.available.get().min(thread.affordable.get());
    if registers == 0 {
        return;
    }
    if thread.watched.get().is_some_and(|watched| watched.since_ns > previous) {
        return;
    }
    let own_stack = stack_pointer.saturating_sub(STACK_BELOW)..thread.stack_top.get();
    let start = random(thread) as usize;
    let found = board::find(&session.segment.board, start, previous, |post| {
        post.tid != thread.tid.get() && !own_stack.contains(&post.line())
    });
    let Some(post) = found else { return disarm(thread) };
    let how = session.header.mode.load(Relaxed);
    let (pieces, wanted) = match how {
        mode::PUBLISHED => published_pieces(&post),
        _ => random_pieces(&post, thread),
    };
    // A trap between arming and noting what is armed would not be understood.
    let watched = Watched { post, pieces, registers: wanted, mode: how, since_ns: now_ns };
    thread.watched.set(None);
    let registers = arm(session, thread, &pieces[..wanted.min(registers)]);
    if registers > 0 {
        thread.watched.set(Some(Watched { registers, ..watched }));
        session.segment.armed.fetch_add(1, Relaxed);
    }
}

/// Different pieces of the published line, in random order.
fn random_pieces(post: &Post, thread: &Thread) -> ([Piece; REGISTERS], usize) {
    let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    let mut pieces = [Piece::default(); REGISTERS];
    for (k, piece) in pieces.iter_mut().enumerate() {
        let other = k + (random(thread) % (order.len() - k) as u64) as usize;
        order.swap(k, other);
        *piece = Piece { address: post.line() + order[k] * PIECE, bytes: PIECE as u32 };
    }
    (pieces, REGISTERS)
}

/// The published bytes themselves, in runs that debug registers can watch.
fn published_pieces(post: &Post) -> ([Piece; REGISTERS], usize) {
    let end = (post.address + u64::from(post.bytes)).min(post.line() + LINE);
    let (mut pieces, mut count, mut at) = ([Piece::default(); REGISTERS], 0, post.address);
    while at < end && count < REGISTERS {
        let fits = |bytes: &u64| at.is_multiple_of(*bytes) && at + bytes <= end;
        let bytes = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
        pieces[count] = Piece { address: at, bytes: bytes as u32 };
        (count, at) = (count + 1, at + bytes);
    }
    (pieces, count)
}

/// Gives each piece a debug register, as far as there are any; returns how many got one.
fn arm(session: Session, thread: &Thread, pieces: &[Piece]) -> usize {
    let mut armed = 0;
    for (k, piece) in pieces.iter().enumerate() {
        let result = match thread.watching[k].get() {
            Some(descriptor) => events::watch_instead(descriptor, k, *piece),
            None => events::watch(k, *piece).map(|fresh| thread.watching[k].set(Some(fresh))),
        };
        if let Err(error) = result {
            thread.available.set(k);
            session.segment.unwatched_error.store(error as u32, Relaxed);
            break;
        }
        armed += 1;
    }
    for rest in &thread.watching[armed..] {
        rest.get().into_iter().for_each(events::disable);
    }
    session.segment.fewest_registers.fetch_min(thread.available.get() as u32, Relaxed);
    armed
}

/// Ends the watch without a report.
pub fn give_up(session: Session) {
    session.segment.stale.fetch_add(1, Relaxed);
    thread::with(disarm);
}

fn disarm(thread: &Thread) {
    if thread.watched.take().is_some() {
        let descriptors = thread.watching.iter().filter_map(Cell::get);
        descriptors.for_each(events::disable);
    }
}

/// The calling thread has come to what it watches. `access`: what its last instruction did, as far
/// as the registers after it tell.
pub fn trapped(session: Session, trap: Trap, access: Option<&Access>) {
    thread::with(|thread| {
        let watched = thread.watched.get();
        let Some(watched) = watched.filter(|w| w.post.line() == line_of(trap.address)) else {
            session.segment.stale.fetch_add(1, Relaxed);
            return;
        };
        disarm(thread);
        session.segment.trapped.fetch_add(1, Relaxed);
        let piece = watched.pieces[trap.piece % REGISTERS];
        let access = match access.filter(|access| touches(access, piece)) {
            Some(access) => Ok(*access),
            None => Err(piece),
        };
        let geometry = (watched.registers as u32, piece.bytes, watched.mode);
        report(session, thread, &watched.post, how::TRAP, geometry, trap.now_ns, access);
    });
}

fn touches(access: &Access, piece: Piece) -> bool {
    access.address < piece.address + u64::from(piece.bytes)
        && piece.address < access.address + u64::from(access.bytes)
}

/// The access that trapped, where the decoder does not know what came before `ip`: of the
/// instructions that may end there, the longest one that touches what trapped.
pub fn read_back(
    describer: &mut Describer,
    ip: u64,
    registers: &Registers,
    trap: &Trap,
) -> Option<Access> {
    let mut code = [0u8; 15];
    let start = ip.wrapping_sub(15);
    if crate::code::Here.read(start, &mut code) != code.len() {
        return None;
    }
    let piece = Piece { address: trap.address, bytes: PIECE as u32 };
    (0..code.len()).find_map(|at| {
        let site = start + at as u64;
        let instruction = decode(describer, site, &code[at..])?;
        if instruction.next() != ip {
            return None;
        }
        let accesses = instruction.operands().filter_map(|o| {
            let changed = o.needs().overlaps(instruction.writes);
            if changed { None } else { o.access(site, registers).ok() }
        });
        accesses.into_iter().find(|access| touches(access, piece))
    })
}

/// Tells the recorder. `access` is what this thread did, or only the piece that it came to.
fn report(
    session: Session,
    thread: &Thread,
    post: &Post,
    how: u32,
    (registers, length, mode): (u32, u32, u32),
    now_ns: u64,
    access: Result<Access, Piece>,
) {
    let line = post.line();
    let (to_bytes, to_site, kind) = match &access {
        Ok(access) => (mask(access.address, access.bytes, line), access.site, code_of(access.kind)),
        // What changes the registers of its own address is a load.
        Err(piece) => (mask(piece.address, piece.bytes, line), 0, kind::LOAD),
    };
    let report = Report {
        time_ns: now_ns,
        from_ns: post.time_ns,
        line,
        to_site,
        from_site: post.site,
        to_bytes,
        from_bytes: post.mask(),
        to: thread.tid.get(),
        from: post.tid,
        kind,
        how,
        registers,
        length,
        mode,
        exact: access.is_ok(),
    };
    push(session.segment, session.records, price::period(session, thread), &report);
}

fn code_of(access: AccessKind) -> u32 {
    match access {
        AccessKind::Load => kind::LOAD,
        AccessKind::Store => kind::STORE,
        AccessKind::Update => kind::UPDATE,
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;

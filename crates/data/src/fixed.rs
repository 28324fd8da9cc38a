//! Static data: whenever code was loaded, the launcher says what the plan has of it, and where it
//! lies.

use crate::ask::ask;
use crate::mutex::Mutex;
use crate::records;
use crate::session::{self, Session};
use crate::small::nth;
use core::sync::atomic::{AtomicU32, Ordering::*};
use injected::policies::{self, MAX_PAGES, MOVE, PAGE, mode};
use wire::data::{Entry, Job, Range, what};
use wire::objects::FRAMES;

static PLACING: Mutex = Mutex::new();
/// 1: something is being loaded that has not been asked for.
static EXPECTED: AtomicU32 = AtomicU32::new(0);

/// Code is about to be loaded.
pub fn expect() {
    EXPECTED.store(1, Release);
}

/// What was loaded meanwhile is placed.
pub fn catch_up() {
    if EXPECTED.load(Relaxed) != 0 && EXPECTED.swap(0, AcqRel) != 0 {
        loaded();
    }
}

/// In a forked child.
pub fn break_open() {
    PLACING.break_open();
}

/// Code may have been loaded: places what the plan has of its data.
pub fn loaded() {
    let Some(session) = session::get() else { return };
    if session.header.statics.load(Relaxed) == 0 {
        return;
    }
    PLACING.with(|| {
        let Some(jobs) = ask(session, what::LOADED, 0, &[0; FRAMES]) else { return };
        let done = session.header.jobs_done.load(Relaxed) as usize;
        for job in session.jobs.iter().take(jobs as usize).skip(done) {
            place(session, job);
        }
        session.header.jobs_done.store(jobs.max(done as u32), Relaxed);
    });
}

fn place(session: Session, job: &Job) {
    let Some(entry) = session.entries.get(job.entry.load(Relaxed) as usize) else { return };
    let start = job.start.load(Relaxed);
    let base = start & !(PAGE - 1);
    let end = (start + job.bytes.load(Relaxed)).next_multiple_of(PAGE);
    entry.appeared.fetch_add(1, Relaxed);
    let mut complete = true;
    let pages = records::pages(job.bytes.load(Relaxed));
    for (range, from, to) in session.parts_of(entry, pages) {
        let (from, to) = ((base + from).min(end), (base + to).min(end));
        if from < to
            && let Err(error) = bind(range, from, to)
        {
            entry.error.store(error, Relaxed);
            entry.refused.fetch_add(1, Relaxed);
            complete = false;
        }
    }
    if complete {
        entry.placed.fetch_add(1, Relaxed);
    }
}

/// Gives pages a policy; those that are there already are moved.
pub fn bind(range: &Range, from: u64, to: u64) -> Result<(), u32> {
    let (how, nodes) = (range.mode.load(Relaxed), range.nodes.load(Relaxed));
    let result = policies::bind(from, to - from, how, nodes, MOVE);
    // Some pages cannot be moved: the rest is.
    let result = result.or_else(|error| match error == libc::EIO as u32 {
        true => Ok(()),
        false => Err(error),
    });
    if result.is_ok() && how != mode::PREFERRED {
        spread(nodes, from, to);
    }
    result
}

/// Interleaves what is there already: the kernel leaves pages alone that are on one of the nodes.
fn spread(nodes: u64, from: u64, to: u64) {
    let mut addresses = [0_u64; MAX_PAGES];
    let mut to_nodes = [0_i32; MAX_PAGES];
    let mut status = [0; MAX_PAGES];
    let bytes = PAGE * MAX_PAGES as u64;
    for part in (from..to).step_by(bytes as usize) {
        let pages = (part..(part + bytes).min(to)).step_by(PAGE as usize);
        let count = pages.clone().count();
        for (k, address) in pages.enumerate() {
            let turn = (address / PAGE) % u64::from(nodes.count_ones().max(1));
            addresses[k] = address;
            to_nodes[k] = nth(nodes, turn).unwrap_or(0) as i32;
        }
        policies::pages(&addresses[..count], Some(&to_nodes[..count]), &mut status);
    }
}

/// Static data that was placed: where it begins, its bytes, its entry.
pub fn all(session: Session) -> impl Iterator<Item = (u64, u64, &'static Entry)> {
    let done = session.header.jobs_done.load(Relaxed) as usize;
    session.jobs.iter().take(done).filter_map(move |job| {
        let entry = session.entries.get(job.entry.load(Relaxed) as usize)?;
        Some((job.start.load(Relaxed), job.bytes.load(Relaxed), entry))
    })
}

//! Where pages are: of blocks when they end, and of all that is still there when the program does.

use crate::records::{self, Record};
use crate::session::{self, Session};
use crate::small::nth;
use crate::{fixed, small};
use core::sync::atomic::Ordering::*;
use injected::policies::{self, MAX_PAGES, PAGE, mode};
use wire::data::{Entry, MAX_NODES, Range};

/// Blocks of an entry that are looked at one and all when they end; of more, one for each doubling.
const READ_ALWAYS: u64 = 32;
/// Pages of a range that are looked at: of more, evenly spread ones.
const MAX_READ: u64 = 1 << 18;

/// A block is about to end.
pub fn at_end(session: Session, record: &Record) {
    if record.planned.load(Relaxed) == 0 || session::is_filtered() {
        return;
    }
    let Some(entry) = session.entries.get(record.entry.load(Relaxed) as usize) else { return };
    let appeared = entry.appeared.load(Relaxed);
    if appeared > READ_ALWAYS && !appeared.is_power_of_two() {
        return;
    }
    read_record(session, record, entry);
}

fn read_record(session: Session, record: &Record, entry: &Entry) {
    let base = record.base.load(Relaxed);
    let (block, bytes) = (record.block.load(Relaxed), record.bytes.load(Relaxed));
    read_object(session, entry, (base, block + bytes), record.planned_pages());
}

/// Looks where the pages of an object are. `pages` is its size when it got its policies.
fn read_object(session: Session, entry: &Entry, (base, end): (u64, u64), pages: u64) {
    entry.read.blocks.fetch_add(1, Relaxed);
    for (range, from, to) in session.parts_of(entry, pages) {
        let (from, to) = (base + from, (base + to).min(end.next_multiple_of(PAGE)));
        read_range(entry, range, from, to);
    }
}

fn read_range(entry: &Entry, range: &Range, from: u64, to: u64) {
    let mut on = [0_u64; MAX_NODES];
    let mut absent = 0;
    let pages = to.saturating_sub(from) / PAGE;
    let step = pages.div_ceil(MAX_READ).max(1) * PAGE;
    let (mut addresses, mut status) = ([0_u64; MAX_PAGES], [0; MAX_PAGES]);
    let mut at = from;
    while at < to {
        let mut count = 0;
        while at < to && count < MAX_PAGES {
            addresses[count] = at;
            count += 1;
            at += step;
        }
        policies::pages(&addresses[..count], None, &mut status);
        for status in &status[..count] {
            match usize::try_from(*status) {
                Ok(node) => on[node.min(MAX_NODES - 1)] += 1,
                Err(_) => absent += 1,
            }
        }
    }
    add(entry, range, &on, absent);
}

/// Adds what was found of a range.
fn add(entry: &Entry, range: &Range, on: &[u64; MAX_NODES], absent: u64) {
    let present: u64 = on.iter().sum();
    let nodes = range.nodes.load(Relaxed);
    let count = u64::from(nodes.count_ones().max(1));
    // Of interleaved pages, each node is to have its part.
    let most = match range.mode.load(Relaxed) {
        mode::INTERLEAVE => present.div_ceil(count),
        _ => present,
    };
    let right: u64 =
        (0..count).filter_map(|k| nth(nodes, k)).map(|node| on[node as usize].min(most)).sum();
    entry.read.as_planned.fetch_add(right, Relaxed);
    entry.read.elsewhere.fetch_add(present - right, Relaxed);
    entry.read.absent.fetch_add(absent, Relaxed);
    for (total, now) in entry.read.on.iter().zip(on).filter(|(_, now)| **now > 0) {
        total.fetch_add(*now, Relaxed);
    }
}

/// Looks where everything is that is still there. Once, when the program ends.
pub fn finish() {
    let Some(session) = session::get() else { return };
    if session.header.finished.swap(1, AcqRel) != 0 || session::is_filtered() {
        return;
    }
    fixed::catch_up();
    for record in records::all().filter(|record| record.block.load(Relaxed) != 0) {
        if let Some(entry) = session.entries.get(record.entry.load(Relaxed) as usize) {
            read_record(session, record, entry);
        }
    }
    for (start, bytes, entry) in fixed::all(session) {
        let pages = records::pages(bytes);
        read_object(session, entry, (start & !(PAGE - 1), start + bytes), pages);
    }
    let mut status = [0; MAX_PAGES];
    for (address, node, entry) in small::pages() {
        let Some(entry) = session.entries.get(entry as usize) else { continue };
        policies::pages(&[address], None, &mut status);
        let read = &entry.read;
        match usize::try_from(status[0]) {
            Ok(found) => {
                let right = found == node as usize;
                (if right { &read.as_planned } else { &read.elsewhere }).fetch_add(1, Relaxed);
                read.on[found.min(MAX_NODES - 1)].fetch_add(1, Relaxed);
            }
            Err(_) => {
                read.absent.fetch_add(1, Relaxed);
            }
        }
    }
}

//! The bulletin board: stores that threads have sampled, by line. Readers never wait; a writer who
//! finds another one at a place lets it be.

use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use wire::watch::{BOARD, LINE, Published};

/// A published store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Post {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    pub address: u64,
    pub bytes: u32,
    pub tid: u32,
    pub site: u64,
}

impl Post {
    pub fn line(&self) -> u64 {
        line_of(self.address)
    }

    /// Bytes of the line, bit i = byte i.
    pub fn mask(&self) -> u64 {
        mask(self.address, self.bytes, self.line())
    }
}

pub fn line_of(address: u64) -> u64 {
    address & !(LINE - 1)
}

/// The bytes `address..address + bytes` of a line, bit i = byte i; those beyond it are left out.
pub fn mask(address: u64, bytes: u32, line: u64) -> u64 {
    let first = address.saturating_sub(line).min(LINE);
    let last = address.saturating_add(bytes.into()).saturating_sub(line).min(LINE);
    let below = |n: u64| if n >= LINE { u64::MAX } else { (1 << n) - 1 };
    below(last) & !below(first)
}

/// The place of a line.
pub fn place(board: &[Published; BOARD], line: u64) -> &Published {
    &board[(line / LINE % BOARD as u64) as usize]
}

/// What is published at a place; none when nothing is, or while it changes.
pub fn read(place: &Published) -> Option<Post> {
    let version = place.version.load(Acquire);
    let post = Post {
        time_ns: place.time_ns.load(Relaxed),
        address: place.address.load(Relaxed),
        bytes: place.bytes.load(Relaxed),
        tid: place.tid.load(Relaxed),
        site: place.site.load(Relaxed),
    };
    fence(Acquire);
    (version != 0 && version & 1 == 0 && place.version.load(Relaxed) == version).then_some(post)
}

/// Publishes, unless another thread is publishing there.
pub fn publish(place: &Published, post: &Post) -> bool {
    let version = place.version.load(Relaxed);
    let begun = version & 1 == 0
        && place.version.compare_exchange(version, version + 1, Acquire, Relaxed).is_ok();
    if !begun {
        return false;
    }
    fence(Release);
    let store = |at: &AtomicU64, value| at.store(value, Relaxed);
    store(&place.time_ns, post.time_ns);
    store(&place.address, post.address);
    store(&place.site, post.site);
    place.bytes.store(post.bytes, Relaxed);
    place.tid.store(post.tid, Relaxed);
    place.version.store(version + 2, Release);
    true
}

/// A post that `wanted` accepts, looked for from the place `start` on.
pub fn find(
    board: &[Published; BOARD],
    start: usize,
    newer_than: u64,
    wanted: impl Fn(&Post) -> bool,
) -> Option<Post> {
    let (before, from) = board.split_at(start % BOARD);
    let recent = |place: &&Published| place.time_ns.load(Relaxed) > newer_than;
    let mut places = from.iter().chain(before).filter(recent);
    places.find_map(|place| read(place).filter(|p| p.time_ns > newer_than && wanted(p)))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// An empty board.
    fn board() -> Box<[Published; BOARD]> {
        // SAFETY: zeroes are valid atomics.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// A post all of whose fields tell its number.
    fn post(number: u64) -> Post {
        let (bytes, tid) = (number as u32, !number as u32);
        Post { time_ns: number, address: number << 6, bytes, tid, site: !number }
    }

    #[test]
    fn a_mask_has_the_bytes_that_lie_in_the_line() {
        let line = 0x1000;
        for (address, bytes, expected) in [
            (0x1000, 1, 1),
            (0x1008, 8, 0xff00),
            (0x1000, 64, u64::MAX),
            (0x0ff0, 200, u64::MAX),
            (0x103f, 1, 1 << 63),
            // Over the end, and from before the beginning.
            (0x103c, 8, 0xf << 60),
            (0x0ffc, 8, 0xf),
            // Beside it.
            (0x0ff8, 8, 0),
            (0x1040, 8, 0),
            (0x1010, 0, 0),
            (u64::MAX, 8, 0),
            (0, u32::MAX, u64::MAX),
        ] {
            assert_eq!(mask(address, bytes, line), expected, "{address:#x} {bytes}");
        }
        let crossing = Post { address: 0x103c, bytes: 8, ..post(1) };
        assert_eq!((crossing.line(), crossing.mask()), (0x1000, 0xf << 60));
    }

    #[test]
    fn neighbouring_lines_have_different_places() {
        let board = board();
        let places: std::collections::BTreeSet<_> = (0..BOARD as u64)
            .map(|k| core::ptr::from_ref(place(&board, 0x7000_0000 + k * LINE)).addr())
            .collect();
        assert_eq!(places.len(), BOARD);
        let far = 0x7000_0000 + BOARD as u64 * LINE;
        assert!(core::ptr::eq(place(&board, 0x7000_0000), place(&board, far)));
    }

    #[test]
    fn what_is_empty_or_being_written_is_not_read_and_not_overwritten() {
        let board = board();
        let place = &board[0];
        assert!(read(place).is_none());
        assert!(publish(place, &post(7)) && read(place) == Some(post(7)));
        assert!(publish(place, &post(8)) && read(place) == Some(post(8)));
        place.version.fetch_add(1, Relaxed);
        assert!(read(place).is_none() && !publish(place, &post(9)));
        place.version.fetch_add(1, Relaxed);
        assert!(read(place) == Some(post(8)));
    }

    #[test]
    fn nobody_reads_a_mixture_of_two_posts() {
        let (board, over) = (board(), AtomicBool::new(false));
        let place = &board[0];
        std::thread::scope(|scope| {
            let write = |k: u64| (0..100_000).filter(|n| publish(place, &post(n * 2 + k))).count();
            let writers = [0, 1].map(|k| scope.spawn(move || write(k)));
            let reader = scope.spawn(|| {
                while !over.load(Relaxed) {
                    let seen = read(place);
                    assert!(seen.is_none_or(|seen| seen == post(seen.time_ns)));
                }
            });
            let published: usize = writers.map(|writer| writer.join().unwrap()).iter().sum();
            over.store(true, Relaxed);
            reader.join().unwrap();
            assert_eq!(place.version.load(Relaxed), 2 * published as u64);
        });
    }

    #[test]
    fn the_search_goes_around_and_takes_only_what_is_new_and_wanted() {
        let board = board();
        for at in [3, 50, 126] {
            assert!(publish(&board[at], &post(at as u64)));
        }
        let found = |start, newer_than, not: u64| {
            let wanted = |post: &Post| post.time_ns != not;
            find(&board, start, newer_than, wanted).map(|post| post.time_ns)
        };
        assert_eq!(found(0, 0, 0), Some(3));
        assert_eq!(found(4, 0, 0), Some(50));
        assert_eq!(found(50, 0, 50), Some(126));
        assert_eq!(found(BOARD - 1, 0, 126), Some(3));
        assert_eq!(found(BOARD + 4, 0, 0), Some(50));
        // As old as the limit is not newer.
        assert_eq!(found(0, 50, 0), Some(126));
        assert_eq!(found(0, 126, 0), None);
        assert!(found(usize::MAX, 0, 0).is_some());
    }
}

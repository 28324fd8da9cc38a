//! Places that allocate, by their chains of calls and the size of what they allocate: found without
//! a lock, added under one.

use crate::session::Session;
use allocations::lock::Lock;
use core::sync::atomic::{AtomicU32, Ordering::*};
use wire::blocks::GROUPS;
use wire::objects::{FRAMES, Group, OTHERS};

/// Of the table.
pub static LOCK: Lock = Lock::new();

/// Places of numbers in the table: a power of two.
const PLACES: usize = 1 << 16;
/// Places that are looked at.
const NEAR: usize = 32;

/// Numbers of groups by hash; 0 = free.
static NUMBERS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

/// Counts `stands_for` blocks of this size; returns the group, and how many blocks of it came
/// before.
pub fn count(
    session: Session,
    frames: &[u64; FRAMES],
    bytes: u64,
    by: u32,
    stands_for: u64,
) -> (u32, u64) {
    let digits = u64::BITS - bytes.leading_zeros();
    let number = find(session, frames, digits)
        .or_else(|| LOCK.with(|| add(session, frames, digits, by)))
        .unwrap_or(OTHERS);
    let group = &session.groups[number as usize];
    group.bytes.fetch_add(bytes.saturating_mul(stands_for), Relaxed);
    (number, group.blocks.fetch_add(stands_for, Relaxed))
}

fn places(frames: &[u64; FRAMES], digits: u32) -> impl Iterator<Item = &'static AtomicU32> {
    let mix =
        |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = frames.iter().fold(u64::from(digits), mix);
    let first = (hash >> 32) as usize;
    (first..first + NEAR).map(|place| &NUMBERS[place % PLACES])
}

fn find(session: Session, frames: &[u64; FRAMES], digits: u32) -> Option<u32> {
    let numbers = places(frames, digits).map(|place| place.load(Acquire));
    numbers.take_while(|number| *number != 0).find(|number| {
        let group = &session.groups[*number as usize % GROUPS];
        let same = group.frames.iter().zip(frames).all(|(a, b)| a.load(Relaxed) == *b);
        same && group.digits.load(Relaxed) == digits
    })
}

/// Adds a group, if it is not there by now; `None` where there is no room.
fn add(session: Session, frames: &[u64; FRAMES], digits: u32, by: u32) -> u32 {
    if let Some(number) = find(session, frames, digits) {
        return number;
    }
    let free = places(frames, digits).find(|place| place.load(Relaxed) == 0);
    let number = session.segment.groups.load(Relaxed).max(OTHERS + 1);
    let Some(place) = free.filter(|_| (number as usize) < GROUPS) else { return OTHERS };
    let group = &session.groups[number as usize];
    group.frames.iter().zip(frames).for_each(|(to, from)| to.store(*from, Relaxed));
    group.digits.store(digits, Relaxed);
    group.by.store(by, Relaxed);
    session.segment.groups.store(number + 1, Release);
    place.store(number, Release);
    number
}

/// Gives a forked child its parent's groups; returns how many.
pub fn copy(parents: Session, own: Session) -> u32 {
    let count = parents.segment.groups.load(Acquire).min(GROUPS as u32);
    for (from, to) in parents.groups.iter().zip(own.groups).take(count as usize) {
        copy_group(from, to);
    }
    count
}

fn copy_group(from: &Group, to: &Group) {
    from.frames.iter().zip(&to.frames).for_each(|(a, b)| b.store(a.load(Relaxed), Relaxed));
    to.blocks.store(from.blocks.load(Relaxed), Relaxed);
    to.bytes.store(from.bytes.load(Relaxed), Relaxed);
    to.by.store(from.by.load(Relaxed), Relaxed);
    to.digits.store(from.digits.load(Relaxed), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::made;
    use std::sync::{Mutex, MutexGuard};
    use wire::objects::by;

    /// A new session; numbers of groups are found by a table of the process.
    fn alone() -> (Session, MutexGuard<'static, ()>) {
        static ALONE: Mutex<()> = Mutex::new(());
        let guard = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        NUMBERS.iter().for_each(|number| number.store(0, Relaxed));
        let session = made();
        session.segment.groups.store(OTHERS + 1, Relaxed);
        (session, guard)
    }

    fn chain(last: u64) -> [u64; FRAMES] {
        core::array::from_fn(|k| if k + 1 == FRAMES { last } else { 0x40_0000 + k as u64 })
    }

    #[test]
    fn a_group_has_one_chain_and_sizes_of_as_many_digits() {
        let (session, _alone) = alone();
        let count = |last, bytes, times| count(session, &chain(last), bytes, by::MALLOC, times);
        // Groups follow the one of all others; blocks count from 0.
        let first = OTHERS + 1;
        assert_eq!(count(1, 100, 1), (first, 0));
        assert_eq!(count(1, 64, 5), (first, 1));
        assert_eq!(count(1, 127, 1), (first, 6));
        assert_eq!((count(1, 63, 1), count(1, 128, 1)), ((first + 1, 0), (first + 2, 0)));
        assert_eq!((count(2, 100, 1), count(1, 0, 1)), ((first + 3, 0), (first + 4, 0)));
        let group = &session.groups[first as usize];
        assert_eq!(group.blocks.load(Relaxed), 7);
        assert_eq!(group.bytes.load(Relaxed), 100 + 5 * 64 + 127);
        assert_eq!((group.digits.load(Relaxed), group.by.load(Relaxed)), (7, by::MALLOC));
        assert_eq!(group.frames.each_ref().map(|frame| frame.load(Relaxed)), chain(1));
        assert_eq!(session.segment.groups.load(Relaxed), first + 5);
        assert_eq!(count(1, u64::MAX, 9).1, 0);
        assert_eq!(session.groups[first as usize + 5].bytes.load(Relaxed), u64::MAX);
    }

    #[test]
    fn what_finds_no_room_counts_in_the_group_of_all_others() {
        let (session, _alone) = alone();
        session.segment.groups.store(GROUPS as u32 - 1, Relaxed);
        let count = |last| count(session, &chain(last), 100, by::MALLOC, 3).0;
        assert_eq!((count(1), count(2), count(3)), (GROUPS as u32 - 1, OTHERS, OTHERS));
        assert_eq!((count(1), count(2)), (GROUPS as u32 - 1, OTHERS));
        assert_eq!(session.groups[OTHERS as usize].blocks.load(Relaxed), 9);
        assert_eq!(session.segment.groups.load(Relaxed), GROUPS as u32);
    }

    #[test]
    fn several_threads_make_one_group_of_a_chain() {
        let (session, _alone) = alone();
        let all = std::thread::scope(|scope| {
            let find = |last| count(session, &chain(last), 100, by::MALLOC, 1).0;
            let threads = [0; 4]
                .map(|_| scope.spawn(move || (0..2000).map(|k| find(k % 500)).collect::<Vec<_>>()));
            threads.map(|thread| thread.join().unwrap())
        });
        // Who waits too long for the lock counts with all others.
        let mut numbers = [OTHERS; 500];
        for (k, number) in all.iter().flat_map(|all| all.iter().enumerate()) {
            let known = &mut numbers[k % 500];
            assert!(*number == OTHERS || *known == OTHERS || *number == *known);
            *known = (*known).max(*number);
        }
        let blocks: u64 = session.groups.iter().map(|group| group.blocks.load(Relaxed)).sum();
        assert_eq!(blocks, 8000);
    }

    #[test]
    fn a_child_goes_on_with_its_parents_groups() {
        let (parents, _alone) = alone();
        let (one, _) = count(parents, &chain(1), 100, by::NEW, 3);
        let own = made();
        let next = copy(parents, own);
        assert_eq!(next, one + 1);
        own.segment.groups.store(next, Relaxed);
        assert_eq!(count(own, &chain(1), 120, by::NEW, 1), (one, 3));
        assert_eq!(count(own, &chain(2), 100, by::NEW, 1), (next, 0));
        let (group, parent) = (&own.groups[one as usize], &parents.groups[one as usize]);
        assert_eq!((group.bytes.load(Relaxed), parent.bytes.load(Relaxed)), (420, 300));
        assert_eq!(group.by.load(Relaxed), by::NEW);
    }
}

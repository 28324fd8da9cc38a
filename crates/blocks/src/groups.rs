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

//! Joins groups that are one cause for a person: the data that a lock guards with the lock, a
//! condition variable with its mutex, variables that share a line.
//!
//! Pure. Neighbour: `group` puts events into groups.

use super::{Class, Group};
use crate::causes::FEW_LINES;
use std::collections::BTreeSet;

/// Joins what is one cause; most events first.
pub(super) fn unite(mut data: Vec<Group>, synchronization: Vec<Group>) -> Vec<Group> {
    let mut locks = absorbed(synchronization, |lock, other| {
        both_placed(lock, other) && on_its_lines(lock, other)
    });
    data.retain_mut(|group| {
        let guards = |lock: &&mut Group| {
            placed(lock) && lock.events >= group.events && {
                let beside = group.beside * 2 > group.events && on_its_lines(lock, group);
                beside || (lock.object() == group.object() && lock.object() != 0 && few(group))
            }
        };
        match locks.iter_mut().filter(guards).max_by_key(|lock| lock.events) {
            Some(lock) => {
                lock.merge(std::mem::replace(group, Group::new(Class::Unknown)));
                false
            }
            None => true,
        }
    });
    let data = absorbed(data, |first, other| {
        let one_object = first.object() == other.object() && first.object() != 0;
        let one_line = first.class == Class::False && first.hottest() == other.hottest();
        first.hottest().is_some()
            && known(first)
            && known(other)
            && few(first)
            && few(other)
            && ((one_object && meet_in_code(first, other))
                || (one_line && other.class == Class::False))
    });
    let mut list: Vec<Group> = data.into_iter().chain(locks).collect();
    list.sort_by_key(|group| std::cmp::Reverse(group.events));
    list
}

/// Lets larger groups take in smaller ones.
fn absorbed(mut groups: Vec<Group>, is_one: impl Fn(&Group, &Group) -> bool) -> Vec<Group> {
    groups.sort_by_key(|group| std::cmp::Reverse(group.events));
    let mut list: Vec<Group> = Vec::new();
    for group in groups {
        match list.iter_mut().find(|first| is_one(first, &group)) {
            Some(first) => {
                let beside = first.beside.max(group.beside);
                first.merge(group);
                // Both have counted what lies beside them on the same lines.
                first.beside = beside;
            }
            None => list.push(group),
        }
    }
    list
}

fn known(group: &Group) -> bool {
    group.class != Class::Unknown
}

/// A lock, barrier or the like that is the program's own variable.
fn placed(group: &Group) -> bool {
    matches!(group.class, Class::Sync(sync) if sync.is_placed_by_program())
}

fn both_placed(a: &Group, b: &Group) -> bool {
    placed(a) && placed(b)
}

/// Whether the other one's hottest line is one of these.
fn on_its_lines(group: &Group, other: &Group) -> bool {
    let same = group.object() == other.object() && group.object() != 0;
    same || other.hottest().is_some_and(|line| group.lines.contains_key(&line))
}

/// One variable or struct, and no array.
fn few(group: &Group) -> bool {
    (1..=FEW_LINES).contains(&group.lines.len())
}

/// Whether the same code takes part in both.
fn meet_in_code(a: &Group, b: &Group) -> bool {
    let places: BTreeSet<&u32> = a.sides.keys().collect();
    b.sides.keys().any(|place| places.contains(place))
}

//! Joins groups that are one cause for a person: the data that a lock guards with the lock, a
//! condition variable with its mutex, variables that share a line.
//!
//! Pure. Neighbour: `group` puts events into groups.

use super::{Class, Group};
use crate::causes::constants::FEW_LINES;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Joins what is one cause; most events first.
///
/// `together` says whether two objects were on a line at the same time, `by_atomics` whether what a
/// group does takes no lock.
pub(super) fn unite(
    mut data: Vec<Group>,
    synchronization: Vec<Group>,
    together: impl Fn(u64, [u32; 2]) -> bool,
    by_atomics: impl Fn(&Group) -> bool,
) -> Vec<Group> {
    let mut locks = absorbed(synchronization, |lock, other| {
        both_placed(lock, other) && on_its_lines(lock, other)
    });
    data.retain_mut(|group| {
        let takes_no_lock = by_atomics(group);
        let guards = |lock: &&mut Group| {
            placed(lock) && lock.events >= group.events && {
                let beside = group.beside * 2 > group.events && on_its_lines(lock, group);
                let is_one = lock.object() == group.object() && lock.object() != 0;
                beside || (is_one && few(group) && !takes_no_lock)
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
        let at_once = |line| together(line, [first.object(), other.object()]);
        first.hottest().is_some_and(at_once)
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

/// Joins the data of each object that is shared in one way, but for the groups that `stay`.
pub(in crate::causes) fn joined_by_object(groups: Vec<Group>, stay: &[bool]) -> Vec<Group> {
    let (mut list, mut joined): (Vec<Group>, BTreeMap<(Class, u32), Group>) = Default::default();
    for (group, stays) in groups.into_iter().zip(stay) {
        let is_data = matches!(group.class, Class::False | Class::True);
        if *stays || !is_data || group.object() == 0 {
            list.push(group);
            continue;
        }
        match joined.entry((group.class, group.object())) {
            Entry::Vacant(entry) => drop(entry.insert(group)),
            Entry::Occupied(mut entry) => entry.get_mut().merge(group),
        }
    }
    list.extend(joined.into_values());
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
    (1..=FEW_LINES).contains(&group.hot_lines())
}

/// Whether the same code takes part in both.
fn meet_in_code(a: &Group, b: &Group) -> bool {
    let places: BTreeSet<&u32> = a.sides.keys().collect();
    b.sides.keys().any(|place| places.contains(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_left_alone_and_the_rest_of_an_object_is_one() {
        let group = |class, object, events| {
            let mut group = Group::new(class);
            (group.events, group.objects) = (events, BTreeMap::from([(object, events)]));
            group
        };
        let groups = vec![
            group(Class::False, 1, 500),
            group(Class::False, 1, 40),
            group(Class::True, 1, 30),
            group(Class::False, 1, 20),
            group(Class::False, 2, 10),
            group(Class::False, 0, 5),
            group(Class::False, 0, 5),
        ];
        let stay = [true, false, false, false, false, false, false];
        let joined = joined_by_object(groups, &stay);
        let of = |group: &Group| (group.class, group.object(), group.events);
        let expected = [
            (Class::False, 1, 500),
            (Class::False, 1, 60),
            (Class::True, 1, 30),
            (Class::False, 2, 10),
            (Class::False, 0, 5),
            (Class::False, 0, 5),
        ];
        assert_eq!(joined.iter().map(of).collect::<Vec<_>>(), expected);
    }
}

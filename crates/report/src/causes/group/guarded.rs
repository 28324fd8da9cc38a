//! Which data a lock guards.
//!
//! Problem: data that threads use with a lock held moves to the thread that has the lock. Where it
//! is many lines, it has most of the transfers, and yet only the lock can be changed: padding or
//! copies help nobody. Approach: data that several threads change, all in the same places and
//! without atomic instructions, would be a data race without a lock; if nearly all code that uses
//! it is code that takes one lock, or is called from there, that lock guards it. Pure. Neighbour:
//! `unite` joins the lock with what lies in its own object.

use super::elements::Elements;
use super::{Class, Group};
use crate::causes::code::{Origin, leads_from};
use crate::causes::constants::GUARDED;
use crate::causes::origins::Origins;
use crate::causes::synchronization::Sync;
use std::collections::BTreeSet;

/// Lets locks have what they guard; returns the rest of the data.
pub(super) fn guarded(
    data: Vec<Group>,
    locks: &mut [Group],
    origins: &Origins,
    elements: &Elements,
) -> Vec<Group> {
    let takers: Vec<BTreeSet<&str>> = locks.iter().map(|lock| takers(lock, origins)).collect();
    let mut rest = Vec::new();
    for group in data {
        let guards = |at: &usize| {
            let lock = &locks[*at];
            lock.object() != group.object() && is_used_in(&group, &takers[*at], origins)
        };
        let is_shared = elements.are_of_several_threads(group.object());
        let is_data = is_shared && group.writers().len() > 1 && !group.is_by_atomics(origins);
        let found = (0..locks.len()).filter(|_| is_data).filter(guards);
        match found.max_by_key(|at| locks[*at].events) {
            Some(at) => locks[at].guard(group),
            None => rest.push(group),
        }
    }
    rest
}

/// The functions that take a lock; none for other synchronisation.
fn takers<'a>(lock: &Group, origins: &'a Origins) -> BTreeSet<&'a str> {
    let is_lock = matches!(lock.class, Class::Sync(Sync::Mutex | Sync::SpinLock | Sync::RwLock));
    let sides = lock.sides.keys().filter(|_| is_lock).map(|at| origins.get(*at));
    let own = sides.filter(|origin| origin.of_program && origin.sync.is_some());
    own.map(|origin| origin.place.function.as_str()).filter(|name| !name.is_empty()).collect()
}

/// Whether nearly all events of a group are by code of these functions or called from them.
fn is_used_in(group: &Group, functions: &BTreeSet<&str>, origins: &Origins) -> bool {
    let is_in = |origin: &Origin| {
        functions.contains(origin.place.function.as_str())
            || origin.callers.iter().any(|path| functions.iter().any(|f| leads_from(path, f)))
    };
    let events = |inside: bool| -> f64 {
        let sides = group.sides.iter().filter(|(at, _)| !inside || is_in(origins.get(**at)));
        sides.map(|(_, side)| side.events() as f64).sum()
    };
    !functions.is_empty() && events(true) >= events(false) * GUARDED
}

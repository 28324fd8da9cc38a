//! Which slot of the plan a new thread gets.
//!
//! A thread is known by its start routine, the planned id of its creator, and its ordinal among
//! those that this creator has started with this routine; where the plan does not know its creator,
//! those that any has started with it. Slots without identity are matched by the number of the
//! thread in creation order. A thread that matches nothing may still be recognised by the name that
//! it gives itself later (`names.rs`).

use crate::bind;
use crate::maps::{self, Place};
use crate::plan::{self, Plan};
use crate::sys;
use core::sync::atomic::Ordering::*;
use wire::launch::{MAX_STRANGERS, NONE, Slot, is_same_library, life};

/// What was found for a thread that is about to be created.
#[derive(Clone, Copy)]
pub struct Match {
    /// Index of its slot, or [`NONE`].
    pub slot: u32,
    /// First slot of its group (same creator, same routine), or [`NONE`].
    group: u32,
    /// Slot of its creator, or [`NONE`].
    pub creator: u32,
}

/// Takes the slot for a thread that the caller is about to create with this start routine.
pub fn take(plan: Plan, routine: usize) -> Match {
    let creator = plan::own_slot(plan).unwrap_or(NONE);
    let created = plan.header.created.fetch_add(1, Relaxed) + 1;
    let place = maps::locate(routine);
    let group = group_of(plan, creator, place.as_ref());
    let by_identity = group.and_then(|group| {
        let ordinal = plan.slots[group].seen.fetch_add(1, Relaxed);
        plan.slots[group..]
            .iter()
            .position(|slot| {
                same_group(slot, &plan.slots[group]) && slot.ordinal.load(Relaxed) == ordinal
            })
            .map(|i| group + i)
    });
    let by_order = || {
        plan.slots.iter().position(|slot| {
            slot.by_order.load(Relaxed) == 1 && slot.thread.load(Relaxed) == created
        })
    };
    let slot = by_identity.or_else(by_order).filter(|&i| claim(&plan.slots[i]));
    Match {
        slot: slot.map_or(NONE, |i| i as u32),
        group: group.map_or(NONE, |i| i as u32),
        creator,
    }
}

/// Gives everything back: the thread could not be created.
pub fn give_back(plan: Plan, found: Match) {
    plan.header.created.fetch_sub(1, Relaxed);
    if let Some(group) = plan.slots.get(found.group as usize) {
        group.seen.fetch_sub(1, Relaxed);
    }
    if let Some(slot) = plan.slots.get(found.slot as usize) {
        slot.life.store(life::WAITING, Release);
    }
}

/// Takes the free slot of that name for the calling thread, which matched nothing when it was
/// created.
pub fn take_by_name(plan: Plan, name: &[u8; 16]) -> Option<u32> {
    let index = plan.slots.iter().position(|slot| {
        slot.name_identifies.load(Relaxed) == 1
            && slot.life.load(Acquire) == life::WAITING
            && slot.name == *name
    })?;
    claim(&plan.slots[index]).then_some(index as u32)
}

/// Lists a thread that matched nothing.
pub fn note_stranger(plan: Plan, creator: u32, routine: usize) {
    let index = plan.header.strangers.fetch_add(1, Relaxed) as usize;
    if index >= MAX_STRANGERS {
        return;
    }
    let stranger = &plan.strangers[index];
    stranger.tid.store(sys::tid(), Relaxed);
    bind::note_own_name(&stranger.seen_name);
    let parent = plan.slots.get(creator as usize).map_or(NONE, |s| s.thread.load(Relaxed));
    stranger.parent.store(parent, Relaxed);
    if let Some(place) = maps::locate(routine) {
        stranger.offset.store(place.offset, Relaxed);
        let mut name = place.module;
        name[name.len() - 1] = 0;
        for (word, bytes) in stranger.module.iter().zip(name.chunks_exact(8)) {
            let bytes = bytes.try_into().unwrap_or([0; 8]);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
    }
}

fn claim(slot: &Slot) -> bool {
    slot.life.compare_exchange(life::WAITING, life::TAKEN, AcqRel, Relaxed).is_ok()
}

/// First slot of the threads with this creator and routine; else of those with this routine whose
/// creator is not known, because they ran already when recording began. Where the plan has no such
/// routine, the same of those from any version of its library: they have few start routines, in
/// most cases one.
fn group_of(plan: Plan, creator: u32, place: Option<&Place>) -> Option<usize> {
    let place = place?;
    let parent = plan.slots.get(creator as usize).map(|slot| slot.thread.load(Relaxed));
    let exact =
        |slot: &Slot| slot.offset.load(Relaxed) == place.offset && slot.module == place.module;
    let other_version = |slot: &Slot| is_same_library(&slot.module, &place.module);
    let first = |of_parent: u32, fits: &dyn Fn(&Slot) -> bool| {
        plan.slots.iter().position(|slot| {
            slot.by_order.load(Relaxed) == 0 && slot.parent.load(Relaxed) == of_parent && fits(slot)
        })
    };
    let any = |fits: &dyn Fn(&Slot) -> bool| {
        parent.and_then(|parent| first(parent, fits)).or_else(|| first(NONE, fits))
    };
    any(&exact).or_else(|| any(&other_version))
}

fn same_group(a: &Slot, b: &Slot) -> bool {
    a.parent.load(Relaxed) == b.parent.load(Relaxed)
        && a.offset.load(Relaxed) == b.offset.load(Relaxed)
        && a.by_order.load(Relaxed) == b.by_order.load(Relaxed)
        && a.module == b.module
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;

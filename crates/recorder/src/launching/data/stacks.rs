//! Stacks of a plan: the shim places each as a whole, with the thread-local data above it, when its
//! thread appears.
//!
//! How deep a stack gets differs from run to run, so offsets in it do not carry over: where most of
//! it is planned to be, all of it goes.

use super::DataMemory;
use super::kernel::{INTERLEAVE, PREFERRED};
use super::outcome::{ObjectOutcome, Pages, planned_pages};
use placement::{Plan, PlanObject, PlanSlot};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use wire::launch::Slot;

impl DataMemory {
    /// The plan's objects on the stack of a thread.
    fn on_stack(&self, slot: &PlanSlot) -> impl Iterator<Item = &PlanObject> {
        let thread = slot.identity.clone();
        self.tables.objects.iter().filter(move |object| {
            let of_thread = object.identity.thread.as_ref().zip(thread.as_ref());
            matches!(object.identity.region.as_str(), "stack" | "thread-local")
                && of_thread.is_some_and(|(a, b)| a.is_same(b))
        })
    }

    /// Mode and nodes of a thread's stack, if the plan has any.
    pub fn stack_of(&self, slot: &PlanSlot) -> Option<(u32, u64)> {
        let mut bytes: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for range in self.on_stack(slot).flat_map(|object| &object.ranges) {
            let nodes = range.interleave.iter().fold(0, |bits, node| bits | 1_u64 << node);
            let how = match range.node {
                Some(node) => (PREFERRED, 1 << node),
                None => (INTERLEAVE, nodes),
            };
            *bytes.entry(how).or_default() += range.bytes;
        }
        bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(how, _)| how)
    }

    /// What became of them.
    pub fn stacks(&self, plan: &Plan, slots: &[Slot]) -> Vec<ObjectOutcome> {
        let of_slot = |(planned, slot): (&PlanSlot, &Slot)| {
            let object = self.on_stack(planned).next()?;
            let came = slot.tid.load(Relaxed) != 0;
            let placed = slot.stack_start.load(Relaxed) != 0;
            let error = slot.stack_error.load(Relaxed) as i32;
            let (right, wrong) =
                (slot.stack_as_planned.load(Relaxed), slot.stack_elsewhere.load(Relaxed));
            Some(ObjectOutcome {
                identity: object.identity.clone(),
                planned: self.on_stack(planned).map(planned_pages).sum(),
                named: 1,
                appeared: came.into(),
                placed: placed.into(),
                read: u64::from(right + wrong > 0),
                pages: Pages { as_planned: right, elsewhere: wrong, ..Pages::default() },
                refused: (error != 0).then(|| (1, io::Error::from_raw_os_error(error).to_string())),
                ..ObjectOutcome::default()
            })
        };
        plan.slots.iter().zip(slots).filter_map(of_slot).collect()
    }
}

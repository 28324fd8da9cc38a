//! Nodes of threads' stacks: each gets its policy when its thread appears, with the thread-local
//! data that lies above it. Stacks that the C library keeps for further threads come with pages,
//! which are moved.

use crate::maps;
use core::sync::atomic::Ordering::*;
use injected::policies::{self, MAX_PAGES, MOVE, PAGE, mode};
use wire::launch::Slot;

/// Gives the calling thread's stack the policy of its slot.
pub fn place(slot: &Slot) {
    let how = slot.stack_mode.load(Relaxed);
    if how == mode::DEFAULT {
        return;
    }
    let Some((start, bytes)) = own_stack() else { return };
    match policies::bind(start, bytes, how, slot.stack_nodes.load(Relaxed), MOVE) {
        Ok(()) => {
            slot.stack_start.store(start, Relaxed);
            slot.stack_bytes.store(bytes, Relaxed);
        }
        Err(error) => slot.stack_error.store(error, Relaxed),
    }
}

/// The mapping of the calling thread's stack; of the initial thread, which has more room than is
/// mapped, what there is by now.
fn own_stack() -> Option<(u64, u64)> {
    let within = 0_u8;
    maps::around(&raw const within as u64)
}

/// Looks where its pages are.
pub fn read_back(slot: &Slot) {
    let (start, bytes) = (slot.stack_start.load(Relaxed), slot.stack_bytes.load(Relaxed));
    if start == 0 {
        return;
    }
    let nodes = slot.stack_nodes.load(Relaxed);
    let (mut right, mut wrong) = (0, 0);
    let (mut addresses, mut status) = ([0_u64; MAX_PAGES], [0; MAX_PAGES]);
    for part in (start..start + bytes).step_by(MAX_PAGES * PAGE as usize) {
        let pages = (part..start + bytes).step_by(PAGE as usize).take(MAX_PAGES);
        let count = addresses.iter_mut().zip(pages).map(|(to, from)| *to = from).count();
        policies::pages(&addresses[..count], None, &mut status);
        for node in status[..count].iter().filter_map(|node| u32::try_from(*node).ok()) {
            let planned = node < u64::BITS && nodes >> node & 1 != 0;
            *(if planned { &mut right } else { &mut wrong }) += 1;
        }
    }
    slot.stack_as_planned.store(right, Relaxed);
    slot.stack_elsewhere.store(wrong, Relaxed);
}

/// A forked child's stack is a copy, which goes where the child runs.
pub fn release(slot: &Slot) {
    let (start, bytes) = (slot.stack_start.load(Relaxed), slot.stack_bytes.load(Relaxed));
    if start != 0 {
        let _ = policies::bind(start, bytes, mode::DEFAULT, 0, 0);
    }
}

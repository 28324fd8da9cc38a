//! `pthread_create` and `thrd_create`: each new thread takes its place.

use crate::plan::{self, Plan};
use crate::sys::{self, Mask};
use crate::{bind, matching, stack};
use core::ffi::c_int;
use core::sync::atomic::Ordering::*;
use injected::next;
use injected::starts::Pool;
use injected::threads::{Start, Threads};
use libc::pthread_attr_t;
use wire::launch::{MASK_WORDS, NONE, life};

/// What a new thread is told.
#[derive(Clone, Copy)]
struct Told {
    found: matching::Match,
    /// The program has given it a mask of its own.
    own_mask: bool,
}

static STARTS: Pool<Start<Told>> = Pool::new();

struct Launched;

impl Threads for Launched {
    type Told = Told;

    fn pool() -> &'static Pool<Start<Told>> {
        &STARTS
    }

    unsafe fn creating(routine: usize, attributes: *const pthread_attr_t) -> Option<Told> {
        let plan = plan::get()?;
        let found = matching::take(plan, routine);
        // SAFETY: the program's own attributes.
        let own_mask = unsafe { has_own_mask(plan, attributes, found.creator) };
        Some(Told { found, own_mask })
    }

    fn created(told: Told, succeeded: bool) {
        let Some(plan) = plan::get() else { return };
        match succeeded {
            true => bind::bind_initial(plan),
            false => matching::give_back(plan, told.found),
        }
    }

    fn arrive(start: &Start<Told>) {
        arrive(start);
    }
}

injected::thread_hooks!(Launched);

/// The new thread takes its place.
fn arrive(start: &Start<Told>) {
    let Some(plan) = plan::get() else { return };
    let Told { found, own_mask } = start.told;
    plan::set_own_slot(found.slot);
    let inherited = bind::inherited(plan, found.creator).filter(|_| !own_mask);
    let Some(slot) = plan.slots.get(found.slot as usize) else {
        matching::note_stranger(plan, found.creator, start.routine as usize);
        if let Some(mask) = inherited {
            let _ = sys::set_affinity(0, &mask);
        }
        return;
    };
    let wished = inherited.or_else(|| sys::affinity(0)).unwrap_or([u64::MAX; MASK_WORDS]);
    slot.tid.store(sys::tid(), Relaxed);
    // SAFETY: no arguments.
    slot.handle.store(unsafe { libc::pthread_self() }, Relaxed);
    slot.matched_ns.store(sys::now_ns(), Relaxed);
    bind::note_own_name(&slot.seen_name);
    stack::place(slot);
    if own_mask {
        sys::store(&slot.wished, &wished);
        slot.life.store(life::PROGRAMS_OWN, Release);
    } else {
        bind::bind(plan, slot, 0, &wished);
        let unbound = slot.life.load(Relaxed) != life::BOUND;
        if let Some(mask) = inherited.filter(|_| unbound) {
            let _ = sys::set_affinity(0, &mask);
        }
    }
    bind::watch_end(found.slot);
}

/// Whether the attributes carry a mask that says more than "anywhere".
///
/// # Safety
/// `attributes` is null or valid.
unsafe fn has_own_mask(plan: Plan, attributes: *const pthread_attr_t, creator: u32) -> bool {
    type Get = unsafe extern "C" fn(*const pthread_attr_t, usize, *mut Mask) -> c_int;
    let Some(get) = next!(c"pthread_attr_getaffinity_np": Get) else { return false };
    if attributes.is_null() || plan::watches(plan) {
        return false;
    }
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: valid attributes, and a buffer as long as said. All ones means that none is set.
    if unsafe { get(attributes, size_of::<Mask>(), &mut mask) } != 0 {
        return false;
    }
    let anywhere = match plan.slots.get(creator as usize) {
        Some(slot) if creator != NONE => sys::load(&slot.wished),
        _ => sys::load(&plan.header.original),
    };
    !sys::contains(&mask, &anywhere)
}

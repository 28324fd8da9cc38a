//! The plan in shared memory: attached once, then read and annotated by every hook.

use crate::{stack, sys};
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use injected::Traces;
use wire::launch::{
    Header, MAGIC, MAX_SLOTS, MAX_STRANGERS, NONE, PAGE, SLOTS_OFFSET, STRANGERS_OFFSET, Slot,
    Stranger, VERSION, bytes, life, state,
};

/// What tells us about the plan, and what has brought us in.
pub static TRACES: Traces =
    Traces::new(b"THREADTALK_LAUNCH=", c"THREADTALK_LAUNCH_EVEN=", b"libthreadtalk_shim.so");

const UNKNOWN: u32 = 0;
const ATTACHING: u32 = 1;
const ATTACHED: u32 = 2;
const INACTIVE: u32 = 3;

static STATUS: AtomicU32 = AtomicU32::new(UNKNOWN);
static BASE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static SLOTS: AtomicU32 = AtomicU32::new(0);

/// Not looked up yet.
const UNSET: u32 = NONE - 1;

thread_local! {
    /// Slot of this thread, [`NONE`] for a stranger. Const-initialised, so it takes no allocation.
    static OWN: Cell<u32> = const { Cell::new(UNSET) };
}

/// The plan of this process.
#[derive(Clone, Copy)]
pub struct Plan {
    pub header: &'static Header,
    pub slots: &'static [Slot],
    pub strangers: &'static [Stranger],
}

/// The plan, attached now if that has not been tried; `None` in a program that was started without
/// one, in a child of it, or when something failed.
pub fn get() -> Option<Plan> {
    if STATUS.load(Acquire) == UNKNOWN {
        attach();
    }
    if STATUS.load(Acquire) != ATTACHED {
        return None;
    }
    let base = BASE.load(Relaxed);
    let slots = SLOTS.load(Relaxed) as usize;
    // SAFETY: attach() has mapped this much for good, page-aligned; all types are plain data whose
    // shared fields are atomics.
    unsafe {
        Some(Plan {
            header: &*base.cast::<Header>(),
            slots: core::slice::from_raw_parts(base.add(SLOTS_OFFSET as usize).cast(), slots),
            strangers: core::slice::from_raw_parts(
                base.add(STRANGERS_OFFSET as usize).cast(),
                MAX_STRANGERS,
            ),
        })
    }
}

/// Maps the plan that the environment names and takes its traces out of the environment.
pub fn attach() {
    if STATUS.compare_exchange(UNKNOWN, ATTACHING, AcqRel, Acquire).is_err() {
        return;
    }
    let found = TRACES.path().and_then(map);
    TRACES.clean();
    match found {
        Some(base) => {
            BASE.store(base, Relaxed);
            STATUS.store(ATTACHED, Release);
            begin();
        }
        None => STATUS.store(INACTIVE, Release),
    }
}

/// Maps the file; null pointers never get out.
fn map(path: &core::ffi::CStr) -> Option<*mut u8> {
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    let base = map_length(fd, PAGE).and_then(|first| {
        // SAFETY: one page was mapped, and the layout's header is one page.
        let header = unsafe { &*first.cast::<Header>() };
        let slots = header.slots.load(Relaxed) as usize;
        let ours = header.magic.load(Relaxed) == MAGIC && slots <= MAX_SLOTS;
        let same = ours && header.version.load(Relaxed) == VERSION;
        if ours && !same {
            header.state.store(state::VERSION_MISMATCH, Release);
        }
        let base = if same { map_length(fd, bytes(slots)) } else { None };
        SLOTS.store(slots as u32, Relaxed);
        // SAFETY: the page mapped above; `header` is not used any more.
        unsafe { libc::munmap(first.cast(), PAGE as usize) };
        base
    });
    sys::close(fd);
    base
}

fn map_length(fd: i32, length: u64) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping wherever the kernel likes.
    let base = unsafe {
        libc::mmap(core::ptr::null_mut(), length as usize, access, libc::MAP_SHARED, fd, 0)
    };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// The first moment in this program: nothing is bound, the initial thread has its slot.
fn begin() {
    let Some(plan) = get() else { return };
    let pid = sys::pid();
    match plan.header.pid.load(Relaxed) {
        0 => {}
        // The launched process has replaced its program.
        old if old == pid => forget_previous_program(plan),
        // A child that kept the variable somehow; the plan is not for it.
        _ => return STATUS.store(INACTIVE, Release),
    }
    plan.header.pid.store(pid, Relaxed);
    if let Some(original) = sys::affinity(0) {
        sys::store(&plan.header.original, &original);
    }
    if let Some(slot) = initial_slot(plan) {
        let slot = &plan.slots[slot as usize];
        sys::store(&slot.wished, &sys::load(&plan.header.original));
        slot.tid.store(pid, Relaxed);
        // SAFETY: no arguments.
        slot.handle.store(unsafe { libc::pthread_self() }, Relaxed);
        slot.matched_ns.store(sys::now_ns(), Relaxed);
        stack::place(slot);
        slot.life.store(if watches(plan) { life::WATCHED } else { life::TAKEN }, Release);
    }
    // SAFETY: a handler that only touches our own state.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    plan.header.state.store(state::RUNNING, Release);
}

fn forget_previous_program(plan: Plan) {
    plan.header.execs.fetch_add(1, Relaxed);
    plan.header.created.store(0, Relaxed);
    plan.header.strangers.store(0, Relaxed);
    plan.header.recognised.store(0, Relaxed);
    for slot in plan.slots {
        slot.life.store(life::WAITING, Relaxed);
        for field in [&slot.tid, &slot.error, &slot.seen, &slot.ended] {
            field.store(0, Relaxed);
        }
        slot.handle.store(0, Relaxed);
        slot.stack_start.store(0, Relaxed);
        for mask in [&slot.first, &slot.last] {
            mask.iter().for_each(|word: &AtomicU64| word.store(0, Relaxed));
        }
    }
}

/// A forked child is not under the plan: it gets the mask it would have had.
unsafe extern "C" fn in_forked_child() {
    let slot = get().and_then(|plan| own_slot(plan).map(|i| &plan.slots[i as usize]));
    if let Some(slot) = slot {
        stack::release(slot);
    }
    if let Some(slot) = slot.filter(|slot| slot.life.load(Acquire) == life::BOUND) {
        let _ = sys::set_affinity(0, &sys::load(&slot.wished));
    }
    STATUS.store(INACTIVE, Release);
}

/// Whether the OpenMP runtime binds the threads, and we only read back what came of it.
pub fn watches(plan: Plan) -> bool {
    plan.header.watch.load(Relaxed) != 0
}

/// Slot of the program's initial thread.
pub fn initial_slot(plan: Plan) -> Option<u32> {
    plan.slots.iter().position(|slot| slot.thread.load(Relaxed) == 0).map(|i| i as u32)
}

/// Slot of the calling thread; `None` for a stranger.
pub fn own_slot(plan: Plan) -> Option<u32> {
    let known = OWN.get();
    if known != UNSET {
        return Some(known).filter(|&slot| slot != NONE);
    }
    // Only the initial thread gets here with a slot: all others are told by `set_own_slot`.
    let slot = if sys::tid() == sys::pid() { initial_slot(plan) } else { None };
    OWN.set(slot.unwrap_or(NONE));
    slot
}

/// Tells the calling thread its slot.
pub fn set_own_slot(slot: u32) {
    OWN.set(slot);
}

/// The slot of thread `tid` of this process (0: our own) while it runs.
pub fn slot_of_tid(plan: Plan, tid: u32) -> Option<&'static Slot> {
    if tid == 0 {
        return own_slot(plan).map(|i| &plan.slots[i as usize]);
    }
    plan.slots.iter().find(|s| s.tid.load(Relaxed) == tid && s.ended.load(Relaxed) == 0)
}

/// The slot of a thread by its `pthread_t`, while it runs.
pub fn slot_of_handle(plan: Plan, handle: libc::pthread_t) -> Option<&'static Slot> {
    // SAFETY: no arguments.
    if handle == unsafe { libc::pthread_self() } {
        return slot_of_tid(plan, 0);
    }
    plan.slots.iter().find(|s| s.handle.load(Relaxed) == handle && s.ended.load(Relaxed) == 0)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub mod tests;

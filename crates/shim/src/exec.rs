//! `execve` and its kin, and the calls that start other programs.
//!
//! A child gets the mask that its creator would have had, never a bound one. When the launched
//! process itself replaces its program (`env`, `nice`, a shell's `exec`), the plan goes with it.

use crate::plan::TRACES;
use crate::plan::{self, Plan};
use crate::sys;
use core::sync::atomic::Ordering::*;
use injected::Traces;
use injected::programs::Programs;
use wire::launch::{Slot, life};

struct Launched;

impl Programs for Launched {
    fn replaced_by() -> Option<&'static Traces> {
        plan::get().filter(|plan| in_launched_process(*plan)).map(|_| &TRACES)
    }

    fn started() -> Option<&'static Traces> {
        None
    }

    fn executing(call: impl FnOnce() -> c_int) -> c_int {
        unbound(call)
    }

    fn starting<R>(call: impl FnOnce() -> R) -> R {
        unbound(call)
    }
}

injected::program_hooks!(Launched);

/// Runs `call` while the calling thread has the mask that it would have had, then binds it again.
fn unbound<R>(call: impl FnOnce() -> R) -> R {
    let bound: Option<&Slot> = plan::get()
        .and_then(|plan| plan::slot_of_tid(plan, 0))
        .filter(|slot| slot.life.load(Acquire) == life::BOUND);
    let Some(slot) = bound else { return call() };
    let _ = sys::set_affinity(0, &sys::load(&slot.wished));
    let result = call();
    // A vfork child shares our memory but not our place; what failed there ends there.
    let still_here = plan::get().is_some_and(in_launched_process);
    if let Some(planned) = sys::only(slot.pu_os.load(Relaxed)).filter(|_| still_here) {
        let _ = sys::set_affinity(0, &planned);
    }
    result
}

fn in_launched_process(plan: Plan) -> bool {
    plan.header.pid.load(Relaxed) == sys::pid()
}

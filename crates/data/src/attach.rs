//! How a plan begins in a process, and how it ends in a forked child.
//!
//! The plan is for the launched process and for what it executes in its own place. A forked child
//! places nothing, but knows our memory when it frees some.

use crate::session::{self, Session, TRACES};
use crate::{HEAP, fixed, large, reading, records, runs, sites};
use allocations::{busy, chain, real};
use core::sync::atomic::Ordering::*;
use injected::policies;
use injected::raw::pid;
use wire::data::state;

/// Maps the memory that the environment names, takes our traces out of the environment, and begins.
pub fn attach() {
    let found = TRACES.path().and_then(session::map);
    TRACES.clean();
    let Some(session) = found else { return };
    let header = session.header;
    match header.pid.load(Relaxed) {
        0 => {}
        // The launched process has replaced its program.
        old if old == pid() => forget_previous_program(session),
        // A child that kept the variable somehow; the plan is not for it.
        _ => return session::leave(),
    }
    header.programs.fetch_add(1, Relaxed);
    header.pid.store(pid(), Relaxed);
    // SAFETY: handlers that only touch our own state.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_forked_child));
        at_quick_exit(at_quick_exit_of_program);
    }
    let found = real::find() && HEAP.prepare();
    begin_rest(session);
    header.state.store(begin_heap(session, found), Release);
    fixed::loaded();
}

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> core::ffi::c_int;
}

extern "C" fn at_quick_exit_of_program() {
    reading::finish();
}

/// Begins to place blocks of the heap; one of [`state`].
fn begin_heap(session: Session, found: bool) -> u32 {
    if session.header.digits.load(Relaxed) == 0 {
        return state::RUNNING;
    }
    if !found || real::is_own() {
        return state::OWN_ALLOCATOR;
    }
    if !runs::prepare() || !records::prepare() || !large::prepare(session) {
        return state::NO_ROOM;
    }
    chain::prepare();
    session::plan_sizes(session.header.digits.load(Relaxed));
    state::RUNNING
}

/// Gives this thread, and all that it will create, the policy for memory that no entry names.
fn begin_rest(session: Session) {
    let header = session.header;
    let (mode, nodes) = (header.rest_mode.load(Relaxed), header.rest_nodes.load(Relaxed));
    if mode == policies::mode::DEFAULT {
        return;
    }
    if policies::own().is_some_and(|own| own & 0xff != policies::mode::DEFAULT && own != mode) {
        header.own_policy.fetch_add(1, Relaxed);
    } else if let Err(error) = policies::set_own(mode, nodes) {
        header.rest_error.store(error, Relaxed);
    }
}

fn forget_previous_program(session: Session) {
    session.blocks.iter().for_each(|block| block.start.store(0, Relaxed));
    session.sites.iter().for_each(|site| site.seen.store(0, Relaxed));
    for request in session.requests {
        request.state.store(wire::data::request::FREE, Relaxed);
    }
    session.header.next_block.store(0, Relaxed);
    session.header.jobs_done.store(0, Relaxed);
    session.header.finished.store(0, Relaxed);
}

/// A forked child is not under the plan.
unsafe extern "C" fn in_forked_child() {
    let Some(session) = session::get() else { return };
    session.header.forks.fetch_add(1, Relaxed);
    if policies::own() == Some(session.header.rest_mode.load(Relaxed)) {
        let _ = policies::set_own(policies::mode::DEFAULT, 0);
    }
    session::leave();
    busy::leave();
    chain::LOCK.break_open();
    large::break_open();
    sites::break_open();
    fixed::break_open();
}

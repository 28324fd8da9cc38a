//! Child processes with a copy of the memory: fork, and clone without CLONE_VM.
//!
//! A child that is followed maps a segment of its own where its parent's recording was, gets empty
//! shadow memory, and goes on in the code cache that it has inherited, as thread 0 of its own
//! recording. One that is not followed puts private memory there and leaves the cache for good.

use super::Outcome;
use super::clone3::Clone3;
use super::{seccomp, threads};
use crate::blocks;
use crate::counting;
use crate::dispatch::runtime;
use crate::environment::Environment;
use crate::filter;
use crate::lock;
use crate::pages;
use crate::paths;
use crate::presence;
use crate::session;
use crate::shadow;
use crate::shared::{self, mappings};
use crate::stacks;
use crate::stubs::Frame;
use crate::sys;
use crate::thread::{self, Thread};
use crate::windows;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::sync::atomic::Ordering;
use engine::control;
use wire::session::state;

const ALL_SIGNALS: u64 = !0;
/// Words of a page.
const WORDS: usize = 512;

/// The program's call as it is made: on the caller's stack in the child, too, because the child
/// must come back here. The stack that the program wants for it (0: the same) follows afterwards.
struct Call {
    number: u64,
    arguments: [u64; 6],
    clone3: Option<Clone3>,
    stack: u64,
}

impl Call {
    fn new(frame: &Frame, clone3: Option<Clone3>) -> Self {
        let mut arguments = frame.arguments();
        let stack = match (&clone3, frame.rax) {
            (Some(clone3), _) => clone3.stack_top(),
            (None, sys::CLONE) => core::mem::take(&mut arguments[1]),
            _ => 0,
        };
        let clone3 = clone3.map(Clone3::without_stack);
        Call { number: frame.rax, arguments, clone3, stack }
    }

    fn make(&self) -> i64 {
        let mut arguments = self.arguments;
        if let Some(clone3) = &self.clone3 {
            arguments[..2].copy_from_slice(&clone3.arguments());
        }
        // SAFETY: the program's own call, made here so that the child finds itself in this
        // function.
        unsafe { sys::program_call(self.number, arguments) }
    }
}

/// What the child must know; after the call the parent's page is the parent's.
struct Before {
    page: [u64; WORDS],
    /// Signal mask of the program.
    mask: u64,
    /// The program's address behind the call.
    pc: u64,
    /// The stack that the child shall have.
    app_rsp: u64,
    /// A page for a child that may not map one.
    spare: *mut u64,
}

/// A page on the heap.
const PAGE: Layout = match Layout::from_size_align(4096, 4096) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

impl Before {
    fn word(&self, offset: i32) -> u64 {
        self.page[(offset - control::PAGE) as usize / 8]
    }
}

/// fork, or clone or clone3 without CLONE_VM.
pub fn fork(frame: &Frame, clone3: Option<Clone3>, page: u64) -> Outcome {
    let call = Call::new(frame, clone3);
    let pc = threads::return_address(page);
    let mask = sys::set_signal_mask(ALL_SIGNALS);
    let spare = match filter::any() {
        // SAFETY: a layout of a whole page.
        true => unsafe { alloc::alloc::alloc_zeroed(PAGE) }.cast(),
        false => core::ptr::null_mut(),
    };
    let mut before = Before { page: [0; WORDS], mask, pc, app_rsp: call.stack, spare };
    // SAFETY: both are a page long.
    unsafe {
        core::ptr::copy_nonoverlapping(page as *const u64, before.page.as_mut_ptr(), WORDS);
    }
    if before.app_rsp == 0 {
        before.app_rsp = before.word(control::APP_RSP);
    }
    if before.word(control::PENDING) != 0 {
        // What is pending is the parent's; the child has the mask that the program set.
        before.mask = before.word(control::SIGMASK);
    }
    let follow = session::header().follow.load(Ordering::Relaxed) != 0;
    let follow = follow && seccomp::allows_fork();
    let outcome = match follow.then(session::take_segment).flatten() {
        Some(segment) => followed(&call, &before, segment),
        None => unfollowed(&call, &before),
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(result) => {
            sys::set_signal_mask(mask);
            if !spare.is_null() {
                // SAFETY: allocated above; the child has a copy of its own.
                unsafe { alloc::alloc::dealloc(spare.cast(), PAGE) };
            }
            Outcome::Done(result)
        }
    }
}

/// `Err` with the result in the parent.
fn unfollowed(call: &Call, before: &Before) -> Result<Outcome, i64> {
    let result = call.make();
    if result != 0 {
        if result > 0 {
            threads::count_child();
        }
        return Err(result);
    }
    Ok(become_native(before))
}

fn followed(call: &Call, before: &Before, segment: u32) -> Result<Outcome, i64> {
    // Whatever other threads are changing is whole in the child's copy.
    let creation = threads::hold_creation();
    let runtime_held = runtime();
    let registry = thread::hold_registry();
    let heap = crate::HEAP.hold();
    session::expect_birth(true);
    mappings::forks();
    let result = call.make();
    if result == 0 {
        lock::name_owners(false);
    }
    drop(heap);
    if result != 0 {
        if result < 0 {
            session::expect_birth(false);
            session::give_back(segment);
        }
        return Err(result);
    }
    drop((runtime_held, creation));
    // SAFETY: the caller's record, copied with all memory.
    let old = unsafe { &*(before.word(control::THREAD) as *const Thread) };
    Ok(match renew(before, segment, registry, old) {
        Some(()) => {
            sys::set_signal_mask(before.mask);
            Outcome::Done(0)
        }
        None => become_native(before),
    })
}

/// Everything of the recording anew.
fn renew(before: &Before, segment: u32, registry: thread::Held, old: &Thread) -> Option<()> {
    let place = Environment::kept()?.place()?;
    session::renew(&place, segment)?;
    counting::prepare();
    windows::begin();
    shared::begin();
    pages::prepare();
    blocks::renew();
    paths::renew();
    stacks::renew();
    let header = session::header();
    header.pid.store(sys::pid(), Ordering::Relaxed);
    header.started_ns.store(sys::now_ns(), Ordering::Relaxed);
    shadow::release_locks();
    if !shadow::renew() {
        header.failure.store(wire::session::failure::NO_SHADOW, Ordering::Relaxed);
        header.state.store(state::FAILED, Ordering::Release);
        return None;
    }
    shared::introduce();
    let thread = Box::leak(thread::renew(registry, old)?);
    // SAFETY: the new page; signals are blocked.
    unsafe {
        thread::set_field(thread.state.page, control::RESUME, before.word(control::RESUME));
        thread::set_field(thread.state.page, control::APP_RSP, before.app_rsp);
        thread::set_field(thread.state.page, control::PROGRAM_GS, before.word(control::PROGRAM_GS));
    }
    presence::inherit(thread.state.page, before.word(control::ENTERED));
    thread::attach(thread);
    header.state.store(state::RUNNING, Ordering::Release);
    Some(())
}

/// In a fork's child: gives up the parent's recording.
fn become_native(before: &Before) -> Outcome {
    // SAFETY: the only thread; the fresh page becomes its control block before the session goes.
    unsafe {
        let page = sys::anonymous(4096).unwrap_or(before.spare as u64);
        if page == 0 {
            sys::call(sys::EXIT_GROUP, [125, 0, 0, 0, 0, 0]);
        }
        core::ptr::copy_nonoverlapping(before.page.as_ptr(), page as *mut u64, WORDS);
        thread::set_field(page, control::SELF, page);
        thread::set_field(page, control::PENDING, 0);
        thread::set_field(page, control::DETACHED, 1);
        thread::set_field(page, control::APP_RSP, before.app_rsp);
        sys::set_gs(page + 4096);
        session::detach();
    }
    sys::set_signal_mask(before.mask);
    Outcome::Leave(0, before.pc)
}

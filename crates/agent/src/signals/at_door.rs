//! Threads that a signal finds in a door, or on the way between one and the agent.
//!
//! Neighbours: [`doors`], `stubs/doors.rs`; `native_time.rs` asks.

use super::Context;
use crate::doors;
use crate::own;
use crate::stubs::calls::{self, PutAway};
use crate::stubs::doors::{self as stub, Position};
use engine::control;

/// Registers by their numbers in instructions.
const RAX: usize = 0;
const RDX: usize = 2;
const RSP: usize = 4;
const R11: usize = 11;

/// If the thread is in a door, or on the program's stack on its way from or to one, it is where the
/// program is.
pub fn put_in_program(context: &mut Context, page: u64) {
    let pc = context.pc();
    if let Some(pc) = doors::in_program(pc) {
        return context.set_pc(pc);
    }
    if let Some(away) = calls::put_away(pc) {
        return put_at_call(away, context, page);
    }
    if let Some(at) = stub::position(pc) {
        leave(at, context, page);
    }
    let (pc, stack) = doors::passed(context.pc(), context.register(RSP));
    context.set_pc(pc);
    context.set_register(RSP, stack);
}

/// Puts the thread, which is between a door and its call, at the call.
fn put_at_call(away: PutAway, context: &mut Context, page: u64) {
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { own::field(page, offset) };
    if away.flags {
        context.set_saved_flags(slot(control::SAVED_RCX));
    }
    if away.number {
        context.set_register(RAX, slot(control::SAVED_R11));
    }
    // SAFETY: the second word of a door.
    context.set_pc(unsafe { *(context.register(R11) as *const u64).add(1) });
}

/// Puts the thread, which is at this place between its door and the agent, at one end of that way.
fn leave(at: Position, context: &mut Context, page: u64) {
    // SAFETY: words of the door, of the calling thread's page, and of its stack.
    let word = |address: u64| unsafe { *(address as *const u64) };
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { own::field(page, offset) };
    let stack = context.register(RSP);
    match at {
        Position::Entering => context.set_pc(word(context.register(R11))),
        Position::Leaving { pushed, changed_rcx } => {
            context.set_register(RSP, stack + pushed);
            if changed_rcx {
                context.set_rcx(slot(control::SAVED_RCX));
            }
            context.set_pc(slot(control::NATIVE_PC));
        }
        Position::Returning { pushed, result_in_rdx } => {
            if result_in_rdx {
                context.set_register(RAX, context.register(RDX));
            }
            context.set_pc(word(stack + pushed));
            context.set_register(RSP, stack + pushed + 8);
        }
    }
}

//! Doors of functions: what threads that run natively allocate and free.
//!
//! In such a door, a thread tells of the call as translated code would, and goes on in the
//! function. Calls that allocate return to the agent, which learns the block. Where the program
//! allocates too often, doors lead straight on for small blocks ([`sieve`](engine::decode::sieve)).
//!
//! A function that does not allow a door (`engine::decode::moved`) has none, nor one of a file that
//! may have been replaced; the recorder then says that blocks may have no name.
//!
//! Neighbours: `stubs/doors.rs` is where doors lead, `blocks.rs` knows the functions,
//! `slow/allocations.h` is told of the calls.

use super::{HEADER_BYTES, Memory, in_program, place_near, put};
use crate::layouts::how;
use crate::native;
use crate::session;
use crate::stubs::doors as stub;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use engine::decode::door::Door;
use engine::decode::moved;
use engine::decode::sieve::{Sieve, Size};
use inspect::functions::Function;
use wire::objects::LARGE_SHIFT;
use wire::session::Header;

/// Longest function that is looked through, bytes.
const MAX_FUNCTION: u64 = 64 << 10;

/// Gives each of the functions a door, if threads may run natively. Under the engine's lock, before
/// any thread runs natively in them.
pub fn open(functions: &[Function]) {
    if !native::is_used() || functions.is_empty() {
        return;
    }
    let memory = Memory::open();
    let has_door = |f: &&Function| memory.as_ref().is_some_and(|memory| open_one(f, memory));
    let opened = functions.iter().filter(has_door).count();
    let without = (functions.len() - opened) as u32;
    session::header().functions_without_door.fetch_add(without, Ordering::Relaxed);
}

fn open_one(function: &Function, memory: &Memory) -> bool {
    let Function { address, bytes, .. } = *function;
    // SAFETY: a function of a file that is mapped there.
    let code = unsafe {
        core::slice::from_raw_parts(address as *const u8, bytes.min(MAX_FUNCTION) as usize)
    };
    let has_one = moved::jump_at(code, address).is_some_and(|target| in_program(target).is_some());
    if has_one {
        return false;
    }
    let Some((area, at)) = place_near(address) else { return false };
    let way = stub::tt_door as *const () as u64;
    Door::of_function(at, (code, address), function.what.into(), way, &sieve(function.what, area))
        .is_some_and(|door| put(door, at, code, memory))
}

/// Which calls of a function that does `what` come through a door of the area.
fn sieve(what: u32, area: u64) -> Sieve {
    let how = what & 0xff;
    let size = match how {
        how::BYTES_FIRST => Some(Size::Argument(0)),
        how::BYTES_SECOND | how::MOVES => Some(Size::Argument(1)),
        how::BYTES_THIRD => Some(Size::Argument(2)),
        how::PRODUCT => Some(Size::Product(0)),
        how::MOVES_PRODUCT => Some(Size::Product(1)),
        _ => None,
    };
    Sieve {
        size,
        least: 1 << LARGE_SHIFT,
        frees: matches!(how, how::FREES | how::MOVES | how::MOVES_PRODUCT),
        unfollowed: area + offset_of!(Header, unfollowed) as u64,
        starts: area + HEADER_BYTES,
    }
}

//! Doors of system calls: a thread that runs natively makes them without a signal.
//!
//! Away from home, each system call of a thread is turned into a signal, which takes some
//! microseconds. Servers make many. In such a door, a thread comes home, makes the call with the
//! agent's instruction, and goes on natively. So nothing else changes: calls that the agent
//! handles, and those that are made elsewhere, still come by the signal.
//!
//! Only the C library has such doors, where the code before the call is of a known shape
//! (`engine::decode::calls`).
//!
//! Neighbours: `stubs/calls.rs` is where doors lead, `native.rs` says when threads may go.

use super::{Memory, place_near, put};
use crate::native;
use crate::plain_calls;
use crate::stubs::calls as stub;
use core::ops::Range;
use engine::decode::calls::before_calls;
use engine::decode::door::Door;

/// Gives system calls in the code at `start..end`, of a file mapped from `path`, doors, if threads
/// may run natively and it is the C library's. Under the engine's lock, before any thread runs
/// natively in it.
pub fn open((start, end): (u64, u64), path: &[u8]) {
    if !native::is_used() || !is_c_library(path) {
        return;
    }
    let Some(memory) = Memory::open() else { return };
    // SAFETY: code that is mapped there and can be read.
    let code = unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
    for before in before_calls(code, plain_calls::is_plain) {
        if !open_one(code, before, &memory) {
            return;
        }
    }
}

/// Whether there was room for it.
fn open_one(code: &[u8], before: Range<usize>, memory: &Memory) -> bool {
    let place = code.as_ptr() as u64 + before.start as u64;
    let Some((_, at)) = place_near(place) else { return false };
    let way = stub::tt_call as *const () as u64;
    if let Some(door) = Door::of_call(at, (&code[before.clone()], place), way) {
        put(door, at, &code[before.start..], memory);
    }
    true
}

/// Whether the file at the path is the C library.
fn is_c_library(path: &[u8]) -> bool {
    // Before version 2.34, threads' part of it was a file of its own.
    const NAMES: [&[u8]; 3] = [b"libc.so", b"libc-2.", b"libpthread"];
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    NAMES.iter().any(|start| name.starts_with(start))
}

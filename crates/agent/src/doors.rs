//! Doors: where threads that run natively come home for a moment.
//!
//! A place in the program's code begins, in memory, with a jump to its door: a few bytes near it
//! that lead to the agent, and hold the instructions over which the jump lies
//! (`engine::decode::door`). There are doors at functions that allocate or free ([`functions`]) and
//! at system calls ([`calls`]).
//!
//! Only threads that run natively meet doors. The engine reads the place as it was
//! (`engine::decode::patched`), and so does the program wherever it is translated. Doors are made
//! when a file's code is mapped, before anything runs in it.
//!
//! Neighbours: `signals/at_door.rs` puts threads that a signal finds in a door where the program
//! is.

pub mod calls;
pub mod functions;

use crate::blocks;
use crate::native;
use crate::stubs::doors as stub;
use crate::sys;
use crate::windows;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::decode::door::Door;
use engine::decode::moved;
use engine::decode::patched::{self, JUMP_BYTES, KEPT_BYTES};
use engine::decode::sieve::STARTS_BYTES;
use wire::session::PAGE;

const BYTES: u64 = size_of::<Door>() as u64;

/// An area is a page that shows the recording's first header, the bits of large blocks, and doors.
const HEADER_BYTES: u64 = PAGE;
const FIRST_DOOR: u64 = HEADER_BYTES + STARTS_BYTES;
const AREA_BYTES: u64 = 128 << 10;
const DOORS: u64 = (AREA_BYTES - FIRST_DOOR) / BYTES;
const MAX_AREAS: usize = 64;

/// Areas. Signals look at them, others change them under the engine's lock.
static AREAS: [AtomicU64; MAX_AREAS] = [const { AtomicU64::new(0) }; MAX_AREAS];

/// A file through which the process's memory can be written wherever it lies.
struct Memory(u64);

impl Memory {
    fn open() -> Option<Self> {
        const READ_AND_WRITE: u64 = 2;
        const O_CLOEXEC: u64 = 0o2000000;
        let path = c"/proc/self/mem".as_ptr() as u64;
        // SAFETY: NUL-terminated.
        let fd = unsafe { sys::call(sys::OPEN, [path, READ_AND_WRITE | O_CLOEXEC, 0, 0, 0, 0]) };
        u64::try_from(fd).ok().map(Self)
    }

    /// Writes them there; whether it is done.
    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let arguments = [self.0, bytes.as_ptr() as u64, bytes.len() as u64, at, 0, 0];
        // SAFETY: the caller's bytes; that they may lie there is up to the caller.
        unsafe { sys::call(sys::PWRITE64, arguments) == bytes.len() as i64 }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { sys::call(sys::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Puts `door` at `at`, and the jump over what is now `code` at its place; whether it is done.
fn put(door: Door, at: u64, code: &[u8], memory: &Memory) -> bool {
    let place = door.place;
    let Some(jump) = moved::jump(place, at) else { return false };
    let mut original = [0; KEPT_BYTES];
    let kept = code.len().min(KEPT_BYTES);
    original[..kept].copy_from_slice(&code[..kept]);
    // SAFETY: room of an area that nothing else uses; the overlay under the engine's lock.
    unsafe {
        (at as *mut Door).write(door);
        patched::add(place, original);
    }
    if memory.write(place, &jump) {
        return true;
    }
    // SAFETY: as above.
    unsafe { patched::remove(place, place + 1) };
    false
}

/// Room for a door from which the code at `pc`, and what it refers to, is in reach, and where its
/// area begins.
fn place_near(pc: u64) -> Option<(u64, u64)> {
    static USED: [AtomicU64; MAX_AREAS] = [const { AtomicU64::new(0) }; MAX_AREAS];
    for (area, used) in AREAS.iter().zip(&USED) {
        let mut base = area.load(Ordering::Relaxed);
        if base == 0 {
            base = map_area(pc)?;
            area.store(base, Ordering::Release);
        }
        let number = used.load(Ordering::Relaxed);
        if base.abs_diff(pc) < sys::FAR && number < DOORS {
            used.store(number + 1, Ordering::Relaxed);
            return Some((base, base + FIRST_DOOR + number * BYTES));
        }
    }
    None
}

fn map_area(near: u64) -> Option<u64> {
    let protection = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
    let base = sys::map_near(near, AREA_BYTES, protection)?;
    sys::keep_out_of_dumps(base, AREA_BYTES);
    let shows = windows::show_header(base)
        && (!blocks::are_followed() || blocks::show_starts(base + HEADER_BYTES));
    shows.then_some(base)
}

/// The code in `start..end` goes away, and the doors of places in it are of no use any more.
pub fn forget(start: u64, end: u64) {
    // SAFETY: under the engine's lock.
    unsafe { patched::remove(start, end) };
}

/// The program is about to write to its code in `start..end`, where there shall be what it expects.
pub fn close(start: u64, end: u64) {
    let Some(memory) = native::is_used().then(Memory::open).flatten() else { return };
    for door in areas().flat_map(|base| (0..DOORS).map(move |k| base + FIRST_DOOR + k * BYTES)) {
        // SAFETY: a door, or zeroes.
        let place = unsafe { &*(door as *const Door) }.place;
        // SAFETY: under the engine's lock.
        let original = unsafe { patched::place_of(place) };
        if (start..end).contains(&place) && original != place as *const u8 {
            // SAFETY: at least as long.
            let original = unsafe { core::slice::from_raw_parts(original, JUMP_BYTES) };
            memory.write(place, original);
        }
    }
    forget(start, end);
}

fn areas() -> impl Iterator<Item = u64> {
    AREAS.iter().map(|area| area.load(Ordering::Acquire)).take_while(|base| *base != 0)
}

/// Where in the program a thread at this address of a door is; `None` if it is in none.
pub fn in_program(pc: u64) -> Option<u64> {
    let at = |base: u64| pc.wrapping_sub(base + FIRST_DOOR);
    let base = areas().find(|base| at(*base) < DOORS * BYTES)?;
    let within = at(base) % BYTES;
    // SAFETY: a door, as a thread is in it, or zeroes.
    Some(unsafe { &*((pc - within) as *const Door) }.in_program(within))
}

/// Where a thread that is about to go on at `pc`, with the stack at `stack`, is in the program, and
/// with which stack: `pc` may be the way back through a door, and where that leads another one's,
/// if the function had jumped to the next. The program is told of the calls where it is translated.
pub fn passed(mut pc: u64, mut stack: u64) -> (u64, u64) {
    while pc == stub::tt_door_returned as *const () as u64 {
        // SAFETY: as the door has left the stack.
        pc = unsafe { *((stack + stub::PADDING) as *const u64) };
        stack += stub::PADDING + 8;
    }
    (pc, stack)
}

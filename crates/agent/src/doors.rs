//! Doors: what threads that run natively allocate and free.
//!
//! A function that allocates or frees begins, in memory, with a jump to its door: a few bytes near
//! it that lead to `stubs/doors.rs`. There a thread that is away comes home for a moment, tells of
//! the call as translated code would, and goes on in the function: its first instructions lie in
//! the door, too. Calls that allocate return to the agent, which learns the block.
//!
//! Only threads that run natively meet doors. The engine reads the function as it was
//! (`engine::decode::patched`), and so does the program wherever it is translated.
//!
//! Doors are made when a file's code is mapped, before anything runs in it. A function that does
//! not allow one (`engine::decode::moved`) has none, nor one of a file that may have been replaced;
//! the recorder then says that blocks may have no
//! name. Where the program allocates too often, doors lead straight on.
//!
//! Neighbours: `blocks.rs` knows the functions, `slow/allocations.h` is told of the calls,
//! `signals/at_door.rs` puts threads that a signal finds in a door where the program is.

use crate::blocks::functions::Function;
use crate::native;
use crate::session;
use crate::stubs::doors as stub;
use crate::sys;
use crate::windows;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::decode::moved::{self, MAX_BYTES, Moved};
use engine::decode::patched::{self, JUMP_BYTES, KEPT_BYTES};
use wire::session::{Header, PAGE};

/// How a door begins: `cmp byte [rip + unfollowed], 0; je way`.
const ENTRY_BYTES: usize = 9;
/// `lea r11, [rip + place]; jmp [rip + way]`.
const WAY_BYTES: usize = 13;

/// A door, which is code and what it refers to.
#[repr(C)]
struct Door {
    entry: [u8; ENTRY_BYTES],
    /// The function's first instructions.
    moved: [u8; MAX_BYTES],
    to_way: [u8; WAY_BYTES],
    /// Where `moved` jumps to the rest of the function, and where in that this leads: see
    /// [`Moved`].
    jump: [u8; 2],
    /// Address of the function.
    place: u64,
    /// What it does, as [`Function::what`].
    what: u64,
    /// Address of `tt_door`.
    way: u64,
}

const BYTES: u64 = size_of::<Door>() as u64;
const _: () =
    assert!(offset_of!(Door, place) - offset_of!(Door, moved) == stub::FROM_MOVED as usize);

/// An area is a page that shows the recording's first header, and doors.
const HEADER_BYTES: u64 = PAGE;
const AREA_BYTES: u64 = 16 << 10;
const DOORS: u64 = (AREA_BYTES - HEADER_BYTES) / BYTES;
const MAX_AREAS: usize = 64;

/// Areas. Signals look at them, others change them under the engine's lock.
static AREAS: [AtomicU64; MAX_AREAS] = [const { AtomicU64::new(0) }; MAX_AREAS];

/// Longest function that is looked through, bytes.
const MAX_FUNCTION: u64 = 64 << 10;

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
    let has_one = moved::jump_at(code, address).is_some_and(|target| in_function(target).is_some());
    if has_one {
        return false;
    }
    let Some((area, at)) = place_near(address) else { return false };
    let to = at + offset_of!(Door, moved) as u64;
    let (Some(moved), Some(jump)) = (moved::moved(code, address, to), moved::jump(address, at))
    else {
        return false;
    };
    let door = Door::new(function, area.wrapping_sub(at), &moved);
    let mut original = [0; KEPT_BYTES];
    let kept = code.len().min(KEPT_BYTES);
    original[..kept].copy_from_slice(&code[..kept]);
    // SAFETY: room of an area that nothing else uses; the overlay under the engine's lock.
    unsafe {
        (at as *mut Door).write(door);
        patched::add(address, original);
    }
    if memory.write(address, &jump) {
        return true;
    }
    // SAFETY: as above.
    unsafe { patched::remove(address, address + 1) };
    false
}

impl Door {
    /// For a function whose first instructions have been moved; `area` is where the area begins,
    /// from the door on.
    fn new(function: &Function, area: u64, moved: &Moved) -> Self {
        let word = |distance: u64| (distance as u32).to_le_bytes();
        let mut door = Door {
            entry: [0; ENTRY_BYTES],
            moved: [0; MAX_BYTES],
            to_way: [0; WAY_BYTES],
            jump: [moved.jump.0 as u8, moved.jump.1 as u8],
            place: function.address,
            what: function.what.into(),
            way: stub::tt_door as *const () as u64,
        };
        let unfollowed = area.wrapping_add(offset_of!(Header, unfollowed) as u64);
        door.entry[..2].copy_from_slice(&[0x80, 0x3d]);
        door.entry[2..6].copy_from_slice(&word(unfollowed.wrapping_sub(7)));
        door.entry[7..].copy_from_slice(&[0x74, MAX_BYTES as u8]);
        door.moved[..moved.bytes.len()].copy_from_slice(&moved.bytes);
        let from = |next: usize, field: usize| (field - offset_of!(Door, to_way) - next) as u64;
        door.to_way[..3].copy_from_slice(&[0x4c, 0x8d, 0x1d]);
        door.to_way[3..7].copy_from_slice(&word(from(7, offset_of!(Door, place))));
        door.to_way[7..9].copy_from_slice(&[0xff, 0x25]);
        door.to_way[9..13].copy_from_slice(&word(from(13, offset_of!(Door, way))));
        door
    }
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
            return Some((base, base + HEADER_BYTES + number * BYTES));
        }
    }
    None
}

fn map_area(near: u64) -> Option<u64> {
    let protection = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
    let base = sys::map_near(near, AREA_BYTES, protection)?;
    sys::keep_out_of_dumps(base, AREA_BYTES);
    windows::show_header(base).then_some(base)
}

/// The code in `start..end` goes away, and the doors of functions in it are of no use any more.
pub fn forget(start: u64, end: u64) {
    // SAFETY: under the engine's lock.
    unsafe { patched::remove(start, end) };
}

/// The program is about to write to its code in `start..end`, where there shall be what it expects.
pub fn close(start: u64, end: u64) {
    let Some(memory) = native::is_used().then(Memory::open).flatten() else { return };
    for door in areas().flat_map(|base| (0..DOORS).map(move |k| base + HEADER_BYTES + k * BYTES)) {
        // SAFETY: a door, or zeroes.
        let function = unsafe { &*(door as *const Door) }.place;
        // SAFETY: under the engine's lock.
        let original = unsafe { patched::place_of(function) };
        if (start..end).contains(&function) && original != function as *const u8 {
            // SAFETY: at least as long.
            let original = unsafe { core::slice::from_raw_parts(original, JUMP_BYTES) };
            memory.write(function, original);
        }
    }
    forget(start, end);
}

fn areas() -> impl Iterator<Item = u64> {
    AREAS.iter().map(|area| area.load(Ordering::Acquire)).take_while(|base| *base != 0)
}

/// Where in the program a thread at this address of a door is; `None` if it is in none.
pub fn in_function(pc: u64) -> Option<u64> {
    let at = |base: u64| pc.wrapping_sub(base + HEADER_BYTES);
    let base = areas().find(|base| at(*base) < DOORS * BYTES)?;
    let within = at(base) % BYTES;
    // SAFETY: a door, as a thread is in it, or zeroes.
    let door = unsafe { &*((pc - within) as *const Door) };
    let moved = within.wrapping_sub(offset_of!(Door, moved) as u64);
    let [jump, end] = door.jump.map(u64::from);
    Some(match moved {
        _ if moved >= MAX_BYTES as u64 => door.place,
        _ if moved == jump => door.place + end,
        _ => door.place + moved,
    })
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

//! The code cache: regions of executable memory near the program's code, each starting with
//! trampolines into the agent.
//!
//! A region has two parts: what blocks usually run lies in the first, close together, and what they
//! seldom do (failed checks, exits that lead nowhere yet) in the second. Large programs wait for
//! their instructions first of all, and the cold parts are most of the bytes.
//!
//! Blocks are never moved, and regions given up only when no thread can be in them any more
//! ([`generation`](crate::engine::generations)).

use crate::cache::entries::Entries;
use crate::cache::recovery::{Entry, Parked};
use crate::control;
use alloc::vec::Vec;

/// Most bytes of a region.
pub const REGION_BYTES: u64 = 64 << 20;
/// A region with less room than this counts as full; no block is larger.
const MARGIN: u64 = 256 << 10;
/// Bytes of the region that has trampolines only, and stays.
pub(crate) const ANCHOR_BYTES: u64 = 64 << 10;

/// Bytes of the regions of a cache that is full with `max_bytes` of code.
pub(crate) fn region_bytes(max_bytes: u64) -> u64 {
    (max_bytes.min(REGION_BYTES / 2).next_power_of_two().max(2 * MARGIN) * 2).min(REGION_BYTES)
}

/// How much of a region of `region_bytes` bytes is for hot parts: cold ones are twice as long.
pub fn hot_bytes(region_bytes: u64) -> u64 {
    region_bytes / 8 * 3
}

/// Where the two parts of a block begin: multiples of [`Spot::ALIGNMENT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Address of the hot part.
    pub hot: u64,
    /// Address of the cold part.
    pub cold: u64,
}

impl Spot {
    /// Bytes at whose multiples the parts begin.
    pub const ALIGNMENT: u64 = 16;

    /// Address of the byte at an offset of a block with `split` hot bytes.
    pub fn at(&self, offset: usize, split: usize) -> u64 {
        match offset.checked_sub(split) {
            Some(behind) => self.cold + behind as u64,
            None => self.hot + offset as u64,
        }
    }

    /// The offset of an address.
    pub fn offset(&self, address: u64, split: usize) -> usize {
        let inside = address.wrapping_sub(self.hot) as usize;
        if inside < split { inside } else { split + (address - self.cold) as usize }
    }
}

/// Entry points in the agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stubs {
    /// A direct exit: %eax = link id, %rax parked.
    pub direct: u64,
    /// An indirect branch to a target without a pad: %rcx = target, %rcx and %r11 parked.
    pub indirect: u64,
    /// The same for a site that has a sample: %r11 = its number. See
    /// [`sites`](crate::connect::sites).
    pub learn: u64,
    /// A check failed: gs:ADDRESS, gs:DESCRIPTOR, gs:RESUME.
    pub access: u64,
    /// A repeated string instruction comes: gs:ADDRESS = descriptor, gs:SITE, gs:RESUME.
    pub repeat: u64,
    /// Code comes that the host wants to be told of: gs:ADDRESS = what [`Host::hook`] said,
    /// gs:RESUME.
    ///
    /// [`Host::hook`]: crate::Host::hook
    pub hook: u64,
    /// A system call comes: gs:RESUME = address after the `syscall` instruction.
    pub syscall: u64,
    /// A system call that moves the program's data has been made: gs:MOVES_DATA, gs:SITE,
    /// gs:RESUME.
    pub after_syscall: u64,
}

/// Addresses of a region's trampolines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trampolines {
    /// Leads to [`Stubs::direct`].
    pub direct: u64,
    /// Leads to [`Stubs::indirect`].
    pub indirect: u64,
    /// Leads to [`Stubs::learn`].
    pub learn: u64,
    /// Leads to [`Stubs::access`].
    pub access: u64,
    /// Leads to [`Stubs::repeat`].
    pub repeat: u64,
    /// Leads to [`Stubs::hook`].
    pub hook: u64,
    /// Leads to [`Stubs::syscall`].
    pub syscall: u64,
    /// Leads to [`Stubs::after_syscall`].
    pub after_syscall: u64,
    /// Restores gs:SIGMASK, which delivers what waits, and continues at gs:TARGET.
    pub deliver: u64,
    /// The `syscall` in it.
    deliver_syscall: u64,
    deliver_end: u64,
}

/// A block's place: where its parts begin in the region.
struct Placed {
    hot: u32,
    cold: u32,
    /// Bytes of the hot part.
    split: u32,
    /// Of its first instruction, in the program.
    pc: u64,
    entries: Entries,
}

/// One region.
pub struct Region {
    base: u64,
    next: Spot,
    /// Where the second part begins, and ends.
    middle: u64,
    end: u64,
    /// Its trampolines.
    pub trampolines: Trampolines,
    blocks: Vec<Placed>,
}

/// What a thread stopped at a cache address is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In a block.
    Block(Entry),
    /// On its way to the dispatcher for a direct exit: %eax = link id.
    DirectExit,
    /// Looking up an indirect target.
    Lookup,
    /// On its way into a slow path; its state is that of gs:RESUME.
    SlowPath,
    /// On its way to a system call that ends at gs:RESUME.
    Syscall,
    /// Delivering a deferred signal: state of gs:TARGET with the registers of gs:DEFER (if true).
    Deliver {
        /// Whether the registers of gs:DEFER have been saved.
        saved: bool,
    },
}

impl Region {
    /// Takes over fresh memory at `base` and writes the trampolines.
    ///
    /// # Safety
    /// `bytes` at `base` must be readable, writable, executable and unused.
    pub unsafe fn new(base: u64, bytes: u64, stubs: &Stubs) -> Self {
        let middle = base + hot_bytes(bytes);
        let mut region = Region {
            base,
            next: Spot { hot: base, cold: middle },
            middle,
            end: base + bytes,
            trampolines: Trampolines::default(),
            blocks: Vec::new(),
        };
        let code = trampolines(base, stubs, &mut region.trampolines);
        // SAFETY: forwarded.
        region.next.hot = unsafe { write(&code, base) };
        region
    }

    /// Where it starts.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Where the next block will lie.
    pub fn next(&self) -> Spot {
        self.next
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        (self.next.hot - self.base) + (self.next.cold - self.middle)
    }

    /// Whether there is room for another block.
    pub fn has_room(&self) -> bool {
        self.next.hot + MARGIN < self.middle && self.next.cold + MARGIN < self.end
    }

    /// Whether the address lies in this region.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.end).contains(&address)
    }

    /// Places the block of the program's code at `pc`, the first `split` bytes of whose code are
    /// hot.
    pub fn place(&mut self, code: &[u8], split: usize, pc: u64, entries: Entries) {
        let offset = |at: u64| (at - self.base) as u32;
        let (hot, cold) = (offset(self.next.hot), offset(self.next.cold));
        self.blocks.push(Placed { hot, cold, split: split as u32, pc, entries });
        let (first, second) = code.split_at(split);
        // SAFETY: `has_room` is checked before translation, and a block is smaller than the margin;
        // so the bytes are ours and no thread runs them yet.
        self.next = unsafe {
            Spot { hot: write(first, self.next.hot), cold: write(second, self.next.cold) }
        };
    }

    /// What a thread stopped at `address` is doing.
    pub fn position(&self, address: u64) -> Option<Position> {
        let t = &self.trampolines;
        let offset = (address - self.base) as u32;
        let is_cold = address >= self.middle;
        let next = self.blocks.partition_point(|b| offset >= if is_cold { b.cold } else { b.hot });
        if let Some(block) = next.checked_sub(1).map(|k| &self.blocks[k]) {
            let inside = match is_cold {
                true => offset - block.cold + block.split,
                false => offset - block.hot,
            };
            return block.entries.at(inside, block.pc).map(Position::Block);
        }
        // Trampolines are laid out in the order of the struct's fields.
        Some(match address {
            a if a < t.indirect => Position::DirectExit,
            a if a < t.access => Position::Lookup,
            a if a < t.syscall => Position::SlowPath,
            a if a < t.after_syscall => Position::Syscall,
            a if a < t.deliver => Position::SlowPath,
            a if a < t.deliver_syscall => Position::Deliver { saved: false },
            a if a < t.deliver_end => Position::Deliver { saved: true },
            _ => return None,
        })
    }
}

/// Copies code to `at`. Returns where the next may lie.
///
/// # Safety
/// The memory is writable, and no thread runs it.
unsafe fn write(code: &[u8], at: u64) -> u64 {
    // SAFETY: forwarded.
    unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    (at + code.len() as u64).next_multiple_of(Spot::ALIGNMENT)
}

/// Trampoline code for a region at `base`.
fn trampolines(base: u64, stubs: &Stubs, t: &mut Trampolines) -> Vec<u8> {
    let mut code: Vec<u8> = Vec::new();
    let at = |code: &Vec<u8>| base + code.len() as u64;
    t.direct = at(&code);
    jump_far(&mut code, stubs.direct);
    t.indirect = at(&code);
    jump_far(&mut code, stubs.indirect);
    for (place, stub) in [
        (&mut t.learn, stubs.learn),
        (&mut t.access, stubs.access),
        (&mut t.repeat, stubs.repeat),
        (&mut t.hook, stubs.hook),
        (&mut t.syscall, stubs.syscall),
        (&mut t.after_syscall, stubs.after_syscall),
    ] {
        *place = at(&code);
        jump_far(&mut code, stub);
    }
    t.deliver = at(&code);
    let (before, after) = deliver();
    code.extend(before);
    t.deliver_syscall = at(&code);
    code.extend(after);
    t.deliver_end = at(&code);
    code
}

/// `jmp [rip + 2]` with the address behind it, 16 bytes long: the address is aligned, because the
/// program may have switched alignment checks on.
fn jump_far(code: &mut Vec<u8>, target: u64) {
    code.extend([0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc]);
    code.extend(target.to_le_bytes());
}

/// rt_sigprocmask(SIG_SETMASK, gs:SIGMASK, NULL, 8) with all registers kept; uses no stack and no
/// flags. The first part saves, the second starts with the system call.
fn deliver() -> (Vec<u8>, Vec<u8>) {
    const REGISTERS: [usize; 7] = [0, 1, 2, 6, 7, 10, 11];
    let gs = |opcode: u8, register: usize, offset: i32| {
        let rex = 0x48 | ((register >> 3) as u8) << 2;
        let mut bytes = alloc::vec![0x65, rex, opcode, ((register & 7) << 3) as u8 | 4, 0x25];
        bytes.extend(offset.to_le_bytes());
        bytes
    };
    let mut before = Vec::new();
    for (register, offset) in REGISTERS.into_iter().zip(control::DEFER) {
        before.extend(gs(0x89, register, offset));
    }
    before.extend([0x65, 0x48, 0xc7, 0x04, 0x25]); // mov qword gs:[PENDING], 0
    before.extend(control::PENDING.to_le_bytes());
    before.extend([0, 0, 0, 0]);
    before.extend(gs(0x8b, 6, control::SELF)); // mov rsi, gs:[SELF]
    before.extend([0x48, 0x8d, 0xb6]); // lea rsi, [rsi + SIGMASK]
    before.extend((control::SIGMASK - control::PAGE).to_le_bytes());
    before.extend([0xb8, 14, 0, 0, 0]); // mov eax, SYS_rt_sigprocmask
    before.extend([0xbf, 2, 0, 0, 0]); // mov edi, SIG_SETMASK
    before.extend([0xba, 0, 0, 0, 0]); // mov edx, 0
    before.extend([0x41, 0xba, 8, 0, 0, 0]); // mov r10d, 8
    let mut after = alloc::vec![0x0f, 0x05];
    for (register, offset) in REGISTERS.into_iter().zip(control::DEFER) {
        after.extend(gs(0x8b, register, offset));
    }
    after.extend([0x65, 0xff, 0x24, 0x25]); // jmp gs:[TARGET]
    after.extend(control::TARGET.to_le_bytes());
    (before, after)
}

/// The state in which nothing is parked, at `pc`.
pub fn clean(pc: u64) -> Entry {
    Entry { offset: 0, parked: Parked::NOTHING, pc }
}

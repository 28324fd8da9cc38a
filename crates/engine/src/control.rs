//! Offsets of a thread's control block, the first bytes of its page in the session, which
//! translated code and the agent's stubs address through %gs.
//!
//! `%gs` is free for this: glibc and the compilers never use it on x86-64 Linux.

use types::tally;

/// The page lies just below where %gs points; from there on upwards lie the thread's
/// [grants](crate::grants).
pub const PAGE: i32 = -4096;

/// Linear address of the page.
pub const SELF: i32 = PAGE;
/// %rcx and %r11 during an indirect branch. Not %rax: results of functions would wait for it.
pub const SAVED_RCX: i32 = PAGE + 32;
pub const SAVED_R11: i32 = PAGE + 16;
/// %rax in exit stubs.
pub const SAVED_RAX: i32 = PAGE + 40;
/// Counts indirect branches down to the next sample: see [`crate::sites`].
pub const COUNTDOWN: i32 = PAGE + 24;
/// The register borrowed for checks.
pub const SPILL: i32 = PAGE + 48;
/// %rax while flags are saved or restored.
pub const FLAGS_RAX: i32 = PAGE + 56;
/// Saved flags: AH as `lahf`, AL as `seto`.
pub const FLAGS: i32 = PAGE + 64;
/// The register borrowed to reach a far RIP-relative operand.
pub const FAR_SPILL: i32 = PAGE + 72;

/// Address (or descriptor) handed to a slow path.
pub const ADDRESS: i32 = PAGE + 80;
/// Cache address where a slow path resumes.
pub const RESUME: i32 = PAGE + 88;
/// The program's stack pointer while the agent's stack is in use.
pub const APP_RSP: i32 = PAGE + 96;
/// Where the dispatcher continues.
pub const TARGET: i32 = PAGE + 104;
/// Top of the thread's agent stack.
pub const STACK: i32 = PAGE + 112;
/// 64-byte aligned xsave area.
pub const XSAVE: i32 = PAGE + 120;
/// Link id for the dispatcher, or -1 for an indirect branch.
pub const LINK: i32 = PAGE + 128;
/// The agent's own record of the thread.
pub const THREAD: i32 = PAGE + 136;
/// Not 0 when a signal waits until the agent's code is left.
pub const PENDING: i32 = PAGE + 144;
/// The signal mask to restore then.
pub const SIGMASK: i32 = PAGE + 152;
/// Registers saved while that happens: rax, rcx, rdx, rsi, rdi, r10, r11.
pub const DEFER: [i32; 7] =
    [PAGE + 160, PAGE + 168, PAGE + 176, PAGE + 184, PAGE + 192, PAGE + 200, PAGE + 208];
/// Start routine of the thread that this thread is creating.
pub const START_ROUTINE: i32 = PAGE + 216;
/// Not 0 once the thread runs outside the cache for good.
pub const DETACHED: i32 = PAGE + 224;
/// Top of the stack on which signals are looked at.
pub const SIGNAL_STACK: i32 = PAGE + 232;
/// Cache address of [`crate::cache::Trampolines::deliver`].
pub const DELIVER: i32 = PAGE + 240;
/// Number of the system call that is being made, plus one, if it moves the program's data; else 0.
pub const MOVES_DATA: i32 = PAGE + 248;

/// The register borrowed for checks that need two.
pub const SECOND_SPILL: i32 = PAGE + 256;
/// Descriptor of the accesses behind a failed check; see [`crate::descriptor`].
pub const DESCRIPTOR: i32 = PAGE + 264;
/// Code site of a repeated string instruction or a system call.
pub const SITE: i32 = PAGE + 272;
/// Base of the bytes-written shadow divided by 8 .
pub const WRITTEN_BASE8: i32 = PAGE + 280;
/// Base of the last writers' code sites divided by 4.
pub const SITES_BASE4: i32 = PAGE + 288;
/// What leads from the index of a line's bytes, with their base, to that of its site: [`SITES_BASE4`]
/// less [`WRITTEN_BASE8`].
pub const SITES_FROM_WRITTEN: i32 = PAGE + 296;

/// Indices of a gather or scatter, or general registers, for the slow path; see [`crate::elements`]. 64
/// bytes, aligned.
pub const INDICES: i32 = PAGE + 640;
/// What selects elements, or a tile configuration, or words of an area's header. 64 bytes, aligned.
pub const SELECTED: i32 = PAGE + 704;
/// Cache address with which the thread last came from the dispatcher; 0 = it is not in the cache.
pub const ENTERED: i32 = PAGE + 304;
/// While it returns from a signal: the cache address that it will go to, or 0; the frame that holds it,
/// and what the frame held before.
pub const RETURNS: i32 = PAGE + 312;
pub const RETURN_FRAME: i32 = PAGE + 320;
pub const RETURN_PC: i32 = PAGE + 328;
/// By how many bytes the frame of the signal that is being delivered has been moved down.
pub const FRAME_MOVED: i32 = PAGE + 336;
/// The trap flag while a program that steps by itself makes a system call from the cache, else 0; and the
/// call's address.
pub const TRAP_FLAG: i32 = PAGE + 344;
pub const STEPPED_CALL: i32 = PAGE + 352;
/// Address of 32 bits that change with each system call and are odd while the thread is in one.
pub const CALLS: i32 = PAGE + 360;

/// Constants that [`crate::bytes`] shifts: the set of the first 1, 2, 4, 8, 16 and 32 bytes.
const FIRST_BYTES: i32 = PAGE + 768;

/// Where the set of the first `1 << power` bytes stands, for powers up to 5.
pub const fn first_bytes(power: u32) -> i32 {
    FIRST_BYTES + 8 * power as i32
}

/// Loads executed that no tally counts.
pub const LOADS: i32 = PAGE + 1024;
/// Stores executed, the same.
pub const STORES: i32 = PAGE + 1032;
/// Instructions executed, the same.
pub const INSTRUCTIONS: i32 = PAGE + 1040;
/// First of the thread's tallies, which lie below its page; see [`types::tally`].
const TALLIES: i32 = PAGE - 8 * tally::MOST as i32;

/// The tally with that number.
pub fn tally(number: u32) -> i32 {
    TALLIES + 8 * number as i32
}

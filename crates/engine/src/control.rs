//! Offsets in a thread's control block, the first bytes of its page in the session, which
//! translated code and the agent's stubs address through %gs.
//!
//! `%gs` is free for this: glibc and the compilers never use it on x86-64 Linux.

/// Linear address of the page itself.
pub const SELF: i32 = 0;
/// The thread's reader bit in shadow words.
pub const MASK: i32 = 8;
/// The shadow word of a block that this thread has written whole and nobody else has read since.
pub const OWN_WORD: i32 = 16;
/// Base of the thread's shadow bank divided by 8 (far shadow only).
pub const BANK_BASE8: i32 = 24;

/// %rcx during an indirect branch.
pub const SAVED_RCX: i32 = 32;
/// %rax during an indirect branch and in exit stubs.
pub const SAVED_RAX: i32 = 40;
/// The register borrowed for checks.
pub const SPILL: i32 = 48;
/// %rax while flags are saved or restored.
pub const FLAGS_RAX: i32 = 56;
/// Saved flags: AH as `lahf`, AL as `seto`.
pub const FLAGS: i32 = 64;
/// The register borrowed to reach a far RIP-relative operand.
pub const FAR_SPILL: i32 = 72;

/// Address (or descriptor) handed to a slow path.
pub const ADDRESS: i32 = 80;
/// Cache address where a slow path resumes.
pub const RESUME: i32 = 88;
/// The program's stack pointer while the agent's stack is in use.
pub const APP_RSP: i32 = 96;
/// Where the dispatcher continues.
pub const TARGET: i32 = 104;
/// Top of the thread's agent stack.
pub const STACK: i32 = 112;
/// 64-byte aligned xsave area.
pub const XSAVE: i32 = 120;
/// Link id for the dispatcher, or -1 for an indirect branch.
pub const LINK: i32 = 128;
/// The agent's own record of the thread.
pub const THREAD: i32 = 136;
/// Not 0 when a signal waits until the agent's code is left.
pub const PENDING: i32 = 144;
/// The signal mask to restore then.
pub const SIGMASK: i32 = 152;
/// Registers saved while that happens: rax, rcx, rdx, rsi, rdi, r10, r11.
pub const DEFER: [i32; 7] = [160, 168, 176, 184, 192, 200, 208];
/// Start routine of the thread that this thread is creating.
pub const START_ROUTINE: i32 = 216;
/// Not 0 once the thread runs outside the cache for good.
pub const DETACHED: i32 = 224;
/// Top of the stack on which signals are looked at.
pub const SIGNAL_STACK: i32 = 232;
/// Cache address of [`crate::cache::Trampolines::deliver`].
pub const DELIVER: i32 = 240;
/// Number of the system call that is being made, plus one, if it moves the program's data; else 0.
pub const MOVES_DATA: i32 = 248;

/// The register borrowed for checks that need two.
pub const SECOND_SPILL: i32 = 256;
/// Descriptor of the accesses behind a failed check; see [`crate::descriptor`].
pub const DESCRIPTOR: i32 = 264;
/// Code site of a repeated string instruction or a system call.
pub const SITE: i32 = 272;
/// Base of the bytes-written shadow divided by 8 (far shadow only).
pub const WRITTEN_BASE8: i32 = 280;
/// Base of the last writers' code sites divided by 4.
pub const SITES_BASE4: i32 = 288;

/// Indices of a gather or scatter, or general registers, for the slow path; see [`crate::elements`]. 64
/// bytes, aligned.
pub const INDICES: i32 = 640;
/// What selects elements, or a tile configuration, or words of an area's header. 64 bytes, aligned.
pub const SELECTED: i32 = 704;
/// Cache address with which the thread last came from the dispatcher; 0 = it is not in the cache.
pub const ENTERED: i32 = 304;
/// While it returns from a signal: the cache address that it will go to, or 0; the frame that holds it,
/// and what the frame held before.
pub const RETURNS: i32 = 312;
pub const RETURN_FRAME: i32 = 320;
pub const RETURN_PC: i32 = 328;

/// Loads executed.
pub const LOADS: i32 = 1024;
/// Stores executed.
pub const STORES: i32 = 1032;
/// Instructions executed.
pub const INSTRUCTIONS: i32 = 1040;
/// First of [`PACKED_WORDS`] words with what has been counted since, packed (low half), and what has been
/// taken back (high half); see [`types::packed`]. Blocks use different ones, so that no addition waits
/// for that of the block before.
pub const PACKED: i32 = 896;
/// Number of packed words.
pub const PACKED_WORDS: usize = 8;
/// Offset of the packed half word that has carried.
pub const CARRIED: i32 = 296;

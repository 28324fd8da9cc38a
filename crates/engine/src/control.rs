//! Offsets of a thread's control block, the first bytes of its page in the session, which
//! translated code and the agent's stubs address through %gs.
//!
//! `%gs` is free for this: glibc and the compilers never use it on x86-64 Linux. What programs do
//! with it that use it all the same is rewritten (`segment.rs`).

use types::tally;

/// The page lies just below where %gs points; from there on upwards lie the thread's
/// [grants](crate::grants).
pub const PAGE: i32 = -4096;

/// Bytes of it that are the control block; counters of the session follow.
pub const BYTES: i32 = 1024;

/// Defines places in the control block, each with its bytes, and refuses those that overlap, are
/// not aligned (at 8 bytes, or at 64 if they have 64 or more), or lie beyond its end.
macro_rules! places {
    ($($(#[$doc:meta])* $visibility:vis $name:ident: $offset:literal, $bytes:literal;)*) => {
        $($(#[$doc])* $visibility const $name: i32 = PAGE + $offset;)*

        const _: () = {
            let places: &[(i32, i32)] = &[$(($offset, $bytes)),*];
            let mut i = 0;
            while i < places.len() {
                let (start, bytes) = places[i];
                assert!(start >= 0 && bytes > 0 && start + bytes <= BYTES, "outside the block");
                assert!(start % 8 == 0 && (bytes < 64 || start % 64 == 0), "not aligned");
                let mut k = 0;
                while k < i {
                    let (other, others_bytes) = places[k];
                    assert!(start >= other + others_bytes || other >= start + bytes, "overlap");
                    k += 1;
                }
                i += 1;
            }
        };
    };
}

places! {
    /// Linear address of the page.
    pub SELF: 0, 8;
    /// %rcx during an indirect branch. Not %rax: results of functions would wait for it.
    pub SAVED_RCX: 32, 8;
    /// %r11 during an indirect branch.
    pub SAVED_R11: 16, 8;
    /// %rax in exit stubs.
    pub SAVED_RAX: 40, 8;
    /// Counts indirect branches down to the next sample: see [`crate::connect::sites`].
    pub COUNTDOWN: 24, 8;
    /// The register borrowed for checks.
    pub SPILL: 48, 8;
    /// %rax while flags are saved or restored.
    pub FLAGS_RAX: 56, 8;
    /// Saved flags: AH as `lahf`, AL as `seto`.
    pub FLAGS: 64, 8;
    /// The register borrowed to reach a far RIP-relative operand.
    pub FAR_SPILL: 72, 8;
    /// Address (or descriptor) handed to a slow path.
    pub ADDRESS: 80, 8;
    /// Cache address where a slow path resumes.
    pub RESUME: 88, 8;
    /// The program's stack pointer while the agent's stack is in use.
    pub APP_RSP: 96, 8;
    /// Where the dispatcher continues.
    pub TARGET: 104, 8;
    /// Top of the thread's agent stack.
    pub STACK: 112, 8;
    /// 64-byte aligned xsave area.
    pub XSAVE: 120, 8;
    /// Link id for the dispatcher, or -1 for an indirect branch.
    pub LINK: 128, 8;
    /// The agent's own record of the thread.
    pub THREAD: 136, 8;
    /// Not 0 when a signal waits until the agent's code is left.
    pub PENDING: 144, 8;
    /// The signal mask to restore then.
    pub SIGMASK: 152, 8;
    /// Registers saved while that happens: rax, rcx, rdx, rsi, rdi, r10, r11.
    DEFER_FIRST: 160, 56;
    /// Start routine of the thread that this thread is creating.
    pub START_ROUTINE: 216, 8;
    /// Not 0 once the thread runs outside the cache for good.
    pub DETACHED: 224, 8;
    /// Top of the stack on which signals are looked at.
    pub SIGNAL_STACK: 232, 8;
    /// Cache address of [`crate::cache::regions::Trampolines::deliver`].
    pub DELIVER: 240, 8;
    /// Number of the system call that is being made, plus one, if it moves the program's data;
    /// else 0.
    pub MOVES_DATA: 248, 8;
    /// The register borrowed for checks that need two.
    pub SECOND_SPILL: 256, 8;
    /// Descriptor of the accesses behind a failed check; see [`crate::descriptor`].
    pub DESCRIPTOR: 264, 8;
    /// Code site of a repeated string instruction or a system call.
    pub SITE: 272, 8;
    /// Base of the bytes-written shadow divided by 8 .
    pub WRITTEN_BASE8: 280, 8;
    /// Base of the last writers' code sites divided by 4.
    pub SITES_BASE4: 288, 8;
    /// What leads from the index of a line's bytes, with their base, to that of its site:
    /// [`SITES_BASE4`] less [`WRITTEN_BASE8`].
    pub SITES_FROM_WRITTEN: 296, 8;
    /// Indices of a gather or scatter, or general registers, for the slow path; see
    /// [`crate::decode::elements`]. 64 bytes, aligned.
    pub INDICES: 640, 64;
    /// What selects elements, or a tile configuration, or words of an area's header. 64 bytes,
    /// aligned.
    pub SELECTED: 704, 64;
    /// Cache address with which the thread last came from the dispatcher; 0 = it is not in the
    /// cache.
    pub ENTERED: 304, 8;
    /// While it returns from a signal: the cache address that it will go to; else 0.
    pub RETURNS: 312, 8;
    /// The signal frame that holds this address.
    pub RETURN_FRAME: 320, 8;
    /// What the frame held before.
    pub RETURN_PC: 328, 8;
    /// By how many bytes the frame of the signal that is being delivered has been moved down.
    pub FRAME_MOVED: 336, 8;
    /// The trap flag while a program that steps by itself makes a system call from the cache,
    /// else 0.
    pub TRAP_FLAG: 344, 8;
    /// The address of this call.
    pub STEPPED_CALL: 352, 8;
    /// Address of 32 bits that change with each system call; the lowest byte is 1 while the thread
    /// is in one, else 0.
    pub CALLS: 360, 8;
    /// Base of the program's own %gs; see [`crate::body::segment`].
    pub PROGRAM_GS: 368, 8;
    /// Not 0 when the program may have flags that C code does not expect: string instructions go
    /// down, or misaligned accesses fault. Set before what may set them; slow paths look then.
    pub ODD_FLAGS: 376, 8;
    /// Not 0 while a child of vfork may be using the page.
    pub LENT: 384, 8;
    /// Where the thread that runs the program's own code goes, or makes its system call: the
    /// address behind it.
    pub NATIVE_PC: 392, 8;
    /// The lowest byte is 1 while system calls that the thread makes outside of the agent bring it
    /// back, else 0.
    pub SELECTOR: 400, 8;
    /// Address of the byte that says whether threads may run the program's own code.
    pub MAY_GO: 408, 8;
    /// Constants that [`crate::body::bytes`] shifts: the set of the first 1, 2, 4, 8, 16 and 32
    /// bytes.
    FIRST_BYTES: 768, 48;
}

/// The places of [`DEFER_FIRST`], one for each register.
pub const DEFER: [i32; 7] = {
    let mut places = [DEFER_FIRST; 7];
    let mut i = 0;
    while i < places.len() {
        places[i] += 8 * i as i32;
        i += 1;
    }
    places
};

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
/// Whether the thread runs the program's own code, 32 bits.
pub const NATIVE: i32 = PAGE + 1060;
/// First of the thread's tallies, which lie below its page; see [`types::tally`].
const TALLIES: i32 = PAGE - 8 * tally::MAX as i32;

/// The tally with that number.
pub fn tally(number: u32) -> i32 {
    TALLIES + 8 * number as i32
}

/// Length of `syscall`; it stands right before the address in gs:RESUME.
pub const SYSCALL_BYTES: u64 = 2;

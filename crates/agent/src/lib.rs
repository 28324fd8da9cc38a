//! The injected exact engine.
//!
//! `LD_PRELOAD`ed into a program, it takes the initial thread over when the loader runs its
//! constructor, and from then on the program runs translated: everything after that, other
//! constructors, `main`, exit handlers, and every thread that is started.
//!
//! Rules: nothing of the program's libc (checked by the linker: `-nostdlib -z defs`); no
//! thread-local storage (a thread's state hangs on %gs); no unwinding; code reached from translated
//! code either keeps to general registers (`slow/`) or runs between xsave and xrstor (`stubs.rs`).
//! What was counted lies in memory that the recorder owns, so nothing is lost however the program
//! ends.
//!
//! Path of control: [`start`] → [`stubs`] → [`dispatch`] and [`syscalls`]; state: [`session`],
//! [`thread`], [`shadow`], [`counting`], [`modules`].
#![cfg_attr(not(test), no_std)]
extern crate alloc;

/// Variables that the slow paths define.
macro_rules! variables {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        unsafe extern "C" {
            $($(#[$doc])* pub static mut $name: $type;)*
        }
    };
}

mod blocks;
mod code_store;
mod counting;
mod dispatch;
mod doors;
mod elf;
mod environment;
mod far;
mod files;
mod filter;
mod frames;
mod grants;
mod heap;
mod layouts;
mod limits;
mod lock;
mod lone;
mod modules;
mod native;
mod numbers;
mod outcome;
mod own;
mod pages;
mod paths;
mod plain_calls;
mod presence;
mod proc;
mod program;
mod session;
mod shadow;
mod shared;
mod signals;
mod solo;
mod stacks;
mod start;
mod stubs;
mod sys;
mod syscalls;
mod tallies;
mod thread;
mod tracked;
mod windows;

#[cfg_attr(not(test), global_allocator)]
static HEAP: heap::Heap = heap::Heap::new();

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::complain(b"threadtalk: internal error in the injected engine; please report it\n");
    loop {
        // SAFETY: ends the process; its state is not to be trusted any more.
        unsafe { sys::call(sys::EXIT_GROUP, [125, 0, 0, 0, 0, 0]) };
    }
}

// Referred to by precompiled `core`, never reached, as panics abort. Hidden: exported, they would
// take the place of the program's own and break its exceptions.
#[cfg(not(test))]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    "_Unwind_Resume:",
    "ud2",
);

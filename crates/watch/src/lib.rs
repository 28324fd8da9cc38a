//! The watching library: preloaded into a program, it samples each thread's accesses, publishes
//! stores on a bulletin board, and lets the processor's debug registers tell when another thread
//! comes to a published line (Algorithm 1 of ComDetective; Sasongko et al., SC 2019).
//!
//! The processor's debug registers belong to a thread, and what is watched is worth watching for a
//! sample's time only; so watching must be armed by the watched thread itself. The kernel sends
//! each sample and each watched access as a synchronous SIGTRAP to the thread that it is about
//! (Linux 5.13).
//!
//! | file | holds |
//! | --- | --- |
//! | `attach.rs` | how watching begins in a process, and in a child |
//! | `session.rs` | the memory that the recorder owns, stepping back |
//! | `events.rs` | the kernel's events: samples and watched bytes |
//! | `descriptors.rs` | the descriptors of events, out of the program's way |
//! | `thread.rs` | what each thread has; its begin and end |
//! | `handler.rs` | SIGTRAP: what is ours, and what is not |
//! | `bench.rs` | where handlers work: a stack and a decoder |
//! | `code.rs` | the program's code, and which of it never changes |
//! | `detect.rs` | Algorithm 1: samples and traps |
//! | `board.rs` | the bulletin board |
//! | `price.rs` | what switches of threads cost, and how much is armed therefore |
//! | `queue.rs` | reports to the recorder |
//! | `hooks/` | the program's calls that concern us: threads, signals, other programs |
//!
//! Rules for all of this, which runs inside programs that are not known here:
//! * Handlers may interrupt the program anywhere, in its allocator above all: no heap but our
//!   own, no locks that are waited for, only system calls and functions that are safe there;
//!   `errno` stays.
//! * Nothing here may panic or unwind; frames below the program's start routine hold nothing that
//!   needs dropping, because `pthread_exit` unwinds through them.
//! * Memory of the program is read by the kernel for us, never directly: it may be gone, or
//!   watched.
//! * Whatever goes wrong, the program runs on unwatched, and the shared memory says so.
//!
//! Neighbours: `wire::watch` is the shared layout, `recorder` the other side, `access` finds the
//! accesses.

// Tests have no hooks: the program's calls are the harness's own.
#![cfg_attr(test, allow(dead_code))]

mod attach;
mod bench;
mod board;
mod code;
mod descriptors;
mod detect;
mod events;
mod handler;
mod hooks;
mod price;
mod queue;
mod session;
mod thread;

/// For decoders, which handlers use.
#[cfg_attr(not(test), global_allocator)]
static HEAP: injected::heap::Heap<{ 16 << 20 }> = injected::heap::Heap::new();

/// Runs before the program's own constructors, where the loader's order allows.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        attach::attach();
    }
    at_start
};

/// When the program exits: nothing is to be watched while exit handlers take things down.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        thread::end();
    }
    at_exit
};

//! The library that puts data where a plan says: preloaded into a program that `run` starts, it
//! places blocks of the heap and mappings as they are made, and static data as it is loaded.
//!
//! A block is known by the chain of calls that allocates it, the binary digits of its size, and how
//! many such blocks came before. Most allocations are told apart by size and immediate caller
//! alone. What a chain of calls is in the plan's words, the launcher says, once for each.
//!
//! | file | holds |
//! | --- | --- |
//! | `attach.rs` | how a plan begins in a process, and ends in a child |
//! | `session.rs` | the memory that the launcher owns |
//! | `ask.rs` | questions to the launcher |
//! | `sites.rs` | callers and chains of calls, and what the plan says of them |
//! | `ways.rs` | the ways by which a thread has allocated last |
//! | `large.rs` | blocks of 64 KiB and more, which get memory of our own |
//! | `runs.rs` | that memory: address space, stretches of it and their policies |
//! | `records.rs` | what is known of each such block |
//! | `small.rs` | smaller blocks, whose pages are moved |
//! | `mappings.rs` | anonymous memory that the program maps for itself |
//! | `fixed.rs` | static data |
//! | `reading.rs` | where pages are |
//! | `mutex.rs` | a lock |
//! | `hooks/` | the program's calls that concern us: allocation, loading, other programs, endings |
//!
//! Rules for all of this, which runs inside programs that are not known here, in their allocator:
//! * Nothing is allocated but from a heap of our own. Locks are held for short, and for no call
//!   of the program's.
//! * Whatever is called here may be called again by a signal's handler, or by the dynamic loader
//!   while it works for us: `allocations::busy` notices, and such blocks are not placed.
//! * Nothing here may panic. `errno` stays as the program's own call leaves it.
//! * Whatever goes wrong, the program gets its memory from its own allocator, and the shared memory
//!   says so.
//!
//! Neighbours: `wire::data` is the shared layout, `recorder::data` the other side, `shim` places
//! threads and their stacks, `allocations` and `injected` hold what such libraries have in common.

// Tests have no hooks: the program's calls are the harness's own.
#![cfg_attr(test, allow(dead_code, non_snake_case))]

mod ask;
mod attach;
mod fixed;
mod hooks;
mod large;
mod mappings;
mod mutex;
mod reading;
mod records;
mod runs;
mod session;
mod sites;
mod small;
mod ways;

/// For unwinding.
#[cfg_attr(not(test), global_allocator)]
static HEAP: injected::heap::Heap<{ 1 << 20 }> = injected::heap::Heap::new();

/// Runs before the program's own constructors, where the loader's order allows.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        attach::attach();
    }
    at_start
};

/// When the program exits: looks where its data is.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        reading::finish();
    }
    at_exit
};

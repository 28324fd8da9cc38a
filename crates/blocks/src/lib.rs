//! The library that follows allocations: preloaded into a program that is sampled, it tells the
//! recorder which blocks of the heap there are and which place in the program allocated each.
//!
//! Each allocation function goes on to the next one of its name, be it the C library's or that of
//! jemalloc, tcmalloc or mimalloc. Where there are more allocations than following may cost, only
//! some are followed, drawn at random, and large ones always.
//!
//! | file | holds |
//! | --- | --- |
//! | `session.rs` | the memory that the recorder owns: attaching, children |
//! | `hooks/` | the program's calls that concern us: allocation, other programs |
//! | `follow.rs` | begins and ends of blocks |
//! | `pace.rs` | what each thread has, and which of its allocations are followed |
//! | `live.rs` | the addresses of the blocks that are followed |
//! | `groups.rs` | places that allocate, by their chains of calls |
//! | `queue.rs` | records for the recorder |
//! | `sanitized.rs` | programs that must not get the library |
//!
//! Rules for all of this, which runs inside programs that are not known here, in their allocator:
//! * Nothing is allocated but from a heap of our own, and nothing but the program's own call may
//!   block.
//! * Whatever is called here may be called again by a signal's handler, or by the dynamic loader
//!   while it works for us: `allocations::busy` notices, and such allocations are not followed.
//! * Nothing here may panic. `errno` stays as the program's own call leaves it.
//! * Whatever goes wrong, the program runs on, and its blocks have no names.
//!
//! Neighbours: `wire::blocks` is the shared layout, `recorder` the other side, `allocations` and
//! `injected` what such libraries have in common.

// Tests have no hooks: the program's calls are the harness's own.
#![cfg_attr(test, allow(dead_code, non_snake_case))]

mod follow;
mod groups;
mod hooks;
mod live;
mod pace;
mod queue;
mod sanitized;
mod session;

/// For unwinding.
#[cfg_attr(not(test), global_allocator)]
static HEAP: injected::heap::Heap<{ 1 << 20 }> = injected::heap::Heap::new();

/// Runs before the program's own constructors, where the loader's order allows.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        session::attach();
    }
    at_start
};

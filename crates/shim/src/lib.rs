//! The launch shim: preloaded into a program, it binds each thread where the plan says as the
//! thread appears, and leaves everything else as it was.
//!
//! | file | holds |
//! | --- | --- |
//! | `sys.rs` | masks |
//! | `plan.rs` | the plan in shared memory: attaching to it, its slots |
//! | `maps.rs` | address of a start routine → file and offset |
//! | `matching.rs` | which slot a new thread gets |
//! | `bind.rs` | binding, reading back |
//! | `stack.rs` | nodes of threads' stacks |
//! | `threads.rs` | `pthread_create`, `thrd_create` |
//! | `affinity.rs`, `raw_syscall.rs` | the program's own affinity calls |
//! | `names.rs`, `exec.rs` | `pthread_setname_np`, `prctl`; `execve` and its kin |
//!
//! Rules for all of this, which runs inside programs that are not known here:
//! * No heap, no locks that the program can see, no formatted output: the program may have its own
//!   allocator, and may be creating a thread from within it.
//! * Nothing here may panic or unwind; frames below the program's start routine hold nothing that
//!   needs dropping, because `pthread_exit` unwinds through them.
//! * A hook forwards to the next definition (`RTLD_NEXT`) with the program's own arguments.
//! * Whatever goes wrong, the program runs on unbound, and the shared memory says so.
//!
//! Neighbours: `wire::launch` is the shared layout, `recorder::launch` the other side.

// Tests have no hooks: the program's calls are the harness's own.
#![cfg_attr(test, allow(dead_code))]

mod affinity;
mod bind;
mod exec;
mod maps;
mod matching;
mod names;
mod plan;
mod raw_syscall;
mod stack;
mod sys;
mod threads;

/// Runs before the program's own constructors, where the loader's order allows; every hook attaches
/// by itself when it is called earlier.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        plan::attach();
    }
    at_start
};

/// Reads the bindings back once more when the program exits.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        bind::read_back_all();
    }
    at_exit
};

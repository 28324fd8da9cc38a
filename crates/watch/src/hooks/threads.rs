//! `pthread_create` and `thrd_create`: each new thread begins to watch.

use crate::{session, thread};
use injected::starts::Pool;
use injected::threads::{Start, Threads};
use libc::pthread_attr_t;

/// What a new thread is told.
#[derive(Clone, Copy)]
struct Told {
    /// Its creator thinks that it blocks SIGTRAP; so will the new thread.
    blocks: bool,
}

static STARTS: Pool<Start<Told>> = Pool::new();

struct Watching;

impl Threads for Watching {
    type Told = Told;

    fn pool() -> &'static Pool<Start<Told>> {
        &STARTS
    }

    unsafe fn creating(_: usize, _: *const pthread_attr_t) -> Option<Told> {
        session::get()?;
        Some(Told { blocks: thread::with(|thread| thread.blocks.get()) })
    }

    fn created(_: Told, _: bool) {}

    fn arrive(start: &Start<Told>) {
        thread::with(|thread| thread.blocks.set(start.told.blocks));
        thread::begin();
    }
}

injected::thread_hooks!(Watching);

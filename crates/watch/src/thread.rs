//! What each thread has: its events, what it watches, and when it was sampled last.
//!
//! Only the thread itself touches it, in its handler or with nothing of ours armed.

use crate::descriptors::Descriptor;
use crate::{events, session};
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering::*};
use injected::raw;
use wire::watch::{REGISTERS, reason};

/// Samples after which what was published, or is watched, is old (ComDetective, 3.2: the last one).
pub const SAMPLES: usize = 3;

/// Lines that a thread remembers to have met others on.
pub const LINES_MET: usize = 16;

/// What is watched.
#[derive(Clone, Copy)]
pub struct Watched {
    pub post: crate::board::Post,
    pub pieces: [events::Piece; REGISTERS],
    pub registers: usize,
    pub mode: u32,
    /// CLOCK_MONOTONIC, ns.
    pub since_ns: u64,
}

/// State of the calling thread.
pub struct Thread {
    /// 0: not watched.
    pub tid: Cell<u32>,
    pub sample: Cell<Option<Descriptor>>,
    pub watching: [Cell<Option<Descriptor>>; REGISTERS],
    /// Debug registers that it may still try to get.
    pub available: Cell<usize>,
    /// Of those, as many as are worth what they cost.
    pub affordable: Cell<usize>,
    pub watched: Cell<Option<Watched>>,
    /// Times of the last samples, the last one first; of those that were stores.
    pub samples: Cell<[u64; SAMPLES]>,
    pub stores: Cell<[u64; SAMPLES]>,
    /// Lines on which it has met what another thread had published, and when that was published:
    /// t_prev of Algorithm 1, by line, so that a busy line does not hide what happens on others.
    pub met: [Cell<(u64, u64)>; LINES_MET],
    pub random: Cell<u64>,
    /// Times that it has lost its processor, up to the last sample.
    pub switches: Cell<u64>,
    /// Events from sample to sample; 0: what the header says.
    pub period: Cell<u64>,
    /// Where its stack ends, about.
    pub stack_top: Cell<u64>,
    /// The program thinks that SIGTRAP is blocked.
    pub blocks: Cell<bool>,
}

thread_local! {
    // Const-initialised and without a destructor, so it takes no allocation and may be used in
    // handlers.
    static THREAD: Thread = const {
        Thread {
            tid: Cell::new(0),
            sample: Cell::new(None),
            watching: [const { Cell::new(None) }; REGISTERS],
            available: Cell::new(0),
            affordable: Cell::new(REGISTERS),
            watched: Cell::new(None),
            samples: Cell::new([0; SAMPLES]),
            stores: Cell::new([0; SAMPLES]),
            met: [const { Cell::new((0, 0)) }; LINES_MET],
            random: Cell::new(0),
            switches: Cell::new(0),
            period: Cell::new(0),
            stack_top: Cell::new(0),
            blocks: Cell::new(false),
        }
    };
}

/// The calling thread.
pub fn with<R>(action: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(action)
}

/// Starts to watch the calling thread.
pub fn begin() {
    let Some(session) = session::get().filter(|_| session::is_own()) else { return };
    if session::is_confined() {
        return session::step_back(reason::SECCOMP);
    }
    with(|thread| {
        if thread.tid.get() != 0 {
            return;
        }
        let here = 0u8;
        thread.stack_top.set((&raw const here as u64 | 0xffff) + 1);
        thread.random.set((raw::tid() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        thread.available.set((session.header.registers.load(Relaxed) as usize).min(REGISTERS));
        thread.tid.set(raw::tid());
        watch_end();
        match events::sample(session.header) {
            Ok(sample) => {
                thread.sample.set(Some(sample));
                session.segment.threads.fetch_add(1, Relaxed);
            }
            Err(error) => {
                session.segment.unwatched.fetch_add(1, Relaxed);
                session.segment.unwatched_error.store(error as u32, Relaxed);
            }
        }
    });
}

/// Ends watching the calling thread.
pub fn end() {
    with(|thread| {
        // A process that has stepped back has closed all of its events.
        if thread.tid.replace(0) == 0 || session::get().is_none() || !session::is_own() {
            return;
        }
        if session::is_confined() {
            return session::step_back(reason::SECCOMP);
        }
        let watching = thread.watching.iter().map(Cell::take);
        for descriptor in core::iter::once(thread.sample.take()).chain(watching).flatten() {
            descriptor.close();
        }
        thread.watched.set(None);
    });
}

/// In a forked child: the events are those of the parent's thread.
pub fn forget() {
    with(|thread| {
        thread.tid.set(0);
        thread.sample.set(None);
        thread.watching.iter().for_each(|watching| watching.set(None));
        thread.watched.set(None);
        thread.switches.set(0);
        thread.period.set(0);
        thread.samples.set([0; SAMPLES]);
        thread.stores.set([0; SAMPLES]);
        thread.met.iter().for_each(|met| met.set((0, 0)));
    });
}

/// The key whose destructor tells us that a thread ends, + 1; 0: none yet.
static END_KEY: AtomicU32 = AtomicU32::new(0);

fn watch_end() {
    let mut key = END_KEY.load(Acquire);
    if key == 0 {
        let mut fresh: libc::pthread_key_t = 0;
        // SAFETY: a valid pointer, and a destructor with the right signature.
        if unsafe { libc::pthread_key_create(&mut fresh, Some(at_thread_end)) } != 0 {
            return;
        }
        key = match END_KEY.compare_exchange(0, fresh + 1, AcqRel, Acquire) {
            Ok(_) => fresh + 1,
            Err(theirs) => {
                // SAFETY: our own key, which no thread has used.
                unsafe { libc::pthread_key_delete(fresh) };
                theirs
            }
        };
    }
    // SAFETY: a valid key; the value is a number, not an address.
    unsafe { libc::pthread_setspecific(key - 1, core::ptr::dangling()) };
}

unsafe extern "C" fn at_thread_end(_: *mut c_void) {
    end();
}

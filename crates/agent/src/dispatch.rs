//! The dispatcher: which code comes next.

use crate::lock::{Guard, SpinLock};
use crate::modules::Modules;
use crate::session;
use crate::sys;
use crate::thread;
use core::sync::atomic::Ordering;
use engine::cache::REGION_BYTES;
use engine::control;
use engine::{Engine, Host, Resolved};
use wire::session::life;

/// Everything that translation needs, behind one lock.
pub struct Runtime {
    pub engine: Option<Engine>,
    pub modules: Modules,
}

static RUNTIME: SpinLock<Runtime> =
    SpinLock::new(Runtime { engine: None, modules: Modules::new() });

// SAFETY: the engine's pointers are to the code cache, which every thread may use under the lock.
unsafe impl Send for Runtime {}

/// Takes the lock.
pub fn runtime() -> Guard<'static, Runtime> {
    RUNTIME.lock()
}

/// Steps in which a place for a region is sought around the program's code.
const STEP: u64 = REGION_BYTES as u64;
/// How far away a region may lie: 32-bit displacements must reach the whole module from all of it.
const FAR: u64 = 0x6000_0000;

impl Host for Modules {
    fn map_region(&mut self, near: u64) -> Option<u64> {
        let protection = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        let flags =
            sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        let around = near & !(STEP - 1);
        // Below first: above a program lies its heap, which must be able to grow.
        let below = (1..FAR / STEP).filter_map(|k| around.checked_sub(k * STEP));
        let above = (1..FAR / STEP).rev().map(|k| around + k * STEP);
        for hint in below.chain(above).filter(|h| *h >= 0x1_0000) {
            // SAFETY: does not replace anything.
            match unsafe { sys::map(hint, REGION_BYTES as u64, protection, flags, -1, 0) } {
                Some(base) if base == hint => return Some(base),
                Some(base) => {
                    // A kernel before 4.17 takes the address as a hint.
                    // SAFETY: just mapped.
                    unsafe { sys::call(sys::MUNMAP, [base, REGION_BYTES as u64, 0, 0, 0, 0]) };
                }
                None => {}
            }
        }
        None
    }

    fn is_translatable(&self, pc: u64) -> bool {
        Modules::is_translatable(self, pc)
    }
}

impl Runtime {
    /// Code for `target`; marks the thread as detached if there is none.
    pub fn resolve(&mut self, link: Option<usize>, target: u64, page: u64) -> u64 {
        let Runtime { engine: Some(engine), modules } = self else { return target };
        // SAFETY: under the lock; the program is about to execute the target.
        let (target, resolved) = unsafe {
            match link {
                Some(link) => engine.follow(link, modules),
                None => (target, engine.look_up(target, modules)),
            }
        };
        publish(engine);
        match resolved {
            Resolved::Cache(address) => address,
            Resolved::Native => {
                detach(page);
                target
            }
        }
    }

    /// Forgets translations of `start..end`.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        if let Some(engine) = &mut self.engine {
            // SAFETY: under the lock.
            unsafe { engine.invalidate(start, end) };
        }
    }
}

/// The calling thread leaves the cache for good.
pub fn detach(page: u64) {
    // SAFETY: the calling thread's page.
    unsafe { thread::set_field(page, control::DETACHED, 1) };
    let header = session::header();
    header.threads_detached.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    let id = unsafe { thread::current(page) }.id as usize;
    // SAFETY: as above.
    unsafe { &*session::page(id) }.life.store(life::DETACHED, Ordering::Relaxed);
}

fn publish(engine: &Engine) {
    let header = session::header();
    let s = &engine.statistics;
    for (field, value) in [
        (&header.blocks, s.blocks),
        (&header.instructions_translated, s.instructions),
        (&header.checks_emitted, s.checks),
        (&header.accesses_seen, s.accesses),
        (&header.loops_versioned, s.loops),
        (&header.sites_unseen, s.unseen),
        (&header.dispatches, s.dispatches),
        (&header.cache_bytes, engine.cache_bytes()),
    ] {
        field.store(value, Ordering::Relaxed);
    }
}

/// Called by the stubs: `link` is a link id, or -1 for an indirect branch to `target`. Returns where
/// to continue.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_dispatch(link: i64, target: u64, page: u64) -> u64 {
    let link = usize::try_from(link).ok();
    runtime().resolve(link, target, page)
}

//! The dispatcher: which code comes next.

use crate::blocks::mapped::OwnMappings;
use crate::code_store;
use crate::counting;
use crate::doors;
use crate::far;
use crate::files::Files;
use crate::lock::{Guard, Lock};
use crate::modules::{Found, Modules};
use crate::native;
use crate::presence;
use crate::session;
use crate::shared::mappings::Mappings;
use crate::solo;
use crate::sys;
use crate::tallies;
use crate::thread;
use crate::windows;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::Kind;
use engine::control;
use engine::decode::patched;
use engine::recovery::Registers;
use engine::sites;
use engine::{Engine, Host, Resolved};
use types::tally::Meaning;
use wire::session::life;

/// Everything that translation needs, behind one lock.
/// All threads run the same code: what is theirs alone, it reaches by %gs. With light code between
/// windows there are two engines, and each thread goes to the one that is wanted whenever it asks
/// for code.
pub struct Runtime {
    pub engine: Option<Engine>,
    /// For code without checks, between windows.
    pub light: Option<Engine>,
    pub modules: Modules,
    /// Segments of System V shared memory: start and bytes.
    pub segments: Vec<(u64, u64)>,
    /// Memory that is shared.
    pub shared: Mappings,
    /// Files that are mapped.
    pub files: Files,
    /// Anonymous memory that the program has mapped for itself.
    pub own_mappings: OwnMappings,
}

static RUNTIME: Lock<Runtime> = Lock::new(Runtime {
    engine: None,
    light: None,
    modules: Modules::new(),
    segments: Vec::new(),
    shared: Mappings::new(),
    files: Files::new(),
    own_mappings: OwnMappings::new(),
});

// SAFETY: the engine's pointers are to the code cache, which every thread may use under the lock.
unsafe impl Send for Runtime {}

/// What asks for code.
#[derive(Clone, Copy)]
pub enum Origin {
    /// A direct exit, the number of its link.
    Link(usize),
    /// An indirect branch that may come to know its target, the number of its site.
    Site(usize),
    Elsewhere,
}

/// Takes the lock.
pub fn runtime() -> Guard<'static, Runtime> {
    RUNTIME.lock()
}

impl Host for Modules {
    fn map_region(&mut self, near: u64, bytes: u64) -> Option<u64> {
        let protection = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        let base = sys::map_near(near, bytes, protection)?;
        sys::keep_out_of_dumps(base, bytes);
        // What runs and what seldom does, each filled from its beginning.
        let hot = engine::cache::hot_bytes(bytes);
        sys::prefer_large_pages(base, hot);
        sys::prefer_large_pages(base + hot, bytes - hot);
        Some(base)
    }

    fn discard(&mut self, start: u64, bytes: u64) {
        const MADV_DONTNEED: u64 = 4;
        // SAFETY: the engine's own memory, in which no thread is. If the kernel may not be asked,
        // the memory is used again as it is.
        unsafe { sys::call(sys::MADVISE, [start, bytes, MADV_DONTNEED, 0, 0, 0]) };
    }

    fn entered(&mut self) -> Vec<u64> {
        presence::entered()
    }

    fn flushed(&mut self) {
        session::header().flushes.fetch_add(1, Ordering::Relaxed);
        counting::remember_sites();
    }

    fn is_translatable(&self, pc: u64) -> bool {
        Modules::is_translatable(self, pc)
    }

    fn code_around(&self, pc: u64) -> (u64, u64) {
        Modules::code_around(self, pc)
    }

    fn has_breakpoints(&self) -> bool {
        crate::proc::is_traced()
    }

    fn hook(&self, pc: u64) -> u32 {
        self.hooks.at(pc)
    }

    fn hook_within(&self, start: u64, end: u64) -> Option<u64> {
        self.hooks.first_function(start, end)
    }

    fn site(&self, pc: u64) -> u32 {
        counting::site(pc)
    }

    fn tally(&self, meaning: Meaning) -> Option<u32> {
        tallies::number(meaning)
    }

    fn stored(&mut self, pc: u64, kind: Kind, block: &mut Vec<u8>) -> bool {
        let place = self.in_file(pc);
        place.and_then(|(file, offset)| code_store::find(file, kind, offset, block)).is_some()
    }

    fn store(&mut self, pc: u64, kind: Kind, block: &[u8]) {
        // Without numbers for its sites a block is not what others need.
        let place = self.in_file(pc).filter(|_| counting::has_sites());
        if let Some((file, offset)) = place {
            code_store::keep(file, kind, offset, block);
        }
    }

    fn changing_until(&mut self, pc: u64) -> Option<u64> {
        Modules::changing_until(self, pc)
    }
}

impl Runtime {
    /// The engine and the modules it reads.
    pub fn parts(&mut self) -> Option<(&mut Engine, &mut Modules)> {
        Some((self.engine.as_mut()?, &mut self.modules))
    }

    /// Code for `target` (or behind a link); `None` if it must run natively.
    pub fn code(&mut self, from: Origin, target: u64) -> (u64, Option<u64>) {
        let is_light = windows::is_light();
        let Runtime { engine, light, modules, .. } = self;
        let (wanted, other) = if is_light { (light, engine) } else { (engine, light) };
        let Some(engine) = wanted else { return (target, None) };
        let left = match (from, &mut *other) {
            (Origin::Link(link), Some(other)) => other.leave(link, modules),
            _ => None,
        };
        // SAFETY: under the lock; the program is about to execute the target.
        let (target, resolved) = unsafe {
            match (from, left) {
                (_, Some(target)) => (target, engine.enter(target, modules)),
                (Origin::Link(link), None) => engine.follow(link, modules),
                (Origin::Site(site), None) => (target, engine.learn(site, target, modules)),
                (Origin::Elsewhere, None) => (target, engine.look_up(target, modules)),
            }
        };
        for code in engine.returning() {
            if let Some(other) = &mut *other {
                // SAFETY: under the lock.
                unsafe { other.add_returning(code) };
            }
        }
        self.publish();
        match resolved {
            Resolved::Cache(address) => (target, Some(address)),
            Resolved::Native => (target, None),
        }
    }

    /// As [`Self::code`] for the calling thread, which is detached if there is code that cannot be
    /// translated. If there is none at all, the thread goes there natively, faults, and its handler
    /// is translated again.
    pub fn resolve(&mut self, from: Origin, target: u64, page: u64) -> u64 {
        presence::leave(page);
        let found = self.code(from, target);
        self.go(found, page, control::ENTERED)
    }

    /// Where the thread goes on if it may run the program's own code.
    fn send_native(&mut self, from: Origin, target: u64, page: u64) -> Option<u64> {
        if !native::is_wanted() {
            return None;
        }
        let Runtime { engine, light, modules, .. } = self;
        let target = match from {
            Origin::Link(link) => {
                let mut engines = engine.iter_mut().chain(light);
                engines.find_map(|engine| engine.leave(link, modules))?
            }
            _ => target,
        };
        // SAFETY: under the lock.
        if unsafe { patched::is_inside(target) } {
            return None;
        }
        let way = native::way_to(target, page)?;
        presence::leave(page);
        Some(way)
    }

    /// The same for a thread in the dispatcher's stub, which can do what no translation can.
    fn resolve_from_stub(&mut self, from: Origin, target: u64, page: u64) -> u64 {
        presence::leave(page);
        let mut found = self.code(from, target);
        while let (at, None) = found
            && let Some(next) = far::carry_out_in_stub(self, at, page)
        {
            found = self.code(Origin::Elsewhere, next);
        }
        self.go(found, page, control::ENTERED)
    }

    /// As [`Self::resolve`] for a thread that is about to return from a signal by the system call
    /// that it is at, with the registers that this will set.
    pub fn resolve_return(&mut self, registers: &mut Registers, page: u64) -> u64 {
        let mut found = self.code(Origin::Elsewhere, registers.pc);
        while found.1.is_none()
            && let Some(next) = far::carry_out_in_frame(self, registers)
        {
            found = self.code(Origin::Elsewhere, next);
        }
        self.go(found, page, control::RETURNS)
    }

    /// Notes in field `way` of the thread's page where it goes, which [`Self::code`] has found.
    fn go(&mut self, found: (u64, Option<u64>), page: u64, way: i32) -> u64 {
        if windows::is_light() {
            windows::stop_waiting(page);
        }
        match found {
            (_, Some(address)) => {
                // SAFETY: the calling thread's page.
                unsafe { thread::set_field(page, way, address) };
                address
            }
            (target, None) => {
                if self.modules.look(target) != Found::Nothing {
                    detach(page);
                }
                target
            }
        }
    }

    fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.engine.iter().chain(&self.light)
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.engine.iter_mut().chain(&mut self.light)
    }

    /// Whether the address lies in a code cache.
    pub fn contains(&self, address: u64) -> bool {
        self.engines().any(|e| e.contains(address))
    }

    /// Whether a thread stopped there is on its way to what it does next, by way of gs:DELIVER.
    pub fn is_delivering(&self, address: u64) -> bool {
        self.engines().any(|e| e.is_delivering(address))
    }

    /// Turns the registers of a thread stopped in a code cache into the program's own. One that is
    /// delivering a signal is in one engine's code, and maybe on its way to the other's.
    pub fn recover(&self, registers: &mut Registers, slot: &dyn Fn(i32) -> u64) {
        for engine in [&self.engine, &self.light, &self.engine].into_iter().flatten() {
            if engine.contains(registers.pc) {
                engine.recover(registers, slot);
            }
        }
    }

    /// Makes room for translations near all code that there is, while memory can be had.
    pub fn map_regions(&mut self) {
        for start in self.modules.starts() {
            let Runtime { engine, light, modules, .. } = self;
            for engine in engine.iter_mut().chain(light) {
                engine.prepare(start, modules);
            }
        }
    }

    /// Lets `pc`, to which a call returns that allocates, say when it is reached.
    pub fn hook_return(&mut self, pc: u64) {
        if self.modules.hooks.add_return(pc) {
            // SAFETY: under the lock.
            self.engines_mut().for_each(|engine| unsafe { engine.tell(pc) });
        }
    }

    /// Forgets translations of `start..end` and of what was translated looking at it. To be called
    /// before the modules forget what lies there.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        let (start, end) = self.modules.with_neighbours(start, end);
        // SAFETY: under the lock.
        self.engines_mut().for_each(|engine| unsafe { engine.invalidate(start, end) });
    }

    fn publish(&self) {
        let header = session::header();
        let sum = |value: &dyn Fn(&Engine) -> u64| self.engines().map(value).sum();
        let set = |field: &AtomicU64, value: u64| field.store(value, Ordering::Relaxed);
        set(&header.blocks, sum(&|e| e.statistics.blocks));
        set(&header.instructions_translated, sum(&|e| e.statistics.instructions));
        set(&header.checks_emitted, sum(&|e| e.statistics.checks));
        set(&header.accesses_seen, sum(&|e| e.statistics.accesses));
        set(&header.loops_versioned, sum(&|e| e.statistics.loops));
        set(&header.sites_unseen, sum(&|e| e.statistics.unseen));
        set(&header.dispatches, sum(&|e| e.statistics.dispatches));
        set(&header.blocks_stored, sum(&|e| e.statistics.stored));
        set(&header.cache_bytes, sum(&Engine::cache_bytes));
    }
}

/// The calling thread leaves the cache for good.
pub fn detach(page: u64) {
    // SAFETY: the calling thread's page.
    unsafe { thread::set_field(page, control::DETACHED, 1) };
    let header = session::header();
    header.threads_detached.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    let id = unsafe { thread::current(page) }.state.id as usize;
    // SAFETY: as above.
    unsafe { &*session::page(id) }.life.store(life::DETACHED, Ordering::Relaxed);
}

/// Ticks that a thread translates for at most, half a millisecond to one. What takes longer is that
/// it, or the one that held the lock, did not run: of four threads on two processors, a matrix
/// product seemed to translate for 8 % of its time.
const MOST_TRANSLATING: u64 = 1 << 21;

/// Called by the stubs: `link` is a link id, -1 for an indirect branch to `target`, or less for one
/// whose site has a sample. Returns where to continue.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_dispatch(link: i64, mut target: u64, page: u64) -> u64 {
    let mut from = match link {
        0.. => Origin::Link(link as usize),
        -1 => Origin::Elsewhere,
        site => {
            // SAFETY: the calling thread's page.
            unsafe { thread::set_field(page, control::COUNTDOWN, sites::EVERY) };
            Origin::Site(!site as usize)
        }
    };
    if link < 0 {
        // SAFETY: the calling thread's page.
        let stack = unsafe { thread::field(page, control::APP_RSP) };
        let (passed, stack) = doors::passed(target, stack);
        if passed != target {
            (from, target) = (Origin::Elsewhere, passed);
            // SAFETY: as above.
            unsafe { thread::set_field(page, control::APP_RSP, stack) };
        }
    }
    native::come_to_dispatcher(page);
    solo::wait();
    let began = windows::clock();
    let address = {
        let mut runtime = runtime();
        runtime
            .send_native(from, target, page)
            .unwrap_or_else(|| runtime.resolve_from_stub(from, target, page))
    };
    // SAFETY: the calling thread's page.
    let shared = unsafe { thread::current(page) }.shared();
    let took = windows::clock().saturating_sub(began).min(MOST_TRANSLATING);
    let all = shared.translating.load(Ordering::Relaxed) + took;
    shared.translating.store(all, Ordering::Relaxed);
    address
}

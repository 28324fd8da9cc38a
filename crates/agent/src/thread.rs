//! Threads: logical ids, reader slots, stacks, and how a new one enters the code cache.

use crate::counting;
use crate::grants;
use crate::layouts::{
    Awaited, CHAIN_BITS, CHOICE_BITS, Call, CellPlace, Chain, Choice, Chosen, EVENTS_BYTES,
    FIRST_EVENT_BITS, IDS, LATELY_BITS, MAX_AWAITED, MAX_CALLS, MAX_CHOSEN, MAX_RETURN_CHUNKS,
    SLOTS, ThreadState, WRITER_SHIFT, tt_bank_of, tt_slot_of, tt_slot_owner,
};
use crate::lock::{self, Guard, Lock};
use crate::own::{ForNative, place_of};
pub use crate::own::{Thread, current, field, own_page, set_field};
use crate::session;
use crate::shadow;
use crate::sys;
use crate::tallies;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use engine::control;
use types::streams;
use wire::detail::{EVENTS, kind};
use wire::session::{MAX_THREADS, ThreadPage, life, mode};
use wire::windows::native::HOME;

/// The agent's stack of a thread, for the dispatcher and slow paths.
const STACK_BYTES: u64 = 224 << 10;
/// A second one for signal handling.
const SIGNAL_STACK_BYTES: u64 = 64 << 10;
/// Room for xsave: legacy, header, AVX, AVX-512 in the standard format end at 2696.
pub const XSAVE_BYTES: u64 = 4096;
/// A third one, on which signals come in native time if the program has none for them.
const NATIVE_STACK_BYTES: u64 = 32 << 10;
/// All that a thread needs on its own.
const STACKS_BYTES: u64 = XSAVE_BYTES + SIGNAL_STACK_BYTES + STACK_BYTES + NATIVE_STACK_BYTES;
/// Index of cells: a place for each other thread, of this process and of others, and kind of event.
const CELLS_BYTES: u64 = (5 * IDS * kind::COUNT * size_of::<CellPlace>()) as u64;

/// The chains of calls by which it has allocated.
const CHAINS_BYTES: u64 = (size_of::<Chain>() as u64) << CHAIN_BITS;
/// All tables of a thread: those of cells, of events, and of chains.
const TABLES_BYTES: u64 = CELLS_BYTES + EVENTS_BYTES + CHAINS_BYTES;

/// The page as the engine addresses it is the one that the recorder reads.
const _: () = {
    const fn is_at(place: i32, offset: usize) -> bool {
        place - control::PAGE == offset as i32
    }
    assert!(is_at(control::PAGE + control::BYTES, core::mem::offset_of!(ThreadPage, loads)));
    assert!(is_at(control::APP_RSP, 8 * wire::windows::STACK_POINTER));
    assert!(is_at(control::LOADS, core::mem::offset_of!(ThreadPage, loads)));
    assert!(is_at(control::STORES, core::mem::offset_of!(ThreadPage, stores)));
    assert!(is_at(control::INSTRUCTIONS, core::mem::offset_of!(ThreadPage, instructions)));
    assert!(is_at(control::NATIVE, core::mem::offset_of!(ThreadPage, native)));
    assert!(-control::PAGE as usize == size_of::<ThreadPage>());
    assert!(core::mem::offset_of!(Thread, state) == 0);
};

/// State of a reader slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    Used,
    /// Its thread has exited, its bits are still in the shadow.
    Left,
}

/// Which thread has which slot, and stacks to reuse.
pub struct Registry {
    /// Of each bank.
    slots: Vec<[Slot; SLOTS]>,
    free_stacks: Vec<(u32, u64)>,
}

static REGISTRY: Lock<Registry> =
    Lock::new(Registry { slots: Vec::new(), free_stacks: Vec::new() });

/// The registry, held while the process forks.
pub type Held = Guard<'static, Registry>;

/// Takes the registry's lock.
pub fn hold_registry() -> Held {
    REGISTRY.lock()
}

/// In a fork's child: its only thread, whose record in the parent was `old`, as the initial thread
/// of its own recording, on the same stacks.
pub fn renew(mut registry: Held, old: &Thread) -> Option<Box<Thread>> {
    registry.slots.clear();
    // The other threads are not here.
    registry.free_stacks.iter_mut().for_each(|(tid, _)| *tid = NOBODY);
    drop(registry);
    clear_tables(old.stacks);
    let mut thread = prepare_on(Some(old.stacks), None, 0)?;
    thread.filters = old.filters;
    Some(thread)
}

/// The thread does not wait in a system call: a handler of the program may begin.
///
/// # Safety
/// As [`field`].
pub unsafe fn leave_call(page: u64) {
    // SAFETY: forwarded; what the field leads to lives as long as the page.
    let calls = unsafe { AtomicU32::from_ptr(field(page, control::CALLS) as *mut u32) };
    calls.store(calls.load(Ordering::Relaxed) & !1, Ordering::Relaxed);
}

/// Prepares a thread created by `parent` (`None`: the initial thread). `None` when there is no id,
/// slot or memory left. Callers serialise their calls.
pub fn prepare(parent: Option<u32>, start_routine: u64) -> Option<Box<Thread>> {
    prepare_on(None, parent, start_routine)
}

/// As [`prepare`], on stacks that there are already.
fn prepare_on(stacks: Option<u64>, parent: Option<u32>, start_routine: u64) -> Option<Box<Thread>> {
    let header = session::header();
    let id = header.threads.load(Ordering::Relaxed) as usize;
    if id >= MAX_THREADS {
        return None;
    }
    let (bank, slot) = take_slot(id)?;
    let stacks = stacks.or_else(take_stacks);
    let place = {
        let _registry = REGISTRY.lock();
        grants::take(bank, slot, id)
    };
    let found = stacks.zip(place);
    let Some((stacks, (page, grants))) = found else {
        REGISTRY.lock().slots[bank][slot] = Slot::Free;
        return None;
    };
    header.threads.store(id as u32 + 1, Ordering::Relaxed);
    // SAFETY: the page is ours alone until the thread runs; the slot is ours.
    unsafe {
        tt_slot_owner[bank][slot] = id as u32;
        tt_bank_of[id] = bank as u8;
        tt_slot_of[id] = slot as u8;
        let p = &*(page as *const ThreadPage);
        p.parent.store(parent.unwrap_or(u32::MAX), Ordering::Relaxed);
        p.start_routine.store(start_routine, Ordering::Relaxed);
        p.started_ns.store(sys::now_ns(), Ordering::Relaxed);
        p.life.store(life::ALIVE, Ordering::Release);
    }
    let mask = 1 << slot;
    // Undirected words hold nothing but the thread.
    let own_word = match counting::mode() {
        mode::UNDIRECTED => id as u64 + 1,
        _ => (id as u64 + 1) << WRITER_SHIFT | mask,
    };
    let mut thread = Thread::new(id as u64, page, stacks);
    let state = &mut thread.state;
    (state.mask, state.own_word, state.bank) = (mask, own_word, bank as u64);
    (state.grants, state.partner) = (grants, grants);
    (state.passing, state.map) = (grants::passing_map(bank, slot), grants);
    thread.slot = Some((bank, slot));
    Some(install(thread))
}

/// Prepares a thread that shall run natively because [`prepare`] had no room for it. `None` when
/// not even memory is left.
pub fn prepare_unprofiled() -> Option<Box<Thread>> {
    let stacks = take_stacks()?;
    let page = sys::anonymous(session_page_bytes())?;
    let thread = Thread::new(u64::MAX, page, stacks);
    // SAFETY: our fresh page.
    unsafe { set_field(page, control::DETACHED, 1) };
    Some(install(thread))
}

/// Processes in this one's memory that run natively: their ids and records, of use again when they
/// are gone.
static SHARERS: Lock<Vec<(u32, u64)>> = Lock::new(Vec::new());

/// Prepares a process that shares the memory and runs natively. Callers serialise their calls.
pub fn prepare_sharer() -> Option<Box<Thread>> {
    let is_gone = |(id, _): &(u32, u64)| {
        // SAFETY: signal 0 only asks.
        unsafe { sys::call(sys::TKILL, [u64::from(*id), 0, 0, 0, 0, 0]) == sys::ESRCH }
    };
    let mut sharers = SHARERS.lock();
    let Some(k) = sharers.iter().position(is_gone) else { return prepare_unprofiled() };
    let (_, record) = sharers.swap_remove(k);
    // SAFETY: leaked by `share`, and no thread uses it any more.
    let old = unsafe { Box::from_raw(record as *mut Thread) };
    let thread = Thread::new(u64::MAX, old.state.page, old.stacks);
    // SAFETY: no other thread's page.
    unsafe { set_field(thread.state.page, control::DETACHED, 1) };
    Some(install(thread))
}

/// The process for which this was prepared has begun, with this id.
pub fn share(thread: &'static Thread, id: u32) {
    SHARERS.lock().push((id, &raw const *thread as u64));
}

const fn session_page_bytes() -> u64 {
    size_of::<ThreadPage>() as u64
}

/// Fills the thread's control block.
fn install(thread: Thread) -> Box<Thread> {
    let thread = Box::new(thread);
    let calls = match thread.state.id {
        // Nothing reads it.
        u64::MAX => place_of(thread.state.page, control::ADDRESS) as u64,
        id => session::calls(id as usize),
    };
    let signal_top = thread.stacks + XSAVE_BYTES + SIGNAL_STACK_BYTES;
    let between = (shadow::last_sites() / 4).wrapping_sub(shadow::written() / 8);
    for (offset, value) in [
        (control::SELF, thread.state.page),
        (control::WRITTEN_BASE8, shadow::written() / 8),
        (control::SITES_BASE4, shadow::last_sites() / 4),
        (control::SITES_FROM_WRITTEN, between),
        (control::THREAD, &raw const *thread as u64),
        (control::XSAVE, thread.stacks),
        (control::SIGNAL_STACK, signal_top),
        (control::STACK, signal_top + STACK_BYTES),
        (control::DELIVER, DELIVER.load(Ordering::Relaxed)),
        (control::CALLS, calls),
        (control::ENTERED, 0),
        (control::RETURNS, 0),
        (control::SELECTOR, 0),
        // Threads and children begin with their creator's flags.
        (control::ODD_FLAGS, 1),
    ] {
        // SAFETY: the new thread's page.
        unsafe { set_field(thread.state.page, offset, value) };
    }
    thread.shared().native.store(HOME, Ordering::Relaxed);
    for power in 0..=5 {
        // SAFETY: the same.
        unsafe {
            set_field(thread.state.page, control::first_bytes(power), (1 << (1 << power)) - 1)
        };
    }
    thread
}

/// Makes ready what the next threads need, before the program forbids it.
pub fn make_ready() {
    let registry = REGISTRY.lock();
    let Some(slots) = registry.slots.first() else { return };
    let free = (0..SLOTS).filter(|slot| slots[*slot] == Slot::Free);
    grants::make_ready(free, session::header().threads.load(Ordering::Relaxed) as usize);
}

/// A slot for the thread that gets this id: one that is ready, a free one, one left by exited
/// threads, or the first of a new bank.
fn take_slot(id: usize) -> Option<(usize, usize)> {
    let mut registry = REGISTRY.lock();
    if registry.slots.is_empty() {
        registry.slots.push([Slot::Free; SLOTS]);
    }
    let ready =
        |slot: &usize| registry.slots[0][*slot] == Slot::Free && grants::is_ready(0, *slot, id);
    let ready = (0..SLOTS).find(ready).map(|slot| (0, slot));
    let found = ready.or_else(|| registry.find(Slot::Free)).or_else(|| {
        registry.reuse_left()?;
        registry.find(Slot::Free)
    });
    let (bank, slot) = match found {
        Some(found) => found,
        None => {
            let bank = shadow::map_bank()?;
            registry.slots.push([Slot::Free; SLOTS]);
            (bank, 0)
        }
    };
    registry.slots[bank][slot] = Slot::Used;
    Some((bank, slot))
}

impl Registry {
    fn find(&self, wanted: Slot) -> Option<(usize, usize)> {
        self.slots.iter().enumerate().find_map(|(bank, slots)| {
            slots.iter().position(|s| *s == wanted).map(|slot| (bank, slot))
        })
    }

    /// Slots of a bank whose threads have left them and are not there any more: until then a
    /// thread's page lies below the slot's map. One that has said that it exits will be gone soon.
    fn left(&self, bank: usize) -> u64 {
        const PATIENCE: usize = 64;
        let slots = self.slots[bank].iter().enumerate();
        let gone = || {
            let left = slots
                .clone()
                .filter(|(slot, s)| **s == Slot::Left && grants::is_vacant(bank, *slot));
            left.fold(0, |mask, (slot, _)| mask | 1 << slot)
        };
        let found = (0..PATIENCE).map(|_| gone()).find(|mask| {
            if *mask == 0 {
                sys::yield_processor();
            }
            *mask != 0
        });
        found.unwrap_or(0)
    }

    /// Frees the slots that exited threads have left in the first bank that has any. Their readings
    /// are kept elsewhere, as far as there is room.
    fn reuse_left(&mut self) -> Option<()> {
        let (bank, _) = self.find(Slot::Left)?;
        let mask = self.left(bank);
        if mask == 0 {
            return None;
        }
        // Undirected words hold no slots.
        let forgotten = match counting::mode() {
            mode::UNDIRECTED => 0,
            _ => shadow::depart::readers(bank, mask)?,
        };
        session::header().readers_forgotten.fetch_add(forgotten, Ordering::Relaxed);
        let slots = self.slots[bank].iter_mut().enumerate();
        slots.filter(|(slot, _)| mask >> slot & 1 != 0).for_each(|(_, s)| *s = Slot::Free);
        Some(())
    }
}

/// Memory for a thread's stacks, its index of cells and its table of events, the latter two empty.
fn take_stacks() -> Option<u64> {
    let mut registry = REGISTRY.lock();
    let pid = sys::pid();
    // Stacks are free once their thread is really gone.
    let gone = registry.free_stacks.iter().position(|(tid, _)| {
        // SAFETY: signal 0 only asks.
        unsafe { sys::call(sys::TGKILL, [pid.into(), (*tid).into(), 0, 0, 0, 0]) == sys::ESRCH }
    });
    let Some(k) = gone else {
        return sys::anonymous(STACKS_BYTES + TABLES_BYTES);
    };
    let stacks = registry.free_stacks.swap_remove(k).1;
    clear_tables(stacks);
    Some(stacks)
}

/// Empties the tables behind stacks that are used again.
fn clear_tables(stacks: u64) {
    const MADV_DONTNEED: u64 = 4;
    let tables = [stacks + STACKS_BYTES, TABLES_BYTES, MADV_DONTNEED, 0, 0, 0];
    // SAFETY: our own memory, which no thread uses.
    unsafe { sys::call(sys::MADVISE, tables) };
}

/// Cache address where deferred signals are delivered, for threads to come.
static DELIVER: AtomicU64 = AtomicU64::new(0);

/// Sets it.
pub fn set_deliver(address: u64) {
    DELIVER.store(address, Ordering::Relaxed);
}

/// Makes `thread` the calling thread.
pub fn attach(thread: &mut Thread) -> bool {
    thread.state.tid = sys::tid();
    thread.shared().tid.store(thread.state.tid, Ordering::Relaxed);
    // SAFETY: the page is this thread's; %gs is not used by the program.
    let ok = unsafe { sys::set_gs(thread.state.page + session_page_bytes()) };
    if ok {
        lock::name_owners(true);
    }
    thread.save_name();
    ok
}

/// What slow paths know of a thread that has not run yet, whose tables begin at `cells`.
fn first_state(id: u64, page: u64, cells: u64) -> ThreadState {
    ThreadState {
        id,
        mask: 0,
        own_word: 0,
        bank: 0,
        page,
        grants: 0,
        taken_from: 0,
        partner: 0,
        cells: cells as *mut CellPlace,
        events: (cells + CELLS_BYTES) as *mut u32,
        cell_chunk: 0,
        event_chunks: 0,
        event_bits: FIRST_EVENT_BITS,
        event_count: 0,
        event_gone: 0,
        hand: 0,
        refused: 0,
        waiting_chunk: 0,
        thinned: 0,
        widened: 0,
        without_line: [0; 1 << LATELY_BITS],
        hashes: [0; EVENTS],
        streams: [0; streams::PAGES],
        holds: core::ptr::null(),
        running: 0,
        tid: 0,
        passing: 0,
        map: 0,
        // None that there is, so that the thread looks.
        phase: u32::MAX,
        observes: 1,
        counts: 0,
        visits: 0,
        visited: 0,
        sharer: 0,
        shared_locks: 0,
        next_record: 0,
        end_record: 0,
        calls_under_way: 0,
        calls: [const { Call::NONE }; MAX_CALLS],
        untimed: 0,
        chains: (cells + CELLS_BYTES + EVENTS_BYTES) as *mut Chain,
        stack_from: 0,
        stack_end: 0,
        stack_seen: 0,
        choices: [Choice::NONE; 1 << CHOICE_BITS],
        chosen: [Chosen::NONE; MAX_CHOSEN],
        chosen_count: 0,
        chance: id.wrapping_add(1),
        awaited: [Awaited::NONE; MAX_AWAITED],
        awaits: 0,
        waits_again: 0,
        slice: 0,
        to_await: 0,
        return_chunks: [0; MAX_RETURN_CHUNKS],
    }
}

impl Thread {
    /// A thread without bank and slot; `stacks` as [`take_stacks`] gives them.
    fn new(id: u64, page: u64, stacks: u64) -> Self {
        Thread {
            state: first_state(id, page, stacks + STACKS_BYTES),
            signal_mask: 0,
            slot: None,
            stacks,
            filters: core::ptr::null(),
            native: ForNative::NEW,
        }
    }

    /// The thread's page.
    pub fn shared(&self) -> &ThreadPage {
        // SAFETY: mapped as long as the process lives; all fields are atomic or only ours.
        unsafe { &*(self.state.page as *const ThreadPage) }
    }

    /// Room for a signal frame, at the lower end of the stack on which signals are looked at.
    pub fn frame_room(&self) -> *mut u64 {
        (self.stacks + XSAVE_BYTES) as *mut u64
    }

    /// Where the stack for signals in native time begins, and its bytes.
    pub fn stack_for_native(&self) -> (u64, u64) {
        (self.stacks + STACKS_BYTES - NATIVE_STACK_BYTES, NATIVE_STACK_BYTES)
    }

    /// Copies the calling thread's name into its page.
    pub fn save_name(&self) {
        const PR_GET_NAME: u64 = 16;
        // SAFETY: the kernel writes 16 bytes into the thread's own page.
        unsafe {
            let name = &raw mut (*(self.state.page as *mut ThreadPage)).name;
            sys::call(sys::PRCTL, [PR_GET_NAME, name as u64, 0, 0, 0, 0]);
        }
    }

    /// The calling thread is about to exit.
    pub fn exit(&self) {
        // Where the program has forbidden to block signals, a handler may have come in between.
        if self.shared().life.load(Ordering::Relaxed) == life::EXITED {
            return;
        }
        // Held while memory of the session comes and goes, too: the kernel's own lock does not lend
        // priority.
        let mut registry = REGISTRY.lock();
        if self.slot.is_some() {
            tallies::fold(self.shared());
        }
        self.end();
        if let Some((bank, slot)) = self.slot {
            registry.slots[bank][slot] = Slot::Left;
            grants::leave(bank, slot);
        }
        registry.free_stacks.push((self.state.tid, self.stacks));
    }

    /// Notes name and time of the end.
    pub fn end(&self) {
        self.save_name();
        self.shared().ended_ns.store(sys::now_ns(), Ordering::Relaxed);
        let _ = self.shared().life.compare_exchange(
            life::ALIVE,
            life::EXITED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// The prepared thread was not created after all.
    pub fn abandon(&self) {
        self.shared().life.store(life::UNUSED, Ordering::Relaxed);
        let mut registry = REGISTRY.lock();
        if let Some((bank, slot)) = self.slot {
            // Still the last id: callers serialise.
            session::header().threads.store(self.state.id as u32, Ordering::Relaxed);
            registry.slots[bank][slot] = Slot::Free;
            grants::leave(bank, slot);
        }
        registry.free_stacks.push((NOBODY, self.stacks));
    }
}

/// A thread id that no thread has.
const NOBODY: u32 = 0x3fff_ffff;

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;

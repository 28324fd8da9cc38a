//! Taking a program over.
//!
//! The loader calls our constructor first (`-z initfirst`); instead of returning natively, the
//! constructor continues at its return address inside the code cache. From there on everything is
//! translated: the loader's remaining work, other constructors, `main`, exit.

use crate::code_store;
use crate::counting;
use crate::dispatch;
use crate::environment::Environment;
use crate::grants;
use crate::limits;
use crate::lone;
use crate::modules::Modules;
use crate::pages;
use crate::session::{self, Place};
use crate::shadow;
use crate::shared;
use crate::signals;
use crate::stubs;
use crate::sys;
use crate::syscalls;
use crate::thread;
use crate::windows;
use core::arch::global_asm;
use core::sync::atomic::Ordering;
use engine::control::{SAVED_R11, SAVED_RCX};
use engine::indirect::{self, Tables};
use engine::options::disable;
use engine::{Engine, Mode, Options};
use wire::session::{Header, failure, mode, state};

global_asm!(
    ".section .init_array, \"aw\"",
    ".p2align 3",
    ".quad tt_constructor",
    ".text",
    "tt_constructor:",
    // The program goes on with the x87 and vector registers that it has here.
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, {XSAVE_BYTES}",
    "and rsp, -64",
    "xor eax, eax",
    ".irp at, 512, 520, 528, 536, 544, 552, 560, 568",
    "mov [rsp + \\at], rax",
    ".endr",
    "mov r8, rdx",
    "mov eax, {XSAVE_MASK}",
    "xor edx, edx",
    "xsave64 [rsp]",
    "mov rdx, r8",
    "call tt_start",
    "mov r8d, eax",
    "mov eax, {XSAVE_MASK}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "leave",
    "test r8d, r8d",
    "jz 2f",
    "pop rcx",
    "mov gs:[{SAVED_RCX}], rcx",
    "mov gs:[{SAVED_R11}], r11",
    "jmp tt_stub_indirect",
    "2:",
    "ret",
    // Address of pthread_create in the program, or 0: its third argument names a thread.
    ".weak pthread_create",
    ".section .data.rel.ro, \"aw\"",
    ".p2align 3",
    "tt_pthread_create:",
    ".quad pthread_create",
    ".text",
    XSAVE_BYTES = const thread::XSAVE_BYTES,
    XSAVE_MASK = const stubs::XSAVE_MASK,
    SAVED_RCX = const SAVED_RCX,
    SAVED_R11 = const SAVED_R11,
);

unsafe extern "C" {
    #[link_name = "tt_pthread_create"]
    static PTHREAD_CREATE: u64;
}

/// Called once by the loader; returns 1 if the program is taken over.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_start(_argc: i32, argv: *const *const u8, envp: *mut *const u8) -> i32 {
    // SAFETY: as yet the environment is as the kernel laid it out.
    unsafe { sys::read_capabilities(envp.cast()) };
    // SAFETY: the loader passes the program's environment, which nothing else uses yet.
    let Some(environment) = (unsafe { Environment::take(envp) }) else { return 0 };
    let Some(place) = environment.place() else { return 0 };
    let Some(header) = session::open(&place) else { return 0 };
    let pid = sys::pid();
    match header.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(owner) if owner == pid => session::reset(),
        // A child that got our environment by a way we do not see.
        Err(_) => return 0,
    }
    environment.keep();
    session::set_command(argv as u64);
    let limits = Environment::kept().and_then(Environment::limits);
    match take_over(header, &place) {
        Ok(()) => {
            limits.into_iter().for_each(limits::take_over);
            signals::begin();
            dispatch::runtime().modules.open_doors();
            header.state.store(state::RUNNING, Ordering::Release);
            lone::begin(argv as u64);
            1
        }
        Err(why) => {
            header.failure.store(why, Ordering::Relaxed);
            header.state.store(state::FAILED, Ordering::Release);
            0
        }
    }
}

/// What the engine shall emit checks for.
fn engine_mode() -> Mode {
    match counting::mode() {
        mode::TRANSLATE => Mode::Translate,
        mode::MATRIX => Mode::Matrix,
        mode::UNDIRECTED => Mode::Undirected,
        mode::TRACE => Mode::Trace,
        _ => Mode::Detail,
    }
}

/// Prepares code without checks, between which and that with checks threads then change. Returns
/// the tables for code with checks, and the engine without, if there can be one.
fn prepare_light(
    options: &mut Options,
    tables: Tables,
    here: u64,
    modules: &mut Modules,
) -> (Tables, Option<Engine>) {
    // One slot is for what code polls, and a third of the others for code without checks.
    let polled_slot = tables.count - 1;
    let checked = polled_slot - polled_slot / 3;
    let at = tables.base as u64 + polled_slot as u64 * indirect::BYTES;
    let Some(polled) = windows::map_polled(at) else { return (tables, None) };
    let [poll, poll_light] = polled.map(|at| at as i32);
    let light = Tables { first: checked, count: polled_slot - checked, ..tables };
    let disabled = session::header().disable.load(Ordering::Relaxed);
    let without = options.without_checks(poll_light, disabled);
    let mut engine = Engine::new(without, stubs::addresses(), light);
    if engine.prepare(here, modules).is_none() {
        return (Tables { count: checked, ..tables }, None);
    }
    options.poll = poll;
    windows::begin_light(polled);
    (Tables { count: checked, ..tables }, Some(engine))
}

/// Whether there may be code without checks between windows. Where accesses are counted by page,
/// they are counted between windows, too.
fn may_be_light() -> bool {
    let checks = matches!(counting::mode(), mode::MATRIX | mode::DETAIL | mode::UNDIRECTED);
    windows::are_used() && checks && !pages::count_everywhere()
}

fn take_over(header: &Header, place: &Place<'_>) -> Result<(), u32> {
    if !syscalls::process::leave_shadow_stack() {
        return Err(failure::SHADOW_STACK);
    }
    counting::prepare();
    windows::begin();
    shared::begin();
    pages::prepare();
    counting::prepare_filters().ok_or(failure::NO_SHADOW)?;
    syscalls::mark_moves();
    let tables = shadow::map().ok_or(failure::NO_SHADOW)?;
    grants::map().ok_or(failure::NO_SHADOW)?;
    grants::folding::start();
    shared::introduce();
    crate::blocks::map();
    let shift = header.block_shift.load(Ordering::Relaxed);
    let mut disabled = header.disable.load(Ordering::Relaxed);
    if counting::is_filtered() {
        // Each access asks by itself, and how many there were is known at each.
        disabled |= disable::MERGE | disable::GROUP | disable::HOIST;
        disabled |= disable::LOOPS | disable::TALLIES;
    }
    let full = u64::from(header.cache_kib.load(Ordering::Relaxed)) << 10;
    let mut options = Options::new(engine_mode(), shift, disabled);
    if pages::count_everywhere() {
        options = options.with_pages();
    }
    // SAFETY: relocated by the loader before constructors run.
    options.thread_start_hook = unsafe { PTHREAD_CREATE };
    options.set_max_bytes(full);
    options.stores = code_store::open(place);
    let mut runtime = dispatch::runtime();
    runtime.modules.read_existing();
    let here = tt_start as *const () as u64;
    let (mut tables, mut light) = (tables, None);
    if may_be_light() {
        (tables, light) = prepare_light(&mut options, tables, here, &mut runtime.modules);
    }
    runtime.light = light;
    runtime.engine = Some(Engine::new(options, stubs::addresses(), tables));
    header.started_ns.store(sys::now_ns(), Ordering::Relaxed);
    let mut initial = thread::prepare(None, 0).ok_or(failure::NO_SHADOW)?;
    // SAFETY: the thread pointer of a glibc program points to itself.
    let thread_pointer: u64 = unsafe {
        let pointer;
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly));
        pointer
    };
    initial.shared().thread_pointer.store(thread_pointer, Ordering::Relaxed);
    if !thread::attach(&mut initial) {
        return Err(failure::NO_GS);
    }
    let (engine, modules) = runtime.parts().ok_or(failure::NO_CODE_CACHE)?;
    let deliver = engine.prepare(here, modules).ok_or(failure::NO_CODE_CACHE)?;
    thread::set_deliver(deliver);
    // SAFETY: the initial thread's page.
    unsafe { thread::set_field(initial.state.page, engine::control::DELIVER, deliver) };
    alloc::boxed::Box::leak(initial);
    Ok(())
}

//! From a superblock to code in the cache.
//!
//! This file decides what to emit; [`body`](crate::body),
//! [`control_flow`](crate::body::control_flow) and [`cold`](crate::body::cold) emit it.
//!
//! Layout of a block: the entry, counters, instructions with their checks, return addresses as
//! literals; then, in another place, the cold part: failed checks, corrections of the counters at
//! side exits, exit stubs, descriptors of accesses.

use crate::body::{Body, Target};
use crate::cache::entries::Entries;
use crate::code::emitter::Emitter;
use crate::code::moves::Moves;
use crate::connect::blocks::Block;
use crate::decode::access::Access;
use crate::decode::liveness::{self, BlockLiveness, Live, Scanner};
use crate::decode::superblock::Superblock;
use crate::decode::waiting;
use crate::engine::Engine;
use crate::engine::stored::{self, Place};
use crate::host::Host;
use crate::plan::checks;
use crate::plan::loops::{self, HeadTests, Loop, is_inverted};
use crate::plan::trips;
use iced_x86::{FlowControl, Instruction, Mnemonic};

/// Translates `source` into region `region`; `None` if something in it cannot be encoded.
///
/// # Safety
/// The engine's lock is held, the region has room, and code that `readable` admits may be read.
pub(crate) unsafe fn translate(
    engine: &mut Engine,
    region: usize,
    source: &Superblock,
    readable: &dyn Fn(u64) -> bool,
    host: &dyn Host,
) -> Option<Block> {
    // SAFETY: forwarded.
    let is_loop =
        source.is_loop && engine.options.loops && !unsafe { only_waits(engine, source, readable) };
    if is_loop && !engine.options.checks() {
        // SAFETY: forwarded.
        return unsafe { unroll(engine, region, source, (readable, host)) };
    }
    // SAFETY: forwarded.
    unsafe {
        let plain = emit_block(engine, region, source, None, (readable, host))?;
        if !is_loop {
            return Some(plain);
        }
        let again = Loop { body: source.instructions.len(), plain: plain.entry };
        for times in trips::iterations(source, engine.options.unroll) {
            let unrolled = source.unrolled(times);
            let surroundings = (readable, host);
            if let Some(versioned) =
                emit_block(engine, region, &unrolled, Some(again), surroundings)
            {
                // The ordinary body's back edge will lead to the block that stands for the address:
                // it tries the head again after each iteration.
                engine.statistics.loops += 1;
                return Some(versioned);
            }
        }
        Some(plain)
    }
}

/// Whether the small loop `source` is a spin loop, whose iterations are counted one by one.
///
/// # Safety
/// As [`translate`].
unsafe fn only_waits(
    engine: &mut Engine,
    source: &Superblock,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    // SAFETY: forwarded.
    waiting::may_wait(source)
        && waiting::only_waits(source, &unsafe { analyse(engine, source, None, readable) })
}

/// A loop whose iterations need no checks: some of them become one, so that they are counted
/// together.
unsafe fn unroll(
    engine: &mut Engine,
    region: usize,
    source: &Superblock,
    surroundings: (&dyn Fn(u64) -> bool, &dyn Host),
) -> Option<Block> {
    let body = source.instructions.len();
    let fits = |times: &usize| times * body <= engine.options.max_instructions;
    let times = trips::iterations(source, engine.options.unroll).find(fits);
    // SAFETY: forwarded.
    unsafe {
        match times {
            Some(times) => {
                let again = Some(Loop { body, plain: 0 });
                emit_block(engine, region, &source.unrolled(times), again, surroundings)
            }
            None => emit_block(engine, region, source, None, surroundings),
        }
    }
}

/// Whether the small loop `source` will be a versioned one.
///
/// # Safety
/// As [`translate`].
unsafe fn is_versionable(
    engine: &mut Engine,
    source: &Superblock,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    // SAFETY: forwarded.
    if unsafe { only_waits(engine, source, readable) } {
        return false;
    }
    let options = engine.options;
    // The address of the ordinary body is not looked at.
    let again = Loop { body: source.instructions.len(), plain: 0 };
    trips::iterations(source, options.unroll).any(|times| {
        let unrolled = source.unrolled(times);
        // SAFETY: forwarded.
        let liveness = unsafe { analyse(engine, &unrolled, Some(again), readable) };
        let plan = checks::survey(&unrolled.instructions, &liveness, &options);
        loops::version(&plan, &liveness, again.body, &options).is_some()
    })
}

/// Ends a block where a loop begins that will be versioned: what runs three times is best not run
/// with all its checks the first time.
///
/// # Safety
/// As [`translate`].
pub(crate) unsafe fn end_before_loop(
    engine: &mut Engine,
    source: &mut Superblock,
    readable: &dyn Fn(u64) -> bool,
) {
    if !engine.options.loops || !engine.options.entries {
        return;
    }
    // SAFETY: forwarded.
    let first = source.inner_loops().find(|l| unsafe { is_versionable(engine, l, readable) });
    if let Some(first) = first {
        source.cut_before(first.pc);
    }
}

unsafe fn emit_block(
    engine: &mut Engine,
    region: usize,
    source: &Superblock,
    again: Option<Loop>,
    (readable, host): (&dyn Fn(u64) -> bool, &dyn Host),
) -> Option<Block> {
    // SAFETY: forwarded.
    let liveness = unsafe { analyse(engine, source, again, readable) };
    let options = engine.options;
    let plan = checks::survey(&source.instructions, &liveness, &options);
    let versioned = match again {
        None => None,
        Some(l) => Some(loops::version(&plan, &liveness, l.body, &options)?),
    };
    let (head, accesses) = match versioned {
        None => (HeadTests::default(), None),
        Some(version) => (version.head, Some(version.rest)),
    };
    let accesses = accesses.as_deref().unwrap_or(&plan.accesses);
    let separate = |a: &Access| {
        again.is_some_and(|l| loops::is_invariant(&plan, a, l.body) && !loops::is_on_stack(a))
    };
    let checks = checks::plan(&plan, accesses, &liveness, &options, &separate);
    engine.statistics.blocks += 1;
    engine.statistics.instructions += source.instructions.len() as u64;
    engine.statistics.accesses += plan.accesses.len() as u64;
    let number_of_checks = checks.len() + head.quick().count();
    engine.statistics.checks += number_of_checks as u64;
    engine.statistics.unseen += u64::from(plan.unseen);
    let target = Target {
        trampolines: engine.code.regions[region].trampolines,
        table: engine.code.table,
        options,
        hook: source.pc == options.thread_start_hook,
        told: host.hook(source.pc),
        room: core::mem::take(&mut engine.workshop.room),
    };
    let spot = engine.code.regions[region].next();
    let mut emitter = Emitter::new(spot, &options);
    if target.told == 0 && stored::is_wanted(&options, source) {
        emitter.moves = Moves::of(source.pc);
    }
    let mut body = Body::new(emitter, source, again, &liveness, &plan, target, host);
    let entry = body.emit(&head, &checks).ok()?;
    let (next_link, next_site) = (engine.code.blocks.next_link(), engine.code.sites.next());
    let finished =
        body.finish(entry, &mut engine.workshop.scanner, readable, next_link, next_site).ok()?;
    let code = &finished.code;
    let entries = Entries::new(&code.entries, source.pc, &mut engine.workshop.scratch);
    let place = Place { spot, region: engine.code.regions[region].base(), entry };
    let counts = [plan.accesses.len(), number_of_checks, plan.unseen as usize];
    let original = match again {
        Some(_) if options.checks() => None,
        Some(l) => Some(&source.instructions[..l.body]),
        None => Some(&source.instructions[..]),
    };
    let record = &mut engine.workshop.record;
    stored::write_record(record, source, &finished, &entries, &place, counts, original);
    engine.code.regions[region].place(&code.bytes, code.split, source.pc, entries);
    engine.workshop.room = finished.room;
    for link in finished.links {
        engine.code.blocks.add_link(link);
    }
    finished.site.into_iter().for_each(|site| engine.code.sites.add(site));
    Some(Block { entry: spot.hot + entry as u64, end: source.end })
}

unsafe fn analyse(
    engine: &mut Engine,
    source: &Superblock,
    again: Option<Loop>,
    readable: &dyn Fn(u64) -> bool,
) -> BlockLiveness {
    let enabled = engine.options.liveness;
    // Code that may change is not forgotten with what it leads to.
    let strict = !source.original.is_empty();
    let scanner: &mut Scanner = &mut engine.workshop.scanner;
    let end = if source.terminated || !enabled || strict {
        Live::ALL
    } else {
        // SAFETY: an exit of code that is about to run.
        unsafe { scanner.at(source.end, readable) }
    };
    let n = source.instructions.len();
    let mut taken = |k: usize| {
        let i = &source.instructions[k];
        match exit_target(i, is_inverted(again, k, n)) {
            _ if departs(i) => {
                // SAFETY: forwarded.
                unsafe { scanner.departure(i, readable) }
            }
            Some(target) if enabled && !strict => {
                // SAFETY: an exit of code that is about to run.
                unsafe { scanner.at(target, readable) }
            }
            _ => Live::ALL,
        }
    };
    liveness::analyse(&source.instructions, end, &mut taken, enabled, strict)
}

/// Calls, or leaves for an address that is only known when it runs.
fn departs(i: &Instruction) -> bool {
    use FlowControl::{Call, IndirectBranch, IndirectCall, Return};
    matches!(i.flow_control(), Call | IndirectCall | Return | IndirectBranch)
}

pub(crate) fn exit_target(i: &Instruction, inverted: bool) -> Option<u64> {
    match i.flow_control() {
        FlowControl::ConditionalBranch if inverted => Some(i.next_ip()),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call => {
            Some(i.near_branch_target())
        }
        FlowControl::XbeginXabortXend if i.mnemonic() == Mnemonic::Xbegin => {
            Some(i.near_branch_target())
        }
        _ => None,
    }
}

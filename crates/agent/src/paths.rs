//! Call paths of code sites: how the program came to accesses at which threads communicate.
//!
//! Slow paths choose a few accesses at each site (`slow/choice.h`). When such a slow path ends, the
//! stub comes here, with no lock held and the program's registers where the engine knows to find
//! them. The stack is walked by unwind tables alone ([`frames`](crate::frames)); where these say
//! nothing, the path ends. What is found is counted in the session (`wire::paths`).

use crate::dispatch;
use crate::layouts::{ThreadState, rule};
use crate::lock::Lock;
use crate::modules::Modules;
use crate::program;
use crate::session;
use crate::stacks;
use crate::thread;
use core::sync::atomic::Ordering::{Relaxed, Release};
use engine::AddressHash;
use engine::control;
use engine::recovery::Registers;
use hashbrown::HashMap;
use wire::code::mix;
use wire::paths::{MAX_PATHS, PATH_FRAMES};

/// Where %rsp and %rbp are among the general registers.
pub const RSP: usize = 4;
/// See [`RSP`].
pub const RBP: usize = 5;
/// No frame is longer.
const MAX_FRAME: u64 = 64 << 20;

/// Numbers of the paths in the session, by a hash of what they are.
static KNOWN: Lock<Option<HashMap<u64, u32, AddressHash>>> = Lock::new(None);

/// Called by the stubs when a slow path has chosen sites; `rbp` is what the register holds.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_look_at_path(state: &mut ThreadState, rbp: u64) {
    let chosen = state.chosen;
    let count = core::mem::take(&mut state.chosen_count);
    let page = state.page;
    let mut runtime = dispatch::runtime();
    // SAFETY: the calling thread's page.
    let slot = |field| unsafe { thread::field(page, field) };
    let mut registers = Registers { pc: slot(control::RESUME), ..Registers::default() };
    registers.general[RSP] = slot(control::APP_RSP);
    registers.general[RBP] = rbp;
    runtime.recover(&mut registers, &slot);
    let mut frames = [0; PATH_FRAMES];
    let mut to = frames.iter_mut();
    climb(&mut runtime.modules, &registers, PATH_FRAMES, |running| {
        stacks::add(&running, 0);
        if let Some(frame) = to.next() {
            *frame = running.back;
        }
    });
    // Still under the engine's lock, which is free of other threads when the process forks.
    for chosen in &chosen[..count as usize] {
        add(chosen.site, &frames, chosen.weight);
    }
}

/// What the calling thread has chosen is not looked at.
pub fn forget_chosen(page: u64) {
    // SAFETY: the calling thread's page.
    unsafe { thread::current(page) }.state.chosen_count = 0;
}

/// In a fork's child, whose session has no paths yet.
pub fn renew() {
    *KNOWN.lock() = None;
}

/// A function that is running, on the way up a stack.
pub struct Running {
    /// The instruction that it is at, or for callers a byte of the call that they have made.
    pub code: u64,
    /// The stack pointer there, with nothing pushed for the call.
    pub low: u64,
    /// The register %rbp there.
    pub rbp: u64,
    /// The stack pointer before it was called.
    pub end: u64,
    /// To which address it returns.
    pub back: u64,
}

/// The return addresses up the stack, innermost first; 0 = no more are known.
pub fn walk<const FRAMES: usize>(modules: &mut Modules, registers: &Registers) -> [u64; FRAMES] {
    let mut frames = [0; FRAMES];
    let mut to = frames.iter_mut();
    climb(modules, registers, FRAMES, |running| {
        if let Some(frame) = to.next() {
            *frame = running.back;
        }
    });
    frames
}

/// Tells of up to `most` functions up the stack, innermost first, as long as it is known what leads
/// from one to the next.
pub fn climb(
    modules: &mut Modules,
    registers: &Registers,
    most: usize,
    mut tell: impl FnMut(Running),
) {
    let (mut low, mut rbp) = (registers.general[RSP], registers.general[RBP]);
    let mut code = registers.pc;
    let mut rule = modules.frames.rule_at(code);
    for _ in 0..most {
        if rule & rule::LEADS_ON == 0 {
            return;
        }
        let base = if rule & rule::BY_RBP != 0 { rbp } else { low };
        let mut end = base.wrapping_add_signed(i64::from(rule as i32));
        let mut saved = i64::from((rule >> rule::RBP_SHIFT) as i16);
        if rule & rule::ALIGNED != 0 {
            let Some(there) = word(end) else { return };
            (end, saved) = (there, base.wrapping_sub(there).cast_signed());
        }
        if !(8..MAX_FRAME).contains(&end.wrapping_sub(low)) || end % 8 != 0 {
            return;
        }
        let outer = match saved {
            0 => Some(rbp),
            saved => word(end.wrapping_add_signed(saved)),
        };
        let back = word(end - 8).filter(|back| *back != 0);
        let (Some(outer), Some(back)) = (outer, back) else { return };
        tell(Running { code, low, rbp, end, back });
        (code, low, rbp) = (back - 1, end, outer);
        rule = modules.frames.rule(back);
    }
}

/// A word that may not be there: where a stack ends, what is taken for a frame may be none.
fn word(address: u64) -> Option<u64> {
    program::words::<1>(address).map(|[word]| word)
}

/// Counts a path, unless it is a new one and there are too many.
fn add(site: u32, frames: &[u64; PATH_FRAMES], weight: u32) {
    if site == 0 || frames[0] == 0 {
        return;
    }
    let hash = frames.iter().fold(mix(site.into()), |all, frame| mix(all.rotate_left(7) ^ frame));
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if let Some(number) = known.get(&hash) {
        session::path(*number as usize).count.fetch_add(weight.into(), Relaxed);
        return;
    }
    let used = &session::header().paths;
    let number = used.load(Relaxed);
    if number as usize >= MAX_PATHS {
        return;
    }
    let path = session::path(number as usize);
    path.site.store(site, Relaxed);
    for (to, frame) in path.frames.iter().zip(frames) {
        to.store(*frame, Relaxed);
    }
    path.count.store(weight.into(), Release);
    used.store(number + 1, Release);
    known.insert(hash, number);
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;

//! Which checks a superblock needs.
//!
//! A check covers a *window*: at most one block of bytes at an address known up to a constant. It
//! asks about the block of its lowest byte and, if it may touch two, the next one. An access is
//! covered by an earlier check of the same superblock whose window holds it, unless another thread
//! may have answered in between: what comes before a *turn* covers nothing after it. A barrier
//! (atomic, fence, pause) is a turn. So are, in this order, a write, a read and a conditional
//! branch, which is how a thread hands something over and sees that it has got something back, with
//! plain instructions: at the branch, what stands up to the write is over. Programs without data
//! races have no other ways, so each of their accesses is asked about when it can matter, but for
//! the iterations that versioned [`loops`](crate::plan::loops) test ahead. Stack and thread-local
//! data take no part in that.
//!
//! A check remembers the accesses it stands for: when it fails, the slow path goes through them in
//! program order, as if each had been checked alone.

use crate::decode::access::{self, Access, Repeat};
use crate::decode::elements::Elements;
use crate::decode::liveness::BlockLiveness;
use crate::descriptor::Member;
use crate::few::Few;
use crate::options::{Mode, Options};
use crate::plan::loops;
use crate::plan::probe;
use crate::plan::track::key_registers;
use crate::plan::track::{Key, Snapshot, Tracker};
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, Register};

/// One check to emit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// The address, up to a constant.
    pub key: Key,
    /// Lowest byte, relative to the key's registers at their version's start.
    pub displacement: i64,
    /// Bytes from the lowest to the highest.
    pub span: i64,
    /// Bytes written, bit k = byte k; used only when bytes are told apart.
    pub written: u64,
    /// Emitted before this instruction.
    pub position: usize,
    /// Straight-line segment: number of conditional branches and barriers before it.
    pub segment: u32,
    /// The block must be this thread's alone.
    pub exclusive: bool,
    /// May touch two blocks.
    pub may_cross: bool,
    /// The accesses behind it, in program order.
    pub members: Few<Member, 2>,
    /// It stands for one access, and for what that really touches.
    pub elements: Option<Elements>,
    /// The slow path counts its accesses to pages, so that there is nothing to ask.
    pub counts_apart: bool,
}

impl Check {
    fn end(&self) -> i64 {
        self.displacement.wrapping_add(self.span)
    }

    /// Registers that its address is made of, or that the slow path is told of: they must be in
    /// place.
    pub fn registers(&self) -> u16 {
        key_registers(&self.key) | self.elements.as_ref().map_or(0, Elements::registers)
    }

    /// Whether there is nothing to ask: what is touched is known to the slow path only.
    pub fn is_always_slow(&self) -> bool {
        self.counts_apart || self.elements.is_some_and(|e| !e.in_one_piece())
    }

    /// Whether both may touch the same block at addresses made of the same registers.
    fn is_near(&self, other: &Check, block: i64) -> bool {
        self.key == other.key
            && other.displacement.wrapping_sub(self.end()) < block
            && self.displacement.wrapping_sub(other.end()) < block
    }

    /// Whether `other` asks for nothing that this check does not ask.
    fn covers(&self, other: &Check, mode: Mode) -> bool {
        let at = other.displacement.wrapping_sub(self.displacement);
        let inside = at >= 0 && at + other.span <= self.span;
        let strong = self.exclusive || !other.exclusive;
        let bytes = || other.written << at & !self.written == 0;
        inside && strong && (mode != Mode::Detail || !other.exclusive || bytes())
    }
}

/// The accesses of a superblock and where it may be left.
pub struct Plan {
    /// Versions and offsets of the registers before each instruction.
    pub snapshots: Vec<Snapshot>,
    /// Segment of each instruction.
    pub segments: Vec<u32>,
    /// For each instruction, whether no check may be moved across it.
    pub barriers: Vec<bool>,
    /// For each instruction, the first one whose checks may cover its accesses.
    pub turns: Vec<usize>,
    /// For each instruction, the repeated string instruction that it is.
    pub repeats: Vec<Option<Repeat>>,
    /// The accesses, by the position of their instruction.
    pub accesses: Vec<Access>,
    /// Loads and stores of each instruction.
    pub operands: Vec<(u32, u32)>,
    /// Accesses whose address cannot be computed.
    pub unseen: u32,
}

/// Walks the instructions once and names everything.
pub fn survey(instructions: &[Instruction], liveness: &BlockLiveness, options: &Options) -> Plan {
    let count = options.counts();
    let n = instructions.len();
    let mut plan = Plan {
        snapshots: Vec::with_capacity(n),
        segments: Vec::with_capacity(n),
        barriers: vec![false; n],
        turns: Vec::with_capacity(n),
        repeats: vec![None; n],
        accesses: Vec::with_capacity(n),
        operands: vec![(0, 0); n],
        unseen: 0,
    };
    let mut factory = InstructionInfoFactory::new();
    let mut tracker = Tracker::default();
    let mut segment = 0;
    let mut turns = Turns::default();
    for (k, i) in instructions.iter().enumerate() {
        plan.snapshots.push(tracker.snapshot());
        // What the slow path goes through by itself: no check moves over that.
        let apart = count && access::is_apart(i);
        plan.barriers[k] = access::is_barrier(i);
        segment += u32::from(plan.barriers[k] || apart);
        plan.segments.push(segment);
        let first = plan.accesses.len();
        if count {
            survey_operands(&mut plan, &mut factory, i, k);
        }
        plan.turns.push(turns.step(i, k, plan.barriers[k], &plan.accesses[first..]));
        tracker.step(i, &liveness.uses[k]);
        segment += u32::from(apart || i.flow_control() == FlowControl::ConditionalBranch);
        if !options.checks() {
            plan.accesses.clear();
            (plan.repeats[k], plan.unseen) = (None, 0);
        }
    }
    plan
}

/// Where another thread may have answered; see above.
#[derive(Default)]
struct Turns {
    /// From here on checks are still good.
    since: usize,
    /// The last write, and the last one that a read has followed, by the position behind.
    written: usize,
    read: usize,
}

impl Turns {
    /// The first instruction whose checks may cover the accesses of this one, the `k`th.
    fn step(&mut self, i: &Instruction, k: usize, barrier: bool, accesses: &[Access]) -> usize {
        if barrier {
            self.since = k;
        }
        let now = self.since;
        for a in accesses.iter().filter(|a| a.segment != Register::FS && !loops::is_on_stack(a)) {
            if a.reads {
                self.read = self.written;
            }
            if a.writes {
                self.written = k + 1;
            }
        }
        if i.flow_control() == FlowControl::ConditionalBranch {
            self.since = now.max(self.read);
        }
        now
    }
}

fn survey_operands(
    plan: &mut Plan,
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    k: usize,
) {
    if let Some(repeat) = Repeat::of(i) {
        plan.repeats[k] = Some(repeat);
        let loads = u32::from(repeat.reads_rsi || repeat.scans) + u32::from(repeat.compares);
        plan.operands[k] = (loads, u32::from(repeat.writes_rdi));
    } else if i.mnemonic() != Mnemonic::Syscall {
        let first = plan.accesses.len();
        plan.unseen += access::collect(factory, i, k, &mut plan.accesses);
        for a in &plan.accesses[first..] {
            plan.operands[k].0 += u32::from(a.reads);
            plan.operands[k].1 += u32::from(a.writes);
        }
    }
}

/// The windows that an access needs: distance from its first byte, span, and whether it may touch
/// two blocks.
pub fn windows(a: &Access, options: &Options) -> impl Iterator<Item = (i64, i64, bool)> {
    let size = a.size;
    let whole = a.elements.is_some_and(|e| !e.in_one_piece());
    let at_once = matches!(options.mode, Mode::Trace | Mode::Undirected);
    let most = if whole || at_once || counts_apart(a, options) { size } else { options.window() };
    let may_cross = !(a.aligned && size <= most);
    (0..size).step_by(most as usize).map(move |at| (at, most.min(size - at), may_cross))
}

/// Whether the slow path has to count what the access does to pages: it touches no more of them
/// than one block has only if it is in one window.
fn counts_apart(a: &Access, options: &Options) -> bool {
    options.pages && (a.elements.is_some() || a.size > options.window())
}

/// The checks that `accesses` need, ordered by position.
///
/// `separate` tells positions from which nothing earlier may be reused (another iteration of a loop
/// that may spin on the access).
pub fn plan(
    plan: &Plan,
    accesses: &[Access],
    liveness: &BlockLiveness,
    options: &Options,
    separate: &dyn Fn(&Access) -> bool,
) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for a in accesses {
        let epoch = checks.partition_point(|c| c.position < plan.turns[a.position]);
        for window in windows(a, options) {
            let check = check_of(plan, a, window, options);
            let alone = separate(a) || a.elements.is_some();
            if !options.merge || alone || !merge(&mut checks[epoch..], &check, options) {
                checks.push(check);
            }
        }
    }
    if options.group {
        group(&mut checks, options);
    }
    if options.hoist {
        hoist(&mut checks, plan, liveness, options);
    }
    checks.sort_by_key(|c| c.position);
    checks
}

/// The check of one window of an access.
fn check_of(
    plan: &Plan,
    a: &Access,
    (at, span, unaligned): (i64, i64, bool),
    options: &Options,
) -> Check {
    let (key, displacement) = plan.snapshots[a.position].name(a);
    let Access { position, reads, writes, .. } = *a;
    let low = displacement.wrapping_add(at);
    Check {
        key,
        displacement: low,
        span,
        written: if a.writes { probe::first(span) } else { 0 },
        position,
        segment: plan.segments[position],
        exclusive: writes || options.mode == Mode::Undirected,
        may_cross: unaligned && may_cross(&key, low, span, options),
        // Every window has the whole access: the slow path sees it once and as it is.
        members: [Member { position, displacement, bytes: a.size, reads, writes }]
            .into_iter()
            .collect(),
        elements: a.elements,
        counts_apart: counts_apart(a, options),
    }
}

/// Whether `span` bytes from `low` on may lie in two blocks, or two lines where bytes are told
/// apart.
fn may_cross(key: &Key, low: i64, span: i64, options: &Options) -> bool {
    let unit = options.window();
    let inside = (low & (unit - 1)) + span <= unit;
    span > 1 && !(is_absolute(key) && inside)
}

/// Whether an earlier check of the same address covers `new`, possibly by growing it to a write.
fn merge(earlier: &mut [Check], new: &Check, options: &Options) -> bool {
    for k in 0..earlier.len() {
        let c = &earlier[k];
        // To be counted with another access, one has to be executed with it.
        let apart = options.pages && c.segment != new.segment;
        if c.key != new.key || c.elements.is_some() || apart {
            continue;
        }
        if c.covers(new, options.mode) {
            if options.pages {
                earlier[k].members.extend(new.members.iter().copied());
            }
            return true;
        }
        // A read, then a write in the same segment: one check for both, at the read; unless another
        // write comes before it, which then takes the block.
        let same = c.displacement == new.displacement && c.span == new.span;
        let first = |z: &Check| !(z.exclusive && z.is_near(new, options.block_bytes()));
        if same
            && new.exclusive
            && !c.exclusive
            && c.segment == new.segment
            && earlier[k + 1..].iter().all(first)
        {
            let c = &mut earlier[k];
            c.exclusive = true;
            c.written = new.written;
            c.members.extend(new.members.iter().copied());
            return true;
        }
    }
    false
}

/// Some of a block's checks.
type Positions = Few<usize, 8>;

/// Joins checks of one kind and segment that fit into one window.
fn group(checks: &mut Vec<Check>, options: &Options) {
    if checks.len() < 2 {
        return;
    }
    let mut dead = vec![false; checks.len()];
    for x in 0..checks.len() {
        if dead[x] {
            continue;
        }
        let members =
            in_order(checks, &dead, group_of(checks, &dead, x, options.window()), options);
        if members.len() < 2 || !members.contains(&x) {
            continue;
        }
        let joined = join(members.iter().map(|&y| &checks[y]), options);
        members.iter().for_each(|&y| dead[y] = true);
        dead[x] = false;
        checks[x] = joined;
    }
    let mut keep = dead.iter().map(|d| !d);
    checks.retain(|_| keep.next().unwrap_or(true));
}

/// The checks that can share a window with check `x`.
fn group_of(checks: &[Check], dead: &[bool], x: usize, window: i64) -> Positions {
    let this = &checks[x];
    let alike = |c: &Check| {
        let plain = c.elements.is_none() && this.elements.is_none();
        plain && c.key == this.key && c.segment == this.segment && c.exclusive == this.exclusive
    };
    let distance = |c: &Check, low: i64| c.displacement.wrapping_sub(low);
    let candidates = || (0..checks.len()).filter(|&y| !dead[y] && alike(&checks[y]));
    let reaches_x = |low: i64| (0..=window - this.span).contains(&distance(this, low));
    let low = candidates().map(|y| checks[y].displacement).filter(|&d| reaches_x(d)).min();
    let low = low.unwrap_or(this.displacement);
    candidates()
        .filter(|&y| distance(&checks[y], low) >= 0)
        .filter(|&y| distance(&checks[y], low) + checks[y].span <= window)
        .collect()
}

/// Of a group's members, those that can move to the first of them without moving over a check that
/// stays and may touch the same block: the one that comes first there decides what is counted.
/// (Checks of other registers may be moved over: where the window lies in one block, the first
/// member has settled it.)
fn in_order(checks: &[Check], dead: &[bool], mut group: Positions, options: &Options) -> Positions {
    group.sort_unstable();
    let block = options.block_bytes();
    let mut kept = Positions::default();
    for y in group {
        let first = kept.first().map_or(y, |first| first + 1);
        let mut between = (first..y).filter(|z| !dead[*z] && !kept.contains(z));
        if !between.any(|z| checks[z].is_near(&checks[y], block)) {
            kept.push(y);
        }
    }
    kept
}

/// One check for all of `parts`.
fn join<'a>(parts: impl Iterator<Item = &'a Check> + Clone, options: &Options) -> Check {
    let first = parts.clone().next().expect("at least one check");
    let low = parts.clone().map(|c| c.displacement).min().expect("at least one check");
    let end = parts.clone().map(Check::end).max().expect("at least one check");
    let mut members: Few<Member, 2> =
        parts.clone().flat_map(|c| c.members.iter().copied()).collect();
    members.sort_by_key(|m| m.position);
    // Sets of bytes matter only where windows are at most 64 bytes.
    let shifted = |c: &Check| c.written.checked_shl(c.displacement.wrapping_sub(low) as u32);
    Check {
        displacement: low,
        span: end - low,
        written: parts.clone().filter_map(shifted).fold(0, |all, bytes| all | bytes),
        position: parts.map(|c| c.position).min().expect("at least one check"),
        may_cross: may_cross(&first.key, low, end - low, options),
        members,
        ..first.clone()
    }
}

/// Moves each check that would have to save flags back to the nearest place in its segment where
/// flags are dead and its registers unchanged; not over a check that may touch the same block.
fn hoist(checks: &mut [Check], plan: &Plan, liveness: &BlockLiveness, options: &Options) {
    let block = options.block_bytes();
    for k in 0..checks.len() {
        let c = &checks[k];
        if liveness.live[c.position].flags == 0 {
            continue;
        }
        let stops = |z: &Check| z.is_near(c, block) || z.key != c.key && z.exclusive != c.exclusive;
        let mut p = c.position;
        while p > 0 && plan.segments[p - 1] == c.segment && plan.repeats[p - 1].is_none() {
            // A check at `p` that stands before this one stays before it only from here on.
            if checks[..k].iter().any(|z| z.position == p && stops(z)) {
                break;
            }
            p -= 1;
            if !plan.snapshots[p].knows(&c.key) {
                break;
            }
            if liveness.live[p].flags == 0 {
                checks[k].position = p;
                break;
            }
        }
    }
}

/// Whether the address is a constant.
pub fn is_absolute(key: &Key) -> bool {
    [key.segment, key.base, key.index] == [Register::None; 3]
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;

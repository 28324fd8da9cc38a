//! Which checks a superblock needs.
//!
//! A read check asks whether this thread has read the block since it was last written, a write
//! check whether this thread wrote it last and nobody has read it since. An access is covered by an
//! earlier check of the same superblock when its address is known to lie between two checked
//! addresses at most one block apart: every block it touches is then one of theirs. Checks before a
//! barrier (atomic, fence, pause) cover nothing after it.

use crate::access::{self, Access, Repeat};
use crate::liveness::BlockLiveness;
use crate::options::Options;
use crate::track::{Key, Snapshot, Tracker};
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, Register};

/// One check to emit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    pub key: Key,
    /// Displacement relative to the key's registers at their version's start.
    pub displacement: i64,
    /// Emitted before this instruction.
    pub position: usize,
    /// Straight-line segment: number of conditional branches and barriers before it.
    pub segment: u32,
    pub reads: bool,
    pub writes: bool,
}

/// The accesses of a superblock and where it may be left.
pub struct Plan {
    pub snapshots: Vec<Snapshot>,
    /// Segment of each instruction.
    pub segments: Vec<u32>,
    pub barriers: Vec<bool>,
    pub repeats: Vec<Option<Repeat>>,
    pub accesses: Vec<Access>,
    /// Loads and stores of each instruction.
    pub operands: Vec<(u32, u32)>,
    pub unseen: u32,
}

/// Walks the instructions once and names everything.
pub fn survey(instructions: &[Instruction], liveness: &BlockLiveness, count: bool) -> Plan {
    let n = instructions.len();
    let mut plan = Plan {
        snapshots: Vec::with_capacity(n),
        segments: Vec::with_capacity(n),
        barriers: vec![false; n],
        repeats: vec![None; n],
        accesses: Vec::new(),
        operands: vec![(0, 0); n],
        unseen: 0,
    };
    let mut factory = InstructionInfoFactory::new();
    let mut tracker = Tracker::default();
    let mut segment = 0;
    for (k, i) in instructions.iter().enumerate() {
        plan.snapshots.push(tracker.snapshot());
        if access::is_barrier(i) {
            plan.barriers[k] = true;
            segment += 1;
        }
        plan.segments.push(segment);
        if count {
            survey_operands(&mut plan, &mut factory, i, k);
        }
        tracker.step(i, &liveness.uses[k]);
        if i.flow_control() == FlowControl::ConditionalBranch {
            segment += 1;
        }
    }
    plan
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
        let found = access::collect(factory, i, k);
        for a in &found.accesses {
            plan.operands[k].0 += u32::from(a.reads);
            plan.operands[k].1 += u32::from(a.writes);
        }
        plan.accesses.extend(found.accesses);
        plan.unseen += found.unseen;
    }
}

/// Offsets within an access that must be checked so that every block it touches is.
pub fn probes(a: &Access, block: i64) -> impl Iterator<Item = i64> {
    let last = a.size - 1;
    let whole = (1..).map(move |k| k * block).take_while(move |d| *d < last);
    let end = (last > 0 && !(a.aligned && a.size <= block)).then_some(last);
    core::iter::once(0).chain(whole).chain(end)
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
    let mut epoch = 0;
    let mut next = 0;
    for a in accesses {
        while next <= a.position {
            if plan.barriers[next] {
                epoch = checks.len();
            }
            next += 1;
        }
        let (key, displacement) = plan.snapshots[a.position].name(a);
        for offset in probes(a, options.block_bytes()) {
            let check = Check {
                key,
                displacement: displacement.wrapping_add(offset),
                position: a.position,
                segment: plan.segments[a.position],
                reads: a.reads,
                writes: a.writes,
            };
            if !options.merge || separate(a) || !merge(&mut checks[epoch..], &check) {
                checks.push(check);
            }
        }
    }
    if options.group {
        group(&mut checks, options.block_bytes());
    }
    if options.hoist {
        hoist(&mut checks, plan, liveness);
    }
    checks.sort_by_key(|c| c.position);
    checks
}

/// Whether an earlier check of the same address covers `new`, possibly by growing it to a write.
fn merge(earlier: &mut [Check], new: &Check) -> bool {
    let same = |c: &&mut Check| c.key == new.key && c.displacement == new.displacement;
    for c in earlier.iter_mut().filter(same) {
        // A write check that passes says that the block is ours and known: reads need no more.
        if (c.writes || !new.writes) && (c.reads || c.writes || !new.reads) {
            return true;
        }
        // A read, then a write in the same segment: one check for both, at the read.
        if new.writes && c.reads && !c.writes && c.segment == new.segment {
            c.writes = true;
            return true;
        }
    }
    false
}

/// Among at least three checks of one kind and segment that span at most one block, the outer two
/// cover the rest.
fn group(checks: &mut Vec<Check>, block: i64) {
    let mut dead = vec![false; checks.len()];
    for x in 0..checks.len() {
        if dead[x] {
            continue;
        }
        let low = checks[x];
        let members: Vec<usize> = (0..checks.len())
            .filter(|&y| {
                let c = &checks[y];
                !dead[y]
                    && c.key == low.key
                    && c.segment == low.segment
                    && (c.reads, c.writes) == (low.reads, low.writes)
                    && (0..=block).contains(&c.displacement.wrapping_sub(low.displacement))
            })
            .collect();
        if members.len() < 3 {
            continue;
        }
        let high = *members.iter().max_by_key(|&&y| checks[y].displacement).expect("three members");
        let first = members.iter().map(|&y| checks[y].position).min().expect("three members");
        for &y in members.iter().filter(|&&y| y != x && y != high) {
            dead[y] = true;
        }
        checks[x].position = first;
        checks[high].position = first;
    }
    let mut keep = dead.iter().map(|d| !d);
    checks.retain(|_| keep.next().unwrap_or(true));
}

/// Moves each check that would have to save flags back to the nearest place in its segment where
/// flags are dead and its registers unchanged.
fn hoist(checks: &mut [Check], plan: &Plan, liveness: &BlockLiveness) {
    for c in checks.iter_mut().filter(|c| liveness.live[c.position].flags != 0) {
        let mut p = c.position;
        while p > 0 && plan.segments[p - 1] == c.segment && plan.repeats[p - 1].is_none() {
            p -= 1;
            if !plan.snapshots[p].knows(&c.key) {
                break;
            }
            if liveness.live[p].flags == 0 {
                c.position = p;
                break;
            }
        }
    }
}

/// Whether the address needs no register.
pub fn is_absolute(key: &Key) -> bool {
    key.base == Register::None && key.index == Register::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::{self, Live};
    use crate::options::{Options, Shadow};
    use iced_x86::{Decoder, DecoderOptions};

    fn plan_of(bytes: &[u8], disabled: u32) -> Vec<Check> {
        let all: Vec<Instruction> = Decoder::new(64, bytes, DecoderOptions::NONE).iter().collect();
        let nothing = Live { regs: 0, flags: 0 };
        let live = liveness::analyse(&all, nothing, &mut |_| Live::ALL, true);
        let surveyed = survey(&all, &live, true);
        let options = Options::new(6, Shadow::Far, disabled);
        plan(&surveyed, &surveyed.accesses, &live, &options, &|_| false)
    }

    /// mov rax, [rdi + d]
    fn load(d: u8) -> [u8; 4] {
        [0x48, 0x8b, 0x47, d]
    }

    fn displacements(checks: &[Check]) -> Vec<i64> {
        checks.iter().map(|c| c.displacement).collect()
    }

    #[test]
    fn both_ends_of_an_access_are_checked() {
        assert_eq!(displacements(&plan_of(&load(0), 0)), [0, 7]);
        // movaps xmm0, [rdi] cannot cross a block; movups can.
        assert_eq!(displacements(&plan_of(&[0x0f, 0x28, 0x07], 0)), [0]);
        assert_eq!(displacements(&plan_of(&[0x0f, 0x10, 0x07], 0)), [0, 15]);
        // push rax: the stack is aligned to eight.
        assert_eq!(displacements(&plan_of(&[0x50], 0)), [-8]);
    }

    #[test]
    fn small_blocks_get_a_probe_each() {
        let a = Access {
            position: 0,
            fs: false,
            base: Register::RDI,
            index: Register::None,
            scale: 1,
            displacement: 0,
            size: 64,
            reads: true,
            writes: false,
            aligned: false,
        };
        assert_eq!(probes(&a, 16).collect::<Vec<_>>(), [0, 16, 32, 48, 63]);
        assert_eq!(probes(&a, 64).collect::<Vec<_>>(), [0, 63]);
        assert_eq!(probes(&Access { aligned: true, ..a }, 64).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_same_address_is_checked_once() {
        let twice = [load(0), load(0)].concat();
        assert_eq!(plan_of(&twice, 0).len(), 2);
        assert_eq!(
            plan_of(&twice, crate::options::disable::MERGE | crate::options::disable::GROUP).len(),
            4
        );
    }

    #[test]
    fn a_run_within_a_block_is_checked_at_its_ends() {
        let run: Vec<u8> = (0..8).flat_map(|k| load(8 * k)).collect();
        assert_eq!(displacements(&plan_of(&run, 0)), [0, 63]);
        let longer: Vec<u8> = (0..9).flat_map(|k| load(8 * k)).collect();
        assert_eq!(displacements(&plan_of(&longer, 0)), [0, 64, 71]);
    }

    #[test]
    fn nothing_before_a_barrier_covers_what_follows() {
        // mov rax,[rdi]; pause; mov rax,[rdi]
        let spin = [&load(0)[..], &[0xf3, 0x90], &load(0)].concat();
        assert_eq!(plan_of(&spin, 0).len(), 4);
    }

    #[test]
    fn a_read_and_a_write_of_one_word_share_a_check() {
        // mov rax,[rdi]; mov [rdi],rax
        let checks = plan_of(&[0x48, 0x8b, 0x07, 0x48, 0x89, 0x07], 0);
        assert!(checks.iter().all(|c| c.reads && c.writes && c.position == 0), "{checks:?}");
        assert_eq!(checks.len(), 2);
    }

    #[test]
    fn a_write_after_a_branch_keeps_its_own_check() {
        // mov rax,[rdi]; je +0; mov [rdi],rax: the branch may leave before the write.
        let checks = plan_of(&[0x48, 0x8b, 0x07, 0x74, 0, 0x48, 0x89, 0x07], 0);
        let writes: Vec<&Check> = checks.iter().filter(|c| c.writes).collect();
        assert_eq!(writes.len(), 2);
        assert!(writes.iter().all(|c| c.position == 2));
    }

    #[test]
    fn checks_move_back_to_where_flags_are_dead() {
        // mov rcx,rdx; cmp rcx,rdx; mov rax,[rdi]; sete al
        let code = [0x48, 0x89, 0xd1, 0x48, 0x39, 0xd1, 0x48, 0x8b, 0x07, 0x0f, 0x94, 0xc0];
        assert!(plan_of(&code, 0).iter().all(|c| c.position == 1));
        assert!(plan_of(&code, crate::options::disable::HOIST).iter().all(|c| c.position == 2));
    }
}

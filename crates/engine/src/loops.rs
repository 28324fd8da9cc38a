//! Loop versioning: check the ranges of a small loop's address streams once, then run several
//! iterations without checks.
//!
//! Problem: in a loop over arrays almost every check passes, and the checks cost more than the work.
//! Approach: when an access's registers only change by constants, its addresses over the next
//! `unroll` iterations are known at the head. The head tests every block that they touch; if all
//! are known to this thread, the unrolled body runs without those checks, otherwise one iteration
//! of the ordinary body runs (and counts what there is to count).
//!
//! The spin rule: an access to the same address in every iteration may be what the loop waits for,
//! so it keeps a check of its own in every iteration, unless it is on the thread's stack. Loops with
//! barriers (atomics, `pause`) are not versioned at all.

use crate::access::Access;
use crate::checks::{self, Plan};
use crate::liveness::BlockLiveness;
use crate::track::Key;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::Register;

/// More head checks than this cost more than they save.
const MOST_HEAD_CHECKS: usize = 40;

/// A test in the head of a versioned loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadCheck {
    pub key: Key,
    pub displacement: i64,
    pub writes: bool,
}

/// A loop split into what its head tests and what its body still checks.
pub struct Versioned {
    pub head: Vec<HeadCheck>,
    pub rest: Vec<Access>,
}

/// Splits the accesses of an unrolled loop whose body has `body` instructions; `None` when versioning
/// is impossible or does not pay.
pub fn version(
    plan: &Plan,
    liveness: &BlockLiveness,
    body: usize,
    block: i64,
) -> Option<Versioned> {
    let unsuitable = liveness.live[0].flags != 0
        || plan.unseen > 0
        || plan.repeats.iter().any(Option::is_some)
        || plan.barriers.iter().any(|b| *b);
    if unsuitable {
        return None;
    }
    let mut points: Vec<HeadCheck> = Vec::new();
    let mut rest = Vec::new();
    for a in &plan.accesses {
        let (key, displacement) = plan.snapshots[a.position].name(a);
        let known = !a.fs && !checks::is_absolute(&key) && plan.snapshots[0].knows(&key);
        if !known || (is_invariant(plan, a, body) && !is_on_stack(a)) {
            rest.push(*a);
            continue;
        }
        for offset in checks::probes(a, block) {
            let displacement = displacement.wrapping_add(offset);
            points.push(HeadCheck { key, displacement, writes: a.writes });
        }
    }
    let head = cover(&points, block);
    (!head.is_empty() && head.len() <= MOST_HEAD_CHECKS).then_some(Versioned { head, rest })
}

/// Whether the access has the same address in the second iteration as in the first.
pub fn is_invariant(plan: &Plan, a: &Access, body: usize) -> bool {
    let first = a.position % body;
    let (k0, d0) = plan.snapshots[first].name(a);
    let (k1, d1) = plan.snapshots[first + body].name(a);
    k0 == k1 && d0 == d1
}

/// Addressed through the stack or frame pointer: no other thread is waited for there.
pub fn is_on_stack(a: &Access) -> bool {
    matches!(a.base, Register::RSP | Register::RBP | Register::ESP | Register::EBP)
}

/// The fewest of the given points such that every point lies between two chosen ones of its stream at
/// most one block apart.
fn cover(points: &[HeadCheck], block: i64) -> Vec<HeadCheck> {
    let mut chosen = Vec::new();
    let mut used = vec![false; points.len()];
    for x in 0..points.len() {
        if used[x] {
            continue;
        }
        let mut stream: Vec<i64> = Vec::new();
        for y in x..points.len() {
            if !used[y] && points[y].key == points[x].key && points[y].writes == points[x].writes {
                used[y] = true;
                stream.push(points[y].displacement);
            }
        }
        stream.sort_unstable();
        stream.dedup();
        let mut last = stream[0];
        chosen.push(HeadCheck { displacement: last, ..points[x] });
        let mut j = 1;
        while j < stream.len() {
            let mut furthest = j;
            while furthest + 1 < stream.len() && stream[furthest + 1] <= last + block {
                furthest += 1;
            }
            last = stream[furthest];
            chosen.push(HeadCheck { displacement: last, ..points[x] });
            j = furthest + 1;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::{self, Live};
    use crate::superblock::Superblock;
    use iced_x86::{Decoder, DecoderOptions, Instruction};

    /// Versions eight iterations of a loop body.
    fn versioned(body: &[u8]) -> Option<Versioned> {
        let one: Vec<Instruction> = Decoder::new(64, body, DecoderOptions::NONE).iter().collect();
        let n = one.len();
        let source = Superblock {
            pc: 0,
            end: body.len() as u64,
            instructions: one,
            terminated: false,
            is_loop: true,
        };
        let all = source.unrolled(8).instructions;
        let nothing = Live { regs: 0, flags: 0 };
        let live = liveness::analyse(&all, nothing, &mut |_| nothing, true);
        version(&checks::survey(&all, &live, true), &live, n, 64)
    }

    #[test]
    fn a_stream_is_tested_at_both_ends_of_its_range() {
        // mov rax,[rdi]; add rdi,8; cmp rdi,rsi; jne top
        let v = versioned(&[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf4])
            .unwrap();
        let at: Vec<i64> = v.head.iter().map(|h| h.displacement).collect();
        assert_eq!(at, [0, 63]);
        assert!(v.rest.is_empty());
    }

    #[test]
    fn a_wide_stride_is_tested_in_every_block() {
        // mov rax,[rdi]; sub rdi,-128; cmp rdi,rsi; jne top
        let v =
            versioned(&[0x48, 0x8b, 0x07, 0x48, 0x83, 0xef, 0x80, 0x48, 0x39, 0xf7, 0x75, 0xf4])
                .unwrap();
        assert_eq!(v.head.len(), 16);
    }

    #[test]
    fn what_a_loop_may_wait_for_keeps_its_checks() {
        // mov rax,[rdi]; add rdi,8; cmp rax,[rbx]; jne top
        let v = versioned(&[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x3b, 0x03, 0x75, 0xf4])
            .unwrap();
        assert_eq!(v.rest.len(), 8, "one load of [rbx] in each iteration");
        // A loop that does nothing but wait is not versioned: cmp rax,[rbx]; jne top
        assert!(versioned(&[0x48, 0x3b, 0x03, 0x75, 0xfb]).is_none());
    }

    #[test]
    fn barriers_forbid_versioning() {
        // mov rax,[rdi]; add rdi,8; pause; cmp rdi,rsi; jne top
        let body =
            [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 8, 0xf3, 0x90, 0x48, 0x39, 0xf7, 0x75, 0xf2];
        assert!(versioned(&body).is_none());
    }
}

//! Loop versioning: check the ranges of a small loop's address streams once, then run several
//! iterations without checks.
//!
//! Problem: in a loop over arrays almost every check passes, and the checks cost more than the
//! work. Approach: when an access's registers only change by constants, its addresses over the next
//! `unroll` iterations are known at the head. The head tests every block that they touch; if all
//! are known to this thread, the unrolled body runs without those checks, otherwise one iteration
//! of the ordinary body runs (and counts what there is to count).
//!
//! The spin rule: an access to the same address in every iteration may be what the loop waits for,
//! so it keeps a check of its own in every iteration, unless it is on the thread's stack. Loops
//! with barriers (atomics, `pause`) are not versioned at all.

use crate::decode::access::Access;
use crate::decode::liveness::BlockLiveness;
use crate::options::{LINE_SHIFT, Mode, Options};
use crate::plan::checks::{self, Plan};
use crate::plan::probe::{self, Probe, Written};
use crate::plan::streams::{self, Stream};
use crate::plan::track::Key;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::Register;

/// A versioned loop: instructions of one iteration, and the entry of the ordinary body.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    pub body: usize,
    pub plain: u64,
}

/// In an unrolled loop, the back edges of all but the last iteration fall through to the next copy
/// and leave when they are not taken.
pub(crate) fn is_inverted(again: Option<Loop>, k: usize, n: usize) -> bool {
    again.is_some_and(|l| k % l.body == l.body - 1 && k + 1 != n)
}

/// Bytes of a line of the bytes-written shadow.
const LINE: i64 = 1 << LINE_SHIFT;

/// More head checks than this cost more than they save.
const MAX_HEAD_CHECKS: usize = 40;

/// A test in the head of a versioned loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadCheck {
    /// The address, up to a constant.
    pub key: Key,
    /// What is asked about its block.
    pub probe: Probe,
}

/// Tests of a head for the same blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Two blocks at a time, perhaps one too many.
    pub quick: Vec<HeadCheck>,
    /// Where that fails: each block for itself, and the bytes of those that are not written whole.
    pub exact: Vec<HeadCheck>,
}

/// What the head of a versioned loop tests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeadTests {
    /// One for each pair of blocks, or for all of a stream whose bytes are told apart.
    pub questions: Vec<Question>,
    /// Addresses whose blocks are asked about, one way or the other.
    pub addresses: usize,
    /// What is counted by page before the first iteration.
    pub streams: Vec<Stream>,
}

impl HeadTests {
    /// The tests of two blocks at a time.
    pub fn quick(&self) -> impl Iterator<Item = &HeadCheck> {
        self.questions.iter().flat_map(|q| &q.quick)
    }

    /// The tests of each block for itself.
    pub fn exact(&self) -> impl Iterator<Item = &HeadCheck> {
        self.questions.iter().flat_map(|q| &q.exact)
    }
}

/// An access whose addresses are known at the head.
pub(crate) struct Touch {
    pub position: usize,
    pub key: Key,
    pub displacement: i64,
    pub bytes: i64,
    exclusive: bool,
    pub reads: bool,
    pub writes: bool,
}

/// A loop split into what its head tests and what its body still checks.
pub struct Versioned {
    /// What the head tests.
    pub head: HeadTests,
    /// What the body still checks.
    pub rest: Vec<Access>,
}

/// Splits the accesses of an unrolled loop, of which code without checks has none, whose body has
/// `body` instructions; `None` when versioning is impossible or does not pay with the plan's number
/// of iterations.
pub fn version(
    plan: &Plan,
    liveness: &BlockLiveness,
    body: usize,
    options: &Options,
) -> Option<Versioned> {
    if !options.checks() {
        return Some(Versioned { head: HeadTests::default(), rest: Vec::new() });
    }
    let unsuitable = liveness.live[0].flags != 0
        || plan.unseen > 0
        || plan.repeats.iter().any(Option::is_some)
        || plan.barriers.iter().any(|b| *b);
    if unsuitable {
        return None;
    }
    let mut touches: Vec<Touch> = Vec::new();
    let mut rest = Vec::new();
    for a in &plan.accesses {
        let (key, displacement) = plan.snapshots[a.position].name(a);
        let flat = a.segment == Register::None;
        let known = flat && !checks::is_absolute(&key) && plan.snapshots[0].knows(&key);
        let plain = a.elements.is_none() && !(options.pages && a.size > options.window());
        if !plain || !known || (is_invariant(plan, a, body) && !is_on_stack(a)) {
            rest.push(*a);
            continue;
        }
        let exclusive = a.writes || options.mode == Mode::Undirected;
        let Access { position, size: bytes, reads, writes, .. } = *a;
        touches.push(Touch { position, key, displacement, bytes, exclusive, reads, writes });
    }
    let mut head = cover(&touches, options);
    if options.pages {
        head.streams = streams::streams(&touches)?;
    }
    if !(1..=MAX_HEAD_CHECKS).contains(&head.quick().count()) {
        return None;
    }
    let iterations = plan.snapshots.len() / body;
    if iterations == options.unroll {
        // Where iterations have blocks of their own, testing many ahead saves nothing, and is
        // wasted when the loop ends before them.
        touches.retain(|t| t.position < body * iterations / 2);
        if head.addresses * 4 > cover(&touches, options).addresses * 7 {
            return None;
        }
    }
    Some(Versioned { head, rest })
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

/// The tests that cover all touches, stream by stream.
fn cover(touches: &[Touch], options: &Options) -> HeadTests {
    let mut head = HeadTests::default();
    let mut used: Vec<bool> = touches.iter().map(|t| is_written_too(t, touches)).collect();
    for x in 0..touches.len() {
        if used[x] {
            continue;
        }
        let mut stream: Vec<&Touch> = Vec::new();
        for y in x..touches.len() {
            let alike =
                touches[y].key == touches[x].key && touches[y].exclusive == touches[x].exclusive;
            if !used[y] && alike {
                used[y] = true;
                stream.push(&touches[y]);
            }
        }
        let (key, exclusive) = (touches[x].key, touches[x].exclusive);
        let check = |probe| HeadCheck { key, probe };
        let words = cover_blocks(&stream, options.window(), exclusive);
        head.addresses += words.len();
        let pairs = in_pairs(&words, options.block_bytes());
        if options.mode == Mode::Detail && exclusive {
            let quick = pairs.map(|(probe, _)| check(probe)).collect();
            let bytes = cover_bytes(&stream, options.window());
            head.questions.push(Question { quick, exact: bytes.into_iter().map(check).collect() });
        } else {
            head.questions.extend(pairs.map(|(probe, words)| Question {
                quick: vec![check(probe)],
                exact: words.iter().copied().map(check).collect(),
            }));
        }
    }
    // What is written first: while a loop fills lines that it has just taken, that fails in every
    // iteration.
    head.questions.sort_by_key(|q| !q.quick[0].probe.exclusive);
    head
}

/// Whether what is read is also written: a block that is this thread's alone need not be asked
/// about for a read.
fn is_written_too(read: &Touch, touches: &[Touch]) -> bool {
    let holds = |t: &Touch| {
        let at = read.displacement.wrapping_sub(t.displacement);
        t.exclusive && t.key == read.key && at >= 0 && at + read.bytes <= t.bytes
    };
    !read.exclusive && touches.iter().any(holds)
}

/// The fewest addresses such that every touched byte lies between two of them at most one block
/// apart.
fn cover_blocks(stream: &[&Touch], window: i64, exclusive: bool) -> Vec<Probe> {
    let ends = |t: &&Touch| {
        let last = t.bytes - 1;
        let base = t.displacement;
        (0..last).step_by(window as usize).chain([last]).map(move |at| base.wrapping_add(at))
    };
    let mut points: Vec<i64> = stream.iter().flat_map(ends).collect();
    points.sort_unstable();
    points.dedup();
    let mut chosen = vec![points[0]];
    let mut next = 1;
    while next < points.len() {
        let last = chosen[chosen.len() - 1];
        while next + 1 < points.len() && points[next + 1] <= last + window {
            next += 1;
        }
        chosen.push(points[next]);
        next += 1;
    }
    let probe =
        |displacement| Probe { displacement, exclusive, pair: false, written: Written::Any };
    chosen.into_iter().map(probe).collect()
}

/// The same in fewer probes, each with those that it stands for: where the next one is at most a
/// block away, one for both.
fn in_pairs(probes: &[Probe], block: i64) -> impl Iterator<Item = (Probe, &[Probe])> {
    let mut rest = probes;
    core::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let near = |next: &&Probe| next.displacement.wrapping_sub(first.displacement) <= block;
        let next = others.first().filter(near);
        let (both, after) = rest.split_at(1 + usize::from(next.is_some()));
        rest = after;
        Some((next.map_or(*first, |next| Probe { pair: true, ..*next }), both))
    })
}

/// What is asked about written bytes: runs without a gap line by line, other windows by their
/// bytes.
fn cover_bytes(stream: &[&Touch], window: i64) -> Vec<Probe> {
    let touched = |t: &&Touch| t.displacement..t.displacement.wrapping_add(t.bytes);
    let mut bytes: Vec<i64> = stream.iter().flat_map(touched).collect();
    bytes.sort_unstable();
    bytes.dedup();
    let mut probes = Vec::new();
    let mut rest = &bytes[..];
    while let Some(&low) = rest.first() {
        let run = rest.iter().zip(low..).take_while(|(b, expected)| *b == expected).count();
        if window == LINE && run as i64 >= 2 * LINE {
            cover_run(low, low + run as i64, &mut probes);
            rest = &rest[run..];
            continue;
        }
        let inside = rest.partition_point(|b| b - low < window);
        let set = rest[..inside].iter().fold(0u64, |set, b| set | 1 << (b - low));
        cover_window(low, set, &mut probes);
        rest = &rest[inside..];
    }
    probes
}

fn ask(displacement: i64, written: Written) -> Probe {
    Probe { displacement, exclusive: true, pair: false, written }
}

/// A window: what is written from its lowest byte on, and what up to its highest, should the window
/// lie in two lines.
fn cover_window(low: i64, set: u64, probes: &mut Vec<Probe>) {
    let span = 64 - i64::from(set.leading_zeros());
    probes.push(ask(low, Written::From(set)));
    if span > 1 {
        probes.push(ask(low + span - 1, Written::UpTo(probe::up_to(set, span))));
    }
}

/// All bytes from `low` to before `end`, at least two lines: a line around each point that is at
/// least a line away from both ends is written wholly.
fn cover_run(low: i64, end: i64, probes: &mut Vec<Probe>) {
    probes.push(ask(low, Written::From(!0)));
    let mut next = low + LINE;
    while next + LINE <= end {
        probes.push(ask(next, Written::Line));
        next += LINE;
    }
    if next < end {
        // Less than a line is left, in one line or two.
        probes.push(ask(next - 1, Written::UpTo(!0)));
        probes.push(ask(next, Written::From(probe::first(end - next))));
    }
    probes.push(ask(end - 1, Written::UpTo(!0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::liveness::{self, Live};
    use crate::decode::superblock::Superblock;
    use iced_x86::{Decoder, DecoderOptions, Instruction};

    /// Versions eight iterations of a loop body.
    fn versioned(body: &[u8]) -> Option<Versioned> {
        versioned_as(Mode::Matrix, body)
    }

    fn versioned_as(mode: Mode, body: &[u8]) -> Option<Versioned> {
        versioned_times(8, mode, body)
    }

    fn versioned_times(times: usize, mode: Mode, body: &[u8]) -> Option<Versioned> {
        let one: Vec<Instruction> = Decoder::new(64, body, DecoderOptions::NONE).iter().collect();
        let n = one.len();
        let source = Superblock {
            pc: 0,
            end: body.len() as u64,
            instructions: one,
            terminated: false,
            is_loop: true,
            original: Vec::new(),
        };
        let all = source.unrolled(times).instructions;
        let nothing = Live { regs: 0, flags: 0 };
        let live = liveness::analyse(&all, nothing, &mut |_| nothing, true, false);
        let options = Options::new(mode, 6, 0);
        version(&checks::survey(&all, &live, &options), &live, n, &options)
    }

    #[test]
    fn a_stream_is_tested_from_one_end_of_its_range_to_the_other() {
        // mov rax,[rdi]; add rdi,8; cmp rdi,rsi; jne top
        let v = versioned(&[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf4])
            .unwrap();
        let at: Vec<i64> = v.head.quick().map(|h| h.probe.displacement).collect();
        assert_eq!(at, [63]);
        assert!(v.rest.is_empty());
    }

    #[test]
    fn a_wide_stride_is_tested_in_every_block_and_fewer_iterations_ahead() {
        // mov rax,[rdi]; sub rdi,-128; cmp rdi,rsi; jne top
        let body = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xef, 0x80, 0x48, 0x39, 0xf7, 0x75, 0xf4];
        assert!(versioned(&body).is_none());
        let v = versioned_times(4, Mode::Matrix, &body).unwrap();
        assert_eq!((v.head.quick().count(), v.head.exact().count()), (4, 8));
    }

    #[test]
    fn what_is_written_too_is_not_asked_about_twice() {
        // add [rdi],rax; mov rcx,[rdi]; mov rdx,[rdi+8]; add rdi,16; cmp rdi,rsi; jne top
        let body = [
            0x48, 0x01, 0x07, 0x48, 0x8b, 0x0f, 0x48, 0x8b, 0x57, 0x08, 0x48, 0x83, 0xc7, 0x10,
            0x48, 0x39, 0xf7, 0x75, 0xed,
        ];
        let v = versioned(&body).unwrap();
        let reads: Vec<i64> =
            v.head.exact().filter(|h| !h.probe.exclusive).map(|h| h.probe.displacement).collect();
        assert_eq!(reads, [8, 72, 127], "only the eight bytes that are not written");
    }

    #[test]
    fn a_written_stream_asks_for_its_bytes() {
        // mov [rdi],eax; add rdi,8; cmp rdi,rsi; jne top
        let v = versioned_as(
            Mode::Detail,
            &[0x89, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf5],
        )
        .unwrap();
        let every_other = 0x0f0f_0f0f_0f0f_0f0f;
        let asked: Vec<_> =
            v.head.exact().map(|h| (h.probe.displacement, h.probe.written)).collect();
        let upto = Written::UpTo(every_other << 4);
        assert_eq!(asked, [(0, Written::From(every_other)), (59, upto)]);
        assert!(v.head.exact().all(|h| h.probe.exclusive));
        let quick: Vec<i64> = v.head.quick().map(|h| h.probe.displacement).collect();
        assert_eq!(quick, [59]);
    }

    /// Whether the probes ask for every byte of the run, wherever lines begin, and for nothing
    /// else.
    #[test]
    fn runs_are_covered_wherever_lines_begin() {
        for bytes in 128..300i64 {
            let mut probes = Vec::new();
            cover_run(1000, 1000 + bytes, &mut probes);
            for offset in 0..64 {
                let line_of = |at: i64| (at + offset).div_euclid(64);
                let mut asked = alloc::collections::BTreeSet::new();
                for p in &probes {
                    let at = p.displacement;
                    let near = (at - 64..=at + 64).filter(|b| line_of(*b) == line_of(at));
                    asked.extend(near.filter(|b| match p.written {
                        Written::Any => false,
                        Written::Line => true,
                        Written::From(set) => *b >= at && set >> (b - at) & 1 != 0,
                        Written::UpTo(set) => *b <= at && set >> (63 - (at - b)) & 1 != 0,
                    }));
                }
                let run: alloc::collections::BTreeSet<i64> = (1000..1000 + bytes).collect();
                assert_eq!(asked, run, "{bytes} bytes, lines at {offset}");
            }
        }
    }

    #[test]
    fn what_is_written_is_tested_first() {
        // mov rax,[rsi]; mov [rdi],rax; add rsi,8; add rdi,8; cmp rsi,rdx; jne top
        let body = [
            0x48, 0x8b, 0x06, 0x48, 0x89, 0x07, 0x48, 0x83, 0xc6, 8, 0x48, 0x83, 0xc7, 8, 0x48,
            0x39, 0xd6, 0x75, 0xed,
        ];
        let head = versioned_as(Mode::Detail, &body).unwrap().head;
        let (quick, exact): (Vec<_>, Vec<_>) = (head.quick().collect(), head.exact().collect());
        for tests in [quick, exact] {
            assert!(tests.iter().any(|h| !h.probe.exclusive));
            assert!(tests.is_sorted_by_key(|h| !h.probe.exclusive));
            assert!(tests[0].probe.exclusive);
        }
    }

    #[test]
    fn who_fails_a_quick_test_asks_about_the_same_blocks_only() {
        // mov rax,[rsi]; add rax,[rdi]; add rsi,8; add rdi,8; cmp rsi,rdx; jne top
        let body = [
            0x48, 0x8b, 0x06, 0x48, 0x03, 0x07, 0x48, 0x83, 0xc6, 8, 0x48, 0x83, 0xc7, 8, 0x48,
            0x39, 0xd6, 0x75, 0xed,
        ];
        let head = versioned(&body).unwrap().head;
        let at = |all: &[HeadCheck]| -> Vec<_> {
            all.iter().map(|h| (h.key.base, h.probe.displacement)).collect()
        };
        let asked: Vec<_> = head.questions.iter().map(|q| (at(&q.quick), at(&q.exact))).collect();
        let of = |r| (vec![(r, 63)], vec![(r, 0), (r, 63)]);
        assert_eq!(asked, [of(Register::RSI), of(Register::RDI)]);
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

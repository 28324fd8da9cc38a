//! What is said of invented programs with known use of pages, on two nodes of four cores.

use super::*;
use crate::samples::sample;
use profile::{
    AccessRow, NodesSeen, ObjectRow, PAGE_BYTES, PageRow, PageUse, RunningRow, SliceRow, TouchedRow,
};
use topology::Topology;

const MACHINE: &str = "pack:2 numa:1 core:4 pu:1";

/// A program of eight threads whose pages are told one by one.
struct Program(Profile);

impl Program {
    fn new() -> Self {
        let mut profile = sample(8, &[]).profile();
        let slice = |n: u64| SliceRow { start_ns: n * 100, end_ns: (n + 1) * 100 };
        profile.slices = (0..20).map(slice).collect();
        profile.objects = vec![ObjectRow::default()];
        profile.meta.page_use = Some(PageUse { estimated: false, private_bytes: 0, lost: 0 });
        Self(profile)
    }

    fn object(&mut self, name: &str) -> &mut Self {
        let (region, name) = ("static".into(), name.into());
        self.0.objects.push(ObjectRow { region, name, ..ObjectRow::default() });
        self
    }

    /// Pages of the last object, touched first by a thread; `uses` gives (slice, thread, reads,
    /// writes) of each.
    fn pages(&mut self, count: u64, first: u32, uses: impl Fn(u64) -> Vec<(u32, u32, u64, u64)>) {
        let tables = &mut self.0.pages;
        for page in 0..count {
            let number = tables.pages.len() as u32;
            tables.pages.push(PageRow {
                address: 0x10_0000 + u64::from(number) * PAGE_BYTES,
                object: self.0.objects.len() as u32 - 1,
                touched_by: Some(ThreadId(first)),
                ..PageRow::default()
            });
            let mut rows = uses(page);
            rows.sort_unstable();
            for (slice, thread, reads, writes) in rows {
                let (thread, total) = (ThreadId(thread), reads + writes);
                let interval = AccessRow { low: total, high: total, ..AccessRow::default() };
                tables.accesses.push(AccessRow {
                    page: number,
                    slice,
                    thread,
                    reads,
                    writes,
                    ..interval
                });
            }
        }
    }

    fn memory(&self) -> MemoryUse {
        let machine = Topology::from_synthetic(MACHINE).unwrap();
        let setting = Setting { machine: Some(&machine), ..Setting::default() };
        MemoryUse::of(&self.0, &setting, PageSize::K4).unwrap()
    }

    fn patterns(&self) -> Vec<DataPattern> {
        self.memory().advice.iter().map(|advice| advice.pattern).collect()
    }
}

/// Threads of each node, wherever idle threads go.
fn sides(memory: &MemoryUse) -> [Vec<u32>; 2] {
    let of = &memory.nodes.as_ref().unwrap().of_thread;
    [0, 1].map(|node| (0..8).filter(|&t| of[t as usize] == Some(node)).collect())
}

#[test]
fn pages_that_another_node_uses_should_be_touched_there() {
    let mut program = Program::new();
    program.object("far").pages(32, 0, |_| vec![(0, 0, 0, 512), (1, 7, 9000, 1000)]);
    program.object("near").pages(32, 6, |_| vec![(0, 6, 0, 512), (1, 7, 9000, 1000)]);
    let memory = program.memory();
    assert_eq!(sides(&memory), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    let [advice] = &memory.advice[..] else { panic!("{:#?}", memory.advice) };
    assert_eq!(
        (advice.pattern, &advice.objects[..]),
        (DataPattern::RemoteAfterAllocation, &["far".into()][..])
    );
    // Half of all but the first touches.
    let all = 64.0 * 10_512.0;
    assert!((advice.before - (32.0 * 512.0 + 32.0 * 10_512.0) / all).abs() < 1e-9);
    assert!((advice.after - (32.0 * 10_000.0 + 32.0 * 10_512.0) / all).abs() < 1e-9);
    assert!(advice.evidence.contains("T7 on node 1 make 95 %"), "{}", advice.evidence);
    assert_eq!(memory.objects[0].advice, ["m1"]);
    assert_eq!(memory.metrics.moves, 32);
}

#[test]
fn small_and_idle_objects_and_few_accesses_say_nothing() {
    let mut program = Program::new();
    program.object("busy").pages(64, 4, |_| vec![(0, 4, 9000, 1000)]);
    program.object("small").pages(15, 0, |_| vec![(0, 0, 0, 512), (1, 7, 9000, 1000)]);
    program.object("idle").pages(64, 0, |_| vec![(0, 0, 0, 10), (1, 7, 90, 10)]);
    assert_eq!(program.patterns(), []);
    let mut program = Program::new();
    program.object("little").pages(64, 0, |_| vec![(0, 0, 0, 10), (1, 7, 90, 10)]);
    let memory = program.memory();
    assert!(memory.advice.is_empty());
    assert!(memory.text.last().unwrap().contains("not enough accesses"), "{:?}", memory.text);
    assert_eq!(memory.mapping.locality.suited, analysis::Suited::Unknown);
}

#[test]
fn samples_need_hits() {
    let mut program = Program::new();
    program.object("far").pages(32, 0, |_| vec![(0, 0, 0, 512), (1, 7, 9000, 1000)]);
    program.0.meta.page_use.as_mut().unwrap().estimated = true;
    let with = |hits: u64| {
        let mut profile = program.0.clone();
        profile.pages.accesses.iter_mut().for_each(|row| row.hits = hits);
        Program(profile).patterns()
    };
    // 64 rows: too few hits in all, and enough.
    assert_eq!((with(1).len(), with(2).len()), (0, 1));
}

#[test]
fn users_in_turns_are_told_from_users_at_once() {
    // All eight, too many for one node, one after the other or all in one slice.
    let patterns = |turns: bool| {
        let mut program = Program::new();
        let slice = move |thread: u32| if turns { 1 + thread * 2 } else { 1 };
        program.object("buffer").pages(32, 0, move |_| {
            (0..8).map(|thread| (slice(thread), thread, 500, 500)).collect()
        });
        program.object("own").pages(32, 0, |_| vec![(0, 2, 900, 100)]);
        program.patterns()
    };
    assert_eq!(patterns(true), [DataPattern::Alternating]);
    assert_ne!(patterns(false), [DataPattern::Alternating]);
}

/// The initial thread fills what each other uses a part of alone, but for a few passes only.
#[test]
fn filling_is_no_use_at_the_same_time() {
    let patterns = |filled: u64, used: u64| {
        let mut program = Program::new();
        program.object("parts").pages(32, 0, move |page| {
            vec![(0, 0, 0, filled), (1, 1 + (page % 7) as u32, used, used)]
        });
        program.patterns()
    };
    assert_eq!(patterns(512, 512), [DataPattern::RemoteAfterAllocation]);
    assert_eq!(patterns(512, 5120), [DataPattern::RemoteAfterAllocation]);
    assert_ne!(patterns(1024, 512), [DataPattern::RemoteAfterAllocation]);
}

/// All threads, on both nodes, with these reads and writes each.
fn by_all(reads: u64, writes: u64) -> impl Fn(u64) -> Vec<(u32, u32, u64, u64)> {
    move |_| (0..8).map(|thread| (1, thread, reads, writes)).chain([(0, 0, 0, 64)]).collect()
}

#[test]
fn what_all_use_is_copied_interleaved_or_spread() {
    let mut program = Program::new();
    program.object("table").pages(32, 0, by_all(1000, 0));
    assert_eq!(program.patterns(), [DataPattern::ReadByAll]);
    let mut program = Program::new();
    program.object("block").pages(32, 0, by_all(1000, 300));
    let memory = program.memory();
    assert_eq!(memory.advice[0].pattern, DataPattern::OneController);
    assert!(
        (memory.advice[0].before - 1.0).abs() < 1e-9 && (memory.advice[0].after - 0.5).abs() < 1e-9
    );
    let mut program = Program::new();
    program.object("left").pages(32, 0, by_all(1000, 300));
    program.object("right").pages(32, 0, by_all(1000, 300));
    let memory = program.memory();
    let [advice] = &memory.advice[..] else { panic!("{:#?}", memory.advice) };
    assert_eq!((advice.pattern, advice.objects.len()), (DataPattern::HotObjects, 2));
    assert!((advice.after - 0.5).abs() < 1e-9, "{advice:?}");
    assert!(advice.advice.contains("left on node 0 and right on node 1"), "{}", advice.advice);
}

#[test]
fn own_lines_on_shared_pages_are_told_from_shared_lines() {
    let patterns = |own: bool| {
        let mut program = Program::new();
        program.object("records").pages(32, 1, |_| vec![(1, 1, 500, 500), (1, 6, 500, 500)]);
        for page in 0..32 {
            for (thread, own_lines) in [(1, 0x0f0f), (6, 0xf0f0)] {
                let lines = if own { own_lines } else { 0xffff };
                let thread = ThreadId(thread);
                program.0.pages.touched.push(TouchedRow { page, thread, lines, written: 0 });
            }
        }
        program.object("own").pages(32, 2, |_| vec![(0, 2, 900, 100)]);
        program.patterns()
    };
    assert_eq!(patterns(true), [DataPattern::Packed]);
    // Two threads that share pages belong on one node.
    assert_eq!(patterns(false), [DataPattern::SharersApart]);
}

#[test]
fn sharers_are_named_by_process() {
    let mut program = Program::new();
    for (thread, name) in [(0, "process 3"), (4, "process 5")] {
        program.0.threads[thread].start_symbol = name.into();
    }
    let of = processes(&program.0);
    assert_eq!((of[3], of[7]), (Some(3), Some(5)));
    assert_eq!(processes(&Program::new().0), [None; 8]);
}

#[test]
fn on_the_recorded_machine_pages_lie_where_they_were_seen() {
    let mut program = Program::new();
    program.object("far").pages(32, 0, |_| vec![(0, 0, 0, 512), (1, 7, 9000, 1000)]);
    let machine = Topology::from_synthetic(MACHINE).unwrap();
    program.0.meta.topology_xml = machine.to_xml().to_owned();
    let local = |node: Option<u32>| {
        let mut profile = program.0.clone();
        profile.pages.pages.iter_mut().for_each(|page| page.node = node);
        let found = MemoryUse::of(&profile, &Setting::default(), PageSize::K4).unwrap();
        found.metrics.local.unwrap()
    };
    assert!(local(None) < 0.1 && local(Some(0)) < 0.1 && local(Some(1)) > 0.9);
}

#[test]
fn samples_say_themselves_whether_they_were_local() {
    let mut program = Program::new();
    program.object("far").pages(32, 0, |_| vec![(1, 7, 9000, 1000)]);
    program.object("lost").pages(8, 0, |_| vec![(1, 7, 9000, 1000)]);
    let machine = Topology::from_synthetic(MACHINE).unwrap();
    let profile = &mut program.0;
    profile.meta.topology_xml = machine.to_xml().to_owned();
    profile.meta.page_use = Some(PageUse { estimated: true, private_bytes: 0, lost: 0 });
    // The thread was seen on the second node, but nearly all samples of it are from the first.
    let (slice, thread, pu) = (0, ThreadId(7), 6);
    profile.running = vec![RunningRow { slice, thread, pu, cpu_ns: 1, waited_ns: 0 }];
    for (number, page) in profile.pages.pages.iter_mut().enumerate() {
        (page.touched_by, page.node) = (None, (number < 32).then_some(0));
    }
    for row in &mut profile.pages.accesses {
        let known = row.page < 32;
        (row.hits, row.node) = (10, Some(0));
        row.seen = known.then_some(NodesSeen { local: 9, remote: 1 });
    }
    let of = |profile: &Profile, setting: &Setting<'_>| {
        MemoryUse::of(profile, setting, PageSize::K4).unwrap()
    };
    let found = of(profile, &Setting::default());
    let seen = found.seen.unwrap();
    assert_eq!((seen.local, seen.remote, seen.unknown, seen.share), (288, 32, 80, 0.9));
    assert!((0.85..0.88).contains(&seen.low) && (0.92..0.94).contains(&seen.high), "{seen:?}");
    assert_eq!((found.metrics.local, found.metrics.pages), (Some(0.9), 32));
    assert_eq!((found.unplaced, found.nowhere), (80_000, 0));
    assert_eq!(found.nodes.unwrap().made, [1.0, 0.0]);
    let said = "Local accesses were seen in 90 % (86 % to 93 %) of 320 samples; of 80 more it is not known.";
    assert!(found.text.iter().any(|text| text == said), "{:?}", found.text);
    // On another machine threads run elsewhere.
    let there = of(profile, &Setting { machine: Some(&machine), ..Setting::default() });
    assert_eq!((there.seen, there.unplaced), (None, 0));
}

#[test]
fn without_pages_or_machine_little_is_said() {
    let mut program = Program::new();
    program.object("far").pages(32, 0, |_| vec![(0, 0, 0, 512), (1, 7, 9000, 1000)]);
    let found = MemoryUse::of(&program.0, &Setting::default(), PageSize::K4).unwrap();
    assert_eq!((found.nodes, found.advice.len(), found.policies.len()), (None, 0, 0));
    assert!(found.text[1].contains("--on"));
    program.0.meta.page_use = None;
    assert_eq!(MemoryUse::of(&program.0, &Setting::default(), PageSize::K4), None);
}

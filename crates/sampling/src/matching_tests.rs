use super::*;
use access::{Access, AccessKind};

const MS: u64 = 1_000_000;
use AccessKind::{Load, Store, Update};

struct Run {
    matcher: Matcher,
    hits: Vec<Hit>,
}

impl Run {
    fn new() -> Self {
        let settings = Settings { interval_ns: MS, blocks: 1 << 10 };
        Self { matcher: Matcher::new(settings), hits: Vec::new() }
    }

    /// A sample by `thread` after `ms`, of 8 bytes at `address`; what it showed.
    fn at(
        &mut self,
        stream: Stream,
        ms: u64,
        thread: u32,
        kind: AccessKind,
        address: u64,
    ) -> Vec<Hit> {
        self.all(stream, ms, thread, &[(kind, address)])
    }

    /// The same of a sample that names several accesses.
    fn all(
        &mut self,
        stream: Stream,
        ms: u64,
        thread: u32,
        accesses: &[(AccessKind, u64)],
    ) -> Vec<Hit> {
        let site = 0x1000 + u64::from(thread);
        let access = |&(kind, address)| Access { address, bytes: 8, kind, site };
        let accesses: Vec<_> = accesses.iter().map(access).collect();
        let (time_ns, thread) = (ms * MS, ThreadId(thread));
        let sample = Observed { time_ns, thread, accesses: &accesses, period: MS };
        let before = self.hits.len();
        self.matcher.observe(stream, &sample, &mut self.hits);
        self.hits[before..].to_vec()
    }

    /// Samples of a thread that computes elsewhere, each millisecond.
    fn computes(&mut self, ms: std::ops::Range<u64>, thread: u32) {
        ms.for_each(|ms| self.matcher.runs(ThreadId(thread), ms * MS));
    }

    fn waits(&mut self, ms: u64, thread: u32, kind: AccessKind, address: u64) -> Vec<Hit> {
        self.at(Stream::Waiting, ms, thread, kind, address)
    }
}

fn told(hits: &[Hit]) -> Vec<(u32, u32, CommKind, Sharing)> {
    hits.iter().map(|h| (h.from.thread.0, h.to.thread.0, h.kind, h.sharing)).collect()
}

#[test]
fn a_read_after_anothers_write_is_raw_and_a_write_waw() {
    let mut run = Run::new();
    assert_eq!(run.waits(1, 0, Store, 0x100), []);
    let hits = run.waits(2, 1, Load, 0x100);
    assert_eq!(told(&hits), [(0, 1, CommKind::Raw, Sharing::True)]);
    let Hit { block, from, to, weight, .. } = hits[0];
    assert_eq!((block, from.site, to.site), (0x100, 0x1000, 0x1001));
    assert!((0.9e6..=1e6).contains(&weight), "{weight}");
    assert_eq!((from.bytes, to.bytes), (0xff, 0xff));
    assert_eq!(told(&run.waits(3, 2, Store, 0x120)), [(0, 2, CommKind::Waw, Sharing::False)]);
    let both = told(&run.waits(4, 3, Update, 0x120));
    assert_eq!(both, [(2, 3, CommKind::Raw, Sharing::True), (2, 3, CommKind::Waw, Sharing::True)]);
}

#[test]
fn reads_alone_and_ones_own_writes_are_nothing() {
    let mut run = Run::new();
    for ms in 0..50 {
        assert_eq!(run.waits(ms, (ms % 3) as u32, Load, 0x100), []);
        // Each thread has its own lines.
        assert_eq!(run.waits(ms, (ms % 3) as u32, Update, 0x1000 + 64 * (ms % 3)), []);
    }
}

#[test]
fn a_write_is_seen_once_by_each_reader() {
    let mut run = Run::new();
    run.waits(1, 0, Store, 0x100);
    assert_eq!(run.waits(2, 1, Load, 0x100).len(), 1);
    assert_eq!(run.waits(3, 2, Load, 0x100).len(), 1);
    // The value has arrived; no thread is known to write again.
    for ms in 4..200 {
        assert_eq!(run.waits(ms, 1 + (ms % 2) as u32, Load, 0x100), []);
    }
}

#[test]
fn accesses_between_writes_that_go_on_are_hits_once_that_is_known() {
    let mut run = Run::new();
    run.waits(1, 0, Store, 0x100);
    assert_eq!(run.waits(2, 1, Load, 0x100).len(), 1);
    assert_eq!(run.waits(3, 1, Load, 0x100), []);
    assert_eq!(run.waits(4, 1, Load, 0x100), []);
    run.computes(2..5, 0);
    let late = run.waits(5, 0, Store, 0x100);
    assert_eq!(told(&late), [(0, 1, CommKind::Raw, Sharing::True); 2]);
    assert_eq!([late[0].time_ns, late[1].time_ns], [3 * MS, 4 * MS]);
    // Too late: between two writes long after one another little may have happened.
    assert_eq!(run.waits(6, 1, Load, 0x100).len(), 1);
    assert_eq!(run.waits(7, 1, Load, 0x100), []);
    run.computes(6..5 + 21, 0);
    assert_eq!(run.waits(5 + 21, 0, Store, 0x100), []);
}

#[test]
fn writes_get_no_older_while_their_thread_does_not_run() {
    let mut run = Run::new();
    // 0 and 2 have a processor by turns of 10 ms, and write the block with every fifth sample; 1
    // always reads it.
    for ms in 0..400 {
        let (turn, part) = (ms / 10 % 4, ms % 10);
        let writer = [0, 2, 3, 4][turn as usize];
        match part % 5 {
            0 => drop(run.waits(ms, writer, Store, 0x100)),
            _ => run.computes(ms..ms + 1, writer),
        }
        run.waits(ms, 1, Load, 0x100);
    }
    // All but some at either end, and where turns begin before the first write.
    let found = run.hits.iter().filter(|hit| hit.to.thread == ThreadId(1)).count();
    assert!((300..=400).contains(&found), "{found}");
}

#[test]
fn what_is_written_seldom_goes_on_as_long_as_usual() {
    let mut run = Run::new();
    // With every 40th sample, and later no more.
    for ms in 0..3000 {
        match ms % 40 {
            0 if ms < 2000 => drop(run.waits(ms, 0, Store, 0x100)),
            _ => run.computes(ms..ms + 1, 0),
        }
        if ms % 10 == 5 {
            run.waits(ms, 1, Load, 0x100);
        }
    }
    run.waits(3000, 0, Store, 0x100);
    let within = |ms: std::ops::Range<u64>| {
        let within = |hit: &&Hit| ms.contains(&(hit.time_ns / MS));
        run.hits.iter().filter(within).count()
    };
    // At first only those just after a write.
    assert!(within(0..200) <= 10, "{}", within(0..200));
    assert_eq!(within(1000..1960), 96);
    assert_eq!(within(1970..3000), 0);
}

#[test]
fn who_does_not_run_does_not_write_again() {
    let mut run = Run::new();
    // Two threads that take turns of 10 ms at a counter: the line moves once a turn.
    for turn in 0..10u64 {
        for ms in 0..10 {
            run.waits(10 * turn + ms, (turn % 2) as u32, Store, 0x100);
        }
    }
    // The first access of a turn, and those just after it, when the other may still have run.
    assert!((9..=9 * 4).contains(&run.hits.len()), "{}", run.hits.len());
    // A third one that computes elsewhere is told to run.
    let mut run = Run::new();
    run.waits(1, 0, Store, 0x100);
    for ms in 2..8 {
        run.matcher.runs(ThreadId(0), ms * MS);
        run.waits(ms, 1, Load, 0x100);
    }
    run.waits(9, 0, Store, 0x100);
    assert_eq!(run.hits.len(), 6);
}

#[test]
fn what_was_handed_over_long_ago_is_one_event_and_later_none() {
    let mut run = Run::new();
    run.waits(0, 0, Store, 0x100);
    run.waits(0, 0, Store, 0x200);
    run.computes(1..1001, 0);
    let hits = run.waits(500, 1, Load, 0x100);
    assert_eq!((hits.len(), hits[0].weight), (1, 0.0));
    assert_eq!(run.waits(1001, 1, Load, 0x200), []);
}

#[test]
fn true_sharing_is_told_by_the_bytes_written_lately() {
    let mut run = Run::new();
    // A whole line, written piece by piece.
    for ms in 0..8 {
        run.waits(ms, 0, Store, 0x100 + 8 * ms);
    }
    assert_eq!(told(&run.waits(9, 1, Load, 0x100)), [(0, 1, CommKind::Raw, Sharing::True)]);
    // Much later only its end.
    run.computes(9..60, 0);
    run.waits(60, 0, Store, 0x138);
    assert_eq!(told(&run.waits(61, 1, Load, 0x100)), [(0, 1, CommKind::Raw, Sharing::False)]);
}

#[test]
fn a_transfer_is_a_hit_each_time_and_waits_for_its_partner() {
    let mut run = Run::new();
    let transfer = Stream::Transfers;
    assert_eq!(run.at(transfer, 1, 1, Load, 0x100), []);
    let found = run.at(transfer, 2, 0, Store, 0x100);
    assert_eq!(told(&found), [(0, 1, CommKind::Raw, Sharing::True)]);
    for ms in 3..10 {
        assert_eq!(told(&run.at(transfer, ms, 1, Load, 0x100)).len(), 1);
    }
    // Of the writer's own sample the partner is never known: the other one only reads.
    let (writer, reader) = (ThreadId(0), ThreadId(1));
    assert_eq!(run.matcher.seen(transfer, reader).matched, 8);
    assert_eq!(run.matcher.seen(transfer, writer), Seen { samples: 1, weight: 1e6, matched: 0 });
}

#[test]
fn of_transfers_that_are_sampled_seldom_the_partner_is_known_still() {
    let mut run = Run::new();
    run.at(Stream::Transfers, 1, 0, Update, 0x100);
    let hours = 4_000_000;
    // Of what was waited for, or accessed, so old a write says nothing.
    assert_eq!(run.waits(hours, 1, Load, 0x100), []);
    let found = run.at(Stream::Transfers, hours + 1, 1, Load, 0x100);
    assert_eq!(told(&found), [(0, 1, CommKind::Raw, Sharing::True)]);
    assert_eq!(found[0].weight, 1e6);
}

#[test]
fn context_says_who_writes_and_is_no_hit() {
    let mut run = Run::new();
    run.at(Stream::Context, 1, 0, Store, 0x100);
    assert_eq!(run.at(Stream::Context, 2, 1, Load, 0x100), []);
    let found = run.at(Stream::Transfers, 3, 2, Load, 0x100);
    assert_eq!(told(&found), [(0, 2, CommKind::Raw, Sharing::True)]);
}

#[test]
fn an_access_across_two_blocks_is_half_in_each() {
    let mut run = Run::new();
    run.waits(1, 0, Store, 0x13c);
    let hits = run.waits(2, 1, Load, 0x13c);
    let parts: Vec<_> = hits.iter().map(|h| (h.block, h.to.bytes)).collect();
    assert_eq!(parts, [(0x100, 0xf << 60), (0x140, 0xf)]);
    assert!(hits.iter().all(|hit| (0.45e6..=0.5e6).contains(&hit.weight)), "{hits:?}");
    assert_eq!(mask(0, 64), u64::MAX);
}

#[test]
fn time_of_threads_that_wait_at_once_counts_once() {
    let (mut run, mut together) = (Run::new(), crate::Together::default());
    let mut raw = 0.0;
    for ms in 0..400 {
        for thread in 0..4 {
            let hits = run.waits(ms, thread, Update, 0x100);
            hits.into_iter().filter(|h| h.kind == CommKind::Raw).for_each(|h| together.take(h));
        }
        together.settle(ms * MS, &run.matcher, |hit| raw += hit.weight);
    }
    together.end(|hit| raw += hit.weight);
    // 400 ms of one line, however many wait for it.
    assert!((raw / 400e6 - 1.0).abs() < 0.1, "{raw}");
}

#[test]
fn the_same_samples_give_the_same_hits() {
    let run = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut run = Run::new();
        for ms in 0..5000 {
            let kind = [Load, Store, Update][random.usize(..3)];
            run.waits(ms, random.u32(..6), kind, 8 * random.u64(..40_000));
        }
        run.hits
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).len(), 0);
}

#[test]
fn a_sample_stands_for_the_access_that_is_communication() {
    let mut run = Run::new();
    // Each has a line of its own before the common one, which neither is likely to wait for.
    assert_eq!(run.all(Stream::Waiting, 1, 0, &[(Load, 0x1000), (Store, 0x100)]), []);
    let hits = run.all(Stream::Waiting, 2, 1, &[(Store, 0x2000), (Load, 0x140), (Load, 0x100)]);
    assert_eq!(told(&hits), [(0, 1, CommKind::Raw, Sharing::True)]);
    assert!((0.9e6..=1e6).contains(&hits[0].weight), "{}", hits[0].weight);
    // One sample, one access: the first of two that both would be.
    run.waits(3, 0, Store, 0x100);
    run.waits(4, 0, Store, 0x2000);
    let hits = run.all(Stream::Waiting, 5, 1, &[(Load, 0x2000), (Load, 0x100)]);
    assert_eq!(hits.iter().map(|hit| hit.block).collect::<Vec<_>>(), [0x2000]);
    // What is certain counts before what may be: the thread has seen the first one's write.
    run.waits(6, 0, Store, 0x3000);
    let hits = run.all(Stream::Waiting, 7, 1, &[(Load, 0x2000), (Load, 0x3000)]);
    assert_eq!(hits.iter().map(|hit| hit.block).collect::<Vec<_>>(), [0x3000]);
}

#[test]
fn the_other_accesses_of_a_sample_say_who_writes() {
    let mut run = Run::new();
    run.all(Stream::Waiting, 1, 0, &[(Load, 0x1000), (Store, 0x100)]);
    run.all(Stream::Waiting, 2, 1, &[(Load, 0x100)]);
    // May be communication, and is as soon as the writer goes on.
    run.computes(2..4, 0);
    assert_eq!(run.all(Stream::Waiting, 3, 1, &[(Load, 0x100)]), []);
    let late = run.all(Stream::Waiting, 4, 0, &[(Load, 0x1000), (Store, 0x100)]);
    assert_eq!(told(&late), [(0, 1, CommKind::Raw, Sharing::True)]);
    // A line that a thread both reads and writes around a sample is not its own news.
    assert_eq!(run.all(Stream::Waiting, 60, 2, &[(Load, 0x5000), (Store, 0x5000)]), []);
}

#[test]
fn what_an_ended_thread_has_left_is_handed_over_once() {
    let mut run = Run::new();
    // Threads one after the other on the same stack.
    for k in 0..10 {
        let hits = run.waits(2 * u64::from(k), k, Update, 0x100);
        let weights: Vec<f64> = hits.iter().map(|hit| hit.weight).collect();
        assert_eq!(weights, if k == 0 { vec![] } else { vec![0.0; 2] }, "{k}");
        run.matcher.ended(ThreadId(k));
    }
    // One that was none, and had ended: others have its number, and theirs.
    run.matcher.ended(ThreadId(12));
    run.matcher.withdrawn(ThreadId(11));
    run.waits(20, 12, Store, 0x100);
    assert!(run.waits(20, 13, Load, 0x100)[0].weight > 0.0);
    // Of a transfer it is known that it has happened.
    run.waits(21, 11, Store, 0x100);
    let hits = run.at(Stream::Transfers, 22, 10, Load, 0x100);
    assert_eq!((hits.len(), hits[0].from.thread, hits[0].weight), (1, ThreadId(11), 1e6));
}

//! Who ran at the same time: a thread waits for a line only while another one, who runs, takes it
//! again and again.
//!
//! Problem: a clock's sample at a line that another thread has written lately weighs the time until
//! the next sample, as if the line moved all the while. Where there are more threads than
//! processors, threads take turns, and the line moves once a turn. Approach: hits wait until the
//! writer is sampled next. If it did not run, the question is which other thread writes the line,
//! and ran; if none does, the hit is one event, and no time.
//!
//! *A crowd.* A line can only be in one place: where n threads wait for it, it moves no faster than
//! where one does, so their time counts for an n-th each. How many others are there at once is not
//! seen but expected: each of those that ran is there for its part of the time that it runs in
//! company. One that waits alone waits longer, though, than a line takes from each to the next
//! where all are waiting (`LONE`).
//!
//! Neighbours: `matching` makes the hits, of any stream; this is for those of waiting. `history`
//! says who ran.

use crate::block::Block;
use crate::constants::LONE;
use crate::evidence::Judge;
use crate::matching::Matcher;
use crate::observed::{Hit, Side, sharing};

/// Hits that wait. Everything comes about in order of time.
#[derive(Debug, Default)]
pub struct Together {
    waiting: Vec<Hit>,
}

impl Together {
    /// Takes in a hit.
    pub fn take(&mut self, hit: Hit) {
        self.waiting.push(hit);
    }

    /// Gives back the hits of which it is known by now who ran, by what the one that made them
    /// knows.
    pub fn settle(&mut self, now_ns: u64, matcher: &Matcher, mut each: impl FnMut(Hit)) {
        self.waiting.retain(|hit| {
            let settled = settled(hit, matcher.judge(), matcher.block(hit.block), now_ns);
            settled.into_iter().for_each(&mut each);
            settled.is_none()
        });
    }

    /// Gives back all that wait: their writers ran just before.
    pub fn end(&mut self, each: impl FnMut(Hit)) {
        self.waiting.drain(..).for_each(each);
    }
}

/// What a hit is worth; `None`: that is not known yet.
fn settled(hit: &Hit, judge: &Judge, block: Option<&Block>, now_ns: u64) -> Option<Hit> {
    let ran = |thread| judge.histories.ran(thread, hit.time_ns, now_ns);
    let mut others = Vec::new();
    for slot in block.into_iter().flat_map(|block| block.others(hit.to.thread)) {
        if ran(slot.thread)? {
            others.push(slot);
        }
    }
    let part = part_of_crowd(
        others.iter().map(|slot| slot.share(judge.histories.in_company(slot.thread))),
    );
    let weight = hit.weight * part;
    if ran(hit.from.thread)? {
        return Some(Hit { weight, ..*hit });
    }
    let writes = others.iter().filter(|slot| judge.wrote_about(slot, hit.time_ns));
    let from = writes.filter_map(|slot| Some((slot.thread, slot.write?)));
    let nearest = from.min_by_key(|(_, write)| write.time_ns.abs_diff(hit.time_ns));
    Some(match nearest {
        Some((thread, write)) => {
            let from = Side { thread, site: write.site, bytes: write.bytes };
            Hit { from, sharing: sharing(&from, &hit.to), weight, ..*hit }
        }
        None => Hit { weight: 0.0, ..*hit },
    })
}

/// What part of a crowd one is, on average, if others join for these parts of their time, each as
/// it pleases.
fn part_of_crowd(shares: impl Iterator<Item = f64>) -> f64 {
    // By how many others there are, how likely that is.
    let mut likely = vec![1.0];
    for share in shares {
        likely.push(0.0);
        for n in (0..likely.len()).rev() {
            let fewer = if n > 0 { likely[n - 1] } else { 0.0 };
            likely[n] = likely[n] * (1.0 - share) + fewer * share;
        }
    }
    (1..).zip(likely).map(|(crowd, likely)| likely / f64::from(crowd).max(LONE)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::Settings;
    use crate::observed::{Observed, Stream};
    use access::{Access, AccessKind};
    use types::{CommKind, Evidence, Sharing, ThreadId};

    const MS: u64 = 1_000_000;

    fn matcher() -> Matcher {
        Matcher::new(Settings { interval_ns: MS, blocks: 16 })
    }

    fn hit(ms: u64) -> Hit {
        let side = |thread| Side { thread: ThreadId(thread), site: 1, bytes: 1 };
        let (kind, sharing) = (CommKind::Raw, Sharing::True);
        let (from, to, block, time_ns) = (side(0), side(1), 64, ms * MS);
        let evidence = Evidence::Sampled;
        Hit {
            time_ns,
            block,
            kind,
            sharing,
            from,
            to,
            weight: 1e6,
            array: false,
            evidence,
            object: 0,
        }
    }

    /// A sample of a store by `thread`, which is not what it waited for unless it says so.
    fn store(matcher: &mut Matcher, thread: u32, ms: u64, stream: Stream) {
        let access = Access { address: 64 + 8, bytes: 8, kind: AccessKind::Store, site: 9 };
        let (time_ns, thread, accesses) = (ms * MS, ThreadId(thread), &[access][..]);
        matcher.observe(stream, &Observed { time_ns, thread, accesses, period: MS }, &mut vec![]);
    }

    /// Weights of hits at these times, in waits of one that is alone, by when they are known, if
    /// their writer is sampled at those.
    fn weights(samples: impl Iterator<Item = u64>, hits: &[u64]) -> Vec<(u64, u64, f64)> {
        let (mut matcher, mut together, mut told) = (matcher(), Together::default(), Vec::new());
        let mut hits = hits.iter().copied().peekable();
        for ms in samples {
            while let Some(at) = hits.next_if(|&at| at <= ms) {
                together.take(hit(at));
                together.settle(at * MS, &matcher, |hit| {
                    told.push((at, hit.time_ns / MS, hit.weight * LONE));
                });
            }
            matcher.runs(ThreadId(0), ms * MS);
            together.settle(ms * MS, &matcher, |hit| {
                told.push((ms, hit.time_ns / MS, hit.weight * LONE));
            });
        }
        together.end(|hit| told.push((u64::MAX, hit.time_ns / MS, hit.weight)));
        told
    }

    #[test]
    fn who_waits_while_the_writer_runs_waits_for_it() {
        let told = weights(0..50, &[20, 21, 49]);
        assert_eq!(told, [(20, 20, 1e6), (21, 21, 1e6), (49, 49, 1e6)]);
        // Sampled every 7 ms only, because it sleeps: when in between it ran is not known.
        let told = weights((0..50).map(|k| 7 * k), &[150, 200]);
        assert_eq!(told, [(150, 150, 1e6), (203, 200, 1e6)]);
    }

    #[test]
    fn who_takes_turns_with_the_writer_is_handed_the_line_once() {
        // 4 ms each.
        let turns = (0..100).filter(|ms| ms / 4 % 2 == 0);
        let told = weights(turns, &[41, 44, 45, 46, 47, 49]);
        let weights: Vec<_> = told.iter().map(|&(_, at, weight)| (at, weight)).collect();
        let once = [44, 45, 46, 47].map(|at| (at, 0.0));
        assert_eq!(weights, [&[(41, 1e6)], &once[..], &[(49, 1e6)]].concat());
    }

    #[test]
    fn short_turns_are_turns() {
        // Of 1 and 2 ms, each after 3 ms of others: most of its samples are far apart.
        let turns = (0..200).filter(|ms| [0, 4, 5].contains(&(ms % 9)));
        let told = weights(turns, &[180, 182, 184, 185, 187]);
        let weights: Vec<_> = told.iter().map(|&(_, at, weight)| (at, weight)).collect();
        assert_eq!(weights, [(180, 1e6), (182, 0.0), (184, 1e6), (185, 1e6), (187, 0.0)]);
    }

    #[test]
    fn if_the_writer_did_not_run_it_was_another_one_that_did() {
        let (mut matcher, mut together) = (matcher(), Together::default());
        for ms in 0..60 {
            // 0 and 2 take turns of 10 ms.
            let thread = if ms / 10 % 2 == 0 { 0 } else { 2 };
            store(&mut matcher, thread, ms, Stream::Context);
        }
        let mut told = Vec::new();
        [45, 52].into_iter().for_each(|ms| together.take(hit(ms)));
        together.take(Hit { block: 128, ..hit(53) });
        together.settle(59 * MS, &matcher, |hit| {
            told.push((hit.time_ns / MS, hit.from.thread.0, hit.sharing, hit.weight * LONE));
        });
        let (truly, falsely) = (Sharing::True, Sharing::False);
        assert_eq!(told, [(45, 0, truly, 1e6), (52, 2, falsely, 1e6), (53, 0, truly, 0.0)]);
    }

    #[test]
    fn what_comes_to_light_late_is_told_by_what_is_remembered() {
        let (mut matcher, mut together) = (matcher(), Together::default());
        let samples = (0..40).chain(50..300);
        samples.for_each(|ms| matcher.runs(ThreadId(0), ms * MS));
        let mut told = Vec::new();
        // The first 34 are forgotten.
        [5, 38, 45, 60].into_iter().for_each(|ms| together.take(hit(ms)));
        let mut settle = |hits: &mut Together| {
            hits.settle(300 * MS, &matcher, |hit| told.push(hit.weight * LONE))
        };
        settle(&mut together);
        // Of whom nothing is known.
        together.take(Hit { from: Side { thread: ThreadId(7), ..hit(1).from }, ..hit(291) });
        settle(&mut together);
        assert_eq!(told, [1e6, 1e6, 0.0, 1e6, 0.0]);
    }

    #[test]
    fn of_those_that_wait_at_once_each_counts_in_part() {
        let (mut matcher, mut together) = (matcher(), Together::default());
        // 0 and 2 are always at the line, 3 is with every second sample, 4 writes it in passing, 5
        // runs no more.
        for ms in 0..200 {
            store(&mut matcher, 0, ms, Stream::Waiting);
            store(&mut matcher, 2, ms, Stream::Waiting);
            match ms % 2 {
                0 => store(&mut matcher, 3, ms, Stream::Waiting),
                _ => matcher.runs(ThreadId(3), ms * MS),
            }
            store(&mut matcher, 4, ms, Stream::Context);
            if ms < 190 {
                store(&mut matcher, 5, ms, Stream::Waiting);
            }
        }
        together.take(hit(198));
        let mut told = Vec::new();
        together.settle(199 * MS, &matcher, |hit| told.push(hit.weight / 1e6));
        let expected = (1.0 / 3.0 + 1.0 / 4.0) / 2.0;
        assert!(told.len() == 1 && (told[0] - expected).abs() < 0.02, "{told:?} {expected}");
    }
}
